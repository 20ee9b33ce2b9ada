"""Does it hold a billion keys? One filter, filled to its capacity.

Question: how long 10^9 distinct int64 keys take to add, how much memory that takes, how many
absent keys are then reported as seen, and how soon a new process gets its first answer: at an
error rate of 1 % and at one of 1e-6, whose file exceeds the kernel's dirty-page limit.

Method: one run. Keys are made batch by batch, distinct because each is an odd multiple of its
number; making them is timed separately. Absent keys are those with the next numbers.

Limits: with one run, the only spread is that of its batches. The file is not flushed until the
end, and the kernel writes it back meanwhile. The resident set includes the whole mapped file;
"memory of its own" is the part that is not shared with the page cache.
"""

import argparse
import os
import resource
import time

import numpy as np
from _keys import numbers
from _measure import Report, Rows, apart, benchmark, memory, seconds, table

from mmbloom import BloomFilter

ERROR_RATES = (0.01, 1e-6)


def fill(path: str, args: argparse.Namespace, error_rate: float) -> Rows:
    """Make and fill the filter, and ask it for absent keys."""
    adding: list[float] = []
    start = time.perf_counter()
    new = 0
    with BloomFilter.create(path, args.keys, error_rate) as seen:
        for first in range(0, args.keys, args.batch):
            keys = numbers(first, min(args.batch, args.keys - first))
            begin = time.perf_counter()
            new += int(np.count_nonzero(seen.add_many(keys)))
            adding.append(time.perf_counter() - begin)
        total = time.perf_counter() - start
        flush = seconds(seen.flush)
        size = memory()
        asking, found = 0.0, 0
        for first in range(args.keys, args.keys + args.absent, args.batch):
            keys = numbers(first, min(args.batch, args.keys + args.absent - first))
            begin = time.perf_counter()
            found += int(np.count_nonzero(seen.contains_many(keys)))
            asking += time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    per_batch = np.array(adding) / np.minimum(args.batch, args.keys) * 1e9
    whole = per_batch[: max(1, args.keys // args.batch)]  # the last batch may be a short one
    return {
        "create, make keys, add": {"seconds": [total]},
        "add": {"seconds": [sum(adding)]},
        "add, of a batch": {"ns per key": whole.tolist()},
        "flush": {"seconds": [flush]},
        "query, absent": {"ns per key": [1e9 * asking / args.absent]},
        "reported as seen when added": {"keys": [float(args.keys - new)]},
        "false positives when full": {"keys": [float(found)]},
        "false positives expected": {"keys": [error_rate * args.absent]},
        "file": {"MiB": [os.path.getsize(path) / 2**20]},
        "peak resident set": {"MiB": [peak]},
        "PSS when full": {"MiB": [size["Pss"]]},
        "memory of its own when full": {"MiB": [size["Pss_Anon"]]},
    }


def ask(path: str) -> float:
    """Give the seconds to open the filter and query one key."""

    def work() -> None:
        with BloomFilter.open(path, "r") as seen:
            assert int(numbers(0, 1)[0]) in seen

    return seconds(work)


def run(args: argparse.Namespace, folder: str) -> Report:
    """Fill, then ask from a new process; once for each error rate."""
    path = os.path.join(folder, "billion.bloom")
    found = dict[str, Rows]()
    for error_rate in ERROR_RATES:
        rows = apart(fill, path, args, error_rate)
        rows["open and query one key, new process"] = {"ms": [1000 * apart(ask, path)]}
        os.unlink(path)
        found[f"{error_rate:g}"] = rows
    cells = [
        [name, *(_figure(rows[name]) for rows in found.values())]
        for name in next(iter(found.values()))
    ]
    title = f"### {args.keys:,} keys, {args.absent:,} absent ones, batches of {args.batch:,}\n\n"
    return Report(title + table(["error rate", *found], cells), found)


def _figure(row: dict[str, list[float]]) -> str:
    ((unit, values),) = row.items()
    figure = f"{np.median(values):,.{0 if unit in ('MiB', 'keys') else 3}f} {unit}"
    return figure + (f" ({min(values):,.0f}-{max(values):,.0f})" if len(values) > 1 else "")


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "keys": (1_000_000_000, "keys to add"),
            "absent": (100_000_000, "absent keys to ask for"),
            "batch": (4_000_000, "keys a batch"),
        },
    )
