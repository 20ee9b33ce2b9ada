"""Records of a byte stream in bounded chunks, and which part of a record is its key.

The options mean what they mean for uniq(1), in the C locale. A line that lacks the chosen
field or member is its own key as a whole, and shares it with no field or member of another
line: lines that cannot be told apart by it are not lost.
"""

import json
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, KeyBatch

# One chunk fills the engine's best batch with log lines of common length, and stays far
# below the 64 Ki lines and 8 MiB that may be lost to a rerun (law 6) or kept in memory.
BLOCK_BYTES = 1 << 20


CHUNK_LINES = 1 << 14


class RawInput(Protocol):
    """Anything that reads like a raw file: some bytes into a buffer, 0 at the end."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Read some bytes; returns how many."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines of a block that was read, at most 16,384.

    Attributes
    ----------
    octets : ndarray of uint8
        The block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]], without its terminator.
    terminated : bool
        False for the last line of an input that does not end in a terminator; such a line
        is a chunk of its own.
    """

    octets: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    terminated: bool

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_bytes(self) -> int:
        """Size in the input, terminators included."""
        return int(self.ends[-1] - self.starts[0]) + self.terminated

    @property
    def lines(self) -> list[bytes]:
        """The lines as objects."""
        return _engine.lines_of(self.octets, self.starts, self.ends)

    def where(self, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
        """Copy the lines chosen by a bool array of shape (n,), with their terminators."""
        return _engine.gather(self.octets, self.starts, self.ends, wanted, int(self.terminated))


def read_chunks(source: RawInput, terminator: bytes = b"\n") -> Iterator[Chunk]:
    r"""Cut a stream into chunks of lines; memory is bounded by the block and the longest line.

    Examples
    --------
    >>> import io
    >>> [(c.lines, c.terminated) for c in read_chunks(io.BytesIO(b"a\r\n\nb"))]
    [([b'a\r', b''], True), ([b'b'], False)]
    """
    block, filled = np.empty(BLOCK_BYTES, dtype=np.uint8), 0
    while count := _read(source, block[filled : filled + BLOCK_BYTES]):
        start, searched, filled = 0, filled, filled + count
        # What was there before has no terminator: a long line is looked through once.
        while True:
            starts, ends = _engine.find_lines(block, searched, filled, terminator[0], CHUNK_LINES)
            if not len(starts):
                break
            starts[0] = start
            start = searched = int(ends[-1]) + 1
            yield Chunk(block, starts, ends, terminated=True)
        if start or filled == len(block):
            # Chunks keep the block that they were found in: what is left of it moves on, to
            # twice as much room, so that a long line is copied a few times only.
            left = block[start:filled]
            block, filled = np.empty(max(BLOCK_BYTES, 2 * len(left)), dtype=np.uint8), len(left)
            block[:filled] = left
    if filled:
        one = np.array([[0], [filled]], dtype=np.int64)
        yield Chunk(block, one[0], one[1], terminated=False)


def _read(source: RawInput, room: npt.NDArray[np.uint8]) -> int:
    # A raw file that would block says None; whoever reads those waits (`cli._inputs`).
    return source.readinto(room.data) or 0


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

    def write(self, lines: npt.NDArray[np.uint8], *, terminated: bool) -> None:
        """Write lines, which bring their terminators; an error can leave the last ones cut off."""
        if not len(lines):
            return
        if self._ends_mid_line():
            self._write(self._terminator)
        self._write(lines)
        self._mid_line = not terminated

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = self._file.write(rest)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._name) from error
            if written is None:  # a non-blocking pipe is full
                select.select([], [self._file], [])
            else:
                rest = rest[written:]


# No text in UTF-8 has the byte 0xFF: what starts so can be no string. Nor can it be a whole
# line (`_engine.WHOLE_LINE`), for no value of JSON starts with a newline.
_NOT_TEXT = b"\xff"


@dataclass(frozen=True, slots=True)
class LineKeys:
    r"""Turn lines into keys; with no option given, lines are their own keys.

    Attributes
    ----------
    field : int, optional
        Take this field, counted from 1.
    separator : bytes, optional
        What separates fields; runs of blanks by default.
    json_key : str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays. The string
        "5" and the number 5 are two keys.
    skip_fields : int
        Then skip so many fields, each some blanks and the non-blanks after them.
    skip_chars : int
        Then skip so many bytes.
    compare_at_most : int, optional
        Then keep so many bytes at most.
    ignore_case : bool
        Then fold ASCII letters.

    Examples
    --------
    >>> import io
    >>> from mmbloom.lines import read_chunks
    >>> (chunk,) = read_chunks(io.BytesIO(b"1,a\n2,b\n"))
    >>> keys = LineKeys(field=2, separator=b",")(chunk)
    >>> len(keys)
    2
    """

    field: int | None = None
    separator: bytes | None = None
    json_key: str | None = None
    skip_fields: int = 0
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False

    def __call__(self, chunk: Chunk) -> KeyBatch:
        """Find the key of each line."""
        if self.json_key is not None:
            return self._members(chunk.lines, _member_taker(self.json_key))
        return _engine.select_keys(
            chunk.octets,
            chunk.starts,
            chunk.ends,
            field=self.field,
            separator=self.separator,
            skip_fields=self.skip_fields,
            skip_chars=self.skip_chars,
            compare_at_most=self.compare_at_most,
            ignore_case=self.ignore_case,
        )

    def _members(self, lines: list[bytes], take: Callable[[bytes], bytes | None]) -> ByteKeys:
        narrow = _engine.narrower(
            self.skip_fields, self.skip_chars, self.compare_at_most, ignore_case=self.ignore_case
        )
        parts = [take(line) for line in lines]
        return ByteKeys.of(
            [
                _engine.WHOLE_LINE + line if part is None else narrow(part)
                for line, part in zip(lines, parts, strict=True)
            ]
        )


def _member_taker(path: str) -> Callable[[bytes], bytes | None]:
    names = path.split(".")

    def take(line: bytes) -> bytes | None:
        try:
            value = json.loads(line)
            for name in names:
                index = isinstance(value, list) and name.isdecimal()
                value = value[int(name)] if index else value[name]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        return _NOT_TEXT + json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    return take
