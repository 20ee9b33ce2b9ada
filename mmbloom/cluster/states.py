"""The state of a filter in slices, which outlives its tasks: a run makes its next generation.

A cluster's engine runs a task again after it has lost a worker, or runs it twice to be faster.
Setting a bit twice is harmless, but an answer must not change: a key that yesterday's attempt has
marked would not be new today. So nothing is marked in place. A task reads a slice of generation g,
which never changes, and writes one of g + 1. The caller writes the new rows, and the commit makes
the record of g + 1. Until then g is the state, and a rerun returns the same rows.

A record is made by a step that fails if the record exists, and it never changes: so exactly one of
two runs commits, and the other gets an error.

Past its capacity a filter reports new rows as seen, and they are lost. So a run that goes past it
is refused: by a task if its slice alone shows it, before the engine has all rows; otherwise by the
commit, which sees all slices.
"""

from __future__ import annotations

import errno
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict, Unpack, get_args

from mmbloom._storage.warnings import warn_past_plan
from mmbloom._system.threads import signals_deferred
from mmbloom._system.typing import Bools, HashName, PastPlan, Path, Words
from mmbloom.cluster.places import At, Place, place_of
from mmbloom.cluster.slices import Slice, SlicePlan, assemble, header_of
from mmbloom.errors import (
    CommitConflictError,
    FileChangedError,
    FilterFullError,
    FormatError,
    ParameterMismatchError,
)
from mmbloom.filters.options import choose_params, not_asked, require_equal
from mmbloom.format.slices import (
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    NO_RUN,
    Record,
    SliceHeader,
    decode_record,
    encode_record,
    folder_name,
    generation_of_folder,
    generation_of_record,
    part_name,
    record_name,
    slice_name,
)
from mmbloom.sizing import Fill
from mmbloom.sizing.params import FilterParams

# Records are kept for so many generations: otherwise a driver that stood still within its commit
# could make a record that was there before, and believe that its run was committed.
_RECORDS_KEPT = 1000

_FEW_FALSE = 1e-9  # the default error rate: a false positive is a row that nobody gets

# Keys fall on slices by chance: in a filter at its capacity one slice in 10**9 has so many standard
# deviations more keys than its share.
_SPREADS = 6

_WHEN_FULL = (
    "drop the rows of this run, and run it again on a new state of a larger capacity, after the "
    "rows of all earlier runs; or accept that new rows are lost, with on_full='warn'"
)


