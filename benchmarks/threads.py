"""How do threads that share one filter scale? With the global lock and without.

Question: million keys per second of all threads together, for one key a call and for batches.

Method: each thread has its own keys, made before the clock starts, and makes calls of one kind.
All start together, and the clock stops when the last is done. They share one object that uses one
thread for each call (`threads=1`), so that no call splits its batch. The filter fits in cache, at
an error rate of 1 %. Keys are queried after they were added.

Limits: more threads than cores measure how much they hinder each other. The title of the table
shows whether the interpreter has a global lock: run it with two interpreters to compare them.
"""

import argparse
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from _keys import byte_strings, numbers
from _measure import Report, Rows, benchmark, layout, seconds
from _ours import make

THREADS = (1, 2, 4)
BATCH = 1000

Calls = Callable[[], None]


def one_by_one(method: Callable[[Any], object], keys: list[bytes]) -> None:
    for key in keys:
        method(key)


def in_batches(method: Callable[[Any], object], keys: Any, batch: int) -> None:
    for start in range(0, len(keys), batch):
        method(keys[start : start + batch])


def together(work: list[Calls]) -> float:
    """Do all of it at once, each in a thread; seconds until the last is done."""
    start = threading.Barrier(len(work) + 1)

    def run(calls: Calls) -> None:
        start.wait()
        calls()

    threads = [threading.Thread(target=run, args=(calls,)) for calls in work]
    for thread in threads:
        thread.start()

    def join() -> None:
        start.wait()
        for thread in threads:
            thread.join()

    return seconds(join)


def measure(folder: str, keys: int, rounds: int) -> Rows:
    """Million keys a second of each kind of call, by the number of threads."""
    rows: Rows = {}
    for number in range(rounds):
        for threads in THREADS:
            with make(folder, 4 * keys, threads=1) as seen:
                first = 4 * keys * (number * len(THREADS) + threads)
                each = keys // threads
                starts = [first + each * i for i in range(threads)]
                single = [byte_strings(at, each) for at in starts]
                lists = [byte_strings(at + keys, each) for at in starts]
                arrays = [numbers(at + 2 * keys, each) for at in starts]
                kinds: dict[str, list[Calls]] = {
                    "add": [partial(one_by_one, seen.add, some) for some in single],
                    "in": [partial(one_by_one, seen.__contains__, some) for some in single],
                    f"add_many, lists of {BATCH:,}": [
                        partial(in_batches, seen.add_many, some, BATCH) for some in lists
                    ],
                    f"contains_many, lists of {BATCH:,}": [
                        partial(in_batches, seen.contains_many, some, BATCH) for some in lists
                    ],
                    "add_many, int64 array": [
                        partial(in_batches, seen.add_many, some, 16 * BATCH) for some in arrays
                    ],
                    "contains_many, int64 array": [
                        partial(in_batches, seen.contains_many, some, 16 * BATCH) for some in arrays
                    ],
                }
                for kind, work in kinds.items():
                    speed = threads * each / together(work) / 1e6
                    column = f"{threads} thread" + "s" * (threads > 1)
                    rows.setdefault(kind, {}).setdefault(column, []).append(speed)
                assert all(seen.contains_many(some).all() for some in single)
            os.unlink(seen.path)
    return rows


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and say by which kind of interpreter."""
    rows = measure(folder, args.keys, args.rounds)
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    kind = "with" if locked else "without"
    title = f"### Python {kind} the global lock, {args.keys:,} keys: million keys a second"
    return Report("\n\n".join([title, layout("call", rows, 1)]), {"threads": rows})


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {"keys": (400_000, "keys of all threads together"), "rounds": (7, "rounds")},
    )
