"""A folder answers, and keeps in each file, what adding one by one would, as time goes."""

import itertools
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from chains import (
    WAYS,
    NaiveGrowing,
    NaiveRotating,
    Way,
    add_many,
    add_one_by_one,
    claim,
    manifest_of,
    naive_files,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import LAYOUTS

from mmbloom import GrowingFilter, RotatingFilter
from mmbloom.errors import CapacityWarning

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
def test_growing_as_one_by_one(batches, capacity, error_rate, layout, seed) -> None:  # type: ignore[no-untyped-def]
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
        check_growing(folder, naive)


def check_growing(folder: str | Path, naive: NaiveGrowing) -> None:
    found = naive_files(folder)
    assert [file.array for file in found] == [file.array for file in naive.files]
    assert [file.counters[0] for file in found] == naive.counts
    assert [file.counters[1] for file in found] == [file.popcount() for file in naive.files]


def test_large_batches_of_a_growing_one(tmp_path: Path, seed: int) -> None:
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


# Mostly forward by a part of a period; to just before and at the borders; and back.
STEP = st.one_of(
    st.integers(0, 15), st.sampled_from([9, 10, 11, 29, 30, 1000]), st.integers(-60, -1)
)


@pytest.mark.filterwarnings(f"ignore::{CapacityWarning.__module__}.CapacityWarning")
@given(
    turns=st.lists(st.tuples(STEP, st.sampled_from(WAYS), BATCH), max_size=8),
    start=st.integers(0, 50),
    keep=st.integers(1, 45),
    error_rate=st.sampled_from([0.9, 0.5, 0.01]),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_rotating_as_one_by_one(turns, start, keep, error_rate, layout, seed) -> None:  # type: ignore[no-untyped-def]
    """Whatever way keys come, and however the clock goes, backwards too."""
    naive = NaiveRotating(keep, 10, 5, error_rate, layout, seed, now=start)
    with TemporaryDirectory() as parent:
        folder = os.path.join(parent, "seen")
        with RotatingFilter.create(
            folder,
            keep=keep,
            every=10,
            capacity_per_period=5,
            error_rate=error_rate,
            layout=layout,
            seed=seed,
            clock=lambda: naive.now,
        ) as seen:
            for step, way, keys in turns:
                naive.now = max(0, naive.now + step)
                assert way(seen, keys) == [naive.add(key) for key in keys]
                naive.now += 3
                asked = [f"key {number}" for number in range(70)]
                expected = [key in naive for key in asked]
                assert seen.contains_many(asked).tolist() == expected
                assert [key in seen for key in asked] == expected
                check_rotating(folder, naive)


def check_rotating(folder: str, naive: NaiveRotating) -> None:
    """The files of the folder are those of the model, and no other is left."""
    members = manifest_of(folder)["members"]
    assert [one["number"] for one in members] == sorted(naive.files)
    assert {*os.listdir(folder)} == {"manifest.json", *(one["name"] for one in members)}
    kept = [naive.files[number].array for number in sorted(naive.files)]
    assert [file.array for file in naive_files(folder)] == kept


@given(
    times=st.lists(st.integers(0, 400), min_size=1, max_size=12).map(sorted),
    keep=st.integers(1, 60),
    every=st.integers(1, 40),
)
@settings(max_examples=25)
def test_window(times: list[int], keep: int, every: int) -> None:
    """Law 1 in the window: found until t + keep at least, and until t + keep + every at most."""
    now = [times[0]]
    with (
        TemporaryDirectory() as parent,
        RotatingFilter.create(
            os.path.join(parent, "seen"),
            keep=keep,
            every=every,
            capacity_per_period=50,
            error_rate=1e-9,
            layout="standard",
            clock=lambda: now[0],
        ) as seen,
    ):
        for number, time in enumerate(times):
            now[0] = time
            assert seen.add(f"{number}")
            for age in {0, 1, keep - 1, keep, keep + every - 1, keep + every, keep + 2 * every}:
                now[0] = time + age
                if age < keep:
                    assert f"{number}" in seen
                if age >= keep + every:
                    assert f"{number}" not in seen
                now[0] = time
            for earlier, then in enumerate(times[:number]):
                if time - then < keep:
                    assert f"{earlier}" in seen
                if time - then >= keep + every:
                    assert f"{earlier}" not in seen


@pytest.mark.parametrize("way", [add_one_by_one, add_many, claim])
@pytest.mark.parametrize("ticks", [2, 5])
def test_period_that_ends_within_a_call(tmp_path: Path, way: Way, ticks: int) -> None:
    """A key is kept from when its add returns: what was written to a period now over is again."""
    time = [0.0]
    step = [0.0]

    def clock() -> float:
        time[0] += step[0]
        return time[0]

    with RotatingFilter.create(
        tmp_path / "seen",
        keep=100,
        every=10,
        capacity_per_period=1000,
        error_rate=1e-9,
        layout="standard",
        clock=clock,
    ) as seen:
        for turn in range(20):
            step[0] = 10 / ticks - 0.01 * turn  # over between some two looks, again and again
            assert way(seen, [f"{turn}"]) == [True]
            step[0], returned = 0.0, time[0]
            time[0] = returned + 99.99
            assert f"{turn}" in seen
            time[0] = returned


def test_large_batches_of_a_rotating_one(tmp_path: Path, seed: int) -> None:
    """In batches of more than a chunk too, with threads, over several periods."""
    time = [0.0]
    options: dict[str, Any] = {
        "keep": 30,
        "every": 10,
        "capacity_per_period": 12_000,
        "error_rate": 0.3,
        "seed": 5,
    }
    with ExitStack() as filters:
        one, single, several = (
            filters.enter_context(
                RotatingFilter.create(
                    tmp_path / name, **options, threads=threads, clock=lambda: time[0]
                )
            )
            for name, threads in [("one", 1), ("single", 1), ("several", 3)]
        )
        for turn in range(6):
            time[0] = 9.0 * turn
            drawn = np.random.default_rng(seed + turn).integers(0, 12_000, 20_000)
            keys = [str(key) for key in drawn[: 20_000 if turn % 2 else 8_000].tolist()]
            with one.locked():
                expected = [one.add(key) for key in keys]
            assert single.add_many(keys).tolist() == expected
            assert several.add_many(keys).tolist() == expected
    theirs, *ours = (naive_files(tmp_path / name) for name in ("one", "single", "several"))
    for files in ours:
        assert [file.array for file in files] == [file.array for file in theirs]
