"""How much memory do eight workers take? One shared file against one filter each.

Question: MiB of memory of all workers that query one filter with a capacity of 10^9 keys.

Method: the sum of PSS (proportional set size: a page that n processes map counts 1/n in each) over
workers that are alive together, after each has queried enough random keys to touch every page. For
a filter in memory one process is measured after as many adds, and counted once for each worker.
All figures include Python and the libraries.

Limits: the workers are started separately; forked ones would also share Python's own pages. A
parent that fills a filter in memory and then forks shares the filter too, until a process writes.
"""

import argparse
import multiprocessing
import os
from multiprocessing.synchronize import Barrier, Event

import numpy as np
from _keys import byte_strings, numbers
from _measure import Report, Rows, apart, benchmark, memory, ratio, spread, table
from _peers import PEERS, installed, missing

from mmbloom import BloomFilter

OURS = "mmbloom"
PEER = "rbloom"
_BATCH = 1 << 20
_FEW = 1 << 14  # lists of keys should not be seen in the memory that is measured
_PATIENCE = 600  # seconds


def worker(path: str, keys: int, touched: Barrier, done: Event) -> None:
    """Touch the filter's pages, and stay until all are measured."""
    with BloomFilter.open(path, "r") as seen:
        for start in range(0, keys, _BATCH):
            seen.contains_many(numbers(start, min(_BATCH, keys - start)))
        touched.wait(_PATIENCE)
        done.wait(_PATIENCE)


def ours(folder: str, capacity: int, workers: int, keys: int) -> dict[str, list[float]]:
    """Measure all workers at once; MiB of each."""
    path = os.path.join(folder, "seen.bloom")
    with BloomFilter.create(path, capacity) as seen:
        seen.add_many(numbers(0, min(keys, _BATCH)))
    context = multiprocessing.get_context("spawn")
    touched, done = context.Barrier(workers + 1), context.Event()
    processes = [
        context.Process(target=worker, args=(path, keys, touched, done)) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        touched.wait(_PATIENCE)
        sizes = [memory(str(process.pid)) for process in processes]
    finally:
        done.set()
        for process in processes:
            process.join()
    os.unlink(path)
    return {name: [size[name] for size in sizes] for name in ("Pss", "Rss", "Pss_Anon")}


def theirs(folder: str, capacity: int, keys: int) -> dict[str, list[float]]:
    """Measure one process with a filter in memory."""
    peer = PEERS[PEER](folder, capacity)
    for start in range(0, keys, _FEW):
        peer.add(byte_strings(start, min(_FEW, keys - start)))
    size = memory()
    peer.close()
    return {name: [size[name]] for name in ("Pss", "Rss", "Pss_Anon")}


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure the workers, then the peer."""
    each: Rows = {OURS: ours(folder, args.capacity, args.workers, args.keys)}
    if installed(PEER):
        each[PEER] = apart(theirs, folder, args.capacity, args.keys)
    rows: Rows = {
        name: {
            "all": [float(np.mean(sizes["Pss"])) * args.workers],
            "one": sizes["Rss"],
            "own": sizes["Pss_Anon"],
        }
        for name, sizes in each.items()
    }
    cells = [
        [
            name,
            spread(row["all"]),
            ratio(row["all"], rows[OURS]["all"]),
            spread(row["one"]),
            spread(row["own"]),
        ]
        for name, row in rows.items()
    ]
    header = ["", "all workers: PSS, MiB", "times mmbloom's", "one worker: RSS", "its own pages"]
    title = f"### {args.workers} workers, a filter for {args.capacity:,} keys\n\n"
    return Report(title + table(header, cells) + missing([PEER]), {"memory": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filter"),
            "workers": (8, "processes that share the filter"),
            "keys": (4_000_000, "random keys that each asks for"),
        },
        ("numpy", "rbloom"),
    )
