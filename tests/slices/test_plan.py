"""Plans: what can be cut, and into what; which row belongs where."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mmbloom import BloomFilter, CountingBloomFilter, KeyTypeError
from mmbloom.cluster import SlicePlan
from mmbloom.sizing import plan as planned


def test_slices_are_whole_pages() -> None:
    """They follow each other from the first byte to the last, in pages of 4096 bytes."""
    plan = SlicePlan.draw(100_000, slices=7)
    bounds = [plan.bounds(number) for number in range(7)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == plan.params.num_bytes
    assert [stop for _, stop in bounds[:-1]] == [start for start, _ in bounds[1:]]
    assert not any(start % 4096 for start, _ in bounds)
    for number in (-1, 7):
        with pytest.raises(ValueError, match=f"slice number is {number}, expected 0 to 6"):
            plan.bounds(number)


def test_what_cannot_be_cut(path: str) -> None:
    """The standard layout, counters, more slices than pages: each is refused with its reason."""
    with pytest.raises(ValueError, match="spreads the bits of a key over the whole array"):
        SlicePlan(planned(100_000, layout="standard"))
    with (
        CountingBloomFilter.create(path, capacity=1000) as counting,
        pytest.raises(ValueError, match="a counting filter cannot be cut into slices"),
    ):
        SlicePlan(counting)  # type: ignore[arg-type]
    params = planned(10_000)
    pages = -(-params.num_bytes // 4096)
    for slices in (0, -1, pages + 1):
        said = f"slices is {slices}, expected 1 to {pages}, the number of pages of 4096 bytes"
        with pytest.raises(ValueError, match=said):
            SlicePlan(params, slices)
    assert SlicePlan(params, pages).slices == pages
    for wrong in (1.0, True, "2"):
        with pytest.raises(TypeError, match="expected an int"):
            SlicePlan(params, wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected FilterParams or an open BloomFilter"):
        SlicePlan(1000)  # type: ignore[arg-type]


def test_plan_of_an_open_filter(create: Callable[..., BloomFilter]) -> None:
    seen = create(100_000)
    assert SlicePlan(seen, 4) == SlicePlan(seen.params, 4)  # type: ignore[arg-type]


def test_plans_travel() -> None:
    """A plan pickles, with the seed that it was drawn with; its repr does not show it."""
    plan = SlicePlan.draw(100_000, slices=4)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert str(plan.params.seed) not in repr(plan)
    assert SlicePlan.draw(100_000, slices=4).params.seed != plan.params.seed


@pytest.fixture
def plan() -> SlicePlan:
    return SlicePlan.draw(100_000, slices=4)


@pytest.mark.parametrize("form", [list, pa.array])
def test_nulls_keep_their_rows(plan: SlicePlan, form: Callable[[list[Any]], Any]) -> None:
    """With nulls="skip" a null is in slice -1, and the other rows keep their numbers."""
    keys = [None, "a", None, "b", "a", None]
    whole = plan.split(["a", "b", "a"])
    split = plan.split(form(keys), nulls="skip")
    a, b, _ = whole.slice_no.tolist()
    assert split.slice_no.tolist() == [-1, a, -1, b, a, -1]
    present = [1, 3, 4]
    assert split.h1[present].tolist() == whole.h1.tolist()
    assert split.h2[present].tolist() == whole.h2.tolist()
    assert not split.h1[[0, 2, 5]].any()
    parts = plan.partition(form(keys), nulls="skip")
    assert len(parts) == 4
    for number, (rows, h1, h2) in enumerate(parts):
        assert rows.tolist() == np.flatnonzero(split.slice_no == number).tolist()
        assert h1.tolist() == split.h1[rows].tolist()
        assert h2.tolist() == split.h2[rows].tolist()
    for call in (plan.split, plan.partition):
        with pytest.raises(KeyTypeError, match="key at position 0"):
            call(form(keys))


def test_threads_change_nothing(plan: SlicePlan) -> None:
    keys = np.arange(100_000)
    one, two = plan.split(keys), plan.split(keys, threads=2)
    for name in ("slice_no", "h1", "h2"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


def test_no_keys(plan: SlicePlan) -> None:
    assert [len(each) for each in plan.split([])] == [0, 0, 0]
    assert [len(part.rows) for part in plan.partition([])] == [0] * 4
