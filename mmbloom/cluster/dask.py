"""Fill and query filters on the workers of a Dask cluster; needs the extra "dask".

``build``       creates a filter file with all keys of a collection
``contains``    checks which rows have a key that is in a filter
``first_seen``  finds the rows whose key no earlier run and no earlier row has

For data that one host can read, a single process is faster. Here the data may be spread over a
cluster, and the memory of a worker does not grow with the number of rows: a task hashes the keys of
a partition, and sends each hash to the one task that has its slice of the filter. That task returns
one bit per row.

A task may run twice, or only in part, so no task changes the result of another. The task of a slice
copies what the task before it returned, and only `FirstSeen.commit` changes a state.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple, Unpack
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.opening import absolute
from mmbloom._system.typing import Array, Bools, HashHalves, Nulls, Octets, Path, Words
from mmbloom.cluster import FirstSeen, Part, Run, RunOptions, Slice, SlicePlan, assemble
from mmbloom.cluster.slices import PlanOptions, require_free
from mmbloom.cluster.states import begin_run
from mmbloom.cluster.tasks import ask, in_partition
from mmbloom.filters.base import Filter
from mmbloom.format.slices import pages_of
from mmbloom.sizing.params import FilterParams

try:
    import dask
    from dask import bag, dataframe
    from dask.core import flatten
    from dask.delayed import Delayed
    from dask.sizeof import sizeof
    from dask.task_spec import List, Task, TaskRef
    from distributed import get_worker
    from tlz import pluck
except ImportError as error:
    raise ImportError("mmbloom.cluster.dask needs Dask: pip install 'mmbloom[dask]'") from error

__all__ = ["FirstSeen", "build", "contains", "first_seen"]

# A Dask dataframe, Series or bag: Dask has no types for them.
Collection = Any
Graph = dict[Any, Any]

_ROUND = 16  # partitions per task of a slice: their hashes are in memory together

_OPEN: WeakKeyDictionary[Any, dict[str, Filter]] = WeakKeyDictionary()  # by worker, for `ask`


def build(
    collection: Collection,
    path: Path,
    capacity: int | None = None,
    error_rate: float | None = None,
    *,
    nulls: Nulls = "error",
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
    **drawn: Unpack[PlanOptions],
) -> None:
    """Compute a collection, and create a filter file with all its keys.

    The array and the counters of the file equal, bit for bit, those of one process that added the
    same keys, no matter where tasks ran, or how often.

    Parameters
    ----------
    collection : dask Series or bag
        The keys; the items of a bag.
    path : str or path-like
        The path of the new file, on the caller's host. The file appears complete, or not at all.
        All slices pass through the memory of the caller, which must hold the filter twice.
    capacity, error_rate
        As for `BloomFilter.create`.
    nulls : {"error", "skip"}, default "error"
        With "error", a null raises an error; with "skip", it is left out.
    permissions : int, default 0o600
        The mode bits of the new file.
    allow_network : bool, default False
        Allow the file to be on a network file system.
    **drawn
        `seed`, `hash` and `like`, as for `BloomFilter.create`; and `slices`, the number of tasks
        that fill the filter: by default 8, or one per page in a smaller filter.

    Raises
    ------
    KeyTypeError, KeyEncodingError
        If a value cannot be a key; the error names its partition and its position there.
    ValueError
        If `like` has the standard layout or is a counting filter, which cannot be cut into slices.
    TypeError
        If the collection does not hold keys; pass one column of a dataframe.
    FileExistsError, NetworkFileSystemError, OSError
        As for `mmbloom.cluster.assemble`.

    Examples
    --------
    >>> import os, tempfile
    >>> import dask.bag
    >>> import mmbloom, mmbloom.cluster.dask
    >>> urls = dask.bag.from_sequence(["/a", "/b", "/a"], npartitions=2)
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with dask.config.set(scheduler="synchronous"):
    ...     mmbloom.cluster.dask.build(urls, path, capacity=1_000_000)
    >>> with mmbloom.open(path, "r") as seen:
    ...     print(seen.contains_many(["/a", "/c"]))
    [ True False]
    """
    _require_keys(collection)
    target = require_free(path)  # before hours of tasks
    plan = SlicePlan.draw(capacity, error_rate, choose_slices=_choose_slices, **drawn)
    tasks = _Tasks.of(_Building(plan), collection, nulls, os.urandom(16).hex())
    parts = dask.compute(
        *(Delayed(tasks.last(number), tasks.graph) for number in range(plan.slices))
    )
    assemble(target, plan, parts, permissions=permissions, allow_network=allow_network)


def contains(collection: Collection, path: Path, *, nulls: Nulls = "error") -> Collection:
    """Return for each row whether its key is in a filter; false positives are possible.

    Parameters
    ----------
    collection : dask Series or bag
        The keys.
    path : str or path-like
        The filter, a file or a folder of any kind, at the same path on every worker. Each worker
        opens it once, for reading, when it runs its first task, and again if the filter is
        replaced.
    nulls : {"error", "skip"}, default "error"
        With "error", a null raises an error; with "skip", it is not in the filter.

    Returns
    -------
    dask Series or bag
        Lazy bools, with the partitions and the index of `collection`.

    Raises
    ------
    TypeError
        If the collection does not hold keys. Errors in tasks (`KeyTypeError`, `FormatError`,
        `FileNotFoundError` and others) are raised when the result is computed.

    Examples
    --------
    >>> import os, tempfile
    >>> import dask.bag
    >>> import mmbloom, mmbloom.cluster.dask
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with mmbloom.BloomFilter.create(path, 1000) as seen:
    ...     seen.add("/a")
    True
    >>> urls = dask.bag.from_sequence(["/a", "/b"])
    >>> mmbloom.cluster.dask.contains(urls, path).compute(scheduler="synchronous")
    [True, False]
    """
    _require_keys(collection)
    if isinstance(collection, dataframe.Index):
        said = "expected a Dask Series or bag of keys, got Index: pass its to_series()"
        raise TypeError(said)
    where = absolute(path)
    if isinstance(collection, bag.Bag):
        count = collection.npartitions
        numbers = bag.from_sequence(range(count), npartitions=count)
        return collection.map_partitions(_ask_items, numbers, where, nulls)
    meta = dataframe.utils.make_meta(collection).astype("bool")
    return collection.map_partitions(_ask_rows, where, nulls, meta=meta)


def first_seen(
    collection: Collection,
    on: Any = None,
    *,
    state: Path,
    nulls: Nulls = "error",
    **options: Unpack[RunOptions],
) -> FirstSeen:
    """Find the rows whose key is new: it is in no earlier row and in no committed run.

    These are the rows of pandas' ``drop_duplicates(keep="first")``, except for false positives: a
    few new rows are reported as seen. The default error rate is therefore low.

    Parameters
    ----------
    collection : dask DataFrame, Series or bag
        The rows. They are computed twice, first for their keys and later for the rows themselves,
        and must be the same both times, as with files.
    on : str, optional
        The column of the keys; for a bag, the key or index of each item that holds its key. Without
        `on`, the items of a bag or Series are the keys.
    state : str or path-like, or URL
        A folder that all workers share, or a prefix of an object store; see
        `mmbloom.cluster.Generations`. It is created if it does not exist.
    nulls : {"error", "skip"}, default "error"
        With "error", a row without a key raises an error; with "skip", it is never new.
    **options
        Options of the state and the run: `capacity`, `error_rate`, `slices` (by default 8, or one
        per page in a smaller filter), `seed`, `hash`, `on_full`, `generation` and
        `storage_options`, as in `mmbloom.cluster.RunOptions`.

    Returns
    -------
    FirstSeen
        Its `frame` has the new rows; its `commit` adds them to the state.

    Raises
    ------
    ParameterMismatchError
        If the state was created with other parameters.
    FileNotFoundError
        If there is no state, and no capacity for a new one is given.
    KeyError, TypeError
        If the column does not exist, or `on` names several.
    FormatError, ValueError, ImportError, OSError
        As for `mmbloom.cluster.Generations.create` and `begin`. Errors in tasks are raised when
        `frame` is computed.

    Notes
    -----
    The rows have the partitions of the input, some of which may be empty. Computing them again
    returns the same rows, before the commit and right after it. The result can be pickled and used
    by any thread or process.

    Each computed partition is recorded in the state, and `commit` refuses if one is missing, as
    after ``frame.head()``, which computes only the first. It cannot detect whether computed rows
    were written: ``len(frame)``, ``head(npartitions=-1)``, and ``head()`` of a frame with a single
    partition compute all rows, and a commit then adds them to the state.

    Examples
    --------
    >>> import os, tempfile
    >>> import dask, pandas
    >>> import dask.dataframe
    >>> import mmbloom.cluster.dask
    >>> rows = pandas.DataFrame({"url": ["/a", "/b", "/a"], "size": [1, 2, 3]})
    >>> rows = dask.dataframe.from_pandas(rows, npartitions=2)
    >>> where = os.path.join(tempfile.mkdtemp(), "seen")
    >>> first = mmbloom.cluster.dask.first_seen(rows, on="url", state=where, capacity=100_000)
    >>> first.frame.compute(scheduler="synchronous")["size"].tolist()
    [1, 2]
    >>> first.commit()
    >>> again = mmbloom.cluster.dask.first_seen(rows, on="url", state=where)
    >>> len(again.frame.compute(scheduler="synchronous"))
    0
    """
    keys = _keys_of(collection, on)
    run = begin_run(state, _choose_slices, **options)
    tasks = _Tasks.of(run, keys, nulls, run.id.hex())
    rows = tasks.rows_of(collection, run, nulls, on)
    return FirstSeen(rows, run, rows.npartitions)


def _choose_slices(params: FilterParams) -> int:
    """Return how many slices a filter has: a few, as each partition sends something to each."""
    return min(8, pages_of(params))


def _require_keys(collection: Collection) -> None:
    """Raise `TypeError` unless it is a Series or a bag."""
    if isinstance(collection, (dataframe.Series, bag.Bag)):
        return
    advice = "pass one column of it" if isinstance(collection, dataframe.DataFrame) else ""
    advice = advice or "create one with dask.dataframe or dask.bag"
    kind = type(collection).__name__
    raise TypeError(f"expected a Dask Series or bag of keys, got {kind}: {advice}")


def _keys_of(collection: Collection, on: Any) -> Collection:
    """Return the keys of the rows of a collection."""
    if isinstance(collection, dataframe.DataFrame):
        if on is None or (isinstance(on, (list, tuple)) and on not in [*collection.columns]):
            raise TypeError(
                f"on is {on!r}, expected the name of one column; if several columns are the key, "
                "combine them into one"
            )
        if on not in collection.columns:
            raise KeyError(f"on is {on!r}, but the columns are {list(collection.columns)}")
        return collection[on]
    _require_keys(collection)
    if on is None:
        return collection
    if isinstance(collection, bag.Bag):
        return collection.pluck(on)
    raise TypeError(f"on is {on!r}, but a Series has no columns: leave out on")


# What the tasks do


@dataclass(frozen=True)
class _Building:
    """What `build` has in place of a `Run`: slices begin empty, and the last task returns them."""

    plan: SlicePlan

    def read(self, number: int) -> Slice:
        return Slice.empty(self.plan, number)

    def write(self, part: Slice) -> None:
        """Do nothing: the slice is returned to the caller."""


class _Cutting(NamedTuple):
    """Which keys the rows of a partition have, and how they are cut into slices.

    Attributes
    ----------
    plan : SlicePlan
        How the filter is cut.
    nulls : {"error", "skip"}
        Whether a null is an error, or no key.
    on : object, optional
        The column, key or index that has the key of a row; None if the rows are the keys.
    """

    plan: SlicePlan
    nulls: Nulls
    on: Any = None

    def parts_of(self, keys: Any, partition: int) -> tuple[list[Part], _Print]:
        """Hash keys, and group them by slice."""
        with in_partition(partition):
            parts = self.plan.partition(keys, nulls=self.nulls)
        checksum = 0
        for part in parts:
            checksum = crc32(part.h1.data, checksum)
        return parts, _Print(len(keys), tuple(len(part.rows) for part in parts), checksum)

    def keys_of(self, rows: Any) -> Any:
        """Return the keys of rows."""
        if self.on is None:
            return rows
        return list(pluck(self.on, rows)) if isinstance(rows, list) else rows[self.on]


class _Print(NamedTuple):
    """A fingerprint of a partition: the same keys in the same order when it is read again.

    Which row has which key of which slice is not kept until then: the keys are hashed again, which
    takes less time than reading them. Keeping it would take four bytes for each row of the whole
    input, as Dask claims the keys of all partitions before it reads the first again.
    """

    rows: int
    keys: tuple[int, ...]  # of each slice
    checksum: int  # of their hashes


def _cut(keys: Any, partition: int, cutting: _Cutting) -> list[_Print | HashHalves]:
    """Hash the keys of a partition; return its fingerprint, and the hashes of each slice."""
    parts, print_ = cutting.parts_of(_as_rows(keys), partition)
    return [print_, *(_small(part, cutting.plan) for part in parts)]


def _small(part: Part, plan: SlicePlan) -> HashHalves:
    """Copy the hashes of a slice, without the bits that its keys' positions do not depend on."""
    if plan.params.blocks_per_key > 1:
        return part.h1.copy(), part.h2.copy()
    return (part.h1 >> np.uint64(32)).astype(np.uint32), part.h2.copy()


