"""What do several blocks a key cost? Small files at low error rates, against one block a key.

Question: nanoseconds per key to query absent and present keys, to claim and commit, and to add, at
an error rate of 1e-6: with two blocks a key in one page, the default, and with one block, which
needs a larger file.

Method: both files have the same capacity and rate and are in one process. They start with a
quarter of their bits set at random, which is less than in a full filter. The rounds take turns,
with either file first. Each queries absent keys, claims and commits them, queries them again, and
adds others.

Limits: converting keys to a form is not timed. The pages of both files are in memory when the
rounds begin, if it has room for both.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from _measure import Figures, Report, Rows, benchmark, seconds, spread, table

from mmbloom import BloomFilter, FilterParams
from mmbloom.sizing import false_positive_rate, plan

RATE = 1e-6
ONE, SEVERAL = "one block", "several blocks"
STEPS = ("absent", "claim", "present", "add")
_BLOCK, _HASHES = 512, range(12, 25)  # among which the best number of one block is
_HEADER, _PIECE = 4096, 1 << 20


def in_one_block(capacity: int) -> FilterParams:
    """Plan with one block a key: the fewest bits that have the rate."""
    best: tuple[int, int] | None = None
    for num_hashes in _HASHES:
        low, high = 0, best[0] - 1 if best else capacity
        while high - low > 1:  # low is not good, high may be
            middle = (low + high) // 2
            rate = false_positive_rate(capacity, middle * _BLOCK, num_hashes)
            low, high = (low, middle) if rate <= RATE else (middle, high)
        if false_positive_rate(capacity, high * _BLOCK, num_hashes) <= RATE:
            best = high, num_hashes
    assert best is not None
    return FilterParams(capacity, RATE, "blocked", best[0] * _BLOCK, best[1])


def make(path: str, params: FilterParams) -> BloomFilter:
    """Create a file with just these parameters, a quarter of its bits set."""
    like: Any = SimpleNamespace(params=params)
    BloomFilter.create(path, like=like).close()
    chance = np.random.default_rng(7)
    with open(path, "r+b") as file:
        file.seek(_HEADER)
        sizes = (min(_PIECE, params.num_bytes - at) for at in range(0, params.num_bytes, _PIECE))
        file.writelines(np.bitwise_and(*chance.integers(0, 256, (2, n), np.uint8)) for n in sizes)
    seen = BloomFilter.open(path, preload=True)
    seen.recount()
    return seen


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and give each figure of several blocks as a multiple of one block's."""
    wanted = {ONE: in_one_block(args.capacity), SEVERAL: plan(args.capacity, RATE)}
    rows: Rows = {name: {step: [] for step in STEPS} for name in wanted}
    files = {name: make(os.path.join(folder, name), params) for name, params in wanted.items()}
    try:
        for number in range(args.rounds):
            first = 2 * number * args.keys
            for name in (ONE, SEVERAL) if number % 2 else (SEVERAL, ONE):
                for step, took in steps(files[name], first, args.keys).items():
                    rows[name][step].append(took)
    finally:
        for seen in files.values():
            seen.close()
    cells = []
    for step in STEPS:
        ours, theirs = rows[SEVERAL][step], rows[ONE][step]
        multiple = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        cells.append([step, spread(ours), spread(theirs), f"{multiple:.2f}x"])
    header = ["ns per key", SEVERAL, ONE, "several / one"]
    sizes = "; ".join(
        f"{name}: {params.num_bytes:,} bytes, k = {params.num_hashes}, b = {params.blocks_per_key}"
        for name, params in wanted.items()
    )
    title = f"{args.keys:,} keys a round, sized for {args.capacity:,} at {RATE:g}"
    return Report(f"### {title}\n\n{sizes}\n\n{table(header, cells)}", Figures(blocks=rows))


def steps(seen: BloomFilter, first: int, keys: int) -> dict[str, float]:
    """Do each step once, with int64 arrays; gives the nanoseconds per key of each."""
    new, others = np.arange(first, first + keys), np.arange(first + keys, first + 2 * keys)

    def claim() -> None:
        with seen.claim(new):
            pass

    work: dict[str, Callable[[], object]] = {
        "absent": lambda: seen.contains_many(new),
        "claim": claim,
        "present": lambda: seen.contains_many(new),
        "add": lambda: seen.add_many(others),
    }
    return {step: 1e9 / keys * seconds(work[step]) for step in STEPS}


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (1_000_000_000, "capacity of both files"),
            "keys": (1_000_000, "keys a round"),
            "rounds": (9, "rounds"),
        },
        ("numpy", "mmh3"),
    )
