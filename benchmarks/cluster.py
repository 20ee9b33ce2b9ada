"""What does a cluster engine cost and bring? One process against Dask and Spark on one host.

Question: seconds to build a filter from the URLs of a parquet table, to query it for each of them,
and to write the first row of each URL; how often the filter reports an absent URL as seen; and how
much memory a worker uses at most.

Method: the table is in several files, and has 63 distinct URLs per 100 rows. The single process
reads and adds with one thread a core; Dask has two worker processes of one thread, Spark a session
in `local[2]` with Arrow batches of 262,144 rows. Both engines start before the clock does, and
have counted the table in a Python task. An engine that is not installed (extras `dask` and
`spark`, and Java) has no rows. All filters have as many keys of capacity as the table has rows, at
1e-6; mmbloom's files are compared, bit for bit. "New rows" are written as parquet: at 1e-9 with
`first_seen`, and exactly with the engine's own way of dropping duplicates, in the same cluster.
Spark's own Bloom filter is the JVM's `DataFrame.stat.bloomFilter`, and is written to a file too.
It is built with Spark's default settings, and with higher values of
`spark.sql.optimizer.runtime.bloomFilter.maxNumBits` and `maxNumItems`, which limit its size
without a warning. After all timed steps, each filter is queried for the same absent URLs, one at a
time; the false positives are given per million, so 1e-6 is one. All take turns. Memory is the
largest resident set of a worker process during the job, and before it.

Limits: on one host nothing crosses a network, which favours the engines. The engines have the same
cores as the single process; data on many hosts would have more. `first_seen` also writes the state
for the next run, which the engines' own ways do not. Python has no function that queries Spark's
own filter for a column, so that is not timed. With so few absent URLs, rates below 1e-5 cannot be
told apart. A Spark worker is a Python process: the JVM, which shuffles all rows for Spark, is left
out, because it uses as much memory as its heap allows, whatever it does.
"""

import argparse
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _measure import Figures, Report, Rows, apart, benchmark, layout, memory, ratio, seconds

ALONE = "one process"
DASK = "Dask, mmbloom"
DASK_EXACT = "Dask, drop_duplicates"
SPARK = "Spark, mmbloom"
SPARK_EXACT = "Spark, dropDuplicates"
SPARK_OWN = "Spark, its Bloom filter"
SPARK_RAISED = "Spark, its Bloom filter, limits raised"
BUILD, ASK, NEW = "build, s", "query, s", "new rows, s"
MEMORY, BEFORE, FALSE = "MiB a worker", "MiB before", "false positives per 10^6"
_RATE = 1e-6
_EVERY = 0.05  # seconds between two looks at memory
_MADE = "seen.bloom"
_LIMITS = "spark.sql.optimizer.runtime.bloomFilter.max"
_URL = "https://shop{}.example/article/{:010}?ref=a"


class Job(NamedTuple):
    """Something that a cluster does."""

    row: str
    column: str
    work: Callable[[], object]


class Task(NamedTuple):
    """What an engine is to do in a round, in a folder of its own."""

    table: str
    folder: str
    rows: int
    absent: int
    seed: int

    def at(self, name: str) -> str:
        """Name a file of that folder."""
        return os.path.join(self.folder, name)


def write_table(folder: str, rows: int, files: int) -> str:
    """Write files of URLs and other columns; gives their folder."""
    import pyarrow as pa  # noqa: PLC0415  a child's, so that this process stays small
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = os.path.join(folder, "table")
    os.mkdir(table)
    chance = np.random.default_rng(1)
    for number in range(files):
        of_this = rows * (number + 1) // files - rows * number // files
        ids = chance.integers(0, rows, of_this)
        urls = [_URL.format(i % 97, i) for i in ids.tolist()]
        columns = {
            "url": pa.array(urls),
            "time": pa.array(np.arange(of_this)),
            "bytes": pa.array(ids & 0xFFFF),
        }
        pq.write_table(pa.table(columns), os.path.join(table, f"{number:05}.parquet"))
    return table