def _whole(h1: Array[Any], h2: Words) -> HashHalves:
    """Undo `_small`, with zeros for the bits that were dropped."""
    return (h1 if h1.dtype == np.uint64 else h1.astype(np.uint64) << np.uint64(32)), h2


_Answers = list[Octets]  # for each partition, one bit per key


def _claim(
    slices: Run | _Building, number: int, before: Slice | None, hashes: list[HashHalves], last: bool
) -> tuple[Slice, _Answers]:
    """Claim the keys that some partitions have in a slice; return which are new."""
    # A copy: this task may run again, and would find its own marks in its argument.
    part = slices.read(number) if before is None else deepcopy(before)
    answers = [np.packbits(part.claim(*_whole(*each))) for each in hashes]
    if last:
        slices.write(part)
    return part, answers


def _keep(
    rows: Any, partition: int, cutting: _Cutting, had: _Print, answers: list[_Answers]
) -> Any:
    """Return the new rows of a partition; the answers are those of its round."""
    rows = _as_rows(rows)
    parts, has = cutting.parts_of(cutting.keys_of(rows), partition)
    if has != had:
        found = f"{has.rows} rows now, but had {had.rows}"
        found = found if has.rows != had.rows else f"other keys in its {has.rows} rows now than"
        raise ValueError(
            f"partition {partition} has {found} when its keys were hashed; pass a collection that "
            "returns the same rows each time, such as files"
        )
    marks = np.zeros(has.rows, np.bool_)
    for part, each in zip(parts, answers, strict=True):
        marks[part.rows] = np.unpackbits(each[partition % _ROUND], count=len(part.rows))
    return list(compress(rows, marks.tolist())) if isinstance(rows, list) else rows[marks]


