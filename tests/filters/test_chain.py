"""What the files of a folder are together: options, error rates, and each of them by itself."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import WRITES
from folders import Grow as Create

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom.errors import ReadOnlyError
from mmbloom.filters.options import OpenedWith, OpenOptions
from mmbloom.format.folder import GrowthPlan, PeriodPlan
from mmbloom.sizing import Layout

CHANGES: dict[str, Callable[[Any], object]] = dict(WRITES)


def test_options_are_those_of_a_file() -> None:
    """A folder takes the keywords of `BloomFilter.open`, with their defaults."""
    options = dict(inspect.signature(BloomFilter.open).parameters)
    del options["path"]
    defaults = {name: parameter.default for name, parameter in options.items()}
    assert defaults == {field.name: field.default for field in fields(OpenOptions)}
    assert options.items() <= inspect.signature(GrowingFilter.open).parameters.items()
    del options["mode"]
    assert [*OpenedWith.__annotations__] == [*options]


def test_a_file_of_it_is_read_only_by_itself(grow: Create, folder: Path) -> None:
    """Who opens it, and not the folder, may ask: keys added would come as new a second time."""
    with grow(10) as seen:
        seen.add_many(range(30))
    names = sorted(folder.glob("*.bloom"))
    assert len(names) == 2
    before = [name.read_bytes() for name in names]
    for name in names:
        with BloomFilter.open(name) as file:
            assert file.contains_many(range(30)).any()
            for change in CHANGES.values():
                with pytest.raises(ReadOnlyError) as caught:
                    change(file)
                assert (
                    caught.value.reason == f"it is a file of the folder {folder}; open the folder"
                )
            assert file.info().read_only == caught.value.reason
    assert [name.read_bytes() for name in names] == before
    # What only lies there belongs to nobody's folder, whether the manifest is sound or not.
    BloomFilter.create(folder / "other.bloom", 10).close()
    with BloomFilter.open(folder / "other.bloom") as other:
        assert other.add("a")
    (folder / "manifest.json").write_text("{}")
    with BloomFilter.open(names[0]) as file:
        assert file.add("a new key")


def test_import_is_lean() -> None:
    """A folder costs nothing who opens none: no module of the library that is slow to import."""
    code = "import mmbloom, sys; print([m for m in ('shutil', 'tempfile') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rate", [1e-7, 1e-17])
def test_later_files_that_cannot_be(tmp_path: Path, rate: float) -> None:
    """Where a later file cannot be made, what was asked for is named first, and nothing is made."""
    words = "^no growing filter can begin with 30 keys at this error rate: for one of its files, "
    with pytest.raises(ValueError, match=rf"{words}\d+ keys .* use the blocked"):
        GrowingFilter.create(tmp_path / "seen", 30, rate, layout="standard")
    assert list(tmp_path.iterdir()) == []


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
