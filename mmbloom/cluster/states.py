"""The state of a filter in slices, which outlives its tasks: each run makes its next generation.

A cluster's engine runs a task again after it has lost a worker, or runs it twice to finish earlier.
Setting a bit twice is harmless, but answers must not change: a key marked by a first attempt would
not be new to the second. Nothing is therefore marked in place. A task reads a slice of generation
g, which never changes, and writes a slice of g + 1. The caller writes the new rows, and the commit
creates the record of g + 1. Until then the state stays at g, and a rerun returns the same rows.

A record is created by a step that fails if the record exists, and it never changes. Of two
competing runs, exactly one commits and the other gets an error.

Past its capacity a filter reports new rows as seen, and they are lost. A run that goes past the
capacity is therefore refused. A task refuses if its slice alone is far past its share, before the
engine has all rows. Otherwise the commit refuses, since it sees all slices.
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
    "drop the rows of this run; create a state with a larger capacity, and repeat the earlier runs "
    "and this run on it; or pass on_full='warn' to accept that new rows are lost"
)


@dataclass(frozen=True)
class Generations:
    """The state of a filter in slices: a folder that hosts share, or a prefix of an object store.

    Get one with `create` or `open`. `begin` returns a run, which makes the next generation.

    Attributes
    ----------
    path : str
        The location of the state: an absolute path, or a URL.
    plan : SlicePlan
        How the filter is cut into slices; its seed was drawn when the state was created.

    Notes
    -----
    This object holds nothing open, can be pickled, and may be used by any thread or process. Each
    call reads the newest generation from the store. The slices of the newest two generations are
    kept: late tasks of the last run read the older one, and `begin` can repeat that run. They take
    the disk space of two filters, or of three during a run.

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
        """Create a state without keys, generation 0, or open an existing one.

        Parameters
        ----------
        path : str or path-like, or URL
            A folder, which is created if it does not exist, or a prefix of an object store. URLs
            need the extra "cluster" and fsspec's library for the store.
        capacity, error_rate, seed, hash
            As for `BloomFilter.create`, but with a default error rate of 1e-9, because a false
            positive is a lost row. The seed is drawn here, once for all runs and hosts.
        slices : int, optional
            The number of slices.
        exist_ok : bool, default False
            Open an existing state if it has these parameters. Parameters that are left out, even
            the capacity, are not compared.
        storage_options : mapping, optional
            Options for fsspec, if the path is a URL. A run passes them on to its tasks.
        choose_slices : callable, optional
            As for `SlicePlan.draw`: returns the number of slices of a new state if ``slices`` is
            left out.

        Returns
        -------
        Generations

        Raises
        ------
        FileExistsError
            If a state exists and `exist_ok` is not set.
        FileNotFoundError
            If no state exists, `exist_ok` is set and the capacity is left out.
        ParameterMismatchError
            If the state has other parameters or another number of slices.
        FormatError
            If its record is damaged.
        ValueError, TypeError
            If a parameter is out of range.
        ImportError
            If the path is a URL and fsspec is not installed.
        OSError
            If the store cannot refuse to create a record that exists, which commits rely on; or if
            the system reports an error.
        """
        place = place_of(path, storage_options)
        if newest_in(place) is None:
            if capacity is None and exist_ok:
                said = "no state exists at this path; pass a capacity to create one"
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
            said = "a state already exists at this path; open it, or choose another path"
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
            If no state exists at the path.
        FormatError
            If its record is damaged.
        ImportError, OSError
            As for `create`.
        """
        place = place_of(path, storage_options)
        latest = latest_in(place)
        plan = SlicePlan(latest.params, latest.slices)
        return cls(place.path, plan, Records(place.path, latest.uuid, storage_options))

    @property
    def generation(self) -> int:
        """The newest generation, which is the number of committed runs; read at each access."""
        return self._records.latest().generation

    def begin(self, generation: int | None = None, *, on_full: PastPlan = "raise") -> Run:
        """Begin a run that makes a generation.

        Parameters
        ----------
        generation : int, optional
            The generation to make; by default the one after the newest. The number of the newest
            generation repeats it: the run starts from the generation before, returns the rows of
            the committed run if it gets the same keys, and its commit changes nothing. A caller
            that numbers its runs, as Spark numbers its batches, can thus repeat a run without
            knowing whether it was committed.
        on_full : {"raise", "warn"}, default "raise"
            What happens if the run takes the state past its capacity, where it loses rows: "raise"
            refuses the run, in a task or at its commit; "warn" commits it with a warning.

        Returns
        -------
        Run

        Raises
        ------
        ValueError
            If the generation is neither of these two, or `on_full` has another value.
        TypeError
            If the generation is not an int.
        FormatError, FileChangedError, OSError
            If the state cannot be read or has been replaced by another.
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
            again = f", or {latest.generation} to repeat it" if latest.generation else ""
            raise ValueError(
                f"{self.path}: generation is {generation}, but {latest.generation} is the newest: "
                f"pass {following} for the next{again}"
            )
        repeats = generation != following
        return Run(self.plan, generation, os.urandom(16), base, repeats, on_full, self._records)

    def assemble(self, destination: Path, **options: Any) -> None:
        """Assemble the newest generation into a plain filter file.

        Parameters
        ----------
        destination : str or path-like
            The path of the new file.
        **options
            The options of `mmbloom.cluster.assemble`.

        Raises
        ------
        FormatError, FileChangedError, FileExistsError, OSError
            As for `mmbloom.cluster.assemble`.
        """
        latest, place = self._records.latest(), self._records.place

        def part(number: int) -> Slice | At:
            if latest.generation == 0:
                return Slice.empty(self.plan, number)
            return At(place, slice_name(latest.generation, latest.run, number))

        assemble(destination, self.plan, map(part, range(self.plan.slices)), **options)


