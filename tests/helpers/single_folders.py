"""Folders of files whose keys come one at a time: how they are made, and which way keys go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mmbloom
from mmbloom import GrowingFilter, RotatingFilter
from mmbloom.filters.chain import Chain

Folder = GrowingFilter | RotatingFilter
Make = Callable[..., Any]
compiled = pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine looks for each key")


def growing(path: Path, **options: Any) -> GrowingFilter:
    """Make a growing folder for 100,000 keys at first."""
    return GrowingFilter.create(path, 100_000, 1e-6, seed=1, lock_timeout=0.2, **options)


def rotating(path: Path, **options: Any) -> RotatingFilter:
    """Make a rotating folder: of days, unless otherwise said."""
    options = {"keep": "7d", "every": "1d", "lock_timeout": 0.2, **options}
    return RotatingFilter.create(
        path, capacity_per_period=500_000, error_rate=1e-6, seed=1, **options
    )


both = pytest.mark.parametrize("make", [growing, rotating])


@contextmanager
def long_ways() -> Iterator[list[int]]:
    """Count the calls that look which files there are in Python."""
    found, real = list[int](), Chain.refresh

    def refresh(chain: Chain) -> Any:
        found.append(1)
        return real(chain)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Chain, "refresh", refresh)
        yield found