@dataclass(frozen=True)
class Generations:
    """The state of a filter in slices: a folder that hosts share, or a prefix of an object store.

    Made by `create` or `open`. `begin` returns a run, which makes the next generation.

    Attributes
    ----------
    path : str
        Where it is: an absolute path, or a URL.
    plan : SlicePlan
        How the filter is cut; its seed was drawn when the state was made.

    Notes
    -----
    A value: it holds nothing open, it pickles, and any thread and process may use it. It reads the
    newest generation from the store at each call. The slices of the newest generation and of the
    one before are kept: late tasks of the last run read the older one, and `begin` can repeat that
    run. They take the disk space of two filters, or of three during a run.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmbloom.cluster import Generations
    >>> where = os.path.join(tempfile.mkdtemp(), "seen")
    >>> state = Generations.create(where, 100_000, slices=2)
    >>> run = state.begin()
    >>> parts = run.plan.partition(["a", "b", "a"])
    >>> new = [run.claim(number, [part[1:]]) for number, part in enumerate(parts)]
    >>> run.commit()
    >>> state.generation
    1
    """

    path: str
    plan: SlicePlan
    _records: Records = field(repr=False)

    @classmethod
    def create(
        cls,
        path: Path,
        capacity: int | None = None,
        error_rate: float | None = None,
        *,
        slices: int | None = None,
        seed: int | None = None,
        hash: HashName | None = None,
        exist_ok: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        choose_slices: Callable[[FilterParams], int] | None = None,
    ) -> Generations:
        """Make a state without keys, generation 0, or open an existing one.

        Parameters
        ----------
        path : str or path-like, or URL
            A folder, which is made if it does not exist, or a prefix of an object store. URLs need
            the extra "cluster", and fsspec's library for the store.
        capacity, error_rate, seed, hash
            As for `BloomFilter.create`, but the error rate is 1e-9 by default, as a false positive
            is a lost row. The seed is drawn here, once for all runs and hosts.
        slices : int, optional
            How many slices the filter has.
        exist_ok : bool, default False
            Open an existing state if it has these parameters. Those that are left out, even the
            capacity, are not compared.
        storage_options : mapping, optional
            Options of fsspec, for a URL. A run carries them to its tasks.
        choose_slices : callable, optional
            As for `SlicePlan.draw`: returns how many slices a new state has, if ``slices`` is left
            out.

        Returns
        -------
        Generations

        Raises
        ------
        FileExistsError
            If a state exists, and `exist_ok` is not set.
        FileNotFoundError
            If none exists, `exist_ok` is set and the capacity is left out.
        ParameterMismatchError
            If it has other parameters, or another number of slices.
        FormatError
            If its record is damaged.
        ValueError, TypeError
            If a parameter is out of range.
        ImportError
            If the path is a URL, and fsspec is not installed.
        OSError
            If the store cannot refuse to make a record twice, which commits rely on; or if the
            system reports an error.
        """
        place = place_of(path, storage_options)
        if newest_in(place) is None:
            if capacity is None and exist_ok:
                said = "no state of generations is there; pass a capacity to make one"
                raise FileNotFoundError(errno.ENOENT, said, place.path)
            plan = SlicePlan.draw(
                capacity,
                _FEW_FALSE if error_rate is None else error_rate,
                slices=slices,
                seed=seed,
                hash=hash,
                choose_slices=choose_slices,
            )
            first = Record(os.urandom(16), 0, NO_RUN, NO_RUN, plan.params, plan.slices)
            place.prepare()
            records = Records(place.path, first.uuid, storage_options)
            with suppress(FileExistsError):  # by another driver meanwhile
                records.make(first)
                records.require_refusal(first)
                return cls(place.path, plan, records)
        if not exist_ok:
            said = "a state is there already; open it, or choose another path"
            raise FileExistsError(errno.EEXIST, said, place.path)
        state = cls.open(path, storage_options=storage_options)
        found, free = state.plan.params, not_asked(hash, seed)
        capacity = found.capacity if capacity is None else capacity
        error_rate = found.error_rate if error_rate is None else error_rate
        asked = choose_params(capacity, error_rate, None, seed, hash, like=None)
        require_equal(found, asked, state.path, copied=False, free=free)
        if slices not in (None, state.plan.slices):
            cut = str(state.plan.slices)
            raise ParameterMismatchError(state.path, "slices", cut, str(slices))
        return state

    @classmethod
    def open(cls, path: Path, *, storage_options: Mapping[str, Any] | None = None) -> Generations:
        """Open an existing state.

        Parameters
        ----------
        path, storage_options
            As for `create`.

        Returns
        -------
        Generations

        Raises
        ------
        FileNotFoundError
            If none exists.
        FormatError
            If its record is damaged.
        ImportError, OSError
            As `create`.
        """
        place = place_of(path, storage_options)
        latest = latest_in(place)
        plan = SlicePlan(latest.params, latest.slices)
        return cls(place.path, plan, Records(place.path, latest.uuid, storage_options))

    @property
    def generation(self) -> int:
        """The number of committed runs, read now: the newest generation."""
        return self._records.latest().generation

    def begin(self, generation: int | None = None, *, on_full: PastPlan = "raise") -> Run:
        """Begin a run that makes a generation.

        Parameters
        ----------
        generation : int, optional
            Which one; by default the one after the newest. The number of the newest repeats it: the
            run starts from the generation before, returns the rows of the committed run if it gets
            the same keys, and its commit changes nothing. So a caller who numbers the runs, as
            Spark numbers its batches, can repeat a run without knowing whether it was committed.
        on_full : {"raise", "warn"}, default "raise"
            What happens if the run takes the state past its capacity, and so loses rows: "raise"
            refuses it, in a task or at its commit; "warn" commits it with a warning.

        Returns
        -------
        Run

        Raises
        ------
        ValueError
            If the generation is neither of these two, or `on_full` is something else.
        TypeError
            If the generation is no int.
        FormatError, FileChangedError, OSError
            If the state cannot be read, or another one is in its place.
        """
        if on_full not in get_args(PastPlan):
            raise ValueError(f"on_full is {on_full!r}, expected 'raise' or 'warn'")
        latest = self._records.latest()
        following = latest.generation + 1
        generation = following if generation is None else _whole(generation)
        base = latest.run
        if generation == latest.generation > 0:
            base = latest.base
        elif generation != following:
            again = f", or {latest.generation} again" if latest.generation else ""
            raise ValueError(
                f"{self.path}: generation {generation} is asked for, but {latest.generation} is "
                f"the newest: the next is {following}{again}"
            )
        repeats = generation != following
        return Run(self.plan, generation, os.urandom(16), base, repeats, on_full, self._records)

    def assemble(self, destination: Path, **options: Any) -> None:
        """Make a plain filter file of the newest generation.

        Parameters
        ----------
        destination : str or path-like
            Where to make it.
        **options
            Those of `mmbloom.cluster.assemble`.

        Raises
        ------
        FormatError, FileChangedError, FileExistsError, OSError
            As `mmbloom.cluster.assemble`.
        """
        latest, place = self._records.latest(), self._records.place

        def part(number: int) -> Slice | At:
            if latest.generation == 0:
                return Slice.empty(self.plan, number)
            return At(place, slice_name(latest.generation, latest.run, number))

        assemble(destination, self.plan, map(part, range(self.plan.slices)), **options)


