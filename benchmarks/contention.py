"""What do writers cost each other? One file, one lock, several processes.

Question: keys per second of 1, 2 and 4 processes that add batches of 64 Ki keys to one filter with
a capacity of 10^9; nanoseconds of the calls for a single key; and how long a writer of single keys
waits beside four processes that add millions of keys a call, which hold the lock for a chunk.

Method: the processes start, touch the filter's pages, wait for each other, and then all add their
batches of fresh keys; the time is from the first start to the last end. Rounds take turns. To
measure the waits, four processes add int64 arrays for some seconds while a fifth adds a key every
tenth of a millisecond, and each of its calls is timed. A chunk has up to a million keys.

Limits: mmbloom uses all cores for one batch where it can, so one writer may leave nothing to gain.
The question is whether several writers lose anything.
"""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from _keys import byte_strings, numbers
from _measure import Report, Rows, apart, benchmark, layout, ratio, spread, start_method, table

from mmbloom import BloomFilter

WRITERS = (1, 2, 4)
ERROR_RATES = (0.01, 1e-6)
RATE = "million keys per second"
_PATIENCE = 600  # seconds
_meeting: list[Barrier] = []


def meet_at(meeting: Barrier) -> None:
    """Tell a new process where the writers meet."""
    _meeting.append(meeting)


class Load(NamedTuple):
    """What each writer adds: batches of so many keys, after some that touch the pages."""

    batches: int
    batch: int
    touch: int


def writer(path: str, first: int, load: Load) -> tuple[float, float]:
    """Add batches; tell when it began and ended."""
    keys = [byte_strings(first + i * load.batch, load.batch) for i in range(load.batches)]
    with BloomFilter.open(path) as seen:
        seen.add_many(numbers(0, load.touch))
        _meeting[0].wait(_PATIENCE)
        start = time.monotonic()  # one clock for all processes
        for some in keys:
            seen.add_many(some)
        return start, time.monotonic()


def together(path: str, writers: int, first: int, load: Load) -> float:
    """Let some writers add at once; give millions of keys per second, of all."""
    context = multiprocessing.get_context(start_method())
    each = load.batches * load.batch
    with ProcessPoolExecutor(writers, context, meet_at, (context.Barrier(writers),)) as pool:
        tasks = [pool.submit(writer, path, first + i * each, load) for i in range(writers)]
        times = [task.result() for task in tasks]
    elapsed = max(end for _, end in times) - min(start for start, _ in times)
    return writers * each / elapsed / 1e6


def add_for(seconds: float, path: str, first: int, batch: int) -> int:
    """Add batches of fresh keys; how many calls that were."""
    calls = 0
    with BloomFilter.open(path) as seen:
        _meeting[0].wait(_PATIENCE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen.add_many(numbers(first + calls * batch, batch))
            calls += 1
    return calls


def wait_for(seconds: float, path: str) -> list[float]:
    """Add a key every tenth of a millisecond; milliseconds of each call."""
    waits = []
    with BloomFilter.open(path) as seen:
        keys = iter(byte_strings(10**11, 1_000_000))
        _meeting[0].wait(_PATIENCE)
        end = time.monotonic() + seconds
        while (begin := time.monotonic()) < end:
            seen.add(next(keys))
            waits.append(1e3 * (time.monotonic() - begin))
            time.sleep(1e-4)  # without it, beside writers that pause, a million keys were too few
    return waits


def beside_batches(path: str, batch: int, seconds: float) -> dict[str, list[float]]:
    """Let four processes add batches, and one single keys: how long its calls take."""
    context = multiprocessing.get_context(start_method())
    writers = WRITERS[-1]
    with ProcessPoolExecutor(
        writers + 1, context, meet_at, (context.Barrier(writers + 1),)
    ) as pool:
        others = [
            pool.submit(add_for, seconds, path, 10**10 * (1 + i), batch) for i in range(writers)
        ]
        waits = sorted(pool.submit(wait_for, seconds, path).result())
        for other in others:
            other.result()
    if not waits:
        raise RuntimeError("no key was added: give more seconds")
    return {
        "median ms": [waits[len(waits) // 2]],
        "99th percentile ms": [waits[len(waits) * 99 // 100]],
        "longest ms": [waits[-1]],
    }


def one_by_one(path: str, calls: int, rounds: int) -> Rows:
    """Time the calls for a single key."""
    times: dict[str, list[float]] = {"add": [], "add, in locked()": [], "in": []}

    def note(name: str, start: int) -> None:
        times[name].append((time.perf_counter_ns() - start) / calls)

    with BloomFilter.open(path) as seen:
        for number in range(rounds):
            outside, inside = (
                byte_strings(10**11 + (2 * number + i) * calls, calls) for i in range(2)
            )
            start = time.perf_counter_ns()
            for key in outside:
                seen.add(key)
            note("add", start)
            with seen.locked():
                start = time.perf_counter_ns()
                for key in inside:
                    seen.add(key)
                note("add, in locked()", start)
            start = time.perf_counter_ns()
            for key in inside:
                key in seen  # noqa: B015  only the time matters
            note("in", start)
    return {name: {"ns per call": values} for name, values in times.items()}


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure batches, then single keys."""
    path = os.path.join(folder, "seen.bloom")
    BloomFilter.create(path, args.capacity).close()
    load = Load(args.batches, args.batch, args.touch)
    rates: dict[int, list[float]] = {writers: [] for writers in WRITERS}
    first = 0
    for _ in range(args.rounds):
        for writers, some in rates.items():
            some.append(together(path, writers, first, load))
            first += writers * load.batches * load.batch
    cells = [
        [str(writers), spread(some, 2), ratio(some, rates[WRITERS[0]])]
        for writers, some in rates.items()
    ]
    single = apart(one_by_one, path, args.calls, args.rounds)
    beside: Rows = {}
    for error_rate in ERROR_RATES:
        other = os.path.join(folder, f"{error_rate}.bloom")
        with BloomFilter.create(other, args.capacity, error_rate) as seen:
            seen.add_many(numbers(0, args.touch))  # a large array is in shared memory from then on
            beside[f"error rate {error_rate:g}"] = beside_batches(other, args.large, args.seconds)
        os.unlink(other)
    title = f"### Batches of {args.batch:,} keys, lists of bytes, a filter for {args.capacity:,}"
    header = ["writers", "million keys per second in total", "relative to one writer"]
    rows: Rows = {str(writers): {RATE: some} for writers, some in rates.items()}
    return Report(
        f"{title}\n\n{table(header, cells)}\n\n### A key at a time\n\n{layout('', single)}\n\n"
        f"### A key beside four writers of {args.large:,} keys a call\n\n{layout('', beside, 2)}",
        {"writers": rows, "single": single, "beside": beside},
    )


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of the filter"),
            "batch": (1 << 16, "keys a batch"),
            "batches": (128, "batches of each writer a round"),
            "touch": (2_000_000, "keys that touch the pages first"),
            "calls": (20_000, "calls for a single key a round"),
            "rounds": (5, "rounds"),
            "large": (4_000_000, "keys a call beside which single keys wait"),
            "seconds": (20, "for which these are added"),
        },
    )
