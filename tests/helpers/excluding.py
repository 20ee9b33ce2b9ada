"""Every kind of filter that has exclusions, made and asked alike: files, and folders of files.

A growing filter of few keys has several files here, and a rotating one too: its clock goes on
with every look at it. What is added is in the newest file, or in an older one, or in both.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chains import RATE, Growing, Rotating

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom._system.typing import Mode

Filter = BloomFilter | GrowingFilter | RotatingFilter
Make = Callable[..., Filter]
EXACT: dict[str, Any] = {"capacity": 100_000, "error_rate": 1e-9, "seed": 7}


class OneFile:
    def create(self, path: str | Path, **options: Any) -> Filter:
        return BloomFilter.create(path, **{**EXACT, **options})

    def open(self, path: str | Path, mode: Mode = "r+", **options: Any) -> Filter:
        return BloomFilter.open(path, mode, **options)


class SoonFull(Growing):
    """A growing filter whose first two files are full with two and with six keys."""

    def create(self, folder: str | Path, **options: Any) -> Any:
        return GrowingFilter.create(folder, 2, RATE, **{"seed": 7, **options})


class Ticking(Rotating):
    """A rotating filter with five periods, which begin one after the other."""

    def __init__(self) -> None:
        super().__init__(keep=900)

    def create(self, folder: str | Path, **options: Any) -> Any:
        return super().create(folder, **{"seed": 7, **options})

    def now(self) -> float:
        if super().now() < 50:
            self.pass_time(2.0)
        return super().now()


Kind = OneFile | SoonFull | Ticking


@pytest.fixture(params=[OneFile, SoonFull, Ticking])
def kind(request: pytest.FixtureRequest) -> Kind:
    made: Kind = request.param()
    return made


@pytest.fixture
def make(kind: Kind, path: str) -> Iterator[Make]:
    """Make a filter without false positives, which is closed when the test ends."""
    made: list[Filter] = []

    def create(**options: Any) -> Filter:
        made.append(kind.create(path, **options))
        return made[-1]

    yield create
    for one in made:
        one.close()


def listed(seen: Filter) -> Path:
    return Path(seen.exclusions.path)


@pytest.fixture
def seen(make: Make) -> Filter:
    """Make a filter that holds a to f: a growing one that is full with them."""
    made = make()
    made.add_many(["a", "b", "c", "d", "e", "f"])
    return made


def tree(folder: str | Path) -> list[str]:
    return sorted(os.path.relpath(path, folder) for path in Path(folder).rglob("*"))
