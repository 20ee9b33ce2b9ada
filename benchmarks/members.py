"""What does a folder of filters cost? A growing and a rotating filter against a plain one.

Question: nanoseconds per key to query keys in a growing filter of four files and in a rotating one
of seven periods, and to add keys to both, as multiples of a plain filter's; and microseconds for a
single ``in`` and a single ``add``.

Method: the three hold the same keys at the same chosen error rate, in one process, and take
turns. The growing filter's files are full, the last one nearly; each period of the rotating filter
holds a seventh. "Present" queries keys from all files equally, "absent" queries keys that were
never added. Keys are added to filters that already have their files: a new key is in none of the
growing filter's four files and in none of the rotating one's seven. The periods of the rotating
filter are the last seven days by the system's clock; with another clock each single key takes more
checks.

Limits: converting keys to a form is not timed. Warnings about more keys than the capacity are
suppressed here. A filter that does not fit in cache waits for memory once for each file.
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from _keys import FORMS
from _measure import Figures, Report, Rows, benchmark, seconds, spread, table

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom.errors import CapacityWarning

PLAIN, GROWING, ROTATING = "BloomFilter", "GrowingFilter, 4 files", "RotatingFilter, 7 periods"
FILES = {PLAIN: 1, GROWING: 4, ROTATING: 7}
PRESENT, ABSENT, ADD = "present", "absent", "add"
ONE, ADD_ONE = "one absent key, us", "one new key added, us"
BYTES = "list of bytes"
SHOWN = (BYTES, "int64 array")
_ABSENT, _NEW = 10**11, 10**12  # keys from here on
_ONES = 10_000
_DAY = 86400


def filled(folder: str, capacity: int) -> dict[str, Any]:
    """Make the three filters, with the same keys in each."""
    keys = FORMS["int64 array"](0, capacity)
    today = time.time() // _DAY
    days = [(today - 6) * _DAY]
    plain = BloomFilter.create(os.path.join(folder, "plain"), capacity, 0.01)
    growing = GrowingFilter.create(os.path.join(folder, "growing"), max(1, capacity // 14), 0.01)
    rotating = RotatingFilter.create(
        os.path.join(folder, "rotating"),
        keep="6d",
        every="1d",
        capacity_per_period=capacity // 7,
        error_rate=0.01,
        clock=lambda: days[0],
    )
    plain.add_many(keys)
    growing.add_many(keys)
    for day in range(7):
        days[0] = (today - 6 + day) * _DAY
        rotating.add_many(keys[day * capacity // 7 : (day + 1) * capacity // 7])
    rotating.close()
    rotating = RotatingFilter.open(os.path.join(folder, "rotating"))
    seen: dict[str, Any] = {PLAIN: plain, GROWING: growing, ROTATING: rotating}
    for name in (GROWING, ROTATING):
        assert len(seen[name].info().files) == FILES[name]
    return seen


def per_key(ask: Callable[[Any], object], batch: Any) -> float:
    """Time a call in nanoseconds per key."""
    return 1e9 / len(batch) * seconds(lambda: ask(batch))


def ask_one_by_one(seen: Any, keys: list[str]) -> int:
    """Ask for keys that are not there; how many were found all the same."""
    return sum(key in seen for key in keys)


def add_one_by_one(seen: Any, keys: list[str]) -> int:
    """Add keys that are not there; how many were new."""
    return sum(map(seen.add, keys))


def run(args: argparse.Namespace, folder: str) -> Report:
    """Measure, and give each figure as a multiple of the plain filter's."""
    rows: Rows = {f"{name}, {form}": {} for form in SHOWN for name in FILES}
    seen = filled(folder, args.capacity)
    warnings.simplefilter("ignore", CapacityWarning)

    def note(name: str, form: str, column: str, value: float) -> None:
        rows[f"{name}, {form}"].setdefault(column, []).append(value)

    for number in range(args.rounds):
        for place, form in enumerate(SHOWN):
            # Every file is to have its share of the keys that are there.
            step = args.capacity // args.keys or 1
            present = FORMS[form](0, args.capacity)[::step]
            absent = FORMS[form](_ABSENT + number * args.keys, args.keys)
            new = FORMS[form](
                _NEW + (number * len(SHOWN) + place) * args.keys, max(1, args.keys // 100)
            )
            for name, one in seen.items():
                note(name, form, PRESENT, per_key(one.contains_many, present))
                note(name, form, ABSENT, per_key(one.contains_many, absent))
                note(name, form, ADD, per_key(one.add_many, new))
        ones = [f"absent {number} {i}" for i in range(_ONES)]
        for name, one in seen.items():
            note(name, BYTES, ONE, per_key(partial(ask_one_by_one, one), ones) / 1000)
            note(name, BYTES, ADD_ONE, per_key(partial(add_one_by_one, one), ones) / 1000)
    for one in seen.values():
        one.close()
    cells = []
    for form in SHOWN:
        for column in rows[f"{PLAIN}, {form}"]:
            plain = rows[f"{PLAIN}, {form}"][column]
            digits = 2 if column in (ONE, ADD_ONE) else 1
            line = [f"{column}, {form}", spread(plain, digits)]
            for name in (GROWING, ROTATING):
                ours = rows[f"{name}, {form}"][column]
                times = statistics.median(ours) / statistics.median(plain)
                line += [spread(ours, digits), f"{times:.2f}x"]
            cells.append(line)
    header = ["ns per key", PLAIN, GROWING, "", ROTATING, ""]
    title = f"{args.capacity:,} keys in each, {args.keys:,} queried a round"
    return Report(f"### {title}\n\n{table(header, cells)}", Figures(members=rows))


if __name__ == "__main__":
    benchmark(
        __doc__,
        run,
        {
            "capacity": (2_000_000, "keys that the filters hold"),
            "keys": (500_000, "keys a round"),
            "rounds": (9, "rounds"),
        },
        ("numpy", "mmh3"),
    )
