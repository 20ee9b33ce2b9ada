"""Lines of a byte stream in bounded chunks, and the part of each line that is its key.

The options mean what they mean in uniq(1) in the C locale. If the chosen field or member of a line
is missing, empty or null, the whole line is its key. That key never equals the field or member of
another line, so no line is dropped because a part of it is missing. With several fields or members,
one missing is enough: two lines with nothing there may still differ. `Empty` lists the other ways
to treat such lines.

An input may end in the middle of a line: a log that is still being written, an unfinished copy, a
broken pipe. The field or member of that line may be cut off, and equal that of another line.
`KeyRule.find` describes how such a line is treated.
"""

from __future__ import annotations

import os
import select
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from io import BytesIO, IOBase, RawIOBase
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    cast,
    get_args,
    runtime_checkable,
)

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, KeyBatch, PackedKeys
from mmbloom._keys.coerce import joined
from mmbloom._system.typing import Bools, Keys, Octets, Offsets
from mmbloom.errors import InputError
from mmbloom.format.header import KEY_RULE_BYTES

if TYPE_CHECKING:
    from mmbloom.filters.base import Filter


# A block of log lines of usual length fills a chunk, which is what the engine hashes fastest: with
# 4 MiB, lines of 144 bytes took up to a tenth longer, where the second cache had 2 MiB.
# After a kill a rerun repeats at most 64 Ki lines or 8 MiB; it is one chunk, far short of both.
BLOCK_BYTES = 1 << 20
CHUNK_LINES = 1 << 13  # whose blocks, hashes and cells are in the second cache together


@runtime_checkable
class RawInput(Protocol):
    """Anything that reads like a raw file, such as `io.FileIO` or `io.BytesIO`."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Read some bytes into a buffer and return how many; return 0 at the end."""


@dataclass(slots=True, eq=False)  # frozen, it takes three times as long to make
class Chunk:
    r"""Up to 8,192 consecutive lines, and the block of bytes that contains them.

    Attributes
    ----------
    octets : ndarray of uint8, shape (m,)
        The block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]], without its terminator.
    terminated : bool
        False for the last line of an input that does not end in a terminator. Such a line is a
        chunk of its own.

    Examples
    --------
    >>> import io
    >>> (chunk,) = read_chunks(io.BytesIO(b"a\nbc\n"))
    >>> len(chunk), chunk.num_bytes, chunk.lines
    (2, 5, [b'a', b'bc'])
    >>> chunk.where(np.array([False, True])).tobytes()
    b'bc\n'
    """

    octets: Octets
    starts: Offsets
    ends: Offsets
    terminated: bool

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_bytes(self) -> int:
        """The number of bytes that the lines take in the input, terminators included."""
        return self.ends.item(-1) - self.starts.item(0) + self.terminated

    @property
    def lines(self) -> list[bytes]:
        """The lines as a list of bytes, without terminators."""
        return _engine.lines_of(self.octets, self.starts, self.ends)

    def first(self, number: int) -> Chunk:
        r"""Return the first lines of the chunk as a chunk that shares its block.

        Parameters
        ----------
        number : int
            How many lines to return, at least 1.

        Returns
        -------
        Chunk

        Examples
        --------
        >>> import io
        >>> (chunk,) = read_chunks(io.BytesIO(b"a\nbc\n"))
        >>> chunk.first(1).lines
        [b'a']
        """
        return Chunk(self.octets, self.starts[:number], self.ends[:number], self.terminated)

    def where(self, wanted: Bools) -> Octets:
        """Return the selected lines, with their terminators.

        Parameters
        ----------
        wanted : ndarray of bool, shape (n,)
            True for each line to return.

        Returns
        -------
        ndarray of uint8
            The lines, one after another: a copy, or a view of the block if all lines are selected.
        """
        number = np.count_nonzero(wanted)
        if number == len(wanted):  # as a rule where most lines are new: to copy 1 MB takes 70 us
            return self.octets[self.starts[0] : self.ends[-1] + self.terminated]
        if not number:  # as a rule where most are known
            return np.empty(0, dtype=np.uint8)
        return _engine.gather(self.octets, self.starts, self.ends, wanted, int(self.terminated))


