"""What do more cores gain? Threads of one call, processes that share a file, files of one dedup.

Question: million keys per second of one process whose calls use 1, 2, 4, ... threads, and of as
many processes that write to one file or query it; the time that a key takes on all cores together;
and million lines per second of `mmbloom dedup -j`.

Method: powers of two, up to the number of cores. The filter has a capacity of 10^9 keys, at 1 %
and at 1e-6; int64 arrays have 4 million keys a call, lists of bytes 65,536. Keys are made, and the
filter's pages touched, before the clock starts. Processes use one thread each, so that a call does
not take the others' cores; they start together, and the clock stops when the last is done. The log
is split over 16 files, and each is deduplicated to its own output against one filter.

Limits: all writers share one lock, and all threads one memory. Queries are for keys that were
added just before.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any

from _apart import at_once, barrier
from _keys import Form, byte_strings, numbers
from _measure import Report, Rows, apart, benchmark, layout, seconds, whole
from make_log import lines

from mmbloom import BloomFilter

CORES = len(os.sched_getaffinity(0))
COUNTS = [2**i for i in range(CORES.bit_length())]
ERROR_RATES = (0.01, 1e-6)
FILES = 16
CPU = "CPU "  # before the name of a row
_PATIENCE = 600.0  # seconds


def forms(args: argparse.Namespace) -> dict[str, tuple[Form, int]]:
    """Name the forms of keys, and how many of each a call has."""
    return {"int64 array": (numbers, args.batch), "list of bytes": (byte_strings, args.listed)}


def batches(form: Form, first: int, batch: int, args: argparse.Namespace) -> Iterator[Any]:
    """Make the keys of a process: as many whatever their form."""
    for start in range(first, first + args.keys, batch):
        yield form(start, batch)


def each(call: Callable[[Any], object], keys: list[Any]) -> None:
    for some in keys:
        call(some)


def calls_of_one(path: str, threads: int, first: int, args: argparse.Namespace) -> Rows:
    """Add keys and ask for them by calls of several threads: million keys a second, CPU time."""
    rows: Rows = {}
    with BloomFilter.open(path, threads=threads) as seen:
        seen.contains_many(numbers(first, args.touch))
        for name, (form, batch) in forms(args).items():
            first += args.keys
            keys = list(batches(form, first, batch, args))
            for call in (seen.add_many, seen.contains_many):
                begun = time.process_time()
                took = seconds(partial(each, call, keys))
                cpu = time.process_time() - begun
                row = f"{call.__name__}, {name}"
                rows[row] = {str(threads): [args.keys / took / 1e6]}
                rows[f"{CPU}{row}"] = {str(threads): [cpu / args.keys * 1e9]}
    return rows


def member(
    path: str, meeting: Barrier, does: tuple[str, str], first: int, args: argparse.Namespace
) -> tuple[float, float]:
    """Add keys, or ask for them, when all processes are ready; tell when that began and ended."""
    call, name = does
    with BloomFilter.open(path, threads=1) as seen:
        keys = list(batches(forms(args)[name][0], first, forms(args)[name][1], args))
        seen.contains_many(numbers(first, args.touch))
        meeting.wait(_PATIENCE)
        start = time.monotonic()  # one clock for all processes
        each(getattr(seen, call), keys)
        return start, time.monotonic()


def together(path: str, count: int, first: int, args: argparse.Namespace) -> Rows:
    """Let several processes add at once, then ask for that: million keys a second of all."""
    rows: Rows = {}
    for name in forms(args):
        first += count * args.keys
        for call in ("add_many", "contains_many"):
            tasks = [
                (path, meeting, (call, name), first + i * args.keys, args)
                for meeting in [barrier(count)]
                for i in range(count)
            ]
            times = at_once(member, tasks, _PATIENCE)
            took = max(end for _, end in times) - min(start for start, _ in times)
            rows[f"{call}, {name}"] = {str(count): [count * args.keys / took / 1e6]}
    return rows


def split_log(folder: str, count: int) -> list[str]:
    """Write a log to several files, a part each."""
    paths = [os.path.join(folder, f"{number}.log") for number in range(FILES)]
    each_has = count // FILES
    made = lines(each_has * FILES, 1)
    for path in paths:
        with open(path, "w", encoding="ascii") as file:
            file.writelines(next(made) for _ in range(each_has))
    return paths


def dedup(folder: str, logs: list[str], jobs: int, args: argparse.Namespace) -> float:
    """Deduplicate the files by several jobs; million lines a second."""
    path = os.path.join(folder, "lines.bloom")
    out = os.path.join(folder, "unique")
    command = [sys.executable, "-P", "-m", "mmbloom", "dedup", path, *logs, "-n", str(args.lines)]
    command += ["-p", "0.0001", "--no-progress", "--output-dir", out, "-j", str(jobs)]
    took = whole(command, os.devnull, os.devnull)["wall"]
    speed: float = args.lines / took / 1e6
    for log in logs:
        os.unlink(os.path.join(out, os.path.basename(log)))
    os.unlink(path)
    return speed


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure by turns: each count once a round."""
    tables: dict[str, Rows] = {"threads": {}, "cpu": {}, "processes": {}, "dedup": {}}

    def note(table: str, suffix: str, rows: Rows) -> None:
        for name, row in rows.items():
            of = "cpu" if name.startswith(CPU) else table
            kept = tables[of].setdefault(name.removeprefix(CPU) + suffix, {})
            for column, values in row.items():
                kept.setdefault(column, []).extend(values)

    for error_rate in ERROR_RATES:
        path = os.path.join(folder, "seen.bloom")
        with BloomFilter.create(path, args.capacity, error_rate) as seen:
            first = args.touch
            seen.add_many(numbers(0, first))  # a large array is in shared memory from then on
            for _ in range(args.rounds):
                for count in COUNTS:
                    for table, measure in (
                        ("threads", partial(apart, calls_of_one)),
                        ("processes", together),
                    ):
                        note(table, f", {error_rate:g}", measure(path, count, first, args))
                        first += 2 * (count + 1) * args.keys
        os.unlink(path)
    logs = split_log(folder, args.lines)
    for _ in range(args.rounds):
        for jobs in COUNTS:
            speed = dedup(folder, logs, jobs, args)
            note("dedup", "", {"mmbloom dedup -j": {str(jobs): [speed]}})
    titles = {
        "threads": f"### Threads of one call, {args.keys:,} keys: million keys a second",
        "cpu": "### The same: nanoseconds of processor time a key",
        "processes": f"### Processes on one file, {args.keys:,} keys each: million keys a second",
        "dedup": f"### Processes of one dedup, {args.lines:,} lines: million lines a second",
    }
    parts = [f"{title}\n\n{layout('', tables[table], 1)}" for table, title in titles.items()]
    return Report("\n\n".join(parts), tables)


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filter"),
            "keys": (4_000_000, "keys of a process a round"),
            "batch": (4_000_000, "int64 keys a call"),
            "listed": (1 << 16, "keys of a list"),
            "touch": (2_000_000, "keys that touch the pages first"),
            "lines": (4_000_000, "lines of the log"),
            "rounds": (3, "rounds"),
        },
    )
