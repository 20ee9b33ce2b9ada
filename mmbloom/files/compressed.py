"""Append to a compressed file: each write is one whole frame, which any reader of the kind reads.

A frame is a member of gzip, a stream of bzip2 or xz, a frame of zstd; one after the other they are
one file. A line is marked when its frame is whole, so a killed run leaves at most a half frame of
lines that are not marked. Nothing behind a half frame could be read: it is cut off before the next
frame is written. The file is locked for that, as a run with another filter may append to it too.
"""

import fcntl
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from io import FileIO
from typing import Any

from mmbloom import _extras
from mmbloom.errors import InputError
from mmbloom.lines import RawInput

_READ = 1 << 14  # compressed


class CompressedFile:
    """A raw file to write to, and what is in it already, decompressed.

    Parameters
    ----------
    file : FileIO
        Open for appending.
    again : int, optional
        A descriptor of it for reading. None of a pipe, which nothing can be cut off of.
    kind : {"gz", "bz2", "xz", "zst"}
        How it is compressed.
    name : str
        What errors call it.

    Raises
    ------
    InputError
        If what is in the file is damaged, or was not compressed so.
    MissingLibraryError
        If the library for it is not installed.
    """

    def __init__(self, file: FileIO, again: int | None, kind: str, name: str) -> None:
        library = _extras.compression(kind, f"{name}: writing compressed files")
        self._compress: Callable[[Any], bytes] = library.compress
        self._decompressor: Callable[[], Any] = library.decompressor
        self._file, self._again, self._kind, self.name = file, again, kind, name
        # Where each whole frame begins: in the file, and in what it holds; then where they end.
        self._begins, self._holds = array("q", [0]), array("q", [0])
        self._last = b""
        self._look()

    def fileno(self) -> int:
        """Give the descriptor."""
        return self._file.fileno()

    def write(self, data: memoryview, /) -> int:
        """Write a frame; gives how many bytes are in it, which are all."""
        frame = self._compress(data)
        if self._again is None:
            self._append(frame)
            return len(data)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if not self._look():
                self._cut()
            try:
                self._append(frame)
            except BaseException:
                self._cut()
                raise
            self._is_whole(len(frame), len(data), bytes(data[-1:]))
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return len(data)

    def size(self) -> int:
        """Count the bytes that whole frames hold."""
        self._look()
        return self._holds[-1]

    def last(self) -> bytes:
        """Give the last byte of these, if there is one."""
        self._look()
        return self._last

    def read_from(self, begin: int) -> RawInput:
        """Give what whole frames hold, from a byte on."""
        return _Reader(self._blocks_from(begin))

    def _blocks_from(self, begin: int) -> Iterator[bytes]:
        self._look()
        number = bisect_right(self._holds, begin) - 1
        skip = begin - self._holds[number]
        for start in self._begins[number:-1]:
            for block, _ in self._frame(start):
                yield block[skip:]
                skip = max(skip - len(block), 0)

    def _append(self, frame: bytes) -> None:
        rest = memoryview(frame)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]

    def _cut(self) -> None:
        os.ftruncate(self._file.fileno(), self._begins[-1])

    def _is_whole(self, compressed: int, held: int, last: bytes) -> None:
        self._begins.append(self._begins[-1] + compressed)
        self._holds.append(self._holds[-1] + held)
        self._last = last or self._last

    def _look(self) -> bool:
        """Look at what was appended since the last look; False if it ends in a half frame."""
        if self._again is None:
            return True
        size = os.fstat(self._again).st_size
        if size < self._begins[-1]:  # it was emptied
            del self._begins[1:], self._holds[1:]
            self._last = b""
        while (begin := self._begins[-1]) < size:
            held, last = 0, b""
            for block, end in self._frame(begin):
                held, last = held + len(block), block[-1:] or last
                if end > begin:
                    self._is_whole(end - begin, held, last)
                    break
            else:
                return False
        return True

    def _frame(self, begin: int) -> Iterator[tuple[bytes, int]]:
        """Decompress a frame, block by block, each with where the frame ends: `begin` till then."""
        stream, at, begun = self._decompressor(), begin, False
        while data := os.pread(self._again or 0, _READ, at):
            at += len(data)
            if not begun:
                data = data.lstrip(b"\0")  # they fill up what is before a frame, or all the rest
                begun = bool(data)
            try:
                block: bytes = stream.decompress(data)
            except Exception as error:
                raise self._damaged(begin, error) from error
            if stream.eof:
                yield block, at - len(stream.unused_data)
                return
            yield block, begin

    def _damaged(self, begin: int, error: Exception) -> InputError:
        found = f"cannot be read from byte {begin} on ({error})"
        if not begin:
            found = f"is no .{self._kind} file ({error})"
        return InputError(
            f"{self.name}: {found}, so that nothing is appended to it; write to another file, or "
            "move this one away"
        )


class _Reader:
    """Blocks of bytes, read as a raw file is."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, b""

    def readinto(self, buffer: Any, /) -> int:
        filled = 0
        while filled < len(buffer):
            self._rest = self._rest or next((block for block in self._blocks if block), b"")
            if not self._rest:
                break
            part, self._rest = (
                self._rest[: len(buffer) - filled],
                self._rest[len(buffer) - filled :],
            )
            buffer[filled : filled + len(part)] = part
            filled += len(part)
        return filled
