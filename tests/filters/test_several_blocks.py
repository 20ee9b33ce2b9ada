"""Several blocks a key: what pickles, forgets, excludes or grows does it as with one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmbloom import (
    BloomFilter,
    FilterParams,
    GrowingFilter,
    IncompatibleFiltersError,
    ParameterMismatchError,
    RotatingFilter,
    compare,
    copy,
    intersect,
    merge,
    repair,
    sizing,
    verify,
)
from mmbloom import open as open_filter
from mmbloom.sizing import plan

KEYS = np.arange(9000)


@pytest.fixture
def one_block(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Plan with one block a key, at the rates that have several, until it is called."""
    monkeypatch.setattr(sizing, "_NEAR_TEXTBOOK", 9.0)
    sizing.plan_blocked.cache_clear()

    def as_usual() -> None:
        monkeypatch.undo()
        sizing.plan_blocked.cache_clear()

    yield as_usual
    as_usual()


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


def test_file_of_one_block(tmp_path: Path, one_block: Callable[[], None]) -> None:
    """A file of one block a key opens by the plan that has several now, and stays as it is."""
    path, other = tmp_path / "a", tmp_path / "b"
    BloomFilter.create(path, 20_000, 1e-6, seed=3).close()
    one_block()
    with BloomFilter.create(path, 20_000, 1e-6, seed=3, exist_ok=True) as seen:
        assert seen.params.blocks_per_key == 1 < plan(20_000, 1e-6).blocks_per_key
        assert seen.add_many(KEYS).all()
        with BloomFilter.create(other, like=seen) as alike:
            assert alike.params == seen.params
            alike.add_many(-1 - KEYS)
    merge(tmp_path / "both", [path, other])
    copy(tmp_path / "both", tmp_path / "copy")
    assert verify(tmp_path / "copy", keys=np.concatenate([KEYS, -1 - KEYS])).ok
    assert path.read_bytes()[20] == (tmp_path / "copy").read_bytes()[20] == 2  # the layout id


def test_growing_folder_of_one_block(tmp_path: Path, one_block: Callable[[], None]) -> None:
    GrowingFilter.create(tmp_path / "a", 3000, 1e-6, seed=1).close()
    one_block()
    with GrowingFilter.open(tmp_path / "a") as seen:
        assert seen.add_many(KEYS).all()
        assert [file.blocks_per_key > 1 for file in seen.info().files] == [False, True]
        assert seen.contains_many(KEYS).all()
        assert not seen.contains_many(-1 - KEYS).any()


@pytest.mark.parametrize(("ours", "theirs"), [(1, 2), (2, 1), (2, 3)])
def test_other_numbers_of_blocks(tmp_path: Path, ours: int, theirs: int) -> None:
    """Filters that differ in nothing else are not combined, nor taken for each other."""
    one, other = tmp_path / "a", tmp_path / "b"
    for path, blocks in ((one, ours), (other, theirs)):
        like: Any = SimpleNamespace(
            params=FilterParams(900, 1e-3, "blocked", 32768, 6, 9, blocks_per_key=blocks)
        )
        BloomFilter.create(path, like=like).close()
    said = f"blocks_per_key {ours} and {theirs}"
    for combine in (merge, intersect):
        with pytest.raises(IncompatibleFiltersError, match=said):
            combine(tmp_path / "c", [one, other])
    with pytest.raises(IncompatibleFiltersError, match=said):
        compare(one, other)
    with BloomFilter.open(other) as there:
        with pytest.raises(ParameterMismatchError, match=f"blocks_per_key {ours}"):
            BloomFilter.create(one, like=there, exist_ok=True)
        with pytest.raises(ParameterMismatchError, match=f"blocks_per_key {ours}"):
            repair(one, tmp_path / "c", params=there.params)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]