@dataclass(frozen=True)
class Run:
    """One run on a state: it makes one generation from the previous one, or changes nothing.

    Returned by `Generations.begin`. The driver sends it to the tasks, one for each slice, and
    commits it when the rows are written.

    Attributes
    ----------
    plan : SlicePlan
        How the filter is cut into slices.
    generation : int
        The generation that it makes.
    id : bytes
        16 random bytes that name the folder of its slices: two runs never write the same file.
    base : bytes
        The run whose slices this run starts from; zeros if there is none.
    repeats : bool
        Whether the generation is already committed, so that this run only returns its rows again.
    on_full : {"raise", "warn"}
        What happens if the run takes the state past its capacity; see `Generations.begin`.

    Notes
    -----
    Like the state, it can be pickled and may be used by any thread or process. A task may run
    twice, even at the same time, and may be killed at any point: it writes the same each time, and
    what it writes appears complete or not at all.
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
        """The location of the state."""
        return self._records.path

    def claim(self, number: int, batches: Iterable[tuple[Words, Words]]) -> list[Bools]:
        """Do the task of one slice: read it, claim the keys of all batches, and write it.

        Parameters
        ----------
        number : int
            The slice, counted from 0.
        batches : iterable of (h1, h2)
            The hashes of this slice's keys, batch by batch in the order of the input. The new row
            is then the first with its key, in whatever order tasks run. Call this for every slice,
            without batches if the slice has no keys.

        Returns
        -------
        list of ndarray of bool
            For each batch, which of its keys are new.

        Raises
        ------
        TypeError, ValueError
            As for `Slice.claim`.
        FormatError
            If the slice of the previous generation is missing, cut off or damaged, or is another
            slice.
        CommitConflictError
            If that slice is gone because other runs have been committed.
        FilterFullError
            As for `write`.
        OSError
            If a slice cannot be read or written.
        """
        part = self.read(number)
        answers = [part.claim(h1, h2) for h1, h2 in batches]
        self.write(part)
        return answers

    def read(self, number: int) -> Slice:
        """Read a slice of the previous generation, to be changed and passed to `write`.

        Parameters
        ----------
        number : int
            The slice, counted from 0.

        Returns
        -------
        Slice
            A slice of the generation that this run makes; the file of the previous one never
            changes.

        Raises
        ------
        ValueError
            If there is no such slice.
        FormatError, CommitConflictError, OSError
            As for `claim`.
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

        After the commit this writes nothing. Otherwise a late task, or rows recomputed from an
        input that has changed, would change a committed generation.

        Parameters
        ----------
        part : Slice
            The slice that `read` returned, with more keys in it.

        Raises
        ------
        ValueError
            If the slice was not read by this run.
        CommitConflictError
            If another run has been committed and has removed what this run wrote.
        FilterFullError
            If `on_full` is "raise" and the slice has far more keys than its share of the capacity.
            A few more can be chance; then the commit decides.
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
        """Record that a part of the output is computed, for engines that may compute only some.

        All slices can be written before all rows are computed: Dask computes only what is
        requested, and the first rows of a frame need every slice but only one partition.

        Parameters
        ----------
        part : int
            The number of the part, from 0. Recording it again, as a repeated task does, changes
            nothing.

        Raises
        ------
        CommitConflictError, OSError
            As for `write`.
        """
        self._put(part_name(self.generation, self.id, part), b"")

    def commit(self, parts: int = 0) -> None:
        """Commit this run, so that its slices become the state; call it once its rows are written.

        Calling it again is safe, even after a network error that left it unclear whether the commit
        succeeded. A commit removes all but the newest two generations, and the files of uncommitted
        runs. With ``on_full="warn"`` it warns (`CapacityWarning`) if the filter has more keys than
        its capacity, and therefore reports new rows as seen. If that warning is turned into
        an error, nothing is committed.

        Parameters
        ----------
        parts : int, default 0
            The number of parts of the output; each must have been recorded with `note`.

        Raises
        ------
        CommitConflictError
            If another run has been committed since this one began: drop the rows of this run.
        FormatError
            If a slice is missing, cut off, or of another generation, or if a part was not recorded.
            The error names it; nothing is committed.
        FilterFullError
            If `on_full` is "raise" and the filter has more keys than its capacity. Nothing is
            committed: drop the rows, as some new ones may be missing.
        FileChangedError
            If the state has been replaced by another.
        OSError
            If the system or the store reports an error. Call it again to find out whether the run
            was committed.
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
            made = f"run {latest.run.hex()} has made generation {latest.generation} already"
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
                expected = f"a note for part {part} of the output, which no task computed"
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
                made = "another run has made it already"
                raise CommitConflictError(self.path, self.generation, made) from None

    def _require_chain(self) -> None:
        """Raise if this record was made again after an older one was removed for its age."""
        if self._records.latest().generation == self.generation:
            return
        following = self._records.read(self.generation + 1)
        if following is None or following.base != self.id:
            self._records.remove(self.generation)
            made = f"more than {_RECORDS_KEPT} generations were committed while this one stalled"
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
    """The rows that are new to a state, and the commit that adds them to it.

    Returned by ``first_seen`` of ``mmbloom.cluster.dask`` and ``mmbloom.cluster.spark``. Write the
    rows first, then commit.

    Attributes
    ----------
    frame : dask DataFrame, Series or bag, or pyspark.sql.DataFrame
        The new rows, lazy.
    run : Run
        The run that `commit` commits. Its `repeats` is True if the generation is already committed;
        its `discard` removes what the tasks have written, if you drop the rows.
    parts : int
        Number of parts of the rows that are recorded when they are computed. The commit is refused
        unless all of them are.

    Notes
    -----
    A run that is never committed leaves files in the state; the next commit removes them.
    """

    frame: Any
    run: Run
    parts: int = 0

    def commit(self) -> None:
        """Add the rows to the state; call it when all of `frame` is computed and written.

        Raises
        ------
        CommitConflictError
            If another driver has committed first: drop the rows and call `first_seen` again.
        FormatError
            If a part of `frame` was never computed, or if a slice is missing, cut off or of another
            generation. The error names it; nothing is committed.
        FilterFullError
            If the state would have more keys than its capacity. Nothing is committed: drop the
            rows, as some new ones may be missing.
        FileChangedError, OSError
            As for `Run.commit`.
        """
        self.run.commit(self.parts)


class StateOptions(TypedDict, total=False):
    """The options of `Generations.create`; those left out are not compared."""

    capacity: int | None
    error_rate: float | None
    slices: int | None
    seed: int | None
    hash: HashName | None
    storage_options: Mapping[str, Any] | None


class RunOptions(StateOptions, total=False):
    """The options of a state and a run that ``first_seen`` for Dask and for Spark accepts.

    Attributes
    ----------
    capacity, error_rate, seed, hash
        As for `BloomFilter.create`, but with a default error rate of 1e-9, because a false positive
        is a lost row. The capacity is required for a new state.
    slices : int
        The number of slices of a new state, and so the number of tasks that claim keys at the same
        time.
    storage_options : mapping
        Options for fsspec, if the state is at a URL. They are passed on to the tasks.
    on_full : {"raise", "warn"}, default "raise"
        What happens if the run takes the state past its capacity, where it reports new rows as seen
        and they are lost. "raise" refuses the run, when the rows are computed or at the latest in
        `FirstSeen.commit`; "warn" warns at the commit.
    generation : int
        The generation to make, for callers that number their runs: the next one, or the newest to
        repeat it; see `Generations.begin`. If a driver dies before or after its commit, the
        repeated run returns the same rows again.
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
    """Begin a run on an existing or new state; raise what `create` and `begin` raise."""
    generations = Generations.create(state, **made, exist_ok=True, choose_slices=choose_slices)
    return generations.begin(generation, on_full=on_full)