def _noted(rows: Any, partition: int, run: Run) -> Any:
    """Return a partition of the output after noting that it is computed."""
    run.note(partition)
    return rows


def _as_rows(rows: Any) -> Any:
    """Return a partition of a bag, which may be an iterator, as a list; others as they are."""
    return rows if hasattr(rows, "dtype") or hasattr(rows, "dtypes") else list(rows)


def _size_of(part: Slice) -> int:
    """Return the size of a slice, for Dask to move and spill; it would assume a few bytes."""
    start, stop = part.plan.bounds(part.number)
    return stop - start


sizeof.register(Slice, _size_of)


def _ask_rows(
    rows: Any, path: str, nulls: Nulls, partition_info: Mapping[str, Any] | None = None
) -> Any:
    """Ask a filter for the keys of a partition of a Series."""
    with in_partition((partition_info or {"number": 0})["number"]):
        return type(rows)(_ask(rows, path, nulls), index=rows.index, name=rows.name)


def _ask_items(items: Iterable[Any], numbers: Iterable[int], path: str, nulls: Nulls) -> list[bool]:
    """Ask a filter for the items of a partition of a bag."""
    (number,) = numbers
    with in_partition(number):
        answers: list[bool] = _ask(list(items), path, nulls).tolist()
    return answers


