"""What does the first touch cost? A new file of 1.2 GB, and one that is not in memory.

Question: seconds to create a filter with a capacity of 10^9 keys and add two million, or a
thousand; how much slower the first pass over its pages is than the second; and the same for
queries after the file has left the page cache.

Method: all ways of creating or opening take turns; each round makes its own file, and flushes it
at the end. A pass is two million fresh keys, enough to touch every page.

Limits: file systems and kernels differ in how they allocate pages. Pages are dropped by
posix_fadvise, which keeps those that another process has mapped.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from _keys import numbers
from _measure import Figures, Report, benchmark, layout, seconds
from _ours import supported, takes

from mmbloom import BloomFilter

CONTENDERS: list[dict[str, Any]] = [
    {},
    {"preload": True},
    {"reserve": "zeros"},
    {"reserve": "fallocate"},
]
_FEW = 1000


def name_of(options: Mapping[str, Any]) -> str:
    """Write options as they stand in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "default"


def fill(path: str, capacity: int, keys: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Create a filter, and pass over it twice."""
    made: list[BloomFilter] = []
    first, second = numbers(0, keys), numbers(keys, keys)
    times = {
        "create": seconds(lambda: made.append(BloomFilter.create(path, capacity, **options))),
        "add, first pass": seconds(lambda: made[0].add_many(first)),
        "add, second pass": seconds(lambda: made[0].add_many(second)),
        "flush": seconds(made[0].flush),
    }
    made[0].close()
    return {f"create + add {keys:,}": times["create"] + times["add, first pass"], **times}


def few(path: str, capacity: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Create a filter, and add a few keys."""
    batch = numbers(0, _FEW)

    def work() -> None:
        with BloomFilter.create(path, capacity, **options) as made:
            made.add_many(batch)

    return {f"create + add {_FEW:,}, close": seconds(work)}


def reopen(path: str, keys: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Open a filter whose file is not in memory, and pass over it twice."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    opened: list[BloomFilter] = []
    first, second = numbers(0, keys), numbers(keys, keys)
    times = {
        "open": seconds(lambda: opened.append(BloomFilter.open(path, **options))),
        "query, first pass": seconds(lambda: opened[0].contains_many(first)),
        "query, second pass": seconds(lambda: opened[0].contains_many(second)),
    }
    opened[0].close()
    return times


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure all contenders by turns."""
    path = os.path.join(folder, "seen.bloom")
    figures: Figures = {"create": {}, "reopen": {}}

    def note(kind: str, name: str, times: dict[str, float]) -> None:
        row = figures[kind].setdefault(name, {})
        for column, value in times.items():
            row.setdefault(column, []).append(value)

    known = [options for options in CONTENDERS if takes(**options)]
    for _ in range(args.rounds):
        for options in known:
            name = name_of(options)
            note("create", name, fill(path, args.capacity, args.keys, options))
            if supported(BloomFilter.open, **options) == options:
                note("reopen", name, reopen(path, args.keys, options))
            os.unlink(path)
            note("create", name, few(path, args.capacity, options))
            os.unlink(path)
    title = f"a filter for {args.capacity:,} keys, passes of {args.keys:,}; seconds"
    left_out = [name_of(options) for options in CONTENDERS if options not in known]
    notes = f"\n\nNot in this version: {', '.join(left_out)}" if left_out else ""
    return Report(
        f"### A new file: {title}\n\n{layout('create(...)', figures['create'], 3)}\n\n"
        f"### A file on the disk: {title}\n\n{layout('open(...)', figures['reopen'], 3)}{notes}",
        figures,
    )


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filter"),
            "keys": (2_000_000, "keys a pass"),
            "rounds": (5, "rounds"),
        },
    )
