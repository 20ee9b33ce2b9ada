"""Filters to unite, live ones too, and what a union must be, by the bytes of the files alone."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import RATE, by_number, manifest_of
from checks import array_of, check_folder, check_settled, counters_of
from reference import HEADER_BYTES, NaiveFilter
from workers import PATIENCE, running

from mmbloom import BloomFilter, Filter, GrowingFilter, RotatingFilter, verify
from mmbloom._system.typing import Keys
from mmbloom.sizing import Layout
from mmbloom.sizing.params import KeyHash

Where = str | Path

# As errors have the seeds of two filters: of SipHash's secret keys a fingerprint.
SEEDS_5_AND_6 = tuple(KeyHash("siphash", seed).spelled_seed for seed in (5, 6))


def make(where: Where, keys: Keys = (), like: Where | None = None, **options: Any) -> str:
    """Make a filter of few keys, like another one if there is one; gives its path."""
    if like is None:
        sizes = {"capacity": 1000, "seed": 5} | options
        made = BloomFilter.create(where, **sizes)
    else:
        with BloomFilter.open(like, "r") as other:
            made = BloomFilter.create(where, like=other)
    with made:
        made.update(keys)
    return os.fspath(where)


# Keys of the two filters of `make_two`: they share 100.
ONE, TWO = range(300), range(200, 500)


def make_two(folder: Path, **options: Any) -> list[str]:
    """Make two small filters that can be united, "one" and "two"."""
    one = make(folder / "one", ONE, **options)
    return [one, make(folder / "two", TWO, one)]


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return make_two(tmp_path)


@contextmanager
def live_writer(
    path: Where,
    opened: Callable[[Path], Filter] = BloomFilter.open,
    between: Callable[[], object] = lambda: None,
    distinct: int | None = None,
    start: int = 0,
) -> Iterator[Callable[[int], int]]:
    """Keep a child that adds 0, 1, 2, ..., or from `start` on, in batches of 100 for a block.

    Gives a function that waits until so many batches are acknowledged, and says how many keys
    are, by a report after each batch. After so many `distinct` keys it adds the same again: a
    filter gets no fuller than it is planned for.
    """
    reports = Path(f"{os.fspath(path)}.{start}.reports")
    reports.touch()

    def add_for_ever() -> None:
        with opened(Path(path)) as seen, reports.open("ab", buffering=0) as report:
            for number in itertools.count(0, 100):
                first = start + (number % distinct if distinct else number)
                seen.add_many(range(first, first + 100))
                report.write(b".")
                between()

    def acknowledged(least: int) -> int:
        deadline = time.monotonic() + PATIENCE
        while reports.stat().st_size < least:
            assert time.monotonic() < deadline, "the writer does not get on"
            time.sleep(0.001)
        added = 100 * reports.stat().st_size
        return added if distinct is None else min(added, distinct)

    with running(add_for_ever):
        yield acknowledged


def make_random(where: Path, capacity: int, layout: Layout, seed: int) -> str:
    """Make a filter with an eighth of its bits set anywhere, to the very last word."""
    chance = np.random.default_rng(seed)
    with BloomFilter.create(where, capacity, layout=layout, seed=1) as made:
        shape = (3, made.params.num_bytes)
        array = np.bitwise_and.reduce(chance.integers(0, 256, shape, np.uint8))
        array[0] |= 1
        array[-1] |= 128
        with where.open("r+b") as file:
            file.seek(HEADER_BYTES)
            file.write(array.tobytes())
        made.recount()
        made._storage.counters["keys_added"] = round(made.approx_count)
    return str(where)


def bits_of(*paths: Where) -> int:
    return reduce(or_, (int.from_bytes(array_of(str(path)), "little") for path in paths))


def check_union(path: Where, *sources: Where) -> None:
    """Check that a filter holds the bits of its sources and no other, and says so."""
    naive = NaiveFilter(Path(path).read_bytes())  # its header is valid
    assert int.from_bytes(naive.array, "little") == bits_of(*sources)
    check_settled(str(path))
    keys = [counters_of(str(source))["keys_added"] for source in sources]
    assert max(keys) <= naive.counters[0] <= sum(keys)
    status = os.stat(path)
    assert status.st_blocks * 512 >= status.st_size, "its space is reserved (law 9)"


def rate_in(options: Mapping[str, Any]) -> float:
    """The lowest error rate of these tests that a layout can have with so few keys."""
    return 1e-6 if options.get("layout") == "standard" else RATE


def make_growing(folder: Path, keys: Keys = (), **options: Any) -> Path:
    sizes = {"initial_capacity": 20, "error_rate": rate_in(options), "seed": 5} | options
    with GrowingFilter.create(folder, **sizes) as seen:
        seen.update(keys)
    return folder


def make_rotating(folder: Path, days: Mapping[float, Keys], **options: Any) -> Path:
    """A rotating filter of a week, with some keys added at each of some times, in days."""
    sizes = {"capacity_per_period": 1000, "error_rate": rate_in(options), "seed": 5} | options
    now = [min(days) * 86_400]
    with RotatingFilter.create(folder, clock=lambda: now[0], **sizes) as seen:
        for day, keys in sorted(days.items()):
            now[0] = day * 86_400
            seen.update(keys)
    return folder


def check_merged(out: Path, *sources: Path, without: Iterable[int] = ()) -> None:
    """Check that a folder is sound and its own, and each file the union of those of its number."""
    parts, made = [by_number(source) for source in sources], by_number(out)
    assert [*made] == sorted(set().union(*parts) - {*without})
    for number, path in made.items():
        assert path.name == f"{number:010d}.bloom"
        check_union(path, *(part[number] for part in parts if number in part))
    record, records = manifest_of(out), [manifest_of(source) for source in sources]
    assert (record["kind"], record["settings"]) == (records[0]["kind"], records[0]["settings"])
    uuids = {one["uuid"] for each in (record, *records) for one in (each, *each["members"])}
    assert len(uuids) == sum(1 + len(each["members"]) for each in (record, *records))
    check_folder(out, "manifest.json", *(path.name for path in made.values()))
    assert verify(out).ok
