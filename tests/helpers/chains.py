"""Naive models of filters that are folders, and what several of their tests look at.

Files are read with `json` and `reference.py`, never with the code under test.
"""

import json
import mmap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
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
    """Read the manifest."""
    record: dict[str, Any] = json.loads((Path(folder) / "manifest.json").read_text())
    return record


def files_of(folder: str | Path) -> list[Path]:
    """List the files that the manifest names, oldest first."""
    return [Path(folder) / member["name"] for member in manifest_of(folder)["members"]]


def naive_files(folder: str | Path) -> list[NaiveFilter]:
    """Read them with the independent reader."""
    return [NaiveFilter(file.read_bytes()) for file in files_of(folder)]


def by_number(folder: Path) -> dict[int, Path]:
    """The files of a folder by their number, as the manifest has it."""
    numbers = [member["number"] for member in manifest_of(folder)["members"]]
    return dict(zip(numbers, files_of(folder), strict=True))
