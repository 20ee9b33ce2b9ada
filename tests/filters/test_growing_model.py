"""A growing filter answers, and keeps in each file, what adding one by one would."""

import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from chains import WAYS, NaiveGrowing, add_many, claim, naive_files
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import LAYOUTS

from mmbloom import GrowingFilter

# Few of them, and files so bad that about every second key is a false positive: what differs
# by one key's turn gives other answers soon.
KEY = st.integers(0, 60).map(lambda number: f"key {number}")
BATCH = st.lists(KEY, max_size=40)


@given(
    batches=st.lists(st.tuples(st.sampled_from(WAYS), BATCH), max_size=6),
    capacity=st.integers(1, 9),
    error_rate=st.sampled_from([0.9, 0.5, 0.01]),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_as_one_by_one(batches, capacity, error_rate, layout, seed) -> None:  # type: ignore[no-untyped-def]
    """Law 4 of queries: whatever way, and however often a file gets full within a batch."""
    naive = NaiveGrowing(capacity, error_rate, layout, seed)
    with TemporaryDirectory() as parent:
        folder = os.path.join(parent, "seen")
        with GrowingFilter.create(folder, capacity, error_rate, layout=layout, seed=seed) as seen:
            for way, keys in batches:
                assert way(seen, keys) == [naive.add(key) for key in keys]
            asked = [f"key {number}" for number in range(80)]
            expected = [key in naive for key in asked]
            assert seen.contains_many(asked).tolist() == expected
            assert [key in seen for key in asked] == expected
        check_files(folder, naive)


def check_files(folder: str | Path, naive: NaiveGrowing) -> None:
    found = naive_files(folder)
    assert [file.array for file in found] == [file.array for file in naive.files]
    assert [file.counters[0] for file in found] == naive.counts
    assert [file.counters[1] for file in found] == [file.popcount() for file in naive.files]


def test_large_batches(tmp_path: Path, seed: int) -> None:
    """In batches of more than a chunk too, some of which fill several files, with threads."""
    drawn = np.random.default_rng(seed).integers(0, 12_500, 20_000)
    keys = [str(key) for key in drawn.tolist()]
    with GrowingFilter.create(tmp_path / "one", 100, 0.2, seed=5, threads=1) as one, one.locked():
        expected = [one.add(key) for key in keys]
    theirs = [file.array for file in naive_files(tmp_path / "one")]
    assert len(theirs) > 5
    for way, threads in itertools.product((add_many, claim), (1, 3)):
        folder = tmp_path / f"{way.__name__} {threads}"
        with GrowingFilter.create(folder, 100, 0.2, seed=5, threads=threads) as many:
            assert way(many, keys) == expected
        assert [file.array for file in naive_files(folder)] == theirs
