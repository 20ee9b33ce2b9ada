"""Fill and query filters in the tasks of a Spark cluster; needs the extra "spark".

``build``       creates a filter file with all keys of a column
``seen``        creates a function for SQL and columns that checks which keys a filter has
``first_seen``  finds the rows whose key no earlier run and no earlier row has

For data that one host can read, a single process is faster. Here the data may be spread over a
cluster, and the memory of a task does not grow with the number of rows. A task hashes the keys of a
partition, and sends those of each slice of the filter to the one task that has the slice. It packs
them into one row per batch and slice, as Spark spends more time on a row than mmbloom on a key.

A task may run twice, or only in part, so no task changes the result of another: `build` creates its
file once all slices exist, and only `FirstSeen.commit` changes a state.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Unpack

import numpy as np

from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.opening import absolute
from mmbloom._system.descriptors import open_file
from mmbloom._system.typing import Bools, Indices, Nulls, Path, Words
from mmbloom.cluster import FirstSeen, Run, RunOptions, Slice, SlicePlan, assemble
from mmbloom.cluster.slices import PlanOptions, require_free
from mmbloom.cluster.states import begin_run
from mmbloom.cluster.tasks import ask, in_partition
from mmbloom.errors import KeyTypeError
from mmbloom.filters.base import Filter
from mmbloom.format.slices import PAGE_BYTES, pages_of
from mmbloom.sizing.params import FilterParams

try:
    import pyarrow as pa
    from pyspark import StorageLevel, TaskContext
    from pyspark.sql import DataFrame, functions, types
except ImportError as error:
    raise ImportError(
        f"mmbloom.cluster.spark needs Spark and Arrow ({error}): pip install 'mmbloom[spark]'"
    ) from error

__all__ = ["FirstSeen", "build", "first_seen", "seen"]

# The types of columns that hold keys: the kinds of keys that Spark has types for.
_OF_KEYS = (
    types.StringType,
    types.BinaryType,
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
)
_CAST = "cast it to string, binary or bigint"

# The rows that tasks send, one for the keys of a slice in a batch. Spark has no unsigned integers,
# so hash halves are bytes: all of h1, then all of h2.
_PACKED = "slice int, partition int, batch int, hashes binary, rows binary"
_NAMES = ["slice", "partition", "batch", "hashes", "rows"]
_OWN = -1  # the partition of the first row of each slice, which has no input

# The rows that tasks return to the driver: pieces of a slice, of so many bytes.
_FILLED = "slice int, piece binary"
_PIECE = 1 << 22

_OPEN: dict[str, Filter] = {}  # by path, in this worker, which lives on from task to task

_Batches = Iterator[Any]  # of pyarrow.RecordBatch
_Task = Callable[[_Batches], _Batches]


def build(
    frame: DataFrame,
    column: str,
    path: Path,
    capacity: int | None = None,
    error_rate: float | None = None,
    *,
    nulls: Nulls = "error",
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
    **drawn: Unpack[PlanOptions],
) -> None:
    """Create a filter file with all keys of a column.

    The array of the file equals, bit for bit, that of one process that added the same keys. The
    driver creates the file, complete or not at all, once the cluster has filled all slices. It
    needs disk space for two filters in the folder of the file, but never holds a filter in memory.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    column : str
        The column of the keys: strings, binaries or integers.
    path : str or path-like
        The path of the new file, on the driver.
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
        that fill the filter: by default one per MiB, but at least 8 and at most 64.

    Raises
    ------
    FileExistsError
        If the file exists. No task is started then.
    KeyError, ValueError, TypeError
        If the column does not exist or its name is not unique, an argument is out of range, the
        frame is a stream, or `like` has the standard layout or is a counting filter, which cannot
        be cut into slices.
    KeyTypeError
        If the column has a type that cannot be a key.
    pyspark.errors.PythonException
        If a task fails. The message ends with mmbloom's own error; for a null or a value that
        cannot be a key, it names the partition and the position there.
    NetworkFileSystemError, OSError
        As for `mmbloom.cluster.assemble`.

    Examples
    --------
    >>> import os, tempfile
    >>> from pyspark.sql import SparkSession
    >>> import mmbloom, mmbloom.cluster.spark
    >>> spark = SparkSession.builder.getOrCreate()
    >>> log = spark.createDataFrame([("/a",), ("/b",), ("/a",)], "url string")
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> mmbloom.cluster.spark.build(log, "url", path, capacity=1_000_000)
    >>> with mmbloom.open(path, "r") as seen:
    ...     print(seen.contains_many(["/a", "/c"]))
    [ True False]
    """
    target = require_free(path)  # before hours of tasks
    _require_keys(frame, column)
    plan = SlicePlan.draw(capacity, error_rate, choose_slices=_choose_slices, **drawn)
    keys = _plain(frame).select(f"c{frame.columns.index(column)}")
    filled = _to_slices(keys, plan, 0, nulls, carry=False).mapInArrow(_filling(plan), _FILLED)
    # Kept on the executors' disks: the driver fetches each slice by a job of its own, which then
    # only reads.
    filled = filled.persist(StorageLevel.DISK_ONLY)
    try:
        filled.count()
        beside = os.path.dirname(target)
        with tempfile.TemporaryDirectory(prefix=".mmbloom-", dir=beside) as folder:
            parts = _fetched(filled.toLocalIterator(), folder)
            assemble(target, plan, parts, permissions=permissions, allow_network=allow_network)
    finally:
        filled.unpersist()


def seen(path: Path) -> Any:
    """Create a function for SQL and columns that checks whether a filter has each key.

    Parameters
    ----------
    path : str or path-like
        The filter, a file or a folder of any kind, at the same path on every host. Each Python
        worker opens it once, for reading, and again if the filter is replaced.

    Returns
    -------
    function
        Register it with ``spark.udf.register("seen", seen(path))``, or call it with a column. It
        returns true for a key in the filter or a false positive, and null for a null. A query with
        ``WHERE NOT seen(url)`` therefore selects no row without a key.

    Raises
    ------
    TypeError
        If `path` is not a path. Errors in tasks (`FormatError`, `FileNotFoundError`, `KeyTypeError`
        and others) are in the message of Spark's own error when rows are computed.

    Examples
    --------
    >>> import os, tempfile
    >>> from pyspark.sql import SparkSession
    >>> import mmbloom, mmbloom.cluster.spark
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with mmbloom.BloomFilter.create(path, 1000) as filled:
    ...     filled.add("/a")
    True
    >>> spark = SparkSession.builder.getOrCreate()
    >>> registered = spark.udf.register("seen", mmbloom.cluster.spark.seen(path))
    >>> spark.sql("SELECT seen('/a') AS a, seen('/c') AS c, seen(NULL) AS n").first()
    Row(a=True, c=False, n=None)
    """
    where = absolute(path)

    def known(keys: pa.Array) -> pa.Array:
        found = _ask(where, keys)
        return pa.array(found, mask=keys.is_null().to_numpy(zero_copy_only=False))

    known.__name__ = "seen"
    return functions.arrow_udf(known, types.BooleanType())


def first_seen(
    frame: DataFrame,
    on: str,
    *,
    state: Path,
    nulls: Nulls = "error",
    **options: Unpack[RunOptions],
) -> FirstSeen:
    """Find the rows whose key is new: it is in no earlier row and in no committed run.

    Exactly one row per key is kept, as with ``dropDuplicates``: the first row of the first
    partition that has the key. A frame sorted by time thus keeps the earliest row. False positives
    are reported as seen, so the default error rate is low.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows. They travel over the network once, as with ``dropDuplicates``.
    on : str
        The column of the keys: strings, binaries or integers.
    state : str or path-like, or URL
        A folder that all hosts share, or a prefix of an object store; see
        `mmbloom.cluster.Generations`. It is created if it does not exist.
    nulls : {"error", "skip"}, default "error"
        With "error", a row without a key raises an error; with "skip", it is never new.
    **options
        Options of the state and the run: `capacity`, `error_rate`, `slices` (by default one per
        MiB, but at least 8 and at most 64), `seed`, `hash`, `on_full`, `generation` and
        `storage_options`, as in `mmbloom.cluster.RunOptions`. In ``foreachBatch``, pass the batch
        id plus one as the generation.

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
        If the column does not exist, `on` names several, or the frame is a stream.
    KeyTypeError
        If the column has a type that cannot be a key.
    FormatError, ValueError, ImportError, OSError
        As for `mmbloom.cluster.Generations.create` and `begin`. Errors in tasks are in the message
        of Spark's own error when `frame` is computed.

    Notes
    -----
    The rows are in no particular order, with one partition per slice. Compute them once, when you
    write them: each computation claims all keys again. They are the same each time if the input is.

    Never commit after you have read only some of the rows: `take` may run all tasks, and the rows
    that it does not return are lost. A commit cannot detect whether Spark used all rows that the
    tasks returned.

    Threads of the driver may share the result. It cannot be pickled, because `frame` belongs to the
    session.

    Examples
    --------
    >>> import os, tempfile
    >>> from pyspark.sql import SparkSession
    >>> import mmbloom.cluster.spark
    >>> spark = SparkSession.builder.getOrCreate()
    >>> log = spark.createDataFrame([("/a", 1), ("/b", 2), ("/a", 3)], "url string, size int")
    >>> where = os.path.join(tempfile.mkdtemp(), "seen")
    >>> first = mmbloom.cluster.spark.first_seen(log, on="url", state=where, capacity=100_000)
    >>> sorted(row["size"] for row in first.frame.collect())
    [1, 2]
    >>> first.commit()
    >>> mmbloom.cluster.spark.first_seen(log, on="url", state=where).frame.count()
    0
    """
    _require_keys(frame, on)
    run = begin_run(state, _choose_slices, **options)
    plain = _plain(frame)
    parted = _to_slices(plain, run.plan, frame.columns.index(on), nulls, carry=True)
    new = parted.mapInArrow(_claiming(run), plain.schema)
    return FirstSeen(new.toDF(*frame.columns), run)


def _choose_slices(params: FilterParams) -> int:
    """Return how many slices a filter has: one per MiB, as each is a task, but 8 to 64.

    With fewer than 8, computing a few rows would run all tasks. A small filter has one per page.
    """
    pages = pages_of(params)
    return min(pages, 64, max(8, pages * PAGE_BYTES >> 20))


def _require_keys(frame: DataFrame, column: object) -> None:
    """Raise unless a frame has one column of this name, of keys."""
    if not isinstance(frame, DataFrame):
        raise TypeError(f"expected a Spark DataFrame, got {type(frame).__name__}")
    if frame.isStreaming:
        raise TypeError("frame is a stream: pass each batch, with writeStream.foreachBatch")
    if not isinstance(column, str):
        raise TypeError(
            f"the column is {column!r}, expected the name of one column; if several columns are "
            "the key, combine them into one"
        )
    if (count := frame.columns.count(column)) != 1:
        found = "but the columns are" if count == 0 else f"but {count} columns have it:"
        raise KeyError(f"the column is {column!r}, {found} {frame.columns}")
    kind = frame.schema[frame.columns.index(column)].dataType
    if not isinstance(kind, _OF_KEYS):
        raise KeyTypeError(
            f"column {column!r}: {kind.simpleString()} is not a key type", None, _CAST
        )


def _plain(frame: DataFrame) -> DataFrame:
    """Rename columns to c0, c1 and so on: to Spark a dot in a name means a part of a column."""
    return frame.toDF(*(f"c{position}" for position in range(len(frame.columns))))


# What the tasks do


def _to_slices(
    frame: DataFrame, plan: SlicePlan, position: int, nulls: Nulls, *, carry: bool
) -> DataFrame:
    """Send each slice its keys, in the order of the input, after a row of its own.

    The partition of each slice has the slice's number. Its first row has no key, so a slice without
    keys has a row, too.
    """
    own = frame.sparkSession.range(plan.slices).selectExpr(
        "int(id) AS slice", f"{_OWN} AS partition", "0 AS batch", "x'' AS hashes", "x'' AS rows"
    )
    parted = frame.mapInArrow(_parting(plan, position, nulls, carry), _PACKED)
    sent = parted.union(own).repartitionById(plan.slices, "slice")
    return sent.sortWithinPartitions("slice", "partition", "batch")


def _parting(plan: SlicePlan, position: int, nulls: Nulls, carry: bool) -> _Task:
    """Return the task of a partition of the input: it hashes its keys, and packs them by slice."""

    def part(batches: _Batches) -> _Batches:
        partition = TaskContext.get().partitionId()
        done = 0
        for number, batch in enumerate(batches):
            with in_partition(partition, done):
                parts = plan.partition(batch.column(position), nulls=nulls)
            some = [(each, of) for each, of in enumerate(parts) if len(of.rows)]
            hashes = [np.stack(of[1:]).astype("<u8", copy=False).tobytes() for _, of in some]
            rows = _packed(batch, [of.rows for _, of in some], carry)
            columns = [
                pa.array([each for each, _ in some], pa.int32()),
                pa.array([partition] * len(some), pa.int32()),
                pa.array([number] * len(some), pa.int32()),
                pa.array(hashes, pa.binary()),
                pa.array(rows, pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=_NAMES)
            done += len(batch)

    return part


def _filling(plan: SlicePlan) -> _Task:
    """Return the task of a slice of `build`: it marks all keys, and yields the slice in pieces."""

    def fill(batches: _Batches) -> _Batches:
        for number, sent in _by_slice(batches):
            part = Slice.empty(plan, number)
            for each in sent:
                part.mark(each.h1, each.h2)
            raw = part.to_bytes()
            for start in range(0, len(raw), _PIECE):
                piece = raw[start : start + _PIECE]
                columns = [pa.array([number], pa.int32()), pa.array([piece], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["slice", "piece"])

    return fill


def _claiming(run: Run) -> _Task:
    """Return the task of a slice of `first_seen`: it yields the new rows, and writes the slice."""

    def claim(batches: _Batches) -> _Batches:
        for number, sent in _by_slice(batches):
            part = run.read(number)
            for each in sent:
                new = part.claim(each.h1, each.h2)
                if new.any():
                    with pa.ipc.open_stream(each.rows) as rows:
                        yield rows.read_next_batch().filter(pa.array(new))
            run.write(part)

    return claim


class _Sent(NamedTuple):
    """The keys of a batch that belong to one slice, as they arrive at its task."""

    slice: int
    partition: int
    h1: Words
    h2: Words
    rows: Any  # pyarrow.Buffer: a stream of one record batch, or nothing


def _by_slice(batches: _Batches) -> Iterator[tuple[int, Iterator[_Sent]]]:
    """Yield each slice with the keys that were sent to it."""
    for number, together in groupby(_read(batches), key=lambda each: each.slice):
        sent = iter(together)
        if next(sent).partition != _OWN:
            # A slice with half of its keys would lose the others.
            raise RuntimeError(f"Spark has sent slice {number} to more than one task")
        yield number, sent


def _read(batches: _Batches) -> Iterator[_Sent]:
    for batch in batches:
        slices, partitions, _, hashes, rows = batch.columns
        for row in range(len(batch)):
            h1, h2 = np.frombuffer(hashes[row].as_buffer(), "<u8").reshape(2, -1)
            yield _Sent(slices[row].as_py(), partitions[row].as_py(), h1, h2, rows[row].as_buffer())


def _packed(batch: Any, chosen: list[Indices], carry: bool) -> list[bytes]:
    """Return rows of a batch as Arrow streams, which have their types; empty unless `carry`."""
    if not carry:
        return [b""] * len(chosen)
    packed: list[bytes] = []
    for rows in chosen:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch.take(pa.array(rows)))
        packed.append(sink.getvalue().to_pybytes())
    return packed


def _fetched(rows: Iterable[Any], folder: str) -> Iterator[str]:
    """Write slices to files in a folder on the driver, as they arrive; yield their paths."""
    for number, pieces in groupby(rows, key=lambda row: row["slice"]):
        path = os.path.join(folder, str(number))
        with open(path, "wb", opener=open_file) as file:
            file.writelines(row["piece"] for row in pieces)
        yield path


def _ask(path: str, keys: Any) -> Bools:
    """Ask a filter; pickled by name, unlike `seen`'s function, so all tasks share `_OPEN`."""
    return ask(_OPEN, path, keys, "skip")
