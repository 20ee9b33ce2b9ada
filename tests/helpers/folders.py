"""Fixtures: growing and rotating filters that are closed when the test ends, and a clock."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mmbloom import GrowingFilter, RotatingFilter

DAY = 86400
START = 20_000 * DAY + 1000.0  # some day's first hour, in UTC

Grow = Callable[..., GrowingFilter]
Rotate = Callable[..., RotatingFilter]


class Clock:
    """A clock that is set by hand; of a module, so that it pickles."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def days(self, days: float) -> None:
        self.now = START + days * DAY


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "seen"


@pytest.fixture
def grow(folder: Path) -> Iterator[Grow]:
    made: list[GrowingFilter] = []

    def make(initial_capacity: int = 100, error_rate: float = 1e-9, **options: Any) -> Any:
        made.append(GrowingFilter.create(folder, initial_capacity, error_rate, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def rotate(folder: Path, clock: Clock) -> Iterator[Rotate]:
    """Make rotating filters of seven days: rotate(keep=..., every=..., ...)."""
    made: list[RotatingFilter] = []

    def make(**options: Any) -> RotatingFilter:
        asked = {"capacity_per_period": 1000, "error_rate": 1e-9, "clock": clock, **options}
        made.append(RotatingFilter.create(folder, **asked))
        return made[-1]

    yield make
    for one in made:
        one.close()
