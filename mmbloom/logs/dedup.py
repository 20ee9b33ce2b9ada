"""Each line once: claim, write, and only then mark.

A run that is killed, or whose output breaks, can repeat lines when it is run again and can
never lose one: a line is handed to the output before it is marked as seen. The write lock
is kept from the claim to the mark, so of all processes one writes each line.

Two threads work at once: one reads, cuts and hashes; the caller's claims, writes and marks, chunk
by chunk. Two other ways were tried on two cores. A third thread that wrote a chunk while the next
was claimed made a run of lines of 144 bytes into a file 6 % shorter, and one of lines of 14 bytes
27 % longer. One call of the engine that claimed, wrote and marked six chunks saved 4 to 18 % of the
CPU time, and was a second way to do what must never lose a line.

A power cut is another matter. The system writes marks to the disk when it likes, and a `flush`
of any process those of all: a mark can be there before its line is. A sink whose `write`
returns only when its lines are on the disk, such as `mmbloom.logs.lines.LineWriter` with `sync`,
excludes that. With any other, force the output to the disk before you flush the filter.

The lines of an input with what finds their keys: plain lines, or rows of CSV under a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from io import IOBase
from typing import NamedTuple, Protocol

import numpy as np

from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Bools, Octets
from mmbloom.errors import ColumnError, FilterFullError, InputError, OpenQuoteError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.logs.lines import Chunk, Found, KeyRule, LineKeys, RawInput, alone, read_chunks
from mmbloom.logs.text import NoLinesError


class Sink(Protocol):
    """Where lines go; see `mmbloom.logs.lines.LineWriter`."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines with their terminators; when it returns they are out of this process.

        If it returns only when they are on the disk, a power cut loses no line.
        """


class Discard:
    """A sink for a run that only marks lines."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Tally:
    """What went through.

    Attributes
    ----------
    lines, unique, repeated : int
        Lines read; of these new, and not new.
    bytes : int
        Bytes read.
    lacking : int
        Lines in which the field or member asked for is missing, empty or null: what was done with
        them `empty` says, an option of the keys. Those that were skipped are neither unique nor
        repeated.
    """

    lines: int = 0
    unique: int = 0
    repeated: int = 0
    bytes: int = 0
    lacking: int = 0

    def add(self, other: Tally) -> None:
        """Add the figures of another run."""
        self.lines += other.lines
        self.unique += other.unique
        self.repeated += other.repeated
        self.bytes += other.bytes
        self.lacking += other.lacking


def dedup(
    seen: Filter,
    chunks: Iterable[Chunk],
    sink: Sink,
    *,
    keys: KeyRule | None = None,
    repeats: bool = False,
    repeats_to: Sink | None = None,
    enter: Callable[[Claim], AbstractContextManager[Bools]] | None = None,
    tally: Tally | None = None,
) -> Tally:
    r"""Write each line that is new to the filter, and mark it as seen.

    Parameters
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        What was seen before, in this run or any other.
    chunks : iterable of Chunk
        The lines.
    sink : Sink
        Gets the lines in order.
    keys : LineKeys or RowKeys, optional
        Which part of a line counts; all of it by default. The filter notes that as its
        `key_rule`, unless it has one.
    repeats : bool, default False
        Write the lines that are not new instead.
    repeats_to : Sink, optional
        Gets the lines that `sink` does not get, in order: so each line goes to one of the two.
    enter : callable, optional
        Enters the claim of each chunk and yields its answers; by default each claim waits for the
        write lock as long as the filter does.
    tally : Tally, optional
        Gets the figures of each chunk before it is marked, so that they are known after an error
        too; by default a new one.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"``, at the first line that goes past its
        plan: all lines before it are done, and none after it.
    TypeError
        If `seen` is no open filter, `chunks` gives no chunks, or `sink` is a file and no sink.

    Examples
    --------
    >>> import io, os, sys, tempfile
    >>> from mmbloom import BloomFilter
    >>> from mmbloom.logs.lines import read_chunks
    >>> class Print:
    ...     def write(self, lines, *, terminated):
    ...         print(lines.tobytes())
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     dedup(seen, read_chunks(io.BytesIO(b"a\nb\na\n")), Print())
    b'a\nb\n'
    Tally(lines=3, unique=2, repeated=1, bytes=6, lacking=0)
    """
    if not isinstance(seen, Filter):
        raise TypeError(f"seen is {seen!r}, expected an open filter: mmbloom.open(path)")
    if isinstance(sink, IOBase) or not hasattr(sink, "write"):
        expected = "a sink such as mmbloom.logs.lines.LineWriter(file), of a file without a buffer"
        raise TypeError(f"sink is {sink!r}, expected {expected}")
    total = Tally() if tally is None else tally
    run = _Run(seen, sink, repeats_to, keys or LineKeys(), repeats, enter, total)
    with closing(ReadAhead(map(run.prepare, chunks))) as prepared:
        for one in prepared:
            if full := run.take(one):
                raise run.fill(one, full)
    return total


