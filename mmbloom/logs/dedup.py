"""Write each new line once: claim it, write it, and only then mark it as seen.

A line is written before it is marked. If a run is killed or its output fails, the next run may
repeat some lines, but no line is lost. The write lock is held from the claim to the mark, so
exactly one process writes each line.

A run uses two threads. One reads, cuts and hashes; the caller's thread claims, writes and marks,
chunk by chunk. Two alternatives were measured on two cores. A third thread, which wrote a chunk
while the next was claimed, took 6 % less time for lines of 144 bytes written to a file, and 27 %
more for lines of 14 bytes. A single call of the engine that claimed, wrote and marked six chunks
saved 4 to 18 % of the CPU time, but would have been a second implementation of code that must never
lose a line.

Power cuts are a separate case. The system writes marks to the disk whenever it likes, and a `flush`
by any process writes the marks of all, so a mark can reach the disk before its line. This cannot
happen with a sink whose `write` returns only when its lines are on the disk, such as
`mmbloom.logs.lines.LineWriter` with `sync`. With any other sink, force the output to the disk
before you flush the filter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from io import IOBase
from itertools import starmap
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from mmbloom._system.threads import ReadAhead
from mmbloom._system.typing import Octets
from mmbloom.errors import FilterFullError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.logs import outputs
from mmbloom.logs.inputs import Inputs, Keyed, check_first_lines, place_of
from mmbloom.logs.lines import Chunk, Empty, Found, KeyRule, LineKeys, LineWriter, RawInput

T = TypeVar("T")


class Sink(Protocol):
    """Where lines are written; see `mmbloom.logs.lines.LineWriter`."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Write lines with their terminators; buffer none of them in this process.

        If it returns only when the lines are on the disk, a power cut loses no line.
        """


class Discard:
    """A sink that writes nothing, for a run that only marks lines."""

    def write(self, lines: Octets, *, terminated: bool) -> None:
        """Do nothing."""


@dataclass(slots=True)
class Tally:
    """How many lines and bytes a run has processed.

    Attributes
    ----------
    lines, unique, repeated : int
        The number of lines read, and how many of them were new and not new.
    bytes : int
        The number of bytes read.
    lacking : int
        The number of lines whose field or member is missing, empty or null. The `empty` option of
        the keys decides how they are treated; lines that it skips are neither unique nor repeated.
    """

    lines: int = 0
    unique: int = 0
    repeated: int = 0
    bytes: int = 0
    lacking: int = 0

    def add(self, other: Tally) -> None:
        """Add the figures of another tally to this one."""
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
        The filter that knows the lines seen so far, in this run and in earlier ones.
    chunks : iterable of Chunk
        The lines to deduplicate.
    sink : Sink
        Receives the new lines, in order.
    keys : LineKeys or RowKeys, optional
        Selects the part of a line that is compared; by default the whole line. The filter stores
        this rule as its `key_rule`, unless it already has one.
    repeats : bool, default False
        Write the lines that are not new instead.
    repeats_to : Sink, optional
        Receives all lines that `sink` does not receive, in order.
    wait : callable, optional
        Decides how to wait for the write lock. It is called once per chunk, with a function
        `enter`. `enter` takes the number of seconds to wait for the lock (None waits forever), and
        returns the context manager of the claim. `wait` returns a context manager that enters it.
        By default each claim waits for as long as the filter's `lock_timeout`.
    tally : Tally, optional
        Receives the figures of each chunk before the chunk is marked, so they are there even after
        an error; by default a new one.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"`` and a line would take it past its
        capacity. The lines before that line are written and marked; that line and all after it are
        not.
    TypeError
        If `seen` is not an open filter, `chunks` does not yield chunks, or `sink` is a file instead
        of a sink.

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
        expected = "a sink such as mmbloom.logs.lines.LineWriter(file), with an unbuffered file"
        raise TypeError(f"sink is {sink!r}, expected {expected}")
    total = Tally() if tally is None else tally
    run = Run(seen, sink, repeats_to, repeats, wait)
    if full := run.take(Keyed(keys or LineKeys(), chunks), total):
        raise full
    return total


@contextmanager
def alone(*sinks: object) -> Iterator[None]:
    """Keep other runs from appending to the files of these sinks, for the length of a block.

    Anyone who can read an output can lock it. A run therefore waits for its outputs before it locks
    the filter, so that other runs can use the filter meanwhile. It locks its outputs in a fixed
    order: otherwise two runs with the same two outputs could wait for each other.
    """
    existing = (getattr(sink, "existing", None) for sink in sinks)
    with ExitStack() as stack:
        for one in sorted(filter(None, existing), key=lambda one: os.fstat(one.fileno())[1:3]):
            stack.enter_context(one.alone())
        yield


class Wait(Protocol):
    """How a run waits for the write lock of its filter."""

    def __call__(
        self, enter: Callable[[float | None], AbstractContextManager[T]], /
    ) -> AbstractContextManager[T]:
        """Return a context manager that calls `enter` with a timeout, and enters its result."""


class _Prepared(NamedTuple):
    """A chunk whose keys are found and hashed."""

    chunk: Chunk
    found: Found
    claim: Claim


class Stopped(NamedTuple):
    """A run that stopped because its filter is full: the error, and the name of the input."""

    full: FilterFullError
    name: str


@dataclass(slots=True)
class Run:
    r"""One run: claim, write and mark the lines of several inputs, one input after another.

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
        """Deduplicate inputs in order, each with its tally, until the filter is full.

        If the filter is full, the error is returned rather than raised, so that the caller can
        finish its outputs.
        """
        for opened, tally in inputs:
            with opened as lines:
                if full := self.take(lines, tally):
                    return Stopped(full, lines.name)
        return None

    def take(self, lines: Keyed, tally: Tally) -> FilterFullError | None:
        """Deduplicate one input, first its header and then its lines, until the filter is full."""
        if lines.head:
            locked = self.wait(self.seen.locked) if self.wait else self.seen.locked()
            # Under the lock, so that of all runs that append to a file one writes it.
            with alone(self.sink, self.repeats_to), locked:
                for sink in (self.sink, self.repeats_to):
                    outputs.begin(sink, lines.head, lines.name)
        with closing(ReadAhead(starmap(self._prepare, lines.found()))) as prepared:
            for one in prepared:
                if full := self._write_and_mark(one, lines.keys, tally):
                    return self._take_what_fits(one, lines.keys, tally, full)
        return None

    def _prepare(self, chunk: Chunk, found: Found) -> _Prepared:
        """Hash the keys without the lock, in the thread that reads."""
        return _Prepared(chunk, found, self.seen.claim(found.keys))

    def _write_and_mark(
        self, one: _Prepared, keys: KeyRule, tally: Tally
    ) -> FilterFullError | None:
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
                tally.add(Tally(len(wanted), unique, repeated, chunk.num_bytes, found.lacking))
            # The end of the block has marked the lines.
        except FilterFullError as full:
            if entered:  # it comes from the sink, which may write to a filter of its own
                raise
            return full
        return None

    def _take_what_fits(
        self, one: _Prepared, keys: KeyRule, tally: Tally, full: FilterFullError
    ) -> FilterFullError:
        """Take the first lines of a chunk that fit; return the error of the first that does not."""
        before = tally.unique
        while number := one.found.lines_before_key(
            full.fits or 0
        ):  # other processes may leave less room
            chunk = one.chunk.first(number)
            refused = self._write_and_mark(self._prepare(chunk, keys.find(chunk)), keys, tally)
            if refused is None:
                held = full.keys + tally.unique - before
                return FilterFullError(full.path, held, full.capacity, 0, full.advice)
            full = refused
        return full