def read_chunks(source: RawInput, terminator: bytes = b"\n") -> Iterator[Chunk]:
    r"""Cut a stream into chunks of lines; memory is bounded by the block and the longest line.

    Parameters
    ----------
    source : RawInput
        The stream. It is read to its end, and is not closed.
    terminator : bytes
        The single byte that ends a line.

    Yields
    ------
    Chunk
        The lines, in order. Empty lines count as lines. A last line without a terminator is a chunk
        of its own.

    Raises
    ------
    InputError
        If the stream is UTF-16 or UTF-32, or if its lines end in a carriage return only.
    OSError
        If the stream cannot be read.
    TypeError
        If the source is not a binary file.

    Examples
    --------
    >>> import io
    >>> [(c.lines, c.terminated) for c in read_chunks(io.BytesIO(b"a\r\n\nb"))]
    [([b'a\r', b''], True), ([b'b'], False)]
    """
    yield from cut_lines(source, terminator, partial(require_lines, terminator=terminator))


def cut_lines(source: RawInput, terminator: bytes, check: Check | None) -> Iterator[Chunk]:
    """Cut a stream into chunks of lines; `check` is as for `cut`."""

    def find(block: Octets, start: int, searched: int, filled: int) -> Pieces:
        starts, ends = _engine.find_lines(block, searched, filled, terminator[0], CHUNK_LINES)
        starts[:1] = start
        return starts, ends

    yield from cut(source, find, check)


Pieces = tuple[Offsets, Offsets]
Find = Callable[[Octets, int, int, int], Pieces]
Check = Callable[[Octets], object]


def cut(source: RawInput, find: Find, check: Check | None) -> Iterator[Chunk]:
    """Read a stream block by block, and cut each block into pieces.

    Parameters
    ----------
    source : RawInput
        The stream.
    find : callable
        Finds pieces. It is called with a block, the index where its unconsumed bytes begin, the
        index up to which they have already been searched, and the index where the block's content
        ends. It returns where pieces start and end. Each piece is followed by a byte that belongs
        to none.
    check : callable, optional
        Called once, before the first piece is yielded, with all bytes read so far. It raises an
        error to refuse the stream.

    Yields
    ------
    Chunk
        The pieces. Bytes left over at the end are one piece that is not terminated.
    """
    if not hasattr(source, "readinto"):
        raise TypeError(f"source is {source!r}, expected a binary file such as open(path, 'rb')")
    block, filled = np.empty(BLOCK_BYTES, dtype=np.uint8), 0
    while count := read_some(source, block[filled : filled + BLOCK_BYTES].data):
        start, searched, filled = 0, filled, filled + count
        # Bytes from earlier reads end nothing: even a long line is searched only once.
        while True:
            starts, ends = find(block, start, searched, filled)
            if not len(starts):
                break
            if check is not None:
                check(block[:filled])
                check = None
            start = searched = int(ends[-1]) + 1
            yield Chunk(block, starts, ends, terminated=True)
        if start or filled == len(block):
            # The chunks keep their block, so the rest of it is copied to a new one: with
            # twice as much room, which lets a long line be copied a few times only.
            left = block[start:filled]
            block, filled = np.empty(max(BLOCK_BYTES, 2 * len(left)), dtype=np.uint8), len(left)
            block[:filled] = left
    if filled:
        if check is not None:
            check(block[:filled])
        one = np.array([[0], [filled]], dtype=np.int64)
        yield Chunk(block, one[0], one[1], terminated=False)


def read_some(source: RawInput, buffer: Any) -> int:
    """Wait for some bytes and read them into a buffer; return their number, 0 at the end."""
    while (count := source.readinto(buffer)) is None:  # an empty pipe that does not block
        there = select.poll()
        there.register(cast("Any", source), select.POLLIN)
        there.poll()
    return count


