"""What does counting cost? A filter from which keys can be removed against a plain one.

Question: nanoseconds per key to add, to query and to remove keys in a filter of four-bit counters,
and to add and to query them in a plain one of the same capacity and error rate.

Method: both filters are in one process, and are written once from end to end when they are made.
Rounds take turns, each with its own keys: they are added, queried, and then removed from the
counters. Removing is compared with adding to the plain filter, which cannot remove keys.

Limits: converting keys to a form is not timed. Both filters hold half of their capacity in other
keys, which the rounds do not use.
"""

import argparse
import os
import statistics
from collections.abc import Callable
from typing import Any

from _keys import FORMS, Form
from _measure import Figures, Report, Rows, benchmark, seconds, spread, table

from mmbloom import BloomFilter, CountingBloomFilter

PLAIN, COUNTING = "BloomFilter", "CountingBloomFilter"
SHOWN = ("int64 array", "list of bytes")
_FILL = 10**11  # keys from here on are there from the beginning


def nanoseconds(ask: Callable[[Any], object], first: int, keys: int, form: Form) -> float:
    """Time a batch of new objects, per key."""
    batch = form(first, keys)
    return 1e9 / keys * seconds(lambda: ask(batch))


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and give each figure as a multiple of the plain filter's."""
    rows: Rows = {
        f"{name}, {form}": {"add": [], "query": [], **({"remove": []} if name == COUNTING else {})}
        for form in SHOWN
        for name in (PLAIN, COUNTING)
    }
    with (
        BloomFilter.create(os.path.join(folder, "plain"), args.capacity, 0.01) as plain,
        CountingBloomFilter.create(os.path.join(folder, "counting"), like=plain) as counting,
    ):
        for seen in (plain, counting):
            seen.add_many(FORMS["int64 array"](_FILL, args.capacity // 2))
        for number in range(args.rounds):
            for place, form in enumerate(SHOWN):
                first = (number * len(SHOWN) + place) * args.keys
                batches = first, args.keys, FORMS[form]
                for name, seen in ((PLAIN, plain), (COUNTING, counting)):
                    times = rows[f"{name}, {form}"]
                    times["add"].append(nanoseconds(seen.add_many, *batches))
                    times["query"].append(nanoseconds(seen.contains_many, *batches))
                times["remove"].append(nanoseconds(counting.remove_many, *batches))
    cells = []
    for form in SHOWN:
        there, ours = rows[f"{PLAIN}, {form}"], rows[f"{COUNTING}, {form}"]
        for what, against in (("add", "add"), ("query", "query"), ("remove", "add")):
            multiple = statistics.median(ours[what]) / statistics.median(there[against])
            shown = [spread(ours[what]), spread(there[against])]
            cells.append([f"{what}, {form}", *shown, f"{multiple:.2f}x"])
    header = ["ns per key", COUNTING, f"{PLAIN} (add for remove)", "counting / plain"]
    title = f"{args.keys:,} keys a round in filters sized for {args.capacity:,}"
    return Report(f"### {title}\n\n{table(header, cells)}", Figures(counting=rows))


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (10_000_000, "capacity of both filters"),
            "keys": (500_000, "keys a round"),
            "rounds": (5, "rounds"),
        },
        ("numpy", "mmh3"),
    )