class _Prepared(NamedTuple):
    """A chunk whose keys are found and hashed."""

    chunk: Chunk
    claim: Claim
    found: Found


@dataclass(slots=True)
class _Run:
    """What `dedup` was called with, and what it does with a chunk."""

    seen: Filter
    sink: Sink
    repeats_to: Sink | None
    select: KeyRule
    repeats: bool
    enter: Callable[[Claim], AbstractContextManager[Bools]] | None
    total: Tally
    noted: bool = False  # whether the filter says how lines become its keys

    def prepare(self, chunk: Chunk) -> _Prepared:
        """Find the keys and hash them, without the lock, in the thread that reads."""
        if not isinstance(chunk, Chunk):
            raise TypeError(
                f"chunks gives {chunk!r:.80}, expected chunks of lines: pass "
                "mmbloom.logs.lines.read_chunks(file), of a file that was opened with 'rb'"
            )
        found = self.select.find(chunk)
        return _Prepared(chunk, self.seen.claim(found.keys), found)

    def take(self, one: _Prepared) -> FilterFullError | None:
        """Claim a chunk, write the lines that are wanted, and mark it.

        Returns the error of a claim that does not fit into the plan: nothing is done then.
        """
        entered = False
        try:
            with (
                alone(self.sink, self.repeats_to),
                self.enter(one.claim) if self.enter else one.claim as new,
            ):
                entered = True
                if one.found.part_key is not None:
                    new = new & ~self.seen.contains_many(one.found.part_key)  # noqa: PLW2901
                unique = int(np.count_nonzero(new))
                if unique and not self.noted:
                    self.seen.note_key_rule(self.select.rule)
                    self.noted = True
                chunk, wanted = one.chunk, one.found.of_lines(~new if self.repeats else new)
                self.sink.write(chunk.where(wanted), terminated=chunk.terminated)
                if self.repeats_to is not None:
                    self.repeats_to.write(chunk.where(~wanted), terminated=chunk.terminated)
                repeated, lacking = len(new) - unique, one.found.lacking
                self.total.add(Tally(len(chunk), unique, repeated, chunk.num_bytes, lacking))
        except FilterFullError as full:
            if entered:  # of the sink's own filter
                raise
            return full
        return None

    def fill(self, one: _Prepared, full: FilterFullError) -> FilterFullError:
        """Take the first lines of a chunk that fit; return the error of the first that does not."""
        before = self.total.unique
        while number := one.found.first(full.fits or 0):  # other processes may leave less room
            refused = self.take(self.prepare(one.chunk.first(number)))
            if refused is None:
                held = full.keys + self.total.unique - before
                return FilterFullError(full.path, held, full.capacity, 0, full.advice)
            full = refused
        return full


_NO_ESCAPE = (
    r"""has \" within quotes: if that is an escaped quote, as Spark and MySQL write it, rows are """
    r"""read as one, and dropped with it, as CSV doubles quotes: convert it with sed 's/\\"/""/g'"""
)
_FEW = 50  # first lines of a pipe that show too little, as it may bring them one by one
_OF_CSV = (b",", b";")  # separators of files in which quotes have a meaning