def alone(task: Task) -> Rows:
    """Do all of it in this process, file by file."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from mmbloom import BloomFilter  # noqa: PLC0415

    files = [os.path.join(task.table, name) for name in sorted(os.listdir(task.table))]
    made = task.at(_MADE)

    def build() -> None:
        with BloomFilter.create(made, task.rows, _RATE, seed=task.seed) as seen:
            for file in files:
                seen.add_many(pq.read_table(file, columns=["url"])["url"])

    def ask() -> None:
        with BloomFilter.open(made, "r") as seen:
            for file in files:
                assert seen.contains_many(pq.read_table(file, columns=["url"])["url"]).all()

    def new() -> None:
        out = task.at("new")
        os.mkdir(out)
        with BloomFilter.create(task.at("first"), task.rows, 1e-9) as seen:
            for file in files:
                whole = pq.read_table(file)
                kept = whole.filter(pa.array(seen.add_many(whole["url"])))
                pq.write_table(kept, os.path.join(out, os.path.basename(file)))

    found = {BUILD: [seconds(build)], ASK: [seconds(ask)], NEW: [seconds(new)]}
    return {ALONE: found | {FALSE: [mistaken_of(made, task)]}}


def mistaken(known: Callable[[str], bool], task: Task) -> float:
    """Ask for URLs that are in no filter; gives how many of a million it takes for known."""
    beyond = range(task.rows, task.rows + task.absent)
    return sum(known(_URL.format(i % 97, i)) for i in beyond) * 1e6 / task.absent


def mistaken_of(path: str, task: Task) -> float:
    """Ask a filter of mmbloom for URLs that are not in it: see `mistaken`."""
    from mmbloom import BloomFilter  # noqa: PLC0415

    with BloomFilter.open(path, "r") as seen:
        return mistaken(seen.__contains__, task)


def same_bits(one: str, other: str) -> None:
    """Make sure that two filters are equal behind their headers."""
    with open(one, "rb") as here, open(other, "rb") as there:
        here.seek(4096)
        there.seek(4096)
        while piece := here.read(1 << 20):
            assert piece == there.read(1 << 20), "the cluster's filter is another one"


def most_of(pids: list[int]) -> float:
    """Give the MiB of the process that has most."""
    found = 0.0
    for pid in pids:
        with suppress(OSError):  # it has ended
            found = max(found, memory(pid)["Rss"])
    return found


@contextmanager
def largest(workers: Callable[[], list[int]]) -> Iterator[list[float]]:
    """Watch processes for a block; gives a list with the most MiB that one of them had."""
    found, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY):
            found[0] = max(found[0], most_of(workers()))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


def measured(jobs: list[Job], workers: Callable[[], list[int]], tidy: Callable[[], object]) -> Rows:
    """Do the jobs of a cluster, one after the other: seconds, and memory where rows are new."""
    rows: Rows = {}
    for job in jobs:
        tidy()
        before = most_of(workers())
        with largest(workers) as most:
            rows.setdefault(job.row, {})[job.column] = [seconds(job.work)]
        if job.column == NEW and job.row != SPARK_EXACT:  # in which no process of Python has a part
            rows[job.row] |= {BEFORE: [before], MEMORY: most}
    return rows


def on_dask(task: Task) -> Rows:
    """Do all of it on a Dask cluster of two processes."""
    import gc  # noqa: PLC0415

    import dask.dataframe as dd  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    from mmbloom.cluster.dask import build, contains, first_seen  # noqa: PLC0415

    made = task.at(_MADE)

    def frame() -> Any:
        return dd.read_parquet(task.table)

    def filled() -> None:
        build(frame()["url"], made, task.rows, _RATE, seed=task.seed)

    def ask() -> None:
        assert contains(frame()["url"], made).all().compute()

    def new() -> None:
        first = first_seen(frame(), on="url", state=task.at("state"), capacity=task.rows)
        first.frame.to_parquet(task.at("new"))
        first.commit()

    def exact() -> None:
        frame().drop_duplicates("url").to_parquet(task.at("exact"))

    jobs = [
        Job(DASK, BUILD, filled),
        Job(DASK, ASK, ask),
        Job(DASK, NEW, new),
        Job(DASK_EXACT, NEW, exact),
    ]
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        LocalCluster(processes=True, host="127.0.0.1", silence_logs="ERROR", **options) as cluster,
        Client(cluster) as client,
    ):
        pids = [*client.run(os.getpid).values()]
        len(frame()["url"])  # workers import what all of it needs
        found = measured(jobs, lambda: pids, lambda: client.run(gc.collect))
    found[DASK][FALSE] = [mistaken_of(made, task)]
    return found


@contextmanager
def session(folder: str) -> Iterator[Any]:
    """Start a session of Spark, whose files are in a new folder; its JVM ends with the block."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.mkdir(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of this process, which is Spark's alone
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:-UsePerfData",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.log.level": "OFF",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "262144",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway  # noqa: SLF001  the only way to its process
    try:
        yield spark
    finally:
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # upon which Java ends
        gateway.proc.wait(60)


