"""Lines of a byte stream in bounded chunks, and the part of each line that is its key.

The options mean what they mean in uniq(1) in the C locale. If a line lacks the chosen field or
member, the whole line is its key, and no field or member of another line makes the same key:
no line is dropped because the chosen part of it is missing. A field or member that is empty or
null is missing, and of several one that is missing is enough: what says nothing of two lines
does not say that they are the same. `Empty` names what else can be done with them.

An input may end within a line: a log that is still written, a copy under way, a broken pipe. The
part of such a line may be cut off, and be the key of another line. `KeyRule.find` has the rule for
it.
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
        """Read some bytes into a buffer, and return how many; 0 at the end."""


@dataclass(slots=True, eq=False)  # frozen, it takes three times as long to make
class Chunk:
    r"""At most 8,192 consecutive lines, and the block of bytes that they lie in.

    Attributes
    ----------
    octets : ndarray of uint8, shape (m,)
        The block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]], without its terminator.
    terminated : bool
        False for the last line of an input that does not end in a terminator. Such a line
        is a chunk of its own.

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
        """Number of bytes in the input, terminators included."""
        return self.ends.item(-1) - self.starts.item(0) + self.terminated

    @property
    def lines(self) -> list[bytes]:
        """The lines as a list of bytes, without terminators."""
        return _engine.lines_of(self.octets, self.starts, self.ends)

    def first(self, number: int) -> Chunk:
        r"""Return the first lines of it, at least one, as a chunk.

        Parameters
        ----------
        number : int
            How many lines.

        Returns
        -------
        Chunk
            It has the same block.

        Examples
        --------
        >>> import io
        >>> (chunk,) = read_chunks(io.BytesIO(b"a\nbc\n"))
        >>> chunk.first(1).lines
        [b'a']
        """
        return Chunk(self.octets, self.starts[:number], self.ends[:number], self.terminated)

    def where(self, wanted: Bools) -> Octets:
        """Return some of the lines, with their terminators.

        Parameters
        ----------
        wanted : ndarray of bool, shape (n,)
            True for each line to return.

        Returns
        -------
        ndarray of uint8
            The lines, one after the other: a copy, or that part of the block if all are wanted.
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
        The stream. It is read to its end, and not closed.
    terminator : bytes
        The one byte that ends a line.

    Yields
    ------
    Chunk
        The lines in order. An empty line is a line; a last line without its terminator is a
        chunk of its own.

    Raises
    ------
    InputError
        If the stream is UTF-16 or UTF-32, or if its lines end in a carriage return alone.
    OSError
        If the stream cannot be read.
    TypeError
        If it is no binary file.

    Examples
    --------
    >>> import io
    >>> [(c.lines, c.terminated) for c in read_chunks(io.BytesIO(b"a\r\n\nb"))]
    [([b'a\r', b''], True), ([b'b'], False)]
    """
    yield from cut_lines(source, terminator, partial(require_lines, terminator=terminator))


def cut_lines(source: RawInput, terminator: bytes, check: Check | None) -> Iterator[Chunk]:
    """Cut a stream into chunks of lines; `check` is that of `cut`."""

    def find(block: Octets, start: int, searched: int, filled: int) -> Pieces:
        starts, ends = _engine.find_lines(block, searched, filled, terminator[0], CHUNK_LINES)
        starts[:1] = start
        return starts, ends

    yield from cut(source, find, check)


Pieces = tuple[Offsets, Offsets]
Find = Callable[[Octets, int, int, int], Pieces]
Check = Callable[[Octets], object]


def cut(source: RawInput, find: Find, check: Check | None) -> Iterator[Chunk]:
    """Read a stream block by block, and cut each into what is found in it.

    Parameters
    ----------
    source : RawInput
        The stream.
    find : callable
        Called with a block, where what is left of it begins, up to where that was searched already,
        and how far the block is filled; returns where pieces start and end. A byte follows each.
    check : callable, optional
        Called once, before the first piece is given, with all that has come up to then; it raises
        an error if the stream is to be refused.

    Yields
    ------
    Chunk
        The pieces. What is left at the end is one that is not terminated.
    """
    if not hasattr(source, "readinto"):
        raise TypeError(f"source is {source!r}, expected a binary file, as open(path, 'rb') gives")
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
    """Read some bytes into a buffer, waiting for them; 0 at the end."""
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
    """An input is a file of another kind, or text of another encoding."""


def require_lines(octets: Octets, terminator: bytes) -> None:
    """Refuse text without lines that end in this byte, by what comes up to the first of them.

    An input without a newline is lines of an old Mac if it has two carriage returns. One
    is not enough: a line that Windows has ended may wait for its newline.
    """
    require_octets(octets, terminator)
    if terminator == b"\n" and ord("\n") not in octets and octets.tobytes().count(b"\r") > 1:
        raise no_newlines("lines")