class Keyed(NamedTuple):
    """The lines of one input.

    Attributes
    ----------
    keys : KeyRule
        What finds their keys, by the header of this input.
    head : bytes
        What comes before them, as it came: a header, a byte order mark; b"" of plain lines.
    chunks : iterator of Chunk
        The lines.
    """

    keys: KeyRule
    head: bytes
    chunks: Iterator[Chunk]


class NoPartError(InputError):
    """No line of an input has the field or member that is asked for."""


@dataclass
class Proof:
    """Whether a line of a run had the part that is its key: then its name or number is right.

    Attributes
    ----------
    found : bool
        True from the beginning if nobody asks for that proof.
    """

    found: bool


def lines_of(
    source: RawInput,
    name: str,
    keys: KeyRule,
    *,
    terminator: bytes = b"\n",
    header: bool = True,
    proof: Proof,
    is_file: bool,
    warn: Callable[[str], None] | None = None,
) -> Keyed:
    """Cut an input into lines, or rows where the keys are of rows.

    Parameters
    ----------
    source : RawInput
        The input.
    name : str
        What errors call it.
    keys : KeyRule
        What finds keys.
    terminator : bytes
        What ends a line.
    header : bool
        Whether the first row is one.
    proof : Proof
        What is known of the run.
    is_file : bool
        Whether the input is there as a whole, so that its first lines are no accident.
    warn : callable, optional
        Called once, with a sentence, if fields are split within quotes, or quotes have a backslash
        before them.

    Raises
    ------
    InputError
        If the header has no such column; while it is read, if it is text that has no lines, or if
        a quote is never closed. If no line has its key, before the first line of a file is given,
        or 50 lines of another input, or at the end.
    """
    enough = 1 if is_file else _FEW
    if isinstance(keys, LineKeys):
        chunks = _named(read_chunks(source, terminator), name)
        if warn is not None and keys.separator in _OF_CSV:
            said = "has quotes: fields are split within them; read it as CSV (--csv)"
            chunks = _warning_of(_first_quote, said, chunks, f"{name}: line", warn)
        return Keyed(keys, b"", _with_part(chunks, keys, name, proof, enough))
    from mmbloom.logs.rows import BOM, RowKeys, names_in, read_rows, split_head  # noqa: PLC0415  for CSV only

    assert isinstance(keys, RowKeys)  # noqa: S101  there are these two
    rows = _named(read_rows(source, keys.delimiter), name)
    if warn is not None:
        first = partial(_first_escape, delimiter=keys.delimiter)
        rows = _warning_of(first, _NO_ESCAPE, rows, f"{name}: row", warn)
    head, rows = split_head(rows, header=header)
    if header and head.removeprefix(BOM):
        try:
            keys = keys.by_header(head)
        except ColumnError as error:
            raise InputError(f"{name}: {error}") from None
        columns = len(names_in(head, keys.delimiter))
        if all(isinstance(one, str) or one <= columns for one in keys.columns):
            return Keyed(keys, head, rows)  # a column of the header may be empty in each row
    return Keyed(keys, head, _with_part(rows, keys, name, proof, enough))


def check_first_lines(inputs: Iterable[AbstractContextManager[Keyed]]) -> None:
    """Cut inputs up to their first lines; fail if one has none, or no line of any has its key."""
    failed, proven = None, False
    for one in inputs:
        try:
            with one as lines:
                first = next(lines.chunks, None)
            proven = proven or (first is not None and first.terminated)
        except NoPartError as error:
            failed = failed or error
    if failed is not None and not proven:
        raise failed


def begin(sink: Sink | None, head: bytes, name: str) -> None:
    """Write the header of an input to an output, unless that has it; nothing where none is kept."""
    from mmbloom.logs.rows import RowWriter  # noqa: PLC0415  for CSV only

    if isinstance(sink, RowWriter):
        try:
            sink.begin(head)
        except ColumnError as error:
            raise InputError(f"{name}: {error}") from None