# Text without lines of bytes is UTF-16, UTF-32, or ends its lines in a carriage return alone. If
# UTF-16 is cut at each newline byte, it is cut within characters too; text that ends in carriage
# returns is one line. Lines would be compared that nobody has written, and some of them dropped. So
# an input of such text is refused before any of its lines is returned.
_HEAD = 4096  # bytes to know the encoding by
_LEAST = 8  # fewer bytes show nothing
# The mark of UTF-32 in little-endian begins as that of UTF-16 does.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class NoLinesError(InputError):
    """An input is another kind of file, or text in another encoding."""


def require_lines(octets: Octets, terminator: bytes) -> None:
    """Refuse text that has no lines, given its bytes up to the first terminator.

    An input without a newline is treated as old Mac text if it has two carriage returns. One is not
    enough: it may be the first half of a Windows line end.
    """
    require_octets(octets, terminator)
    if terminator == b"\n" and ord("\n") not in octets and octets.tobytes().count(b"\r") > 1:
        raise no_newlines("lines")


def require_octets(octets: Octets, terminator: bytes) -> None:
    """Refuse UTF-16 and UTF-32, detected by mark or by NULs, unless lines end in NUL."""
    head = octets[:_HEAD].tobytes()
    by_mark = (encoding for mark, encoding in _MARKS.items() if head.startswith(mark))
    encoding = next(by_mark, "" if terminator == b"\0" else _by_nuls(head))
    if encoding:
        raise NoLinesError(
            f"is {encoding}, in which a newline byte can be part of any character: convert it "
            f"first, with iconv -f {encoding} -t UTF-8"
        )


def no_newlines(what: str) -> NoLinesError:
    """Return the error for an input whose lines or rows end in a carriage return only."""
    return NoLinesError(
        f"ends its {what} in a carriage return alone, so they would be read as one: convert it "
        "first, with tr '\\r' '\\n'"
    )


