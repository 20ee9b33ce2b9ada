"""Each line once: claim, write, and only then mark.

A run that is killed, or whose output breaks, can repeat lines when it is run again and can
never lose one: a line is handed to the output before it is marked as seen. The write lock
is kept from the claim to the mark, so of all processes one writes each line.

Two threads work at once: one reads, cuts and hashes; the caller's claims, writes and marks, chunk
by chunk. A third one that wrote a chunk while the next was claimed was tried, on two cores: lines
of 144 bytes into a file took 6 % less time with it, and lines of 14 bytes 27 % more.

Where nothing needs Python between these steps, one step of the engine does them all, for each of
these chunks in the same order, and under the same lock: what Python costs between two, 25 to 60 us
with the processor's caches full of lines, is then paid once for several.

A power cut is another matter. The system writes marks to the disk when it likes, and a `flush`
of any process those of all: a mark can be there before its line is. A sink whose `write`
returns only when its lines are on the disk, such as `mmbloom.lines.LineWriter` with `sync`,
excludes that. With any other, force the output to the disk before you flush the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from io import IOBase
from itertools import takewhile
from typing import NamedTuple, Protocol

import numpy as np

from mmbloom import _engine
from mmbloom._threads import ReadAhead
from mmbloom._typing import Bools, Octets, Spans
from mmbloom.errors import FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim, LineClaims
from mmbloom.lines import Chunk, Found, KeyRule, LineKeys, LineWriter, alone

# Chunks that are handed over at most: a few milliseconds' work. With eight, lines of 144 bytes that
# were known took a tenth longer than with one, and with five or six as long.
_TOGETHER = 6


class Sink(Protocol):
    """Where lines go; see `mmbloom.lines.LineWriter`."""

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
        Enters a claim, giving its answers; by default each waits for the write lock as long as
        the filter does. Chunks that are done in one step, for which the lock was free, enter none.
    tally : Tally, optional
        Gets the figures chunk by chunk, so that they are known after an error too; by default
        a new one. What interrupts a run as soon as chunks are marked leaves these out.

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
    >>> from mmbloom.lines import read_chunks
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
        expected = "a sink such as mmbloom.lines.LineWriter(file), of a file without a buffer"
        raise TypeError(f"sink is {sink!r}, expected {expected}")
    total = Tally() if tally is None else tally
    run = _Run(seen, sink, repeats_to, keys or LineKeys(), repeats, enter, total)
    if type(sink) is LineWriter and not repeats and repeats_to is None:
        run.plain_sink = sink
    with closing(ReadAhead(run.prepare_all(chunks))) as prepared:
        for group in prepared:
            try:
                run.take(group)
            except _DoesNotFitError as error:
                raise run.fill(error.one, error.full) from None
    return run.total


class _DoesNotFitError(Exception):
    """A claim that was not entered, as its keys go past the plan; not an error of the sink's."""

    def __init__(self, one: _Prepared, full: FilterFullError) -> None:
        super().__init__(full)
        self.one, self.full = one, full


class _Prepared(NamedTuple):
    """A chunk, of which all is done that needs no lock."""

    chunk: Chunk
    claim: Claim
    found: Found

    def is_plain(self) -> bool:
        """Tell whether there are lines, and each has a key, and is ended."""
        return self.found.kept is None and self.chunk.terminated and len(self.chunk.starts) > 0