@dataclass(frozen=True)
class Records:
    """The records of one state; can be compared and pickled.

    Attributes
    ----------
    path : str
        The path of the state.
    uuid : bytes
        The unique id of the state.
    options : mapping or None
        Options for fsspec, if the path is a URL.
    """

    path: str
    uuid: bytes
    options: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def place(self) -> Place:
        """The place that holds the records."""
        return place_of(self.path, self.options)

    def latest(self) -> Record:
        """Read the newest record; raise `FileChangedError` if it belongs to another state."""
        return self._own(latest_in(self.place))

    def read(self, generation: int) -> Record | None:
        """Read the record of a generation; None if it does not exist yet, or no longer."""
        try:
            return self._own(_read(self.place, generation))
        except FileNotFoundError:
            return None

    def _own(self, record: Record) -> Record:
        if record.uuid != self.uuid:
            raise FileChangedError(self.path, "replaced by another state")
        return record

    def make(self, record: Record) -> None:
        """Create a record; raise `FileExistsError` if it exists."""
        self.place.create(record_name(record.generation), encode_record(record))

    def remove(self, generation: int) -> None:
        """Remove the record of a generation."""
        self.place.remove(record_name(generation))

    def require_refusal(self, existing: Record) -> None:
        """Raise OSError, and remove an existing record, if the store creates it again."""
        try:
            self.make(existing)
        except FileExistsError:
            return
        self.remove(existing.generation)
        reason = (
            "this store overwrites a file that it was asked to create only if there is none "
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
        raise FileNotFoundError(errno.ENOENT, "no state exists at this path", place.path)
    return _read(place, newest)


def _read(place: Place, generation: int) -> Record:
    name = record_name(generation)
    with place.open(name) as opened:
        raw = opened.file.read(MAX_RECORD_BYTES + 1)
    return decode_record(raw, generation, place.name_of(name))
