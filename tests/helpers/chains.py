"""Naive models of filters that are folders, and what several of their tests look at.

Files are read with `json` and `reference.py`, never with the code under test.
"""

import json
import mmap
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from faults import Hook, at_call, os_calls
from reference import Fields, Key, NaiveFilter

from mmbloom import BloomFilter, Filter, GrowingFilter, RotatingFilter
from mmbloom._system.typing import Mode
from mmbloom.sizing import Layout, plan

RATE = 1e-12  # no false positive within many runs


def naive_file(capacity: int, error_rate: float, layout: Layout, seed: int) -> NaiveFilter:
    """An empty file of these sizes; how they become bits and hashes is tested elsewhere."""
    params = plan(capacity, error_rate, layout=layout)
    blocks = params.blocks_per_key if params.blocks_per_key > 1 else 0
    number = 3 if blocks else {"standard": 1, "blocked": 2}[layout]
    sizes = params.num_bits, params.num_hashes
    return NaiveFilter.empty(Fields(*sizes, number, seed, hash_id=2, blocks=blocks))


def spared(error_rate: float, layout: Layout) -> float:
    """What is shared out of a rate: the textbook's sizes are not quite as good as they say."""
    return error_rate * 15 / 16 if layout == "standard" else error_rate


@dataclass
class NaiveGrowing:
    """A growing filter, one key at a time: the naive files, and how many keys each was told."""

    initial_capacity: int
    error_rate: float
    layout: Layout
    seed: int
    files: list[NaiveFilter] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        number = len(self.files)
        rate = spared(self.error_rate, self.layout) / 2 ** (number + 1)
        capacity = self.initial_capacity * 2**number
        self.files.append(naive_file(capacity, rate, self.layout, self.seed))
        self.counts.append(0)

    def __contains__(self, key: Key) -> bool:
        return any(key in file for file in self.files)

    def add(self, key: Key) -> bool:
        if key in self:
            return False
        if self.counts[-1] == self.initial_capacity * 2 ** (len(self.files) - 1):
            self._begin()
        self.counts[-1] += 1
        return self.files[-1].add(key)