class _Group(NamedTuple):
    """Chunks that are handed over together."""

    chunks: list[_Prepared]
    plain: LineClaims | None  # of the first of them, as far as one step may do them
    tallies: list[Tally]  # of none of these, of the first one, of the first two, and so on

    @classmethod
    def of(cls, chunks: list[_Prepared]) -> _Group:
        """Do for some chunks what needs not be done between two of them."""
        work, tallies = list[tuple[Claim, Spans]](), [Tally()]
        for one in takewhile(_Prepared.is_plain, chunks):
            chunk, number = one.chunk, len(one.chunk)
            work.append((one.claim, (chunk.octets, chunk.starts, chunk.ends)))
            tally = Tally(number, 0, number, chunk.num_bytes, one.found.lacking)
            tally.add(tallies[-1])
            tallies.append(tally)
        return cls(chunks, LineClaims.of(work) if work else None, tallies)


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
    plain_sink: LineWriter | None = None  # the sink, if new lines go there and others nowhere
    noted: bool = False  # whether the filter says how lines become its keys

    def prepare_all(self, chunks: Iterable[Chunk]) -> Iterator[_Group]:
        """Find the keys of chunks, and give those together of which none waits for another."""
        group: list[_Prepared] = []
        try:
            for chunk in chunks:
                group.append(self.prepare(chunk))
                if not chunk.followed or len(group) == _TOGETHER:
                    ready, group = group, []
                    yield _Group.of(ready)
        except BaseException:
            if group:  # what was before it is done
                yield _Group.of(group)
            raise
        if group:
            yield _Group.of(group)

    def prepare(self, chunk: Chunk) -> _Prepared:
        """Find the keys, and hash them; unlocked."""
        if not isinstance(chunk, Chunk):
            raise TypeError(
                f"chunks gives {chunk!r:.80}, expected chunks of lines: pass "
                "mmbloom.lines.read_chunks(file), of a file that was opened with 'rb'"
            )
        found = self.select.find(chunk)
        return _Prepared(chunk, self.seen.claim(found.keys), found)

    def take(self, group: _Group) -> None:
        """Claim each chunk, write the lines that are wanted, and mark it."""
        while left := group.chunks[(done := self.take_at_once(group)) :]:
            if not done:
                self.take_in_steps(left.pop(0))
            group = _Group.of(left)

    def take_at_once(self, group: _Group) -> int:
        """Do so in one step; tells with how many chunks that is done, from the first one on."""
        if self.plain_sink is None or not self.noted or group.plain is None:
            return 0
        return group.plain.write_new(_PlainSink(self, self.plain_sink, group))

    def take_in_steps(self, one: _Prepared) -> None:
        """Do so step by step, in the block of a claim."""
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
                if not self.noted:
                    if unique:
                        self.seen.note_key_rule(self.select.rule)
                    self.noted = self.seen.key_rule is not None
                chunk, wanted = one.chunk, one.found.of_lines(~new if self.repeats else new)
                self.sink.write(chunk.where(wanted), terminated=chunk.terminated)
                if self.repeats_to is not None:
                    self.repeats_to.write(chunk.where(~wanted), terminated=chunk.terminated)
                self.count(one, len(new), unique)
        except FilterFullError as full:
            if entered:
                raise
            raise _DoesNotFitError(one, full) from None

    def count(self, one: _Prepared, keys: int, unique: int) -> None:
        """Add what went through with a chunk to the total."""
        through = len(one.chunk), unique, keys - unique, one.chunk.num_bytes, one.found.lacking
        self.total.add(Tally(*through))

    def fill(self, one: _Prepared, full: FilterFullError) -> FilterFullError:
        """Take the first lines of a chunk that fit; gives the error of the first that does not."""
        before = self.total.unique
        while number := one.found.first(full.fits or 0):  # other processes may leave less room
            try:
                self.take(_Group.of([self.prepare(one.chunk.first(number))]))
            except _DoesNotFitError as error:
                full = error.full
            else:
                held = full.keys + self.total.unique - before
                return FilterFullError(full.path, held, full.capacity, 0, full.advice)
        return full


@dataclass(slots=True)
class _PlainSink:
    """The sink of a run, for chunks that are done in one step."""

    run: _Run
    sink: LineWriter
    group: _Group

    def output(self) -> _engine.Output | None:
        """Give its file, if lines can be written to it as they are."""
        return self.sink.output()

    def count(self, chunks: int, unique: int) -> None:
        """Add the first chunks to the total."""
        done = self.group.tallies[chunks]
        repeated = done.lines - unique
        self.run.total.add(Tally(done.lines, unique, repeated, done.bytes, done.lacking))

    def finish(self, number: int, new: Bools, written: int) -> None:
        """Write what is left of the new lines of a chunk."""
        one = self.group.chunks[number]
        self.sink.finish(one.chunk.where(new), written)
        self.run.count(one, len(new), int(np.count_nonzero(new)))
