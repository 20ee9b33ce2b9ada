"""The records of a state: which generation is the newest, and which run made it.

A record is made by a step that fails if one is there, and never changed: that is what lets one of
two runs commit and tells the other.

A filter in slices that outlives its tasks: each run makes the next generation, or nothing.

An engine runs a task again, after a lost worker or for speculation. Bits may be set twice,
answers may not be given twice: what a task of yesterday's try has marked would not be new today.
So nothing is ever marked in place. A task reads a slice of generation g, which nobody changes, and
writes one of g + 1; the caller writes his rows; the commit makes a record of g + 1, by a step that
fails if there is one. Until then g is the state, and a rerun gives the same rows.

Past its plan a filter takes new rows for seen, and they are lost. So a run that goes past it is
refused: by a task, if its slice alone shows it, which is before the engine has all rows; else by
the commit, which alone sees all slices.

The rows that no row and no run before has had: what Dask and Spark share of `first_seen`.

The driver begins a run of a state; tasks claim keys in its slices, which is for each engine to
arrange; and when the new rows are written, the driver commits.
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
from mmbloom._system.threads import in_order
from mmbloom._system.typing import Bools, HashName, OnFull, Path, Words
from mmbloom.cluster.places import At, Place, place_of
from mmbloom.cluster.slices import Slice, SlicePlan, assemble, require_of
from mmbloom.errors import (
    CommitConflictError,
    FileChangedError,
    FilterFullError,
    FormatError,
    ParameterMismatchError,
)
from mmbloom.filters.options import choose_params, not_asked, require_equal
from mmbloom.format.generations import (
    MAX_BYTES,
    Record,
    decode,
    encode,
    folder_name,
    generation_of_folder,
    generation_of_record,
    part_name,
    record_name,
    slice_name,
)
from mmbloom.format.slices import HEADER_BYTES, NO_RUN, require_size
from mmbloom.format.slices import decode as decode_slice
from mmbloom.sizing.params import FilterParams
from mmbloom.sizing.planning import Fill


@dataclass(frozen=True)
class Records:
    """Those of one state; a value, which pickles.

    Attributes
    ----------
    path : str
        Of the state.
    uuid : bytes
        Its own.
    options : mapping or None
        Of fsspec, for a URL.
    """

    path: str
    uuid: bytes
    options: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def place(self) -> Place:
        """Where they are."""
        return place_of(self.path, self.options)

    def latest(self) -> Record:
        """Read the newest; `FileChangedError` if another state is there."""
        return self._own(latest_in(self.place))

    def read(self, generation: int) -> Record | None:
        """Read that of a generation; None if it has none, any more or yet."""
        try:
            return self._own(_read(self.place, generation))
        except FileNotFoundError:
            return None

    def _own(self, record: Record) -> Record:
        if record.uuid != self.uuid:
            raise FileChangedError(self.path, "replaced by another state")
        return record

    def make(self, record: Record) -> None:
        """Make one; `FileExistsError` if it is there."""
        self.place.create(record_name(record.generation), encode(record))

    def remove(self, generation: int) -> None:
        """Remove that of a generation."""
        self.place.remove(record_name(generation))

    def require_refusal(self, there: Record) -> None:
        """Raise OSError, and remove it, if the store makes a record that is there once more."""
        try:
            self.make(there)
        except FileExistsError:
            return
        self.remove(there.generation)
        reason = (
            "this store makes a file that is there once more, where it was asked to make it only "
            "if it is not (If-None-Match), so two runs could both commit; use another one"
        )
        raise OSError(errno.ENOTSUP, reason, self.path)


def newest_in(place: Place) -> int | None:
    """Find the newest generation that has a record; None if there is no state."""
    found = [generation_of_record(name) for name in place.names()]
    return max((number for number in found if number is not None), default=None)


def latest_in(place: Place) -> Record:
    """Read the newest record, of whatever state; `FileNotFoundError` if there is none."""
    newest = newest_in(place)
    if newest is None:
        raise FileNotFoundError(errno.ENOENT, "no state of generations is there", place.path)
    return _read(place, newest)


def _read(place: Place, generation: int) -> Record:
    name = record_name(generation)
    with place.open(name) as opened:
        raw = opened.file.read(MAX_BYTES + 1)
    return decode(raw, generation, place.name_of(name))


# Records are kept for so many generations: a driver that was stopped amid its commit for longer
# could otherwise make one that was made before, and take it for its own.
_RECORDS_KEPT = 1000

_FEW_FALSE = 1e-9  # the error rate unless asked for: a false positive is a row that nobody gets

# Keys fall on slices by chance: of a filter that has what it was planned for, one slice in 10**9
# has more than its share by so many standard deviations.
_SPREADS = 6

_WHEN_FULL = (
    "drop the rows that it gave, and run it on another state, of a larger capacity, to which the "
    "rows of all earlier runs were given first; or lose new rows with on_full='warn'"
)


@dataclass(frozen=True)
class Generations:
    """The state of a filter in slices: a folder that hosts share, or a prefix of an object store.

    Made by `create` or `open`. A run, which `begin` gives, makes the next generation of it.

    Attributes
    ----------
    path : str
        Where it is: an absolute path, or a URL.
    plan : SlicePlan
        How the filter is cut; its seed was drawn when the state was made.

    Notes
    -----
    A value: it holds nothing open, it pickles, and any thread and process may use it. What it
    says of generations is looked up when it is asked. Slices of a generation and of the one before
    are kept: tasks of the last run that an engine still has running read the older one, and `begin`
    can repeat that run. Disk space is that of two filters, of three while a run is on.

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
        """Make a state without a key: generation 0; or open the one that is there.

        Parameters
        ----------
        path : str or path-like, or URL
            A folder, which is made if it is not there, or a prefix of an object store. URLs need
            the extra "cluster", and fsspec's library for the store.
        capacity, error_rate, seed, hash
            As for `BloomFilter.create`, but that the error rate is 1e-9 by default: a false
            positive is a row that is lost. The seed is drawn here, once for all runs and hosts.
        slices : int, optional
            How many slices the filter has.
        exist_ok : bool, default False
            Open the state that is there, if it was made with these parameters; one that is left
            out, even the capacity, may be any.
        storage_options : mapping, optional
            Of fsspec, for a URL. They travel with a run to its tasks.
        choose_slices : callable, optional
            As for `SlicePlan.draw`: how many slices a new state has, where that is left out.

        Returns
        -------
        Generations

        Raises
        ------
        FileExistsError
            If a state is there, and `exist_ok` is not set.
        FileNotFoundError
            If none is there, `exist_ok` is set and the capacity left out.
        ParameterMismatchError
            If it has other parameters, or another number of slices.
        FormatError
            If its record is damaged.
        ValueError, TypeError
            If a parameter is out of range.
        ImportError
            If the path is a URL, and fsspec is not installed.
        OSError
            If the store cannot refuse to make a record twice, on which commits rest; or as the
            system says.
        """
        place = place_of(path, storage_options)
        if newest_in(place) is None:
            if capacity is None and exist_ok:
                said = "no state of generations is there; give a capacity, and one is made"
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
            said = "a state is there already; open that one, or choose another path"
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
        """Open the state that is there.

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
            If none is there.
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
        """The newest generation, looked up now: how many runs were committed."""
        return self._records.latest().generation

    def begin(self, generation: int | None = None, *, on_full: OnFull = "raise") -> Run:
        """Begin a run that makes a generation.

        Parameters
        ----------
        generation : int, optional
            Which; by default the one after the newest. The newest itself is made anew: the run
            starts from the one before, gives the rows that the committed run gave, if it is given
            the same keys, and its commit changes nothing. So a caller who numbers his runs, as
            Spark numbers its batches, can repeat one without knowing whether it was committed.
        on_full : {"raise", "warn"}, default "raise"
            What happens if the run goes past what the state was planned for, and so loses rows:
            "raise" refuses it, in a task or at its commit; "warn" commits it, and warns.

        Returns
        -------
        Run

        Raises
        ------
        ValueError
            If the generation is neither of these two, or `on_full` is something else.
        TypeError
            If it is no int.
        FormatError, FileChangedError, OSError
            If the state cannot be read, or another one is in its place.
        """
        if on_full not in get_args(OnFull):
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
                f"{self.path}: generation {generation} is asked for, and {latest.generation} is "
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
            Of `mmbloom.cluster.assemble`.

        Raises
        ------
        FormatError, FileChangedError, FileExistsError, OSError
            As `mmbloom.cluster.assemble`.
        """
        latest, plan = self._records.latest(), self.plan
        if latest.generation == 0:
            empty = [Slice.empty(plan, number) for number in range(plan.slices)]
            assemble(destination, plan, empty, **options)
            return
        names = [slice_name(latest.generation, latest.run, number) for number in range(plan.slices)]
        assemble(destination, plan, [At(self._records.place, name) for name in names], **options)


