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


@contextmanager
def alone(*sinks: object) -> Iterator[None]:
    """Make a block in which no other run appends to the files of some sinks, for a filter's lock.

    Whoever may read an output can lock it. So a run waits for its outputs before it locks the
    filter, and other runs with that go on. It waits for them in one order, as two runs with the
    same two outputs would otherwise wait for each other.
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

    It does what ``mmbloom dedup`` does, with the same guarantees: a line is written before it is
    marked, and outputs that are paths are on the disk when this returns. If an input ends within a
    line, the complete line is still new when it comes, see `mmbloom.logs.lines.KeyRule.find`.

    Parameters
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        What was seen before, in this run or any other; open for writing.
    inputs : path or binary file, or an iterable of them
        Read in order. What gzip, bzip2, xz or zstd compressed is decompressed (zstd before Python
        3.14 with ``mmbloom[cli]``). A file that is open stays open.
    output : path or raw file, optional
        A path is appended to, and compressed if it ends in .gz, .bz2, .xz or .zst. None: lines
        are only marked.
    key : int or str, or a tuple of them, optional
        The field that is compared, counted from 1, or several; with ``csv`` also names of columns.
    separator : bytes, optional
        What separates fields: by default runs of blanks, with ``csv`` a comma.
    csv : bool
        Whether the inputs are CSV, see `mmbloom.logs.rows`.
    header : bool
        With ``csv``: whether the first row of each input is its header.
    json_key : str or tuple of str, optional
        The member of lines of JSON that is compared, or several, see `mmbloom.logs.lines.LineKeys`.
    empty : {"whole", "skip", "key"}, optional
        What to do with a line without the field, column or member, see `mmbloom.logs.lines.Empty`.
        By default it is compared whole, and it is an error if no line has that part.
    repeats_to : path or raw file, optional
        Gets the lines that ``output`` does not get.
    durable : bool
        Force lines to the disk before they are marked, so that a power cut loses none. For
        outputs that are files.

    Returns
    -------
    Tally

    Raises
    ------
    FilterFullError
        If the filter was opened with ``on_full="raise"``, at the first line that goes past its
        plan: all lines before it are done, and none after it. An input that is open may have been
        read further.
    InputError
        If an input is damaged, has no lines, or has another header than the output; or if none of
        its lines has its key, and ``empty`` is not given.
    MissingLibraryError
        If an input or an output is compressed by zstd, and the extra is not installed.
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
            raise TypeError(f"an input is {source!r}, expected a path, or a binary file")
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
            raise ValueError("json_key is for lines of JSON: leave it out, or csv=True")
        return RowKeys(columns, separator or b",", empty=empty or "whole")
    if named := [column for column in columns if isinstance(column, str)]:
        raise ValueError(f"key is {named[0]!r}: names of columns are for csv=True")
    if key is None and separator is not None:
        raise ValueError("separator is what separates fields: choose one with key")
    if key is None and json_key is None and empty not in (None, "whole"):
        raise ValueError("empty is for lines without a field or member: choose it with key")
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
        raise ValueError("durable is for outputs that are paths: a file that is open is not synced")
    with ExitStack() as stack:
        existing, fd = None, place_of(output)
        if isinstance(fd, int) and outputs.is_appended_to(fd):
            existing = stack.enter_context(outputs.existing_in(fd, fd, delimiter))
        yield outputs.writer_to(output, b"\n", delimiter, existing=existing)