def dedup_lines(
    seen: Filter,
    lines: Keyed,
    name: str,
    sink: Sink,
    *,
    repeats: bool = False,
    repeats_to: Sink | None = None,
    locked: Callable[[], AbstractContextManager[object]] | None = None,
    enter: Callable[[Claim], AbstractContextManager[Bools]] | None = None,
    tally: Tally,
) -> None:
    """Deduplicate one input: its header first, then its lines; see `mmbloom.logs.dedup.dedup`.

    Parameters
    ----------
    locked : callable, optional
        Takes the write lock, as `enter` does for a claim.
    """
    if lines.head:
        # Under the lock, so that of all runs that append to a file one writes it.
        with alone(sink, repeats_to), (locked or seen.locked)():
            for one in (sink, repeats_to):
                begin(one, lines.head, name)
    dedup(
        seen,
        lines.chunks,
        sink,
        keys=lines.keys,
        repeats=repeats,
        repeats_to=repeats_to,
        enter=enter,
        tally=tally,
    )


def _named(chunks: Iterator[Chunk], name: str) -> Iterator[Chunk]:
    try:
        yield from chunks
    except OpenQuoteError as error:
        raise InputError(
            f"{name}: {error}: correct that row, or read the file as lines if it is not CSV"
        ) from None
    except NoLinesError as error:
        raise NoLinesError(f"{name}: {error}") from None


def _with_part(
    chunks: Iterator[Chunk], keys: KeyRule, name: str, proof: Proof, enough: int
) -> Iterator[Chunk]:
    """Refuse an input of which no line has its key, at once if `enough` lines come first.

    A line without its end may be half a line, and shows nothing.
    """
    given = 0
    for chunk in chunks:
        if not proof.found:
            parts = (chunk.first(_FEW), chunk)
            proof.found = any(keys.find(part).lacking < len(part) for part in parts)
            if not (proof.found or given) and chunk.terminated and len(chunk) >= enough:
                raise _no_part(keys, name)
            given += len(chunk) * chunk.terminated
        yield chunk
    if given and not proof.found:
        raise _no_part(keys, name)


def _no_part(keys: KeyRule, name: str) -> NoPartError:
    return NoPartError(
        f"{name}: no line has the {keys.part} empty: choose another one or, if it is right, say "
        'what to do with such lines, such as empty="whole" (--empty whole)'
    )


def _first_quote(data: bytes) -> int:
    return data.find(b'"')


def _first_escape(data: bytes, delimiter: bytes) -> int:
    r"""Return where a quote follows a backslash that RFC 4180 has not there; -1 if none does.

    A field of RFC 4180 may end in a backslash, or have one before a quote of its own, which is
    doubled: so has JSON within CSV. There a delimiter, a quote or the end of the row follows. If
    it is a quote, and after that the field seems to end, the next quote tells: a newline comes
    before it, or what follows it is neither another quote nor the end of a field.
    """
    if b"\\" not in data:  # which takes a tenth of the time
        return -1
    ends = re.escape(delimiter) + rb"\r\n"
    found = re.search(rb'\\"(?:[^"%b]|"[%b][^"\n]*(?:\n|"[^"%b]))' % (ends, ends, ends), data)
    return found.start() if found else -1


def _warning_of(
    first: Callable[[bytes], int],
    said: str,
    chunks: Iterator[Chunk],
    place: str,
    warn: Callable[[str], None],
) -> Iterator[Chunk]:
    """Warn of the line of an input in which something is found first."""
    lines, looks = 0, True
    for chunk in chunks:
        if looks:
            begins = int(chunk.starts[0])
            at = first(chunk.octets[begins : chunk.ends[-1] + chunk.terminated].tobytes())
            if at >= 0:
                looks = False
                number = lines + int((chunk.ends < begins + at).sum()) + 1
                warn(f"{place} {number} {said}")
        lines += len(chunk)
        yield chunk