Column = int | str
Path = str | os.PathLike[str]
Input = Path | RawInput
Output = Path | Any  # a raw file


def dedup_files(
    seen: Filter,
    inputs: Input | Iterable[Input],
    output: Output | None,
    *,
    key: Column | tuple[Column, ...] | None = None,
    separator: bytes | None = None,
    csv: bool = False,
    header: bool = True,
    json_key: str | tuple[str, ...] | None = None,
    empty: Empty | None = None,
    repeats_to: Output | None = None,
    durable: bool = False,
) -> Tally:
    r"""Write each line of some files that is new to a filter, and mark it as seen.

    This does what ``mmbloom dedup`` does, with the same guarantees: a line is written before it is
    marked, and when the call returns, outputs given as paths are on the disk. If an input ends in
    the middle of a line, the complete line still counts as new later; see
    `mmbloom.logs.lines.KeyRule.find`.

    Parameters
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        The filter that knows the lines seen so far, in this run and in earlier ones; open for
        writing.
    inputs : path or binary file, or an iterable of them
        The inputs, which are read in order. Files compressed with gzip, bzip2, xz or zstd are
        decompressed (zstd before Python 3.14 needs ``mmbloom[cli]``). Open files are not closed.
    output : path or raw file, optional
        Where new lines are written. A path is appended to, and compressed if it ends in .gz, .bz2,
        .xz or .zst. With None, lines are only marked.
    key : int or str, or a tuple of them, optional
        The field or fields to compare, counted from 1; with ``csv``, also names of columns.
    separator : bytes, optional
        What separates fields: by default runs of blanks, or a comma with ``csv``.
    csv : bool
        Whether the inputs are CSV; see `mmbloom.logs.rows`.
    header : bool
        With ``csv``, whether the first row of each input is a header.
    json_key : str or tuple of str, optional
        The member or members of JSON lines to compare; see `mmbloom.logs.lines.LineKeys`.
    empty : {"whole", "skip", "key"}, optional
        How to treat a line without the field, column or member; see `mmbloom.logs.lines.Empty`. By
        default the whole line is compared, and it is an error if no line has that part.
    repeats_to : path or raw file, optional
        Where all lines that ``output`` does not receive are written.
    durable : bool
        Force lines to the disk before they are marked, so that a power cut loses none. All outputs
        must be paths.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"`` and a line would take it past its
        capacity. The lines before that line are written and marked; that line and all after it are
        not. An input that was passed as an open file may have been read further.
    InputError
        If an input is damaged, has no lines, or has another header than the output; or if ``empty``
        is not given and the chosen field, column or member is missing in every line.
    MissingLibraryError
        If an input or output is compressed with zstd, and the extra is not installed.
    OSError
        If a file cannot be read or written.
    ValueError
        If options contradict each other, or an output is an input or the filter.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmbloom import BloomFilter
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.csv").write_text('id,name\n1,"Doe, Ann"\n2,"Doe, Ann"\n')
    >>> with BloomFilter.create(folder / "seen.bloom", 1000, 1e-6, seed=1) as seen:
    ...     dedup_files(seen, folder / "in.csv", folder / "new.csv", csv=True, key="name")
    Tally(lines=2, unique=1, repeated=1, bytes=26, lacking=0)
    >>> (folder / "new.csv").read_text()
    'id,name\n1,"Doe, Ann"\n'
    """
    if not isinstance(seen, Filter):
        raise TypeError(f"seen is {seen!r}, expected an open filter: call mmbloom.open_or_create")
    keys = _rule(key, separator, json_key, empty, csv=csv)
    sources = [inputs] if isinstance(inputs, str | os.PathLike | RawInput) else list(inputs)
    for source in sources:
        if not isinstance(source, str | os.PathLike | RawInput):
            raise TypeError(f"an input is {source!r}, expected a path or a binary file")
    places = [place for source in sources if (place := place_of(source)) is not None]
    written = [place for file in (output, repeats_to) if (place := place_of(file)) is not None]
    for place in written:
        outputs.refuse_overlap(place, places, seen.path)
    outputs.require_apart(written[:-1], written[1:])
    read = Inputs(keys, header=header, proven=empty is not None)

    def opened(source: Input) -> AbstractContextManager[Keyed]:
        file = os.fspath(source) if isinstance(source, os.PathLike) else source
        name = file if isinstance(file, str) else str(getattr(file, "name", "the input"))
        return read.open(file, name)

    files = (one for one in sources if isinstance(one, str | os.PathLike) and os.path.isfile(one))
    check_first_lines(map(opened, files))
    total = Tally()
    with (
        _opened(repeats_to, read.delimiter, durable) as rest,
        _opened(output, read.delimiter, durable) as sink,
    ):
        run = Run(seen, sink or Discard(), rest)
        stopped = run.over((opened(source), total) for source in sources)
    if stopped is not None:
        raise stopped.full
    return total


