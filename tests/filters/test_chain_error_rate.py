"""The error rate of a folder is that of the whole, and is checked before it is shared out."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmbloom import GrowingFilter, RotatingFilter
from mmbloom.format.folder import GrowthPlan, PeriodPlan
from mmbloom.sizing import Layout


@pytest.mark.parametrize("number", [np.float32, np.float64, Fraction])
def test_any_number_is_a_rate(tmp_path: Path, number: Callable[[float], Any]) -> None:
    """The manifest has it as a float, from which every file's own rate follows again."""
    rate = number(1e-9)  # no false positive
    GrowingFilter.create(tmp_path / "growing", 10, rate).close()
    with GrowingFilter.open(tmp_path / "growing") as grown:
        assert grown.update(range(25)) == 25  # whose second file is of the rate that was read
    # A seventh of it, which is not exact.
    RotatingFilter.create(
        tmp_path / "rotating", keep="6d", capacity_per_period=10, error_rate=rate
    ).close()
    with RotatingFilter.open(tmp_path / "rotating") as seen:
        assert seen.info().settings["error_rate"] == float(rate)


@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("rate", [1e-9, 1e-6, 0.001, 0.01, 0.1, 0.3, 0.34, 0.6, 0.7, 0.72, 0.99])
def test_full_files_stay_within_it(layout: Layout, rate: float) -> None:
    """The rates of all files at their capacities add up to no more than was asked for."""
    # Of the standard layout's double hashing, fewer keys at 1e-9 would ask too much.
    keys = 10**7 if (layout, rate) == ("standard", 1e-9) else 1000
    growing = GrowthPlan(keys, rate, layout, 1, "zeros")
    rotating = PeriodPlan(7 * 86400, 86400, keys, rate, layout, 1, "zeros")
    for files in (
        [growing.params(number) for number in range(12)],
        [rotating.params(number) for number in range(rotating.max_files)],
    ):
        rates = [one.rate_with(one.capacity) for one in files]
        assert 0.6 * rate < sum(rates) <= rate