@dataclass(frozen=True)
class Run:
    """One run on a state: it makes a generation from the one before, or nothing.

    Returned by `Generations.begin`. The driver sends it to the tasks, one for each slice, and
    commits it when the rows are written.

    Attributes
    ----------
    plan : SlicePlan
        How the filter is cut.
    generation : int
        The generation that it makes.
    id : bytes
        16 random bytes that name the folder of its slices: two runs never write the same file.
    base : bytes
        The run whose slices it starts from; zeros for none.
    repeats : bool
        Whether the generation is committed already, so this run only returns its rows again.
    on_full : {"raise", "warn"}
        What happens if it takes the state past its capacity: see `Generations.begin`.

    Notes
    -----
    A value, as the state is: it pickles, and any thread and process may use it. A task may run
    twice, even at the same time, and may be killed at any point: what it writes is the same each
    time, and appears whole or not at all.
    """

    plan: SlicePlan
    generation: int
    id: bytes
    base: bytes
    repeats: bool
    on_full: PastPlan
    _records: Records = field(repr=False)

    @property
    def path(self) -> str:
        """Where the state is."""
        return self._records.path

    def claim(self, number: int, batches: Iterable[tuple[Words, Words]]) -> list[Bools]:
        """Do the task of one slice: read it, claim the keys of all batches, write it.

        Parameters
        ----------
        number : int
            The slice.
        batches : iterable of (h1, h2)
            The hashes of this slice's keys, batch by batch in the order of the input: so the new
            row is the first with its key, in whatever order tasks run. Call this for every slice,
            with no batches if it has no keys.

        Returns
        -------
        list of ndarray of bool
            For each batch, which of its keys are new.

        Raises
        ------
        TypeError, ValueError
            As `Slice.claim`.
        FormatError
            If the slice of the generation before is missing, cut, damaged or the wrong one.
        CommitConflictError
            If that slice is gone because other runs were committed meanwhile.
        FilterFullError
            As `write`.
        OSError
            If a slice cannot be read or written.
        """
        part = self.read(number)
        answers = [part.claim(h1, h2) for h1, h2 in batches]
        self.write(part)
        return answers

    def read(self, number: int) -> Slice:
        """Read a slice of the generation before; change it and `write` it.

        Parameters
        ----------
        number : int
            The slice.

        Returns
        -------
        Slice
            A slice of the generation that this run makes; the one on the disk never changes.

        Raises
        ------
        ValueError
            If there is no such slice.
        FormatError, CommitConflictError, OSError
            As `claim`.
        """
        self.plan.bounds(number)
        before = self.generation - 1
        if before == 0:
            part = Slice.empty(self.plan, number)
        else:
            place, name = self._records.place, slice_name(before, self.base, number)
            path = place.name_of(name)
            try:
                part = Slice.read(At(place, name), self.plan)
            except FileNotFoundError:
                self._require_current()
                expected = f"slice {number} of generation {before}"
                raise FormatError(path, "file", "missing", expected) from None
            _require_same(path, part, (number, before, self.base))
        part.generation, part.run = self.generation, self.id
        return part

    def write(self, part: Slice) -> None:
        """Write a slice of the generation that this run makes.

        After the commit it writes nothing: a late task, or rows computed again from an input that
        has changed, would change what is committed.

        Parameters
        ----------
        part : Slice
            The slice that `read` returned, with more keys in it.

        Raises
        ------
        ValueError
            If the slice is not of this run.
        CommitConflictError
            If another run was committed meanwhile, and removed what this run had written.
        FilterFullError
            If the slice has far more keys than its share of the capacity, and `on_full` is "raise".
            A few more can be chance: then the commit decides.
        OSError
            If there is no space, or the system reports another error.
        """
        if (part.plan, part.generation, part.run) != (self.plan, self.generation, self.id):
            raise ValueError(f"{part!r} was not read by this run: pass what its read returned")
        if self._is_recorded():  # the slices that are there count, and no others
            return
        if self.on_full == "raise":
            start, stop = self.plan.bounds(part.number)
            params, slices = self.plan.params, self.plan.params.num_bytes / (stop - start)
            spread = math.sqrt(slices * params.capacity)
            most = params.expected_positions_set(params.capacity + _SPREADS * spread)
            if (of_all := part.positions_set * slices) > most:
                raise self._full(round(of_all))
        name = slice_name(self.generation, self.id, part.number)
        self._put(name, part.to_bytes())

    def _full(self, positions_set: int) -> FilterFullError:
        params = self.plan.params
        keys = round(params.estimated_count(positions_set))
        return FilterFullError(self.path, keys, params.capacity, None, _WHEN_FULL)

    def _put(self, name: str, content: bytes) -> None:
        try:
            self._records.place.put(name, content)
        except FileNotFoundError:  # its folder is gone
            self._require_current()
            raise

    def note(self, part: int) -> None:
        """Note that a part of the output is computed, for an engine that may compute only some.

        All slices can be written though nobody got all rows: Dask computes only what is asked for,
        and the first rows of a frame need every slice but only one partition.

        Parameters
        ----------
        part : int
            Its number, from 0. Noting it again, as a repeated task does, changes nothing.

        Raises
        ------
        CommitConflictError, OSError
            As `write`.
        """
        self._put(part_name(self.generation, self.id, part), b"")

    def commit(self, parts: int = 0) -> None:
        """Make what this run has written the state; call it when its rows are written.

        Calling it again is fine, also after a network error that left it open whether the commit
        succeeded. A commit removes all but the last two generations, and what other runs have left.
        With ``on_full="warn"`` it warns (`CapacityWarning`) if the filter has more keys than its
        capacity, and so reports new rows as seen; if warnings are errors, nothing is committed.

        Parameters
        ----------
        parts : int, default 0
            How many parts the output has: each must have been noted, see `note`.

        Raises
        ------
        CommitConflictError
            If another run was committed meanwhile: drop the rows of this one.
        FormatError
            If a slice is missing, cut, or of another generation, or a part was not noted. The error
            names it; nothing is committed.
        FilterFullError
            If the filter has more keys than its capacity, and `on_full` is "raise". Nothing is
            committed: drop the rows, as some new ones may be missing.
        FileChangedError
            If another state is at the path.
        OSError
            If the system or the store reports an error. Call it again to learn whether the run was
            committed.
        """
        if self.repeats:
            self.discard()
            return
        if self._is_recorded():  # by an earlier call whose answer was lost
            self._clean()
            return
        self._require_current()
        positions_set, params = self._require_slices(), self.plan.params
        self._require_parts(parts)
        fill = Fill.of(params, positions_set)
        if fill.is_past:
            if self.on_full == "raise":
                raise self._full(positions_set)
            # Before the record is made: where warnings are errors this raises.
            warn_past_plan(self.path, params, fill)
        self._make_record()
        self._require_chain()
        self._clean()

    def discard(self) -> None:
        """Remove what this run has written, unless it is committed; its tasks must have ended.

        Raises
        ------
        FileChangedError, FormatError, OSError
            If the system or the store reports an error, or the state cannot be read.
        """
        if not self._is_recorded():
            self._records.place.remove(folder_name(self.generation, self.id))

    def _is_recorded(self) -> bool:
        record = self._records.read(self.generation)
        return record is not None and record.run == self.id

    def _require_current(self) -> None:
        """Raise `CommitConflictError` unless this run starts from the newest generation."""
        latest = self._records.latest()
        if self.repeats:
            current = latest.generation == self.generation and latest.base == self.base
        else:
            current = latest.generation == self.generation - 1 and latest.run == self.base
        if not current:
            made = f"run {latest.run.hex()} has made generation {latest.generation} meanwhile"
            raise CommitConflictError(self.path, self.generation, made)

    def _require_slices(self) -> int:
        """Check that all slices are there and whole; return how many bits are set in them."""
        place = self._records.place
        count = partial(self._positions_set, place)
        # Imported here, as it takes 10 ms with the logging that it imports.
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(place.threads) as pool:
            with signals_deferred():  # this starts the threads
                counts = pool.map(count, range(self.plan.slices))
            return sum(counts)

    def _positions_set(self, place: Place, number: int) -> int:
        """Check one slice by its header; return how many bits are set in it."""
        name = slice_name(self.generation, self.id, number)
        path = place.name_of(name)
        try:
            raw, size = place.head(name, HEADER_BYTES)
        except FileNotFoundError:
            self._require_current()  # a run that was committed has removed it
            expected = f"slice {number} of generation {self.generation}, which no task wrote"
            raise FormatError(path, "file", "missing", expected) from None
        header = header_of(raw, size, path, self.plan)
        _require_same(path, header, (number, self.generation, self.id))
        return header.positions_set

    def _require_parts(self, parts: int) -> None:
        """Check that all parts of the output were noted."""
        place = self._records.place
        noted = {*place.names(folder_name(self.generation, self.id))} if parts else set()
        for part in range(parts):
            name = part_name(self.generation, self.id, part)
            if os.path.basename(name) not in noted:
                self._require_current()  # a run that was committed has removed it
                expected = f"a note of part {part} of the output, which no task computed"
                raise FormatError(place.name_of(name), "file", "missing", expected)

    def _make_record(self) -> None:
        """Make the record of this generation, which only one run can."""
        params, slices = self.plan.params, self.plan.slices
        uuid = self._records.uuid
        record = Record(uuid, self.generation, self.id, self.base, params, slices)
        try:
            self._records.make(record)
        except FileExistsError:
            # It is ours if an answer of the store was lost, and the request was sent again.
            if not self._is_recorded():
                made = "another run has made it meanwhile"
                raise CommitConflictError(self.path, self.generation, made) from None

    def _require_chain(self) -> None:
        """Raise if this record was made again after an older one was removed for its age."""
        if self._records.latest().generation == self.generation:
            return
        following = self._records.read(self.generation + 1)
        if following is None or following.base != self.id:
            self._records.remove(self.generation)
            made = f"more than {_RECORDS_KEPT} generations were made while this commit stood still"
            raise CommitConflictError(self.path, self.generation, made)

    def _clean(self) -> None:
        """Remove all but the last two generations, and what uncommitted runs have left.

        A run of this generation, or of an older one, that no record names can never be committed.
        """
        place = self._records.place
        kept = {(self.generation, self.id), (self.generation - 1, self.base)}
        with suppress(OSError):  # the next commit removes what is left
            for name in place.names():
                folder, record = generation_of_folder(name), generation_of_record(name)
                old = folder is not None and folder[0] <= self.generation and folder not in kept
                if old or (record is not None and record < self.generation - _RECORDS_KEPT):
                    with suppress(OSError):
                        place.remove(name)