@dataclass(frozen=True)
class Run:
    """One run on a state: it makes a generation of the one before, or nothing.

    Given by `Generations.begin`. The driver sends it to the tasks, one for each slice, and commits
    when his rows are written.

    Attributes
    ----------
    plan : SlicePlan
        How the filter is cut.
    generation : int
        What it makes.
    id : bytes
        16 random bytes, in whose folder its slices are: two runs never write the same file.
    base : bytes
        The run whose slices it starts from; zeros for none.
    repeats : bool
        Whether the generation is committed already, so that this run only gives its rows again.
    on_full : {"raise", "warn"}
        What happens if it goes past what the state was planned for: see `Generations.begin`.

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
    on_full: OnFull
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
            Of the slice.
        batches : iterable of (h1, h2)
            The hashes of this slice's keys, of each batch of the input in the order of the input:
            so the row that is new is the first of its key, whoever runs when. Every slice has to
            be claimed in, with no batches if it has no keys.

        Returns
        -------
        list of ndarray of bool
            For each batch, which of its keys are new.

        Raises
        ------
        TypeError, ValueError
            As `Slice.claim`.
        FormatError
            If the slice of the generation before is missing, cut, damaged or another one.
        CommitConflictError
            If it is gone because other runs were committed meanwhile.
        FilterFullError
            As `write`.
        OSError
            If it cannot be read or written.
        """
        part = self.read(number)
        answers = [part.claim(h1, h2) for h1, h2 in batches]
        self.write(part)
        return answers

    def read(self, number: int) -> Slice:
        """Read a slice of the generation before, to be changed and written.

        Parameters
        ----------
        number : int
            Of the slice.

        Returns
        -------
        Slice
            Of the generation that this run makes; what is on the disk never changes.

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
            found = part.number, part.generation, part.run
            _require_same(path, found, (number, before, self.base))
        part.generation, part.run = self.generation, self.id
        return part

    def write(self, part: Slice) -> None:
        """Write a slice of the generation that this run makes.

        When the run is committed nothing is written any more: a late task, or rows that are
        computed once more, of an input that has changed, would change what is committed.

        Parameters
        ----------
        part : Slice
            What `read` gave, with more keys in it.

        Raises
        ------
        ValueError
            If it is none of this run.
        CommitConflictError
            If another run was committed meanwhile, which has removed what this one had written.
        FilterFullError
            If the slice has far more keys than its share of what was planned for, and `on_full` is
            "raise". One that has a few more may only be unlucky: then the commit decides.
        OSError
            If there is no space, or as the system says.
        """
        if (part.plan, part.generation, part.run) != (self.plan, self.generation, self.id):
            raise ValueError(f"{part!r} was not read by this run: pass what its read gave")
        if self._is_recorded():  # so what is there counts, and none but it
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
        """Note that a part of the output is computed: for an engine that may compute only some.

        That all slices are written does not say that anyone got the rows: Dask computes what is
        asked for, and the first rows of a frame need every slice, and one partition.

        Parameters
        ----------
        part : int
            Its number, from 0. Noting it again, as a task that runs again does, changes nothing.

        Raises
        ------
        CommitConflictError, OSError
            As `write`.
        """
        self._put(part_name(self.generation, self.id, part), b"")

    def commit(self, parts: int = 0) -> None:
        """Make what this run has written the state: to be called when its rows are written.

        Calling it again is fine, also after an error of the network that left open what happened.
        Generations before the last one, and what other runs have left, are removed then. With
        ``on_full="warn"`` a warning (`CapacityWarning`) tells if the filter has more keys than it
        was planned for, so that it takes new rows for seen; where warnings are errors, nothing is
        committed then.

        Parameters
        ----------
        parts : int, default 0
            How many parts the output has: each must have been noted, see `note`.

        Raises
        ------
        CommitConflictError
            If another run was committed meanwhile: the rows of this one are to be dropped.
        FormatError
            If a slice is missing, cut, or of another generation, or a part was not noted: names
            it; nothing is committed.
        FilterFullError
            If the filter has more keys than it was planned for, and `on_full` is "raise". Nothing
            is committed: drop the rows, among which new ones may be missing.
        FileChangedError
            If another state is at the path.
        OSError
            As the system or the store says. Whether it was committed, calling it again tells.
        """
        if self.repeats:
            self.discard()
            return
        if self._is_recorded():  # by an earlier call, whose answer was lost
            self._clean()
            return
        self._require_current()
        positions_set, params = self._require_slices(), self.plan.params
        self._require_parts(parts)
        fill = Fill.of(params, positions_set)
        if fill.is_past:
            if self.on_full == "raise":
                raise self._full(positions_set)
            # Before anything counts: it may raise, and whoever reads it may stop there.
            warn_past_plan(self.path, params, fill)
        self._make_record()
        self._require_chain()
        self._clean()

    def discard(self) -> None:
        """Remove what this run has written, unless it is committed; no task may be on any more.

        Raises
        ------
        FileChangedError, FormatError, OSError
            As the system or the store says, or if the state cannot be read.
        """
        if not self._is_recorded():
            self._records.place.remove(folder_name(self.generation, self.id))

    def _is_recorded(self) -> bool:
        record = self._records.read(self.generation)
        return record is not None and record.run == self.id

    def _require_current(self) -> None:
        """Raise `CommitConflictError` unless what this run starts from is the newest."""
        latest = self._records.latest()
        if self.repeats:
            current = latest.generation == self.generation and latest.base == self.base
        else:
            current = latest.generation == self.generation - 1 and latest.run == self.base
        if not current:
            made = f"run {latest.run.hex()} has made generation {latest.generation} meanwhile"
            raise CommitConflictError(self.path, self.generation, made)

    def _require_slices(self) -> int:
        """Make sure that all slices are there and whole; how many bits are set in them."""
        place = self._records.place
        look = partial(self._positions_set, place)
        return sum(in_order(look, range(self.plan.slices), place.helpers))

    def _positions_set(self, place: Place, number: int) -> int:
        """Make sure of one slice by its header, and give its count of bits."""
        name = slice_name(self.generation, self.id, number)
        path = place.name_of(name)
        try:
            raw, size = place.head(name, HEADER_BYTES)
        except FileNotFoundError:
            self._require_current()  # a run that was committed has removed it
            expected = f"slice {number} of generation {self.generation}, which no task wrote"
            raise FormatError(path, "file", "missing", expected) from None
        header = decode_slice(raw, path)
        require_size(header, size, path)
        require_of(self.plan, header, path)
        found = header.number, header.generation, header.run
        _require_same(path, found, (number, self.generation, self.id))
        return header.positions_set

    def _require_parts(self, parts: int) -> None:
        """Make sure that all parts of the output were noted."""
        place = self._records.place
        noted = {*place.names(folder_name(self.generation, self.id))} if parts else set()
        for part in range(parts):
            name = part_name(self.generation, self.id, part)
            if os.path.basename(name) not in noted:
                self._require_current()  # a run that was committed has removed it
                expected = f"a note of part {part} of the output, which no task computed"
                raise FormatError(place.name_of(name), "file", "missing", expected)

    def _make_record(self) -> None:
        """Make the record of this generation; only one run can."""
        params, slices = self.plan.params, self.plan.slices
        uuid = self._records.uuid
        record = Record(uuid, self.generation, self.id, self.base, params, slices)
        try:
            self._records.make(record)
        except FileExistsError:
            # The very same, where an answer of the store was lost and it was asked again.
            if not self._is_recorded():
                made = "another run has made it meanwhile"
                raise CommitConflictError(self.path, self.generation, made) from None

    def _require_chain(self) -> None:
        """Make sure that the record was not made anew, after it had been removed for its age."""
        if self._records.latest().generation == self.generation:
            return
        following = self._records.read(self.generation + 1)
        if following is None or following.base != self.id:
            self._records.remove(self.generation)
            made = f"more than {_RECORDS_KEPT} generations were made while this commit stood still"
            raise CommitConflictError(self.path, self.generation, made)

    def _clean(self) -> None:
        """Remove what is older than the generation before, and what uncommitted runs have left.

        A run of this generation or of an older one that is not in a record can never be.
        """
        place = self._records.place
        kept = {(self.generation, self.id), (self.generation - 1, self.base)}
        with suppress(OSError):  # what is left is removed by the next commit
            for name in place.names():
                folder, record = generation_of_folder(name), generation_of_record(name)
                over = folder is not None and folder[0] <= self.generation and folder not in kept
                if over or (record is not None and record < self.generation - _RECORDS_KEPT):
                    with suppress(OSError):
                        place.remove(name)


def _whole(generation: int) -> int:
    """Give the int that a number is: a record would keep True as it is, and no int of NumPy."""
    try:
        return int(operator.index(generation))
    except TypeError:
        raise TypeError(f"generation is {generation!r}, expected an int") from None


def _require_same(
    path: str, found: tuple[int, int, bytes], expected: tuple[int, int, bytes]
) -> None:
    """Raise `FormatError` unless a slice is the one that is meant."""
    for name, here, there in zip(("slice", "generation", "run"), found, expected, strict=True):
        if here != there:
            said = [each.hex() if isinstance(each, bytes) else str(each) for each in (here, there)]
            raise FormatError(path, name, *said)


class StateOptions(TypedDict, total=False):
    """What a state is made with; of one that is there, what is left out may be any."""

    capacity: int | None
    error_rate: float | None
    slices: int | None
    seed: int | None
    hash: HashName | None
    storage_options: Mapping[str, Any] | None


class RunOptions(StateOptions, total=False):
    """What ``first_seen`` of Dask and of Spark takes of state and run.

    Attributes
    ----------
    capacity, error_rate, seed, hash
        As for `BloomFilter.create`, but that the error rate is 1e-9 by default: a false positive
        is a row that is lost. The capacity is needed where the state is made.
    slices : int
        How many slices a new state has, and so how many tasks claim keys at a time.
    storage_options : mapping
        Of fsspec, for a state under a URL. They travel to the tasks.
    on_full : {"raise", "warn"}, default "raise"
        What happens if the state has more keys with this run than its capacity, so that it takes
        new rows for seen, which are lost: "raise" refuses the run, when the rows are computed or
        at the latest by `FirstSeen.commit`; "warn" warns at the commit.
    generation : int
        Which one to make, where the caller numbers the runs: the next one, or the newest again,
        see `Generations.begin`. Repeated after a driver has died, whether before its commit or
        after it, a run gives the same rows again.
    """

    on_full: OnFull
    generation: int | None


def begin_run(
    state: Path,
    choose_slices: Callable[[FilterParams], int],
    *,
    on_full: OnFull = "raise",
    generation: int | None = None,
    **made: Unpack[StateOptions],
) -> Run:
    """Begin a run of the state that is there, or of a new one; raises as both of its steps do."""
    found = Generations.create(state, **made, exist_ok=True, choose_slices=choose_slices)
    return found.begin(generation, on_full=on_full)


@dataclass(frozen=True)
class FirstSeen:
    """The rows that are new to a state, and the step that makes them old.

    Returned by ``first_seen`` of ``mmbloom.cluster.dask`` and of ``mmbloom.cluster.spark``. Write
    the rows first, then commit.

    Attributes
    ----------
    frame : dask DataFrame, Series or bag, or pyspark.sql.DataFrame
        The new rows, lazy.
    run : Run
        What `commit` commits. Its `repeats` says whether the generation is committed already; its
        `discard` removes what the tasks have written, where the rows are not wanted after all.
    parts : int
        How many parts of the rows leave a note when they are computed, without which the commit
        is refused.

    Notes
    -----
    A run that is never committed leaves files in the state, which the next commit removes.
    """

    frame: Any
    run: Run
    parts: int = 0

    def commit(self) -> None:
        """Make the rows old: to be called when all of `frame` was computed and written.

        Raises
        ------
        CommitConflictError
            If another driver has committed in between: drop these rows, and find them anew.
        FormatError
            If a part of `frame` was never computed; or if a slice is missing, cut or of another
            generation. It is named, and nothing is committed.
        FilterFullError
            If the state has more keys now than its capacity: nothing is committed. Drop the rows,
            among which new ones may be missing.
        FileChangedError, OSError
            As `Run.commit`.
        """
        self.run.commit(self.parts)
