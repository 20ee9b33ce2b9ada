"""The error rate of a folder is that of the whole, and is checked before it is shared out."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mmbloom import FormatError, GrowingFilter, RotatingFilter

MAKE: list[Callable[[Path, float], object]] = [
    lambda path, rate: GrowingFilter.create(path, 10, rate),
    lambda path, rate: RotatingFilter.create(path, capacity_per_period=10, error_rate=rate),
]


@pytest.mark.parametrize("rate", [0, 1, 1.5, 3.0, float("nan")])
@pytest.mark.parametrize("make", MAKE)
def test_rate_of_the_whole(
    tmp_path: Path, make: Callable[[Path, float], object], rate: float
) -> None:
    """The rate that was given is named, by no file that nobody made; and nothing is left."""
    with pytest.raises(ValueError, match=rf"^error_rate is {rate!r}, expected between") as caught:
        make(tmp_path / "seen", rate)
    assert not isinstance(caught.value, FormatError)
    assert os.listdir(tmp_path) == []
