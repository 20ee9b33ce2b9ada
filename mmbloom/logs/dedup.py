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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from io import IOBase
from itertools import starmap
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Octets
from mmbloom.errors import FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.logs.inputs import Keyed
from mmbloom.logs.lines import Chunk, Found, KeyRule, LineKeys, alone
from mmbloom.logs.outputs import begin

T = TypeVar("T")


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
    wait: Wait | None = None,
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
    wait : callable, optional
        Called for each chunk with a function that takes a number of seconds, None for ever, and
        returns the claim to enter; returns a context that enters it. By default each claim waits
        for the write lock as long as the filter does.
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
    run = Run(seen, sink, repeats_to, repeats, wait)
    if full := run.take(Keyed(keys or LineKeys(), chunks), total):
        raise full
    return total


class Wait(Protocol):
    """How a run waits for the write lock of its filter."""

    def __call__(
        self, enter: Callable[[float | None], AbstractContextManager[T]], /
    ) -> AbstractContextManager[T]:
        """Return a context that enters what `enter` returns for a number of seconds."""


class _Prepared(NamedTuple):
    """A chunk whose keys are found and hashed."""

    chunk: Chunk
    found: Found
    claim: Claim


class Stopped(NamedTuple):
    """The error of a filter that is full, and the name of the input in which it stopped a run."""

    full: FilterFullError
    name: str


@dataclass(slots=True)
class Run:
    r"""One run: lines of inputs are claimed, written and marked, one input after the other.

    Parameters
    ----------
    seen, sink, repeats_to, repeats, wait
        As for `dedup`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmbloom import BloomFilter
    >>> from mmbloom.logs.inputs import Inputs
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.log").write_text("a\nb\na\n")
    >>> inputs, tally = Inputs(LineKeys()), Tally()
    >>> with BloomFilter.create(folder / "seen.bloom", 1000, seed=1) as seen:
    ...     Run(seen, Discard()).over([(inputs.open(str(folder / "a.log"), "a.log"), tally)])
    >>> tally
    Tally(lines=3, unique=2, repeated=1, bytes=6, lacking=0)
    """

    seen: Filter
    sink: Sink
    repeats_to: Sink | None = None
    repeats: bool = False
    wait: Wait | None = None
    _noted: bool = False  # whether the filter says how lines become its keys

    def over(self, inputs: Iterable[tuple[AbstractContextManager[Keyed], Tally]]) -> Stopped | None:
        """Deduplicate inputs one after the other, each with its tally, up to a full filter.

        A full filter is returned, not raised: the caller still has its outputs to complete.
        """
        for opened, tally in inputs:
            with opened as lines:
                if full := self.take(lines, tally):
                    return Stopped(full, lines.name)
        return None

    def take(self, lines: Keyed, tally: Tally) -> FilterFullError | None:
        """Deduplicate one input: its header first, then its lines, up to a full filter."""
        if lines.head:
            locked = self.wait(self.seen.locked) if self.wait else self.seen.locked()
            # Under the lock, so that of all runs that append to a file one writes it.
            with alone(self.sink, self.repeats_to), locked:
                for sink in (self.sink, self.repeats_to):
                    begin(sink, lines.head, lines.name)
        with closing(ReadAhead(starmap(self._prepare, lines.found()))) as prepared:
            for one in prepared:
                if full := self._mark(one, lines.keys, tally):
                    return self._fill(one, lines.keys, tally, full)
        return None

    def _prepare(self, chunk: Chunk, found: Found) -> _Prepared:
        """Hash the keys without the lock, in the thread that reads."""
        return _Prepared(chunk, found, self.seen.claim(found.keys))

    def _mark(self, one: _Prepared, keys: KeyRule, tally: Tally) -> FilterFullError | None:
        """Claim a chunk, write the lines that are wanted, and mark it.

        Returns the error of a claim that does not fit into the plan: nothing is done then.
        """
        chunk, found, claim = one
        entered = False
        try:
            with (
                alone(self.sink, self.repeats_to),
                self.wait(claim.within) if self.wait else claim as new,
            ):
                entered = True
                if found.part_key is not None:
                    new = new & ~self.seen.contains_many(found.part_key)  # noqa: PLW2901
                unique = int(np.count_nonzero(new))
                if unique and not self._noted:
                    self.seen.note_key_rule(keys.rule)
                    self._noted = True
                wanted = found.of_lines(~new if self.repeats else new)
                self.sink.write(chunk.where(wanted), terminated=chunk.terminated)
                if self.repeats_to is not None:
                    self.repeats_to.write(chunk.where(~wanted), terminated=chunk.terminated)
                repeated = len(new) - unique
                tally.add(Tally(len(chunk), unique, repeated, chunk.num_bytes, found.lacking))
        except FilterFullError as full:
            if entered:  # of the sink's own filter
                raise
            return full
        return None

    def _fill(
        self, one: _Prepared, keys: KeyRule, tally: Tally, full: FilterFullError
    ) -> FilterFullError:
        """Take the first lines of a chunk that fit; return the error of the first that does not."""
        before = tally.unique
        while number := one.found.first(full.fits or 0):  # other processes may leave less room
            chunk = one.chunk.first(number)
            refused = self._mark(self._prepare(chunk, keys.find(chunk)), keys, tally)
            if refused is None:
                held = full.keys + tally.unique - before
                return FilterFullError(full.path, held, full.capacity, 0, full.advice)
            full = refused
        return full