def _whole(generation: int) -> int:
    """Return a number as an int: a record would keep True, and cannot hold an int of NumPy."""
    try:
        return int(operator.index(generation))
    except TypeError:
        raise TypeError(f"generation is {generation!r}, expected an int") from None


def _require_same(path: str, part: Slice | SliceHeader, expected: tuple[int, int, bytes]) -> None:
    """Raise `FormatError` unless a slice has the expected number, generation and run."""
    found = part.number, part.generation, part.run
    for name, *pair in zip(("slice", "generation", "run"), found, expected, strict=True):
        if pair[0] != pair[1]:
            shown = [each.hex() if isinstance(each, bytes) else str(each) for each in pair]
            raise FormatError(path, name, *shown)


@dataclass(frozen=True)
class FirstSeen:
    """The rows that are new to a state, and the commit that makes them known.

    Returned by ``first_seen`` of ``mmbloom.cluster.dask`` and of ``mmbloom.cluster.spark``. Write
    the rows first, then commit.

    Attributes
    ----------
    frame : dask DataFrame, Series or bag, or pyspark.sql.DataFrame
        The new rows, lazy.
    run : Run
        The run that `commit` commits. Its `repeats` says whether the generation is committed
        already; its `discard` removes what the tasks have written, if you drop the rows.
    parts : int
        How many parts of the rows leave a note when they are computed. The commit is refused
        unless all of them did.

    Notes
    -----
    A run that is never committed leaves files in the state, which the next commit removes.
    """

    frame: Any
    run: Run
    parts: int = 0

    def commit(self) -> None:
        """Make the rows known; call it when all of `frame` is computed and written.

        Raises
        ------
        CommitConflictError
            If another driver has committed in between: drop the rows; call `first_seen` again.
        FormatError
            If a part of `frame` was never computed, or if a slice is missing, cut or of another
            generation. The error names it; nothing is committed.
        FilterFullError
            If the state has more keys now than its capacity. Nothing is committed: drop the rows,
            as some new ones may be missing.
        FileChangedError, OSError
            As `Run.commit`.
        """
        self.run.commit(self.parts)