def _rule(
    key: Column | tuple[Column, ...] | None,
    separator: bytes | None,
    json_key: str | tuple[str, ...] | None,
    empty: Empty | None,
    *,
    csv: bool,
) -> KeyRule:
    if key is not None and json_key is not None:
        raise ValueError("key and json_key cannot be combined")
    columns = key if isinstance(key, tuple) else () if key is None else (key,)
    if csv:
        from mmbloom.logs.rows import RowKeys  # noqa: PLC0415  few runs read CSV

        if json_key is not None:
            raise ValueError("json_key is for lines of JSON: leave out json_key or csv=True")
        return RowKeys(columns, separator or b",", empty=empty or "whole")
    if named := [column for column in columns if isinstance(column, str)]:
        raise ValueError(f"key is {named[0]!r}, expected a number: column names need csv=True")
    if key is None and separator is not None:
        raise ValueError("separator applies only to fields: choose one with key")
    if key is None and json_key is None and empty not in (None, "whole"):
        raise ValueError("empty applies only to a chosen field: also give key or json_key")
    return LineKeys(
        field=cast("int | tuple[int, ...] | None", key),
        separator=separator,
        json_key=json_key,
        empty=empty or "whole",
    )


@contextmanager
def _opened(
    output: Output | None, delimiter: bytes | None, durable: bool
) -> Iterator[LineWriter | None]:
    if output is None:
        yield None
        return
    if isinstance(output, str | os.PathLike):
        path = os.fspath(output)
        with outputs.open_output(path, b"\n", delimiter=delimiter, durable=durable) as writer:
            yield writer
        return
    if durable:
        raise ValueError("durable applies only to outputs given as paths, not to open files")
    with ExitStack() as stack:
        existing, fd = None, place_of(output)
        if isinstance(fd, int) and outputs.is_appended_to(fd):
            existing = stack.enter_context(outputs.existing_in(fd, fd, delimiter))
        yield outputs.writer_to(output, b"\n", delimiter, existing=existing)
