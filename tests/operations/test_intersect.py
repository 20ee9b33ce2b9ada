"""intersect: exactly the bits that all inputs have; no common key is lost, and no input changes."""

import math
import random
from functools import reduce
from operator import and_
from pathlib import Path

import pytest
from checks import array_of, check_settled, counters_of, set_counters
from naive import LAYOUTS
from reference import NaiveFilter
from unions import make, make_random

from mmbloom import BloomFilter, intersect, verify
from mmbloom.sizing import Layout


def check_intersection(path: str, *sources: str) -> None:
    """Check that a filter has the bits that all sources have, and says so."""
    naive = NaiveFilter(Path(path).read_bytes())
    common = reduce(and_, (int.from_bytes(array_of(source), "little") for source in sources))
    assert int.from_bytes(naive.array, "little") == common
    check_settled(path)
    assert verify(path).ok


@pytest.mark.parametrize("number", [1, 2, 5])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_intersect_is_the_and(tmp_path: Path, seed: int, layout: Layout, number: int) -> None:
    """A key is found exactly if every source finds it, a common one always."""
    chance = random.Random(seed)
    common, *others = (set(chance.sample(range(10**6), 1500)) for _ in range(number + 1))
    first = make(tmp_path / "0", common | others[0], capacity=3000, layout=layout, seed=seed)
    more = [make(tmp_path / f"{i}", common | others[i], first) for i in range(1, number)]
    out = str(tmp_path / "out")
    intersect(out, [first, *more])
    check_intersection(out, first, *more)
    asked = range(10**6, 10**6 + 20_000)
    with BloomFilter.open(out) as seen:
        assert seen.contains_many(common).all()
        found = seen.contains_many(asked)
        assert seen.add_many(range(-5, 0)).any()  # it is a filter like any other
    expected = [True] * len(asked)
    for source in (first, *more):
        with BloomFilter.open(source) as seen:
            expected = [a and b for a, b in zip(expected, seen.contains_many(asked), strict=True)]
    assert found.tolist() == expected


def test_false_positives_are_as_many_as_the_formula_says(tmp_path: Path, seed: int) -> None:
    """Standard layout: f = 1 - C + C (1 - A) (1 - B) of the bits are set, within 6 sigma."""
    chance = random.Random(seed)
    keys = chance.sample(range(10**9), 30_000)
    one = make(
        tmp_path / "one",
        keys[:20_000],
        capacity=21_000,  # of 20,000 the estimate can be 3 % too high
        error_rate=0.1,
        layout="standard",
        seed=seed,
    )
    two = make(tmp_path / "two", keys[10_000:], one)
    intersect(tmp_path / "out", [one, two])
    with BloomFilter.open(tmp_path / "out") as seen:
        m, k = seen.params.num_bits, seen.params.num_hashes
        clear = math.exp(-k * 10_000 / m)
        expected = 1 - clear + clear * (1 - clear) ** 2
        assert seen.fill_ratio == pytest.approx(expected, abs=6 * math.sqrt(0.25 / m))
        absent = range(10**9, 10**9 + 100_000)
        rate = seen.contains_many(absent).mean()
    assert expected**k > (1 - clear) ** k  # more than of the common keys alone
    assert rate == pytest.approx(expected**k, abs=6 * math.sqrt(expected**k / len(absent)) + 1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_intersect_of_many_pieces(tmp_path: Path, seed: int, layout: Layout) -> None:
    """Arrays of some MiB and a bit are intersected to their last word."""
    sources = [make_random(tmp_path / f"{i}", 3_000_000, layout, seed + i) for i in range(3)]
    assert len(array_of(sources[0])) % (1 << 20)
    intersect(tmp_path / "out", map(Path, sources))
    check_intersection(str(tmp_path / "out"), *sources)


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_full_and_empty(tmp_path: Path, two: list[str]) -> None:
    """With an empty filter nothing is left; with a full one the other is."""
    empty, full = make(tmp_path / "empty", (), two[0]), make(tmp_path / "full", (), two[0])
    with BloomFilter.open(full) as seen:
        seen._storage.views.words[:] = 2**64 - 1
        seen.recount()
        seen._storage.counters["keys_added"] = 10**6
    for number, sources in enumerate(([two[0], empty], [full, two[0]], [full, full])):
        out = str(tmp_path / f"{number}")
        intersect(out, sources)
        check_intersection(out, *sources)
    assert not any(array_of(str(tmp_path / "0")))
    assert counters_of(str(tmp_path / "0"))["keys_added"] == 0
    assert array_of(str(tmp_path / "1")) == array_of(two[0])
    assert counters_of(str(tmp_path / "1"))["keys_added"] <= 300


def test_keys_added_are_no_more_than_of_any_source(tmp_path: Path, two: list[str]) -> None:
    """The result says keys that its bits can be those of, whatever the inputs' counters say."""
    intersect(tmp_path / "a", two)
    assert 100 <= counters_of(str(tmp_path / "a"))["keys_added"] <= 300
    set_counters(two[0], keys_added=2**64 - 1)
    set_counters(two[1], keys_added=0)
    intersect(tmp_path / "b", two)
    check_intersection(str(tmp_path / "b"), *two)