def _by_nuls(head: bytes) -> str:
    """Return the encoding of text without a mark; "" of what may have lines of bytes.

    Of each character of most languages the higher bytes are NUL in UTF-32, and of ASCII and Latin-1
    also in UTF-16, where the lowest byte is not. So many NULs, each at its place and hardly one
    elsewhere, are in no log and in no binary file of lines: fields that NUL separates have a
    newline at a place of NULs, and what a crash leaves of a file is NUL everywhere.
    """
    for width in (4, 2):
        places = [head[at::width] for at in range(width)]
        for end, (lowest, *others) in (("LE", places), ("BE", places[::-1])):
            highest = others[width // 2 - 1 :]
            if (
                len(head) >= _LEAST
                and len(head) % width == 0
                and lowest.count(0) * 16 <= len(lowest)
                and all(place.count(0) * 2 > len(place) for place in highest)
                and not any(b"\n" in place for place in highest)
            ):
                return f"UTF-{8 * width}{end}"
    return ""


class RawOutput(Protocol):
    """Anything that can be written to like a raw file, such as `io.FileIO`."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def write(self, data: Any, /) -> int | None:
        """Write some bytes and return how many, or None if the write would block."""


class Existing(Protocol):
    """The content of a file that other processes may append to at any time."""

    def fileno(self) -> int:
        """Return the file descriptor."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a block in which no other run appends to the file, as far as that can be enforced.

        Such blocks can be nested.
        """

    def size(self) -> int:
        """Return the number of bytes."""

    def last(self) -> bytes:
        """Return the last byte, or b"" if the file is empty."""

    def read_from(self, begin: int) -> RawInput:
        """Return an input that reads from the given byte."""


_ANY_BLOCK = nullcontext()


class PlainFile:
    """The content of an uncompressed file, read without moving a shared file position.

    Parameters
    ----------
    fd : int
        A descriptor open for reading.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def alone(self) -> AbstractContextManager[None]:
        """Return a block that does nothing: the filter's lock already keeps other runs out."""
        return _ANY_BLOCK

    def size(self) -> int:
        """Return the number of bytes."""
        return os.fstat(self._fd).st_size

    def last(self) -> bytes:
        """Return the last byte, or b"" if the file is empty."""
        size = self.size()
        return os.pread(self._fd, 1, size - 1) if size else b""

    def read_from(self, begin: int) -> RawInput:
        """Return an input that reads from the given byte."""
        return _From(self._fd, begin)


class _From:
    def __init__(self, fd: int, begin: int) -> None:
        self._fd, self._at = fd, begin

    def readinto(self, buffer: Any, /) -> int:
        count = os.preadv(self._fd, [buffer], self._at)
        self._at += count
        return count


class LineWriter:
    r"""Write lines to a raw file; nothing stays buffered when `write` returns.

    If the file ends in the middle of a line, a terminator is written first, so that the next line
    starts on its own.

    Parameters
    ----------
    file : RawOutput
        The file to write to.
    terminator : bytes
        The bytes that end a line.
    name : str, optional
        The name of the file in error messages; by default that of the file object.
    existing : Existing, optional
        The content of the file. Pass it if others append to the file too; otherwise only what this
        object has written is taken into account.
    sync : callable, optional
        Forces the file to the disk. If given, `write` calls it before it returns, so that lines are
        on the disk before `mmbloom.logs.dedup.dedup` marks them.

    Raises
    ------
    TypeError
        If `file` is not a file, or has a buffer of its own.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "unique.log")
    >>> with path.open("wb", buffering=0) as file:
    ...     writer = LineWriter(file)
    ...     writer.write(np.frombuffer(b"a", np.uint8), terminated=False)
    ...     writer.write(np.frombuffer(b"b\n", np.uint8), terminated=True)
    >>> path.read_bytes()
    b'a\nb\n'
    """

    def __init__(
        self,
        file: RawOutput,
        terminator: bytes = b"\n",
        *,
        name: str | None = None,
        existing: Existing | None = None,
        sync: Callable[[], None] | None = None,
    ) -> None:
        given = getattr(file, "file", file)  # of what tempfile has wrapped
        buffered = isinstance(given, IOBase) and not isinstance(given, RawIOBase | BytesIO)
        if not hasattr(file, "write") or buffered:
            # A line in a buffer would be marked before it is written.
            raise TypeError(
                f"file is {file!r}, expected a raw file such as open(path, 'ab', buffering=0)"
            )
        self._file, self._name, self._sync = file, name or str(getattr(file, "name", file)), sync
        self._terminator, self._mid_line, self.existing = terminator, False, existing

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines.

        Parameters
        ----------
        lines : ndarray of uint8
            The lines with their terminators, as `Chunk.where` returns them.
        terminated : bool
            Whether the last line ends in a terminator.

        Raises
        ------
        OSError
            If the lines cannot be written or forced to the disk. Some of them may be in the file,
            the last one cut off.
        """
        if not len(lines):
            return
        with self.alone():
            ending = self._ending()
            self._write(ending + lines.tobytes() if ending else lines)
            self._mid_line = not terminated
            self._wrote(len(lines))
        if self._sync is not None:
            self._sync()

    def alone(self) -> AbstractContextManager[None]:
        """Return a block in which no other run appends to the file; see `Existing.alone`."""
        return _ANY_BLOCK if self.existing is None else self.existing.alone()

    def _wrote(self, count: int) -> None:
        """Note that the last bytes of the file are these lines."""

    def _ending(self) -> bytes:
        """Return what ends the last line of the file: of this run, or of one that was killed."""
        mid_line = self._mid_line
        if self.existing is not None:
            mid_line = self.existing.last() not in (b"", self._terminator)
        return self._terminator if mid_line else b""

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            try:
                written = self._file.write(rest)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._name) from error
            if written is None:  # the file is a pipe that does not block, and it is full
                room = select.poll()
                room.register(self._file, select.POLLOUT)
                room.poll()
            else:
                rest = rest[written:]


Empty = Literal["whole", "skip", "key"]
"""How to treat a line in which a chosen field or member is missing, empty or null: "whole" compares
the whole line; "skip" gives the line no key, so it is neither new nor repeated; "key" compares an
empty value instead, the same for all such lines."""


def require_empty(empty: object) -> None:
    """Raise `ValueError` unless the value is an `Empty`."""
    if empty not in (known := get_args(Empty)):
        raise ValueError(f"empty is {empty!r}, expected one of {known}")


class Found(NamedTuple):
    """The keys of a chunk of lines.

    Attributes
    ----------
    keys : Keys
        The key of each line that has one, in order, for any filter method that takes several keys.
        They are views of the chunk's block that only the engine reads, not a sequence.
    lacking : int
        The number of lines in which a chosen field or member is missing.
    kept : ndarray of bool, shape (n,), or None
        True for each line that has a key; None if all lines have one.
    part_key : Keys or None
        For a last line without its terminator, the key of its field or member; see `KeyRule.find`.
        None for all other lines, whose keys are in `keys`.
    """

    keys: Keys
    lacking: int
    kept: Bools | None
    part_key: Keys | None = None

    def known(self, seen: Filter) -> Bools:
        """Return which lines a filter knows, by `keys` or by `part_key`.

        Parameters
        ----------
        seen : Filter
            The filter.

        Returns
        -------
        ndarray of bool
            One value per key.
        """
        known = seen.contains_many(self.keys)
        return known if self.part_key is None else known | seen.contains_many(self.part_key)

    def of_lines(self, answers: Bools) -> Bools:
        """Turn one answer per key into one per line; lines without a key get False.

        Parameters
        ----------
        answers : ndarray of bool
            One value per key.

        Returns
        -------
        ndarray of bool, shape (n,)
            One value per line.
        """
        if self.kept is None:
            return answers
        every = np.zeros(len(self.kept), dtype=np.bool_)
        every[self.kept] = answers
        return every

    def lines_before_key(self, index: int) -> int:
        """Return how many lines come before the line of a key.

        Parameters
        ----------
        index : int
            The index of an existing key, counted from 0.

        Returns
        -------
        int
        """
        return index if self.kept is None else int(np.flatnonzero(self.kept)[index])


class KeyRule(ABC):
    """Which part of a line is its key: `LineKeys`, or `mmbloom.logs.rows.RowKeys`."""

    __slots__ = ()

    # Fields of both; the first two are of lines only.
    skip_fields: int = 0
    crlf: bool = False
    skip_chars: int
    compare_at_most: int | None
    ignore_case: bool
    empty: Empty  # what a line is without its part

    @property
    @abstractmethod
    def _chosen(self) -> tuple[str, tuple[int | str, ...]]:
        """The noun of the parts that are compared, and which these are; none: the whole line."""

    @abstractmethod
    def _words(self) -> list[str]:
        """Return the options that choose these parts."""

    @property
    def part(self) -> str:
        """The chosen field or member, as in "field 3 is missing or empty in every line".

        Examples
        --------
        >>> LineKeys(field=3).part, LineKeys(json_key=("a", "b")).part
        ('field 3', 'one of members a, b')
        """
        noun, chosen = self._chosen
        if len(chosen) == 1:
            return f"{noun} {chosen[0]!r}"
        return f"one of {noun}s {', '.join(map(str, chosen))}"

    @property
    def rule(self) -> str:
        r"""The options that decide which bytes of a line are its key, as one text.

        Two rules choose the same keys exactly if their texts are equal; without options the text is
        "whole lines". A text that is too long for the header of a filter is cut, and ends in its
        SHA-256.

        Examples
        --------
        >>> LineKeys().rule, LineKeys(field=(1, 3), separator=b"\t").rule
        ('whole lines', "-k 1,3 -t '\\t'")
        """
        words = self._words()
        counts = (("-f", self.skip_fields or None), ("-s", self.skip_chars or None))
        for option, count in (*counts, ("-w", self.compare_at_most)):
            words += [] if count is None else [option, str(count)]
        words += ["-i"] * self.ignore_case + ["--crlf"] * self.crlf
        if self.empty != "whole" and self._chosen[1]:
            words += ["--empty", self.empty]
        raw = shlex.join(words).encode("utf-8", "backslashreplace") or WHOLE_LINES.encode()
        if len(raw) > KEY_RULE_BYTES:
            from hashlib import sha256  # noqa: PLC0415  for names of members of a kilobyte

            digest = f"... SHA-256 {sha256(raw).hexdigest()}".encode()
            raw = raw[: KEY_RULE_BYTES - len(digest)] + digest
        return raw.decode(errors="ignore")

    @property
    def is_whole_line(self) -> bool:
        """Whether the whole line is the key, apart from case and carriage returns."""
        cut = self.skip_fields or self.skip_chars or self.compare_at_most is not None
        return not (self._chosen[1] or cut)

    @abstractmethod
    def _parts(self, chunk: Chunk) -> Found:
        """Find the key of the part of each line."""

    def find(self, chunk: Chunk) -> Found:
        """Find the key of each line, and the lines in which it is missing.

        If the last line of an input has no terminator, the input may have been cut off in the
        middle of it. Such a line has two keys. It counts as seen if the filter has either of them,
        but only the first is marked.

        - `Found.keys` has the whole line as its key, as for a line without its field or member. So
          the complete line still counts as new later, and reading the same input again finds
          nothing new.
        - `Found.part_key` has the key of its field or member. With it, the line is recognised as a
          repeat of a complete line that was marked.

        Parameters
        ----------
        chunk : Chunk
            The lines, or rows without their header.

        Returns
        -------
        Found

        Raises
        ------
        ColumnError
            If columns are chosen by name and `mmbloom.logs.rows.RowKeys.by_header` was not called.
        """
        found = self._parts(chunk)
        none = found.kept is not None and not found.kept.any()
        if chunk.terminated or self.is_whole_line or none:
            return found
        whole = [_engine.WHOLE_LINE + line for line in chunk.lines]
        return found._replace(keys=cast("Keys", ByteKeys.of([*whole])), part_key=found.keys)


WHOLE_LINES = "whole lines"  # the rule without options

# Put before a whole line of JSON that is nested too deep to be read. It has the member, perhaps: it
# is not dropped with lines that do not. No other key begins so.
_TOO_DEEP = b"\xff\n\1"

_RETURN = 13  # the carriage return, before the newline of a line that Windows has ended


@dataclass(frozen=True, slots=True)
class LineKeys(KeyRule):
    r"""Turn lines into keys; without options, each line is its own key.

    The options are applied in the order listed here, except that ``crlf`` comes first.

    If the chosen field or member is missing, empty or null, the whole line is the key. With
    several, one missing is enough.

    Attributes
    ----------
    field : int or tuple of int, optional
        Take the field with this number, counted from 1; with several, the key is the tuple of them.
    separator : bytes, optional
        What separates fields; by default runs of blanks (space, tab and newline), as in awk(1). A
        carriage return is then part of the last field, unless ``crlf`` is set.
    json_key : str or tuple of str, optional
        Take this member of a JSON line, such as "user.id"; with several, the key is the tuple of
        them. Digits index arrays, and a dot within a name is escaped with a backslash, as in
        r"app\.name". Values are compared as written: the string "5" and the number 5 differ, and so
        do 1.0 and 1. NaN counts as missing, like null. A line nested too deep for Python's parser
        (about 990 levels) is compared whole.
    skip_fields : int
        Skip this many fields. A field is a run of blanks (as above) and the non-blanks after it.
    skip_chars : int
        Skip this many bytes.
    compare_at_most : int, optional
        Keep at most this many bytes.
    ignore_case : bool
        Treat ASCII capitals as lower case.
    crlf : bool
        Remove a carriage return from the end of the line, so that a line with a Windows line end
        equals the same line without.
    empty : {"whole", "skip", "key"}
        How to treat a line in which the field or member is missing; see `Empty`.

    Examples
    --------
    >>> import io, os, tempfile
    >>> from mmbloom import BloomFilter
    >>> (chunk,) = read_chunks(io.BytesIO(b"1,a\n2,b\n3,a\n"))
    >>> keys = LineKeys(field=2, separator=b",").find(chunk).keys
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     seen.add_many(keys)
    array([ True,  True, False])
    """

    field: int | tuple[int, ...] | None = None
    separator: bytes | None = None
    json_key: str | tuple[str, ...] | None = None
    skip_fields: int = 0
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False
    crlf: bool = False
    empty: Empty = "whole"

    def __post_init__(self) -> None:
        require_empty(self.empty)
        fields = self.field if isinstance(self.field, tuple) else (self.field,)
        if not fields or any(field is not None and field < 1 for field in fields):
            raise ValueError(f"field is {self.field!r}, expected one or more numbers from 1")
        if self.separator == b"":
            raise ValueError("separator is b'', expected at least one byte, or None for blanks")
        if self.json_key == ():
            raise ValueError("json_key is (), expected at least one name")

    @property
    def _chosen(self) -> tuple[str, tuple[int | str, ...]]:
        noun, chosen = ("field", self.field) if self.json_key is None else ("member", self.json_key)
        return noun, chosen if isinstance(chosen, tuple) else () if chosen is None else (chosen,)

    def _parts(self, chunk: Chunk) -> Found:
        if self.crlf:
            returns = chunk.octets[chunk.ends - 1] == _RETURN
            ends = chunk.ends - (returns & (chunk.ends > chunk.starts))
            chunk = Chunk(chunk.octets, chunk.starts, ends, chunk.terminated)
        if isinstance(self.json_key, tuple):
            return self._side_by_side(chunk, [self._members(chunk, one) for one in self.json_key])
        if self.json_key is not None:
            keys = self._members(chunk, self.json_key)
        elif isinstance(self.field, tuple):
            return self._side_by_side(chunk, [self._field(chunk, one) for one in self.field])
        else:
            keys = self._field(chunk, self.field)
        return found_among(keys, marked(keys) if self._chosen[1] else None, self.empty)

    def _words(self) -> list[str]:
        """Return the field or member as options; a tuple of one ends in a comma, as in Python."""
        noun, chosen = self._chosen
        one = self.field if noun == "field" else self.json_key
        end = [","] * (len(chosen) == 1 and isinstance(one, tuple))
        if noun == "member":
            return [word for name in chosen for word in ("--json-key", str(name))] + end
        words = ["-k", ",".join(map(str, chosen)) + "".join(end)] if chosen else []
        return words + (separated_by(self.separator) if words and self.separator else [])

    def _side_by_side(self, chunk: Chunk, parts: Sequence[KeyBatch]) -> Found:
        """Join the keys of each line, as a tuple of them; a line that lacks one is its own key."""
        lacks = np.logical_or.reduce([marked(part) for part in parts])
        values = [_bytes_of(part) for part in parts]
        mark = _engine.WHOLE_LINE
        if self.empty == "key":
            values = [[b"" if one[: len(mark)] == mark else one for one in part] for part in values]
            keys = ByteKeys.of([joined(items) for items in zip(*values, strict=True)])
            return Found(cast("Keys", keys), int(np.count_nonzero(lacks)), None)
        rows = zip(lacks.tolist(), chunk.lines, *values, strict=True)
        keys = ByteKeys.of([mark + line if lack else joined(items) for lack, line, *items in rows])
        return found_among(keys, lacks, self.empty)

    def _field(self, chunk: Chunk, number: int | None) -> KeyBatch:
        return _engine.select_keys(
            chunk.octets,
            chunk.starts,
            chunk.ends,
            field=number,
            separator=self.separator,
            skip_fields=self.skip_fields,
            skip_chars=self.skip_chars,
            compare_at_most=self.compare_at_most,
            ignore_case=self.ignore_case,
        )

    def _members(self, chunk: Chunk, path: str) -> KeyBatch:
        # Here, not above: json takes as long to import as all of this file.
        from mmbloom.logs.members import member_taker, names_of  # noqa: PLC0415

        names = [name.encode("utf-8", "surrogatepass") for name in names_of(path)]
        narrow = _engine.narrower(
            self.skip_fields, self.skip_chars, self.compare_at_most, ignore_case=self.ignore_case
        )
        octets, starts, ends, declined = _engine.find_members(
            chunk.octets, chunk.starts, chunk.ends, names if self._takes_all else []
        )
        if not declined.any():
            return PackedKeys(octets, starts, ends)
        take, keys = member_taker(path), []
        for line in _engine.lines_of(chunk.octets, chunk.starts[declined], chunk.ends[declined]):
            try:
                part = take(line)
            except RecursionError:
                keys.append(_TOO_DEEP + line)
                continue
            keys.append(_engine.WHOLE_LINE + line if part is None else narrow(part))
        if declined.all():
            return ByteKeys.of(list(keys))
        # What the parser has found comes behind what was found without it.
        sizes = np.array([len(key) for key in keys], dtype=np.int64)
        ends[declined] = len(octets) + np.cumsum(sizes)
        starts[declined] = ends[declined] - sizes
        more = np.frombuffer(b"".join(keys), dtype=np.uint8)
        return PackedKeys(np.concatenate([octets, more]), starts, ends)

    @property
    def _takes_all(self) -> bool:
        """Whether a field or member is a key as a whole."""
        narrowed = self.skip_fields or self.skip_chars or self.ignore_case
        return not narrowed and self.compare_at_most is None


def separated_by(separator: bytes) -> list[str]:
    """Return a separator as command-line options."""
    for raw, escape in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\0", rb"\0"), (b"\n", rb"\n")):
        separator = separator.replace(raw, escape)
    return ["-t", separator.decode("utf-8", "backslashreplace")]


def marked(keys: KeyBatch) -> Bools:
    """Return which keys are whole lines because the chosen part is missing or empty."""
    mark = _engine.WHOLE_LINE
    if isinstance(keys, ByteKeys):
        return np.array([key[: len(mark)] == mark for key in keys.items], dtype=np.bool_)
    assert isinstance(keys, PackedKeys)  # noqa: S101  what the engine makes of fields
    is_whole: Bools = keys.ends - keys.starts >= len(mark)
    long_enough = np.flatnonzero(is_whole)
    for offset, octet in enumerate(mark):
        begins = keys.octets[keys.starts[long_enough] + offset] == octet
        is_whole[long_enough] = begins
        long_enough = long_enough[begins]
    return is_whole


def found_among(keys: KeyBatch, lacks: Bools | None, empty: Empty) -> Found:
    """Apply `empty` to the lines in which a chosen part is missing."""
    lacking = 0 if lacks is None else int(np.count_nonzero(lacks))
    if lacks is None or not lacking or empty == "whole":
        return Found(cast("Keys", keys), lacking, None)
    if empty == "skip":
        return Found(cast("Keys", keys[~lacks]), lacking, ~lacks)
    if isinstance(keys, ByteKeys):
        items = [b"" if lack else key for lack, key in zip(lacks, keys.items, strict=True)]
        return Found(cast("Keys", ByteKeys.of(items)), lacking, None)
    assert isinstance(keys, PackedKeys)  # noqa: S101  what the engine makes of fields
    ends = np.where(lacks, keys.starts, keys.ends)
    return Found(cast("Keys", PackedKeys(keys.octets, keys.starts, ends)), lacking, None)


def _bytes_of(keys: KeyBatch) -> list[bytes]:
    if isinstance(keys, PackedKeys):  # in any order: those of the parser are the last
        data, spans = keys.octets.tobytes(), (keys.starts.tolist(), keys.ends.tolist())
        return [data[start:end] for start, end in zip(*spans, strict=True)]
    assert isinstance(keys, ByteKeys)  # noqa: S101  what the engine makes of fields
    return cast("list[bytes]", keys.items)