def children(pid: int) -> list[int]:
    """List the processes that a process has started."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += map(int, listing.read_text("ascii").split())
    return found


def forked_by(java: int) -> list[int]:
    """List the workers of a JVM: it starts a process of Python, which forks them."""
    return [worker for forking in children(java) for worker in children(forking)]


def on_spark(task: Task) -> Rows:
    """Do all of it in a session of Spark of two threads, and build Spark's own Bloom filter."""
    from mmbloom.cluster.spark import build, first_seen, seen  # noqa: PLC0415

    made = task.at(_MADE)
    with session(task.at("spark")) as spark:
        jvm = spark.sparkContext._jvm  # noqa: SLF001
        own: dict[str, Any] = {}

        def frame() -> Any:
            return spark.read.parquet(task.table)

        def filled() -> None:
            build(frame(), "url", made, task.rows, _RATE, seed=task.seed)

        def ask() -> None:
            assert frame().where(~seen(made)("url")).count() == 0

        def new() -> None:
            first = first_seen(frame(), on="url", state=task.at("state"), capacity=task.rows)
            first.frame.write.parquet(task.at("new"))
            first.commit()

        def exact() -> None:
            frame().dropDuplicates(["url"]).write.parquet(task.at("exact"))

        def fill_own(row: str) -> None:
            stat = frame()._jdf.stat()  # noqa: SLF001  it has no name in Python
            own[row] = stat.bloomFilter("url", task.rows, _RATE)
            file = jvm.java.io.FileOutputStream(task.at("theirs"))
            own[row].writeTo(file)
            file.close()

        def raised() -> None:
            for limit in ("NumBits", "NumItems"):
                spark.conf.set(f"{_LIMITS}{limit}", 1 << 40)
            fill_own(SPARK_RAISED)

        jobs = [
            Job(SPARK, BUILD, filled),
            Job(SPARK, ASK, ask),
            Job(SPARK, NEW, new),
            Job(SPARK_EXACT, NEW, exact),
            Job(SPARK_OWN, BUILD, lambda: fill_own(SPARK_OWN)),
            Job(SPARK_RAISED, BUILD, raised),
        ]
        frame().select("url").mapInArrow(lambda batches: batches, "url string").count()
        java = spark.sparkContext._gateway.proc.pid  # noqa: SLF001
        found = measured(jobs, lambda: forked_by(java), jvm.System.gc)
        for row, theirs in own.items():
            found[row][FALSE] = [mistaken(theirs.mightContainString, task)]
    found[SPARK][FALSE] = [mistaken_of(made, task)]
    return found


ENGINES = {"mmbloom": alone, "distributed": on_dask, "pyspark": on_spark}
"""A library to what measures with it, if it is installed; each in a process of its own."""
AGAINST = {DASK: DASK_EXACT, SPARK: SPARK_EXACT}
"""Rows to compare: ours, and the engine's own way."""


def is_there(library: str) -> bool:
    """Say whether a library can be imported, and has what it needs."""
    return bool(find_spec(library) and (library != "pyspark" or shutil.which("java")))


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and lay the figures out."""
    table = apart(write_table, folder, args.rows, args.files)
    engines = {library: measure for library, measure in ENGINES.items() if is_there(library)}
    rows: Rows = {}
    for number in range(args.rounds):
        places = [os.path.join(folder, f"{number}-{library}") for library in engines]
        for place, measure in zip(places, engines.values(), strict=True):
            os.mkdir(place)
            task = Task(table, place, args.rows, args.absent, seed=5)
            for row, columns in apart(measure, task).items():
                for column, values in columns.items():
                    rows.setdefault(row, {}).setdefault(column, []).extend(values)
        for place in places[1:]:
            same_bits(os.path.join(places[0], _MADE), os.path.join(place, _MADE))
        for place in places:
            shutil.rmtree(place)
    title = f"### {args.rows:,} rows in {args.files} files, {args.absent:,} absent URLs"
    digits = {BUILD: 2, ASK: 2, NEW: 2, FALSE: 0, BEFORE: 0, MEMORY: 0}
    said = [
        f"New rows, {ours}: {ratio(rows[exact][NEW], rows[ours][NEW])} as fast as {exact}."
        for ours, exact in AGAINST.items()
        if ours in rows
    ]
    text = "\n\n".join([title, layout("", rows, digits), *said])
    return Report(text, Figures(cluster=rows))


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "rows": (10_000_000, "rows of the table"),
            "files": (10, "files that it lies in"),
            "absent": (200_000, "URLs to ask for that are in no filter"),
            "rounds": (3, "rounds"),
        },
        ("numpy", "mmh3", "pyarrow", "dask", "distributed", "pyspark"),
    )