class StateOptions(TypedDict, total=False):
    """The options of `Generations.create`; those left out are not compared with an old state."""

    capacity: int | None
    error_rate: float | None
    slices: int | None
    seed: int | None
    hash: HashName | None
    storage_options: Mapping[str, Any] | None


class RunOptions(StateOptions, total=False):
    """The options of state and run that ``first_seen`` for Dask and for Spark takes.

    Attributes
    ----------
    capacity, error_rate, seed, hash
        As for `BloomFilter.create`, but the error rate is 1e-9 by default, as a false positive is
        a lost row. The capacity is required for a new state.
    slices : int
        How many slices a new state has, and so how many tasks claim keys at a time.
    storage_options : mapping
        Options of fsspec, for a state under a URL. They travel to the tasks.
    on_full : {"raise", "warn"}, default "raise"
        What happens if this run takes the state past its capacity, where it reports new rows as
        seen, and they are lost: "raise" refuses the run, when the rows are computed or at the
        latest by `FirstSeen.commit`; "warn" warns at the commit.
    generation : int
        Which one to make, if the caller numbers the runs: the next one, or the newest again, see
        `Generations.begin`. A run that is repeated after its driver has died, before or after its
        commit, returns the same rows again.
    """

    on_full: PastPlan
    generation: int | None


