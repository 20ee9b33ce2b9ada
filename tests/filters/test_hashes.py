"""Hash once and ask many: `hash_many`, `add_hashes`, `contains_hashes`."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import KINDS, Kind

import mmbloom
from mmbloom import BloomFilter, Filter, FilterFullError, KeyTypeError, ReadOnlyError, hash_many
from mmbloom.sizing import plan

SEED = 2**100 + 1
MADE = {
    **KINDS,
    "one block": Kind(BloomFilter, options={"error_rate": 0.01}),
    "standard": Kind(BloomFilter, options={"layout": "standard", "error_rate": 0.01}),
}


@pytest.mark.parametrize("name", MADE)
def test_as_with_keys(tmp_path: Path, name: str, seed: int) -> None:
    """Answers and files are those of the keys, repeats and more than a chunk included."""
    chance = np.random.default_rng(seed)
    params = plan(10, hash="siphash", seed=SEED)
    make = partial(MADE[name].create, capacity=1000 if name == "growing" else 60_000, seed=SEED)
    with make(tmp_path / "hashes") as hashes, make(tmp_path / "keys") as keys:
        for size in (0, 1, 20_000, 70_000):
            batch = chance.integers(0, 30_000, size)
            h1, h2 = hash_many(batch, params)
            assert hashes.contains_hashes(h1, h2).tolist() == keys.contains_many(batch).tolist()
            assert hashes.add_hashes(h1, h2).tolist() == keys.add_many(batch).tolist()
            assert hashes.contains_hashes(h1, h2).all()
        assert hashes.approx_count == keys.approx_count > 20_000


def test_hashes_follow_hash_and_seed_alone() -> None:
    """Filters of any size and layout take the same hashes; another seed gives others."""
    keys = ["a", "b"]
    one = hash_many(keys, plan(10, seed=5))
    for other in (plan(10**6, 1e-9, seed=5), plan(10, layout="standard", seed=5)):
        assert [half.tolist() for half in hash_many(keys, other)] == [h.tolist() for h in one]
    assert hash_many(keys, plan(10, seed=6))[0].tolist() != one[0].tolist()
    assert hash_many(keys, plan(10, seed=5, hash="murmur3"))[0].tolist() != one[0].tolist()
    with pytest.raises(KeyTypeError, match="key at position 1: None is a null"):
        hash_many(["a", None], plan(10))


@pytest.mark.parametrize(
    ("h1", "h2", "kind", "said"),
    [
        (np.zeros(2, "i8"), np.zeros(2, "u8"), TypeError, "h1 is of int64, expected an array of"),
        (np.zeros(2, "u8"), np.zeros(2, "f8"), TypeError, "h2 is of float64"),
        ([1, 2], np.zeros(2, "u8"), TypeError, "h1 is list"),
        (np.zeros(2, "u8"), np.zeros(3, "u8"), ValueError, "differ in length: 2 and 3"),
        (np.zeros((2, 2), "u8"), np.zeros(2, "u8"), ValueError, "h1 has 2 dimensions, expected 1"),
    ],
)
def test_wrong_arrays(path: str, h1: Any, h2: Any, kind: type[Exception], said: str) -> None:
    """What is no pair of hash halves is refused by name, and adds nothing."""
    with BloomFilter.create(path, 1000) as seen:
        for call in (seen.add_hashes, seen.contains_hashes):
            with pytest.raises(kind, match=said):
                call(h1, h2)
        assert seen.info().keys_added == 0


def test_arrays_as_they_come(path: str) -> None:
    """Every n-th item of an array, and the other byte order, are the same hashes."""
    with BloomFilter.create(path, 1000) as seen:
        h1, h2 = hash_many(range(100), seen.params)
        seen.add_hashes(h1, h2)
        assert seen.contains_hashes(h1.astype(">u8"), h2.astype(">u8")).all()
        wide = np.repeat(h1, 2)
        assert seen.contains_hashes(wide[::2], h2).all()


def test_exclusions_need_keys(path: str) -> None:
    """Keys of one hash can be made, so a filter with exclusions asks for the keys."""
    with BloomFilter.create(path, 1000) as seen:
        h1, h2 = hash_many(["a"], seen.params)
        seen.exclusions.add("b")
        for call in (seen.add_hashes, seen.contains_hashes):
            with pytest.raises(ValueError, match="has exclusions, which are compared by key"):
                call(h1, h2)
        seen.exclusions.discard("b")
        assert seen.add_hashes(h1, h2).tolist() == [True]


def test_full_and_read_only(path: str) -> None:
    """Going past the plan is refused before anything is added; a reader cannot add."""
    with BloomFilter.create(path, 100, on_full="raise") as seen:
        h1, h2 = hash_many(range(500), seen.params)
        with pytest.raises(
            FilterFullError, match="keys of this batch still fit, but none was added"
        ):
            seen.add_hashes(h1, h2)
        assert not seen.contains_hashes(h1, h2).any()
        assert seen.add_hashes(h1[:50], h2[:50]).all()
    with mmbloom.open(path, mode="r") as reader:
        assert isinstance(reader, Filter)
        assert reader.contains_hashes(h1[:50], h2[:50]).all()
        with pytest.raises(ReadOnlyError):
            reader.add_hashes(h1, h2)
