"""Several blocks a key: what pickles, forgets, excludes or grows does it as with one."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter, RotatingFilter
from mmbloom import open as open_filter

KEYS = np.arange(9000)


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_pickle(tmp_path: Path, kind: type[BloomFilter]) -> None:
    """A pickled filter reopens with its blocks, and sees what the other does."""
    with kind.create(tmp_path / "a", 20_000, 1e-6) as seen:
        assert seen.params.blocks_per_key > 1
        with pickle.loads(pickle.dumps(seen)) as again:
            assert (type(again), again.params) == (kind, seen.params)
            assert again.add_many(KEYS).all()
        assert seen.contains_many(KEYS).all()
        assert not seen.contains_many(-1 - KEYS).any()


def test_exclusions(tmp_path: Path) -> None:
    """What is excluded is not known, and is known again when it is not; the bits stay."""
    with BloomFilter.create(tmp_path / "a", 20_000, 1e-6) as seen:
        seen.add_many(KEYS)
        before = seen.fill_ratio
        assert seen.exclusions.update([3, 4]) == 2
        assert seen.contains_many(KEYS).sum() == len(KEYS) - 2
        assert seen.add(3)  # unknown, whatever is set
        assert seen.exclusions.discard(4)
        assert (3 in seen, 4 in seen) == (False, True)
        assert seen.fill_ratio == before


@pytest.mark.parametrize("kind", ["growing", "rotating"])
def test_folder(tmp_path: Path, kind: str) -> None:
    """All files of a folder have several blocks, and each key is new once."""
    path = tmp_path / "a"
    folder: GrowingFilter | RotatingFilter
    if kind == "growing":
        folder = GrowingFilter.create(path, 5000, 1e-6)
    else:
        folder = RotatingFilter.create(path, capacity_per_period=20_000, error_rate=1e-6)
    with folder:
        for step in np.split(KEYS, 3):
            with folder.claim(step) as new:
                assert new.all()
            assert not folder.add_many(step).any()
    with open_filter(path) as again:
        assert again.contains_many(KEYS).all()
        assert not again.contains_many(-1 - KEYS).any()
        files = again.info().files
        assert len(files) >= (2 if kind == "growing" else 1)
        assert all(file.blocks_per_key > 1 for file in files)