def begin_run(
    state: Path,
    choose_slices: Callable[[FilterParams], int],
    *,
    on_full: PastPlan = "raise",
    generation: int | None = None,
    **made: Unpack[StateOptions],
) -> Run:
    """Begin a run on an existing state or a new one; raises as `create` and `begin` do."""
    generations = Generations.create(state, **made, exist_ok=True, choose_slices=choose_slices)
    return generations.begin(generation, on_full=on_full)


@dataclass(frozen=True)
class Records:
    """The records of one state; a value, which pickles.

    Attributes
    ----------
    path : str
        The path of the state.
    uuid : bytes
        The state's own.
    options : mapping or None
        Options of fsspec, for a URL.
    """

    path: str
    uuid: bytes
    options: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def place(self) -> Place:
        """Where the records are."""
        return place_of(self.path, self.options)

    def latest(self) -> Record:
        """Read the newest record; raise `FileChangedError` if another state is there."""
        return self._own(latest_in(self.place))

    def read(self, generation: int) -> Record | None:
        """Read the record of a generation; None if it has none yet, or no longer."""
        try:
            return self._own(_read(self.place, generation))
        except FileNotFoundError:
            return None

    def _own(self, record: Record) -> Record:
        if record.uuid != self.uuid:
            raise FileChangedError(self.path, "replaced by another state")
        return record

    def make(self, record: Record) -> None:
        """Make a record; raise `FileExistsError` if it is there."""
        self.place.create(record_name(record.generation), encode_record(record))

    def remove(self, generation: int) -> None:
        """Remove the record of a generation."""
        self.place.remove(record_name(generation))

    def require_refusal(self, existing: Record) -> None:
        """Raise OSError, and remove an existing record, if the store makes it a second time."""
        try:
            self.make(existing)
        except FileExistsError:
            return
        self.remove(existing.generation)
        reason = (
            "this store overwrites a file that it was asked to make only if there is none "
            "(If-None-Match), so two runs could both commit; use another store"
        )
        raise OSError(errno.ENOTSUP, reason, self.path)


def newest_in(place: Place) -> int | None:
    """Return the newest generation that has a record; None if there is no state."""
    found = map(generation_of_record, place.names())
    return max((number for number in found if number is not None), default=None)


def latest_in(place: Place) -> Record:
    """Read the newest record of any state; raise `FileNotFoundError` if there is none."""
    newest = newest_in(place)
    if newest is None:
        raise FileNotFoundError(errno.ENOENT, "no state of generations is there", place.path)
    return _read(place, newest)


def _read(place: Place, generation: int) -> Record:
    name = record_name(generation)
    with place.open(name) as opened:
        raw = opened.file.read(MAX_RECORD_BYTES + 1)
    return decode_record(raw, generation, place.name_of(name))
