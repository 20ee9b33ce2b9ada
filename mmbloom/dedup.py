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
returns only when its lines are on the disk, such as `mmbloom.lines.LineWriter` with `sync`,
excludes that. With any other, force the output to the disk before you flush the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from io import IOBase
from typing import NamedTuple, Protocol

import numpy as np

from mmbloom._threads import ReadAhead
from mmbloom._typing import Bools, Octets
from mmbloom.errors import FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.lines import Chunk, Found, KeyRule, LineKeys, alone


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
                "mmbloom.lines.read_chunks(file), of a file that was opened with 'rb'"
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
