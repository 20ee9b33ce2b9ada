"""Compressed data: which kinds there are, and frames that are decompressed one after another.

A frame is a member of gzip, a stream of bzip2 or xz, or a frame of zstd. A file may have several.
The file objects of Python's ``bz2`` and ``lzma`` end without an error at whatever does not begin as
a frame, so that one flipped bit hides all frames behind it. Here that is an error.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

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
_LONGEST = max(map(len, BEGINNINGS))
AT_A_TIME = 1 << 16  # decompressed
# What follows a frame is copied at its end: of files of many short ones, with 128 KiB the most.
_COMPRESSED_AT_A_TIME = 1 << 14


class DamagedError(Exception):
    """A frame is damaged, or something else stands in the place of one."""


def kind_by_name(name: str) -> str | None:
    """Return which compressed data a name promises, None if none."""
    return COMPRESSED.get(os.path.splitext(name)[1].lower())


def kind_of(head: bytes) -> str | None:
    """Return which compressed data begins so, None if none does."""
    return next((kind for start, kind in BEGINNINGS.items() if head.startswith(start)), None)


def beginnings_of(kind: str) -> list[bytes]:
    """Return how data of a kind begins."""
    return [start for start, of in BEGINNINGS.items() if of == kind]


def may_begin(head: bytes, kind: str) -> bool:
    """Return whether data of a kind may begin so; a short beginning may be a part of one."""
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
        Called with a number of bytes and where they begin; returns some of them, none at the end.
    kind : {"gz", "bz2", "xz", "zst"}
        How the data is compressed.
    new_decompressor : callable
        Returns a decompressor of one frame.
    padding : int
        If not 0, zeros may follow a frame: a multiple of so many.
    begin : int
        Where to begin; a place other than 0 is the end of a frame or of its padding.

    Yields
    ------
    bytes, int
        At most 64 KiB, and the end of the last whole frame, or of its padding.

    Raises
    ------
    DamagedError
        If a frame is damaged, or does not begin where the last one ends.
    EOFError
        If the data ends within a frame, or is empty.
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
            if len(self._data) >= _LONGEST or not self._fill():
                return self._data[:_LONGEST]

    def decompress(self, stream: Any) -> bytes:
        """Return the next block of a frame; b"" if its decompressor wants more."""
        ended = not self._data and getattr(stream, "needs_input", True) and not self._fill()
        try:
            block: bytes = stream.decompress(self._data, AT_A_TIME)
        except MemoryError:
            raise
        except Exception as error:
            raise DamagedError(str(error)) from error
        # The decompressor of zlib hands back what it has not used, and the others keep it.
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
    """Blocks of bytes, read as a raw file is; what comes before an error is returned first."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._next = blocks, b""
        self._error: Exception | None = None  # with which the blocks have ended, so that it stays

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes; 0 at the end."""
        filled = 0
        while (room := len(buffer) - filled) and (head := self.head(1)):
            part, self._next = head[:room], head[room:]
            buffer[filled : filled + len(part)] = part
            filled += len(part)
        if self._error is not None and not filled:
            raise self._error
        return filled

    def head(self, size: int) -> bytes:
        """Return what is read next: at least so many bytes, less only at the end or an error."""
        try:
            while len(self._next) < size and self._error is None:
                self._next += next(self._blocks)
        except StopIteration:
            pass
        except (ValueError, OSError, MemoryError) as error:
            self._error = error
        return self._next
