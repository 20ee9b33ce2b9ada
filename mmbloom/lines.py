"""Records of a byte stream, in and out, in bounded chunks.

A line is the bytes between terminators, whatever they are: no decoding, no stripping, and
a last line without its terminator is the same line without it.
"""

import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import compress
from typing import Protocol

import numpy as np
import numpy.typing as npt

# One chunk fills the engine's best batch with log lines of common length, and stays far
# below the 64 Ki lines and 8 MiB that may be lost to a rerun (law 6) or kept in memory.
BLOCK_BYTES = 2 << 20
CHUNK_LINES = 1 << 14


class Source(Protocol):
    """Anything that reads like a raw file: up to `size` bytes, b"" at the end."""

    def read(self, size: int, /) -> bytes | None:
        """Read some bytes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines, without their terminators.

    Attributes
    ----------
    lines : list of bytes
        At most 16,384.
    terminated : bool
        False for the last line of an input that does not end in a terminator; such a line
        is a chunk of its own.
    """

    lines: list[bytes]
    terminated: bool

    @property
    def num_bytes(self) -> int:
        """Size in the input, terminators included."""
        return sum(map(len, self.lines)) + len(self.lines) * self.terminated

    def where(self, wanted: npt.NDArray[np.bool_]) -> list[bytes]:
        """Select lines by a bool array of shape (len(lines),)."""
        return self.lines if wanted.all() else list(compress(self.lines, wanted.tolist()))


def read_chunks(source: Source, terminator: bytes = b"\n") -> Iterator[Chunk]:
    r"""Cut a stream into chunks of lines; memory is bounded by the block and the longest line.

    Examples
    --------
    >>> import io
    >>> list(read_chunks(io.BytesIO(b"a\r\n\nb")))
    [Chunk(lines=[b'a\r', b''], terminated=True), Chunk(lines=[b'b'], terminated=False)]
    """
    unfinished: list[bytes] = []
    while block := source.read(BLOCK_BYTES):
        cut = block.rfind(terminator)
        if cut < 0:
            unfinished.append(block)
            continue
        lines = b"".join([*unfinished, block[:cut]]).split(terminator)
        unfinished = [block[cut + 1 :]]
        for start in range(0, len(lines), CHUNK_LINES):
            yield Chunk(lines[start : start + CHUNK_LINES], terminated=True)
    if rest := b"".join(unfinished):
        yield Chunk([rest], terminated=False)


class LineWriter:
    """Writes lines to a raw file; nothing is buffered when `write` returns.

    Parameters
    ----------
    file : FileIO
        Where to.
    terminator : bytes
        Put after each line.
    name : str, optional
        What errors call the file.
    ends_mid_line : callable, optional
        Tells whether the file ends in the middle of a line at this moment, as another
        writer may have left it; by default what this object wrote last is gone by. Then
        the next line starts with a terminator, so that it stays a line.
    """

    def __init__(
        self,
        file: FileIO,
        terminator: bytes = b"\n",
        *,
        name: str | None = None,
        ends_mid_line: Callable[[], bool] | None = None,
    ) -> None:
        self._file, self._name = file, name or str(file.name)
        self._terminator, self._mid_line = terminator, False
        self._ends_mid_line = ends_mid_line or (lambda: self._mid_line)

    def write(self, lines: list[bytes], *, terminated: bool) -> None:
        """Write lines in one go; an error can leave the last ones cut off."""
        if not lines:
            return
        start = [b""] if self._ends_mid_line() else []
        end = [b""] if terminated else []
        rest = memoryview(self._terminator.join([*start, *lines, *end]))
        while rest:
            try:
                written = self._file.write(rest)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._name) from error
            if written is None:  # a non-blocking pipe is full
                select.select([], [self._file], [])
            else:
                rest = rest[written:]
        self._mid_line = not terminated