@dataclass
class NaiveRotating:
    """A rotating filter, one key at a time: a naive file for each period that is kept."""

    keep: int
    every: int
    capacity: int
    error_rate: float
    layout: Layout
    seed: int
    now: float
    files: dict[int, NaiveFilter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begin(int(self.now // self.every))

    def _begin(self, number: int) -> None:
        files = -(-self.keep // self.every) + 1
        rate = spared(self.error_rate, self.layout) / files
        self.files = {one: file for one, file in self.files.items() if not self._is_over(one)}
        self.files[number] = naive_file(self.capacity, rate, self.layout, self.seed)

    def _is_over(self, number: int) -> bool:
        return (number + 1) * self.every <= self.time - self.keep

    @property
    def time(self) -> float:
        return max(self.now, max(self.files, default=0) * self.every)

    def __contains__(self, key: Key) -> bool:
        return any(key in file for one, file in self.files.items() if not self._is_over(one))

    def add(self, key: Key) -> bool:
        new = key not in self
        if int(self.time // self.every) not in self.files:
            self._begin(int(self.time // self.every))
        self.files[int(self.time // self.every)].add(key)
        return new


def add_one_by_one(seen: Filter, keys: list[str]) -> list[bool]:
    return [seen.add(key) for key in keys]


def add_many(seen: Filter, keys: list[str]) -> list[bool]:
    answers: list[bool] = seen.add_many(keys).tolist()
    return answers


def claim(seen: Filter, keys: list[str]) -> list[bool]:
    with suppress(KeyError), seen.claim(keys):
        raise KeyError  # which leaves no trace
    with seen.claim(keys) as new:
        pass
    answers: list[bool] = new.tolist()
    return answers


def claim_locked(seen: Filter, keys: list[str]) -> list[bool]:
    with seen.locked():
        return [*claim(seen, keys[:7]), *add_one_by_one(seen, keys[7:9]), *add_many(seen, keys[9:])]


# Ways to add keys to a folder; each answers for each key whether it was new.
Way = Callable[[Filter, list[str]], list[bool]]
WAYS: list[Way] = [add_one_by_one, add_many, claim, claim_locked]


class Growing:
    """How to make and open a growing filter that gets full soon."""

    keep = float("inf")

    def create(self, folder: str | Path, **options: Any) -> Filter:
        return GrowingFilter.create(folder, 20, RATE, **options)

    def open(self, folder: str | Path, mode: Mode = "r+", **options: Any) -> Filter:
        return GrowingFilter.open(folder, mode, **options)

    def now(self) -> float:
        return 0.0

    def pass_time(self, seconds: float) -> None:
        """Time does nothing to it."""


class InUse(Growing):
    """The same of a file that becomes a folder while it is open."""

    def create(self, folder: str | Path, **options: Any) -> Filter:
        return BloomFilter.create(folder, 20, RATE / 2, on_full="grow", **options)

    def open(self, folder: str | Path, mode: Mode = "r+", **options: Any) -> Filter:
        return BloomFilter.open(folder, mode, on_full="grow", **options)


class Rotating:
    """The same of a rotating one, by a clock that all processes forked later share."""

    def __init__(self, keep: int) -> None:
        self.keep = float(keep)
        self._seconds = np.frombuffer(mmap.mmap(-1, 8), np.float64)

    def create(self, folder: str | Path, **options: Any) -> Filter:
        options |= {"keep": int(self.keep), "every": 10, "capacity_per_period": 100_000}
        options |= {"error_rate": 1e-7, "layout": "standard", "reserve": "fallocate"}
        return RotatingFilter.create(folder, clock=self.now, **options)

    def open(self, folder: str | Path, mode: Mode = "r+", **options: Any) -> Filter:
        return RotatingFilter.open(folder, mode, clock=self.now, **options)

    def now(self) -> float:
        return float(self._seconds[0])

    def pass_time(self, seconds: float) -> None:
        self._seconds[0] += seconds  # of two at once one may be lost: clocks are like that


def manifest_of(folder: str | Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((Path(folder) / "manifest.json").read_text())
    return record


def files_of(folder: str | Path) -> list[Path]:
    """List the files that the manifest names, oldest first."""
    return [Path(folder) / member["name"] for member in manifest_of(folder)["members"]]


def naive_files(folder: str | Path) -> list[NaiveFilter]:
    return [NaiveFilter(file.read_bytes()) for file in files_of(folder)]


def by_number(folder: Path) -> dict[int, Path]:
    numbers = [member["number"] for member in manifest_of(folder)["members"]]
    return dict(zip(numbers, files_of(folder), strict=True))


def failing_in_a_section(
    kind: Growing | Rotating,
    source: Path,
    tmp_path: Path,
    add: Callable[[Filter], object],
    fail: Hook,
    check: Callable[[Path], object],
) -> list[str]:
    """Have each os call of an adding to a copy of a folder fail in turn, within a section.

    The call raises `OSError`, and the same object adds all that it should in the same section.
    List the names of the calls that failed.
    """
    names: list[str] = []
    while True:  # until there is no further call to fail
        folder = tmp_path / f"{len(names):03}"
        shutil.copytree(source, folder)
        failed: list[str] = []
        over: list[bool] = []

        def fail_amid(name: str, failed: list[str] = failed, over: list[bool] = over) -> None:
            if not over:  # descriptors that were opened under the hook are closed under it
                failed.append(name)
                fail(name)

        with kind.open(folder, lock_timeout=5) as seen, seen.locked():
            with suppress(OSError), os_calls(at_call(len(names), fail_amid)):
                add(seen)
            over.append(True)
            # Had it gone on with a file that is not the newest, the next would overtake it.
            assert seen._shelf.newest.lock.state.mine()
            add(seen)
        check(folder)
        left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
        assert left == [] or failed == ["unlink"], failed
        if not failed:
            return names
        names += failed
