"""Compressed data: detect its kind, decompress its frames, append frames to files.

A frame is a gzip member, a bzip2 or xz stream, or a zstd frame. A file may have several. The file
objects of Python's ``bz2`` and ``lzma`` end without an error at anything that does not begin like a
frame, so a single flipped bit hides all frames after it. Here that is an error.

Each write to a compressed file is one whole frame, which any reader of the format can read. Lines
are marked once their frame is whole, so a killed run leaves at most half a frame, whose lines are
not marked. No reader could read past it, so it is moved to a file of its own before the next frame
is written.
"""

import errno
import fcntl
import os
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import count
from typing import Any

from mmbloom._storage.atomic import draft_file
from mmbloom._storage.warnings import warn
from mmbloom._system import disk, extras
from mmbloom._system.descriptors import open_file
from mmbloom.errors import InputError, MmbloomWarning
from mmbloom.logs.lines import RawInput

COMPRESSED = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}

# How compressed data begins: RFC 1952, bzip2 (a block, or the end of nothing), xz, RFC 8878.
BEGINNINGS = {
    b"\x1f\x8b\x08": "gz",
    **{b"BZh%d1AY&SY" % level: "bz2" for level in range(1, 10)},
    **{b"BZh%d\x17rE8P\x90" % level: "bz2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zst",
    **{b"%c\x2a\x4d\x18" % number: "zst" for number in range(0x50, 0x60)},  # to skip, as of pzstd
}
_KNOWN_BY = max(map(len, BEGINNINGS))
AT_A_TIME = 1 << 16  # decompressed
# What follows a frame is copied at its end: of files of many short ones, with 128 KiB the most.
_COMPRESSED_AT_A_TIME = 1 << 14


class DamagedError(Exception):
    """A frame is damaged, or there is something else where a frame should begin."""


def kind_by_name(name: str) -> str | None:
    """Return the kind of compressed data that a file name implies, or None."""
    return COMPRESSED.get(os.path.splitext(name)[1].lower())


def kind_of(head: bytes) -> str | None:
    """Return the kind of compressed data that begins with these bytes, or None."""
    return next((kind for start, kind in BEGINNINGS.items() if head.startswith(start)), None)


def beginnings_of(kind: str) -> list[bytes]:
    """Return the bytes that data of a kind can begin with."""
    return [start for start, of in BEGINNINGS.items() if of == kind]


def may_begin(head: bytes, kind: str) -> bool:
    """Return whether data of a kind may begin with these bytes, which may be incomplete."""
    return any(head[: len(start)] == start[: len(head)] for start in beginnings_of(kind))


def decompress(
    read: Callable[[int, int], bytes],
    kind: str,
    new_decompressor: Callable[[], Any],
    *,
    padding: int = 0,
    begin: int = 0,
) -> Iterator[tuple[bytes, int]]:
    """Decompress frames to the end of the data.

    Parameters
    ----------
    read : callable
        Called with a number of bytes and the offset where they begin; returns some of them, or none
        at the end.
    kind : {"gz", "bz2", "xz", "zst"}
        How the data is compressed.
    new_decompressor : callable
        Returns a decompressor for one frame.
    padding : int
        If not 0, each frame may be followed by zeros, a multiple of this many.
    begin : int
        The offset to begin at: 0, or the end of a frame or of its padding.

    Yields
    ------
    bytes, int
        At most 64 KiB of data, and the offset where the last whole frame or its padding ends.

    Raises
    ------
    DamagedError
        If a frame is damaged, or does not begin where the last one ends.
    EOFError
        If the data is empty or ends in the middle of a frame.
    """
    unread, whole = _Unread(read, begin), begin
    while True:
        head = unread.head(past_zeros=bool(whole and padding))
        if zeros := unread.begin - whole:
            if zeros % padding:
                raise DamagedError(
                    f"{zeros} zeros follow a frame, expected a multiple of {padding}"
                )
            whole = unread.begin
            yield b"", whole
        if not head:
            break
        if not may_begin(head, kind):
            raise DamagedError(_instead_of_frame(head, kind, is_first=not whole))
        stream = new_decompressor()
        while not stream.eof:
            block = unread.decompress(stream)
            whole = unread.begin if stream.eof else whole
            yield block, whole
    if not whole:
        raise EOFError("it is empty")


class _Unread:
    """Compressed data up to where it was read; `begin` is where that begins which is left."""

    def __init__(self, read: Callable[[int, int], bytes], begin: int) -> None:
        self._read, self._data, self._end = read, b"", begin

    @property
    def begin(self) -> int:
        return self._end - len(self._data)

    def head(self, *, past_zeros: bool) -> bytes:
        """Return as much as a kind is known by, less only at the end."""
        while True:
            if past_zeros:
                self._data = self._data.lstrip(b"\0")
            if len(self._data) >= _KNOWN_BY or not self._fill():
                return self._data[:_KNOWN_BY]

    def decompress(self, stream: Any) -> bytes:
        """Return the next block of a frame; b"" if its decompressor wants more."""
        ended = not self._data and getattr(stream, "needs_input", True) and not self._fill()
        try:
            block: bytes = stream.decompress(self._data, AT_A_TIME)
        except MemoryError:
            raise
        except Exception as error:
            raise DamagedError(str(error)) from error
        # What it has not used, zlib's decompressor has as `unconsumed_tail`; the others keep it.
        self._data = stream.unused_data if stream.eof else getattr(stream, "unconsumed_tail", b"")
        if ended and not block and not stream.eof:
            raise EOFError("it ends before its end-of-stream marker")
        return block

    def _fill(self) -> bool:
        more = self._read(_COMPRESSED_AT_A_TIME, self._end)
        self._data, self._end = self._data + more, self._end + len(more)
        return bool(more)


def _instead_of_frame(head: bytes, kind: str, *, is_first: bool) -> str:
    if is_first:
        return f"it begins with {head!r}, expected .{kind} data; if it has plain lines, rename it"
    return f"a whole frame is followed by {head!r}, expected another .{kind} frame or the end"


class Blocks:
    """Blocks of bytes, read like a raw file; bytes before an error are returned first."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._next = blocks, b""
        self._error: Exception | None = None  # with which the blocks have ended, so that it stays

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes into a buffer and return how many; return 0 at the end."""
        filled = 0
        while (room := len(buffer) - filled) and (head := self.head(1)):
            part, self._next = head[:room], head[room:]
            buffer[filled : filled + len(part)] = part
            filled += len(part)
        if self._error is not None and not filled:
            raise self._error
        return filled

    def head(self, size: int) -> bytes:
        """Return the next bytes without consuming them; fewer only at the end or an error."""
        try:
            while len(self._next) < size and self._error is None:
                self._next += next(self._blocks)
        except StopIteration:
            pass
        except (ValueError, OSError, MemoryError) as error:
            self._error = error
        return self._next


# The zeros that all readers of a kind accept between frames. gzip's command reads nothing behind
# zeros.
_PADDING_APPENDED_TO = {"xz": 4}
# More is not what a run of ours has left: it writes about a mebibyte at a time.
_MOST_ASIDE = 1 << 24
_LONGEST = 16  # bytes by which a kind is known, and a few more to show
_PATIENCE = 60.0  # seconds; a write, and a look at what others have written, take milliseconds


class FrameWriter:
    """A raw file on which each write makes one frame.

    Parameters
    ----------
    file : FileIO
        Open for writing, with writes that wait while a pipe is full.
    kind : {"gz", "bz2", "xz", "zst"}
        How the data is compressed.
    name : str
        The name used in error messages.

    Raises
    ------
    MissingLibraryError
        If the library for this kind is not installed.
    """

    def __init__(self, file: FileIO, kind: str, name: str) -> None:
        self._library = _library(kind, name)
        self._file, self._kind, self._name, self._empty = file, kind, name, True

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._file.fileno()

    def write(self, data: memoryview, /) -> int:
        """Write all bytes as one frame and return their number."""
        self._append(self._library.compress(data))
        self._empty = False
        return len(data)

    def finish(self) -> None:
        """Write an empty frame if there is no other, as an empty file is not valid."""
        if self._empty:
            self.write(memoryview(b""))

    def _append(self, frame: bytes) -> None:
        rest = memoryview(frame)
        while rest:
            rest = rest[self._file.write(rest) :]


class CompressedFile(FrameWriter):
    """A compressed file that may already have frames, and to which others may append.

    Parameters
    ----------
    file : FileIO
        A regular file, open for reading and appending.
    kind, name
        As for `FrameWriter`.

    Raises
    ------
    InputError
        If the content of the file is damaged or is not compressed in this way.
    """

    def __init__(self, file: FileIO, kind: str, name: str) -> None:
        super().__init__(file, kind, name)
        # Where each whole frame begins: in the file, and in what it holds; then where they end.
        self._begins, self._holds = array("q", [0]), array("q", [0])
        self._last = b""
        self._is_alone = False
        _require_beginning(self._read(_LONGEST, 0), kind, name)
        # Before any lock, as a large file takes long; what is being changed is checked again later.
        with suppress(InputError):
            self._look()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the file against other runs: those with another filter do not share its lock."""
        if self._is_alone:
            yield
            return
        self._lock()
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    said = f"another program has kept it locked for {_PATIENCE:.0f} s"
                    raise OSError(errno.EAGAIN, said, self._name) from None
                time.sleep(0.002)

    def write(self, data: memoryview, /) -> int:
        """Write a frame; call it within a block of `alone`."""
        frame = self._library.compress(data)
        if not self._look():
            self._set_aside()
        try:
            self._append(frame)
        except BaseException:
            os.ftruncate(self._file.fileno(), self._begins[-1])  # of our own half frame
            raise
        self._is_whole(len(frame), len(data), bytes(data[-1:]))
        return len(data)

    def finish(self) -> None:
        """Do what `FrameWriter.finish` does; frames written by others count too."""
        with self.alone():
            self._look()
            self._empty = self._begins[-1] == 0
            super().finish()

    def size(self) -> int:
        """Return the number of bytes in whole frames, decompressed."""
        self._look()
        return self._holds[-1]

    def last(self) -> bytes:
        """Return the last byte in whole frames, or b"" if there is none."""
        self._look()
        return self._last

    def read_from(self, begin: int) -> RawInput:
        """Return an input that reads the content of whole frames from the given byte."""
        self._look()
        return Blocks(self._blocks_from(begin))

    def _blocks_from(self, begin: int) -> Iterator[bytes]:
        number = bisect_right(self._holds, begin) - 1
        skip, whole = begin - self._holds[number], self._begins[number]
        frames, end = self._frames(whole), self._begins[-1]
        while whole < end:
            try:
                block, whole = next(frames)
            except (DamagedError, EOFError) as error:  # it has changed since the last look
                raise self._damaged(whole, str(error)) from error
            yield block[skip:]
            skip = max(skip - len(block), 0)

    def _is_whole(self, compressed: int, held: int, last: bytes) -> None:
        self._begins.append(self._begins[-1] + compressed)
        self._holds.append(self._holds[-1] + held)
        self._last = last or self._last

    def _look(self) -> bool:
        """Check what was appended since the last check; False if it ends in half a frame."""
        size = os.fstat(self._file.fileno()).st_size
        if size < self._begins[-1]:
            self._forget()
        try:
            return self._look_up_to(size)
        except InputError:
            # It may have been emptied, and written again past its old end. Then a check from its
            # beginning finds it sound.
            self._forget()
            return self._look_up_to(size)

    def _forget(self) -> None:
        del self._begins[1:], self._holds[1:]
        self._last = b""

    def _look_up_to(self, size: int) -> bool:
        if self._begins[-1] >= size:
            return True
        held, last = 0, b""
        try:
            for block, whole in self._frames(self._begins[-1]):
                held, last = held + len(block), block[-1:] or last
                if whole > self._begins[-1]:
                    self._is_whole(whole - self._begins[-1], held, last)
                    held, last = 0, b""
        except EOFError:
            return False
        except DamagedError as error:
            begin = self._begins[-1]
            if self._read(_MOST_ASIDE + 1, begin).strip(b"\0"):
                raise self._damaged(begin, str(error)) from error
            return False  # zeros up to the end, as a power cut leaves them
        return True

    def _frames(self, begin: int) -> Iterator[tuple[bytes, int]]:
        padding, new = _PADDING_APPENDED_TO.get(self._kind, 0), self._library.decompressor
        return decompress(self._read, self._kind, new, padding=padding, begin=begin)

    def _read(self, count: int, begin: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), count, begin)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error

    def _set_aside(self) -> None:
        """Move half a frame to another file, for it may be what another program has lost."""
        begin = self._begins[-1]
        rest = self._read(_MOST_ASIDE + 1, begin)
        if len(rest) > _MOST_ASIDE or self._has_whole_frame(rest, begin):
            raise self._damaged(begin, "half a frame, longer than any that a killed run leaves")
        aside = self._write_beside(rest)
        os.ftruncate(self._file.fileno(), begin)
        warn(
            f"{self._name}: it ended in half a frame, as after a killed run: these {len(rest)} "
            f"bytes were moved to {aside}",
            MmbloomWarning,
        )

    def _write_beside(self, rest: bytes) -> str:
        """Write half a frame to a new file, with the owner and the mode of the output; its path.

        Whatever has that name already, such as a link or a pipe, is left alone: a number is added.
        """
        like = os.fstat(self._file.fileno())
        parent, name = os.path.split(self._name)
        folder = open_file(parent or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for number in count(1):
                aside = f"{name}.half{number if number > 1 else ''}"
                with suppress(FileExistsError):
                    self._draft(aside, rest, like, folder)
                    break
            disk.sync_names(folder)
        finally:
            os.close(folder)
        return os.path.join(parent, aside)

    def _draft(self, aside: str, rest: bytes, like: os.stat_result, folder: int) -> None:
        try:
            os.close(draft_file(aside, rest, stat.S_IMODE(like.st_mode), like=like, folder=folder))
        except FileExistsError:
            raise
        except OSError as error:
            with suppress(OSError):
                os.unlink(aside, dir_fd=folder)
            reason = f"it ends in half a frame, which cannot be moved to {aside}: {error.strerror}"
            raise OSError(error.errno, reason, self._name) from error

    def _has_whole_frame(self, rest: bytes, begin: int) -> bool:
        """Check whether what has no end is a damaged frame, with others behind it."""
        for start in beginnings_of(self._kind):
            place = rest.find(start, 1)
            while place > 0:
                with suppress(DamagedError, EOFError):
                    if any(end > begin + place for _, end in self._frames(begin + place)):
                        return True
                place = rest.find(start, place + 1)
        return False

    def _damaged(self, begin: int, why: str) -> InputError:
        return InputError(
            f"{self._name}: cannot be read from byte {begin} on ({why}), so nothing is appended "
            "to it: write to another file, or move this one away"
        )


def require_appendable(path: str) -> None:
    """Refuse a compressed output that cannot be appended to; do not open it for writing.

    Raises
    ------
    InputError
        If the file is not compressed as its name says.
    MissingLibraryError
        If the library for its kind is not installed.
    """
    if (kind := kind_by_name(os.path.realpath(path))) is None:
        return
    _library(kind, path)
    if os.path.isfile(path):
        with open(path, "rb", opener=open_file) as file:
            _require_beginning(file.read(_LONGEST), kind, path)


def _library(kind: str, name: str) -> extras.Compression:
    return extras.compression(kind, f"{name}: writing compressed files")


def _require_beginning(head: bytes, kind: str, name: str) -> None:
    if not may_begin(head, kind):
        raise InputError(
            f"{name}: begins with {head!r}, so it is not a .{kind} file, and nothing is appended "
            "to it: write to another file, or move this one away"
        )
