"""What does the engine of a cluster cost and bring? One process against Dask on one host.

Question: seconds to build a filter of the URLs of a table in parquet, to ask it for each of them,
and to write the rows whose URL no row before has; and how much memory a worker has at most.

Method: the table lies in files, and 63 of 100 rows have a URL of their own. A process alone reads
and adds with one thread a core; the engine has two worker processes of one thread, started before
the clock is. Both build for that many keys at 1e-6, and the files are compared, bit for bit. "New
rows" are written as parquet; at 1e-9 with `first_seen`, and exactly with the engine's own way of
dropping duplicates, in the same cluster. All take turns. Memory is the largest resident set that a
worker process had during the job, and before it.

Limits: on one host nothing goes over a network, so figures flatter the engine; and the engine has
the same cores as the process alone, which data on many hosts would not have. The state that
`first_seen` keeps for the next run is written, and is not what the engines' own way gives.
"""

import argparse
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from _measure import Figures, Report, Rows, apart, benchmark, layout, memory, ratio, seconds

ALONE = "one process"
DASK = "Dask, mmbloom"
DASK_EXACT = "Dask, drop_duplicates"
BUILD, ASK, NEW, MEMORY, BEFORE = "build, s", "ask, s", "new rows, s", "MiB a worker", "before"
_RATE = 1e-6
_EVERY = 0.02  # seconds between two looks at memory


class Job(NamedTuple):
    """Something that a cluster does."""

    row: str
    column: str
    work: Callable[[], object]


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
        urls = [f"https://shop{i % 97}.example/article/{i:010}?ref=a" for i in ids.tolist()]
        columns = {
            "url": pa.array(urls),
            "time": pa.array(np.arange(of_this)),
            "bytes": pa.array(ids & 0xFFFF),
        }
        pq.write_table(pa.table(columns), os.path.join(table, f"{number:05}.parquet"))
    return table


def alone(table: str, folder: str, rows: int, seed: int) -> dict[str, float]:
    """Do all of it in this process, file by file; seconds by column."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    from mmbloom import BloomFilter  # noqa: PLC0415

    files = [os.path.join(table, name) for name in sorted(os.listdir(table))]

    def build() -> None:
        with BloomFilter.create(os.path.join(folder, "alone"), rows, _RATE, seed=seed) as seen:
            for file in files:
                seen.add_many(pq.read_table(file, columns=["url"])["url"])

    def ask() -> None:
        with BloomFilter.open(os.path.join(folder, "alone"), "r") as seen:
            for file in files:
                assert seen.contains_many(pq.read_table(file, columns=["url"])["url"]).all()

    def new() -> None:
        out = os.path.join(folder, "new-alone")
        os.mkdir(out)
        with BloomFilter.create(os.path.join(folder, "first"), rows, 1e-9) as seen:
            for file in files:
                whole = pq.read_table(file)
                kept = whole.filter(pa.array(seen.add_many(whole["url"])))
                pq.write_table(kept, os.path.join(out, os.path.basename(file)))

    return {BUILD: seconds(build), ASK: seconds(ask), NEW: seconds(new)}


def same_bits(one: str, other: str) -> None:
    """Make sure that two filters are equal behind their headers."""
    with open(one, "rb") as here, open(other, "rb") as there:
        here.seek(4096)
        there.seek(4096)
        while piece := here.read(1 << 20):
            assert piece == there.read(1 << 20), "the cluster's filter is another one"


@contextmanager
def largest(pids: list[int]) -> Iterator[list[float]]:
    """Watch processes for a block; gives a list with the most MiB that one of them had."""
    found, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY):
            with suppress(OSError):
                found[0] = max(found[0], *(memory(pid)["Rss"] for pid in pids))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


def measured(jobs: list[Job], pids: list[int], tidy: Callable[[], object]) -> Rows:
    """Do the jobs of a cluster, one after the other: seconds, and memory where rows are new."""
    rows: Rows = {}
    for job in jobs:
        tidy()
        before = max(memory(pid)["Rss"] for pid in pids)
        with largest(pids) as most:
            rows.setdefault(job.row, {})[job.column] = [seconds(job.work)]
        if job.column == NEW:
            rows[job.row] |= {BEFORE: [before], MEMORY: most}
    return rows


def on_dask(table: str, folder: str, rows: int, seed: int) -> Rows:
    """Do all of it on a Dask cluster of two processes."""
    import gc  # noqa: PLC0415

    import dask.dataframe as dd  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    from mmbloom.dask import build, contains, first_seen  # noqa: PLC0415

    made, out = os.path.join(folder, "dask"), os.path.join(folder, "new-dask")

    def new() -> None:
        state = os.path.join(folder, "state-dask")
        first = first_seen(dd.read_parquet(table), on="url", state=state, capacity=rows)
        first.frame.to_parquet(out)
        first.commit()

    def exact() -> None:
        dd.read_parquet(table).drop_duplicates("url").to_parquet(out + "-exact")

    def ask() -> None:
        assert contains(dd.read_parquet(table)["url"], made).all().compute()

    jobs = [
        Job(
            DASK, BUILD, lambda: build(dd.read_parquet(table)["url"], made, rows, _RATE, seed=seed)
        ),
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
        len(dd.read_parquet(table)["url"])  # workers import what all of it needs
        found = measured(jobs, pids, lambda: client.run(gc.collect))
    same_bits(os.path.join(folder, "alone"), made)
    return found


ENGINES = {"distributed": on_dask}
"""A library to what measures with it, if it is installed; each in a process of its own."""
AGAINST = {DASK: DASK_EXACT}
"""Rows to compare: ours, and the engine's own way."""


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and lay the figures out."""
    table = apart(write_table, folder, args.rows, args.files)
    rows: Rows = {}
    for number in range(args.rounds):
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        found: Rows = {ALONE: {k: [v] for k, v in apart(alone, table, place, args.rows, 5).items()}}
        for library, measure in ENGINES.items():
            if find_spec(library):
                found |= apart(measure, table, place, args.rows, 5)
        for row, columns in found.items():
            for column, values in columns.items():
                rows.setdefault(row, {}).setdefault(column, []).extend(values)
        shutil.rmtree(place)
    title = f"### {args.rows:,} rows in {args.files} files"
    digits = {BUILD: 2, ASK: 2, NEW: 2, BEFORE: 0, MEMORY: 0}
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
            "rounds": (3, "rounds"),
        },
        ("numpy", "mmh3", "pyarrow", "dask", "distributed"),
    )