def require_octets(octets: Octets, terminator: bytes) -> None:
    """Refuse UTF-16 and UTF-32, by a mark or by their NULs, unless it is NUL that ends lines."""
    head = octets[:_HEAD].tobytes()
    by_mark = (encoding for mark, encoding in _MARKS.items() if head.startswith(mark))
    encoding = next(by_mark, "" if terminator == b"\0" else _by_nuls(head))
    if encoding:
        raise NoLinesError(
            f"is {encoding}, in which a newline byte can be a part of any character: convert it "
            f"first, with iconv -f {encoding} -t UTF-8"
        )


def no_newlines(what: str) -> NoLinesError:
    """Return the error of an input whose lines or rows end in a carriage return alone."""
    return NoLinesError(
        f"ends its {what} in a carriage return alone, so that all are one: convert it first, with "
        "tr '\\r' '\\n'"
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
    """Anything that is written to like a raw file, such as `io.FileIO`."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def write(self, data: Any, /) -> int | None:
        """Write some bytes, and return how many; None if the file is full, and does not block."""


class Existing(Protocol):
    """What is in a file already: of others too, who may append to it at any time."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a block in which no other run with such a file appends to it, if that can be.

        Such blocks can be within each other.
        """

    def size(self) -> int:
        """Count the bytes."""

    def last(self) -> bytes:
        """Return the last byte; none of an empty file."""

    def read_from(self, begin: int) -> RawInput:
        """Return what is read from a byte on."""


_ANY_BLOCK = nullcontext()


class PlainFile:
    """What is in a file as it is, without a position that others share.

    Parameters
    ----------
    fd : int
        A descriptor that is open for reading.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def alone(self) -> AbstractContextManager[None]:
        """Return a block that does nothing: the filter's lock keeps other runs away."""
        return _ANY_BLOCK

    def size(self) -> int:
        """Count the bytes."""
        return os.fstat(self._fd).st_size

    def last(self) -> bytes:
        """Return the last byte; none of an empty file."""
        size = self.size()
        return os.pread(self._fd, 1, size - 1) if size else b""

    def read_from(self, begin: int) -> RawInput:
        """Return what is read from a byte on."""
        return _From(self._fd, begin)


class _From:
    def __init__(self, fd: int, begin: int) -> None:
        self._fd, self._at = fd, begin

    def readinto(self, buffer: Any, /) -> int:
        count = os.preadv(self._fd, [buffer], self._at)
        self._at += count
        return count


class LineWriter:
    r"""Writes lines to a raw file; nothing is buffered when `write` returns.

    If the file ends in the middle of a line, a terminator is written first, so that the next
    line starts as a line.

    Parameters
    ----------
    file : RawOutput
        The file to write to.
    terminator : bytes
        What ends a line.
    name : str, optional
        The name of the file in errors; by default that of the file object.
    existing : Existing, optional
        What is in the file. Pass it if others append to the file too; by default only what this
        object wrote counts.
    sync : callable, optional
        Forces the file to the disk. If it is passed, `write` calls it before it returns, so
        that lines are on the disk before `mmbloom.logs.dedup.dedup` marks them.

    Raises
    ------
    TypeError
        If the file has a buffer of its own, or is none.

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
                f"file is {file!r}, expected a raw file, as open(path, 'ab', buffering=0) gives"
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
            Whether the last of them ends in a terminator.

        Raises
        ------
        OSError
            If they cannot be written, or forced to the disk; some of them may be in the file,
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
        """Return a block in which no other run appends to the file, see `Existing.alone`."""
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
"""What a line is that lacks the field or member chosen, or one of them: its own key; no key; or
a line whose value there is the empty one, as that of all others that lack it."""


def require_empty(empty: object) -> None:
    """Raise `ValueError` unless this is an `Empty`."""
    if empty not in (known := get_args(Empty)):
        raise ValueError(f"empty is {empty!r}, expected one of {known}")


class Found(NamedTuple):
    """The keys of a chunk of lines.

    Attributes
    ----------
    keys : Keys
        One for each line that has a key, in order, for any call of a filter that takes several
        keys. They are views of the chunk's block, for the engine; they are no sequence.
    lacking : int
        How many lines lack the field or member, or one of them.
    kept : ndarray of bool, shape (n,), or None
        True for each line that has a key; None if all have.
    part_key : Keys or None
        Of a last line without its terminator, the key of its part, see `KeyRule.find`; None for
        all other lines, whose parts are in `keys`.
    """

    keys: Keys
    lacking: int
    kept: Bools | None
    part_key: Keys | None = None

    def known(self, seen: Filter) -> Bools:
        """Return which of the keys a filter has, or has the key of the part of.

        Parameters
        ----------
        seen : Filter
            The filter.

        Returns
        -------
        ndarray of bool
            One a key.
        """
        known = seen.contains_many(self.keys)
        return known if self.part_key is None else known | seen.contains_many(self.part_key)

    def of_lines(self, answers: Bools) -> Bools:
        """Return the answers of the keys as answers of the lines; False for one without a key.

        Parameters
        ----------
        answers : ndarray of bool
            One a key.

        Returns
        -------
        ndarray of bool, shape (n,)
            One a line.
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
            Of a key that there is, counted from 0.

        Returns
        -------
        int
            How many lines.
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
        """That part, as in "no line has the field 3, or it is empty".

        Examples
        --------
        >>> LineKeys(field=3).part, LineKeys(json_key=("a", "b")).part
        ('field 3, or it is', 'members a, b, or one is')
        """
        noun, chosen = self._chosen
        if len(chosen) == 1:
            return f"{noun} {chosen[0]!r}, or it is"
        return f"{noun}s {', '.join(map(str, chosen))}, or one is"

    @property
    def rule(self) -> str:
        r"""All that decides which bytes of a line are its key, as options of the commands.

        What the options choose is the same exactly if this is the same text: "whole lines" if
        there are none. One that is too long for the header of a filter ends in its SHA-256.

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
        """Whether all of a line decides on its key, capitals and carriage returns aside."""
        cut = self.skip_fields or self.skip_chars or self.compare_at_most is not None
        return not (self._chosen[1] or cut)

    @abstractmethod
    def _parts(self, chunk: Chunk) -> Found:
        """Find the key of the part of each line."""

    def find(self, chunk: Chunk) -> Found:
        """Find the key of each line, and which lines lack it.

        The last line of an input may have no terminator because the input was cut off within it.
        Such a line has two keys: it is known if a filter has either, and marked by the first alone.

        - `Found.keys` has the whole line, as for a line that lacks its part. So the complete line
          is still new when it comes, and the same input read again has nothing new.
        - `Found.part_key` has the key of its part, by which a repeat of a marked line is known.

        Parameters
        ----------
        chunk : Chunk
            The lines; rows without their header.

        Returns
        -------
        Found

        Raises
        ------
        ColumnError
            If columns have names, and `mmbloom.logs.rows.RowKeys.by_header` was not called.
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

    The options are applied in the order in which they stand here.

    Where the field or member chosen is missing, empty or null, the whole line is the key: so it is
    where that is one of several.

    Attributes
    ----------
    field : int or tuple of int, optional
        Take this field, counted from 1; or several, whose key is that of the tuple of them.
    separator : bytes, optional
        What separates fields; by default runs of blanks, which are space, tab and newline, as
        for awk(1): a carriage return is a part of the last field, unless ``crlf`` is set.
    json_key : str or tuple of str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays, and a dot within
        a name has a backslash before it, as in r"app\.name". Of several the key is that of the
        tuple of them. The string "5" and the number 5 are two keys. Numbers are compared as
        they are written: 1.0 and 1 are two keys. NaN is missing, as null is; a line that is nested
        too deep for Python's parser (about 990 levels) is compared whole.
    skip_fields : int
        Skip so many fields. A field is a run of blanks (as above) and the non-blanks after it.
    skip_chars : int
        Skip so many bytes.
    compare_at_most : int, optional
        Keep at most so many bytes.
    ignore_case : bool
        Take ASCII capitals for small letters.
    crlf : bool
        First leave out a carriage return at the end of the line: so lines that Windows has ended
        and those that it has not are the same.
    empty : {"whole", "skip", "key"}
        What a line is that lacks the field or member: its own key; no key; or one whose field or
        member is empty, and so the same for all of them.

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
            raise ValueError(f"field is {self.field!r}, expected a number from 1 on, or several")
        if self.separator == b"":
            raise ValueError("separator is b'', expected some bytes, or None for blanks")
        if self.json_key == ():
            raise ValueError("json_key is (), expected a name, or several")

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
    """Return a separator as an option."""
    for raw, escape in ((b"\\", rb"\\"), (b"\t", rb"\t"), (b"\0", rb"\0"), (b"\n", rb"\n")):
        separator = separator.replace(raw, escape)
    return ["-t", separator.decode("utf-8", "backslashreplace")]


def marked(keys: KeyBatch) -> Bools:
    """Check of each key whether it is a whole line, as what was asked for is missing or empty."""
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
    """Treat the lines without their part as asked for; one of several parts is enough."""
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