def _ask(keys: Any, path: str, nulls: Nulls) -> Bools:
    try:
        kept = _OPEN.setdefault(get_worker(), {})
    except ValueError:  # a scheduler without workers keeps nothing open
        kept = {}
    return ask(kept, path, keys, nulls)


# How the tasks depend on each other


@dataclass(frozen=True)
class _Tasks:
    """The tasks that claim the keys of a collection.

    The keys of each partition are hashed, and cut into slices. A task of a slice claims those of a
    round of partitions, after the task of the round before. So they are claimed in the order of the
    partitions, and hashes stay in memory only for their round.

    Attributes
    ----------
    graph : dict
        Tasks by key, including those of the collection.
    name : str
        Part of the keys of these tasks, and of no others.
    slices, partitions : int
        How many.
    """

    graph: Graph
    name: str
    slices: int
    partitions: int

    @classmethod
    def of(cls, slices: Run | _Building, keys: Collection, nulls: Nulls, token: str) -> _Tasks:
        """Make the tasks, and name them by a token that no other run has."""
        plan = slices.plan
        graph, inputs = _graph_of(keys)
        tasks = cls(graph, f"mmbloom-{token}", plan.slices, len(inputs))
        for partition, key in enumerate(inputs):
            tasks._cut(partition, key, _Cutting(plan, nulls))
        for start in range(0, len(inputs), _ROUND):
            for number in range(plan.slices):
                tasks._claim(slices, number, start)
        return tasks

    def _add(self, kind: str, place: tuple[int, ...], work: Any, *arguments: Any) -> TaskRef:
        key = (f"{kind}-{self.name}", *place)
        self.graph[key] = Task(key, work, *arguments)
        return TaskRef(key)

    def _ref(self, kind: str, *place: int) -> TaskRef:
        return TaskRef((f"{kind}-{self.name}", *place))

    def _cut(self, partition: int, key: Any, cutting: _Cutting) -> None:
        cut = self._add("cut", (partition,), _cut, TaskRef(key), partition, cutting)
        self._add("print", (partition,), itemgetter(0), cut)
        for number in range(self.slices):
            self._add("hashes", (partition, number), itemgetter(1 + number), cut)

    def _claim(self, slices: Run | _Building, number: int, start: int) -> None:
        stop = min(start + _ROUND, self.partitions)
        before = self._ref("slice", start // _ROUND - 1, number) if start else None
        hashes = List(*(self._ref("hashes", each, number) for each in range(start, stop)))
        place, last = (start // _ROUND, number), stop == self.partitions
        claim = self._add("claim", place, _claim, slices, number, before, hashes, last)
        self._add("slice", place, itemgetter(0), claim)
        self._add("new", place, itemgetter(1), claim)

    def last(self, number: int) -> Any:
        """Return the key of the task that returns a slice with all keys."""
        return self._ref("slice", (self.partitions - 1) // _ROUND, number).key

    def rows_of(self, collection: Collection, run: Run, nulls: Nulls, on: Any) -> Collection:
        """Return the new rows of a collection as a collection of the same kind."""
        cutting = _Cutting(run.plan, nulls, on)
        graph, inputs = _graph_of(collection)
        if len(inputs) != self.partitions:
            raise ValueError(
                f"the collection has {len(inputs)} partitions, but the column of its keys alone "
                f"has {self.partitions}: Dask partitions each by its own size; set the number, as "
                "in repartition(npartitions=...), or write the rows to files first"
            )
        self.graph.update(graph)
        for partition, key in enumerate(inputs):
            round_ = partition // _ROUND
            answers = List(*(self._ref("new", round_, number) for number in range(self.slices)))
            had = self._ref("print", partition)
            kept = self._add(
                "kept", (partition,), _keep, TaskRef(key), partition, cutting, had, answers
            )
            self._add("rows", (partition,), _noted, kept, partition, run)
        name = f"rows-{self.name}"
        if isinstance(collection, bag.Bag):
            return bag.Bag(self.graph, name, self.partitions)
        keys = [(name, partition) for partition in range(self.partitions)]
        divisions = collection.divisions
        meta = dataframe.utils.make_meta(collection)
        return dataframe.from_graph(self.graph, meta, divisions, keys, name)


def _graph_of(collection: Collection) -> tuple[Graph, list[Any]]:
    """Return the tasks of a collection, and the keys of its partitions."""
    if not isinstance(collection, bag.Bag):
        # Columns that are not needed are not read. A full optimization would also join partitions
        # of few columns: then those of the keys would differ from those of the rows.
        collection = collection.simplify()
    return dict(collection.__dask_graph__()), list(flatten(collection.__dask_keys__()))
