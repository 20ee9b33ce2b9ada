"""What two filters share: estimates within their standard errors, certainty where it is said."""

import itertools
import math
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import check_folder, seal, set_counters
from damages import flip, untouched
from naive import LAYOUTS
from unions import bits_of, make, make_random

from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    FileChangedError,
    FormatError,
    GrowingFilter,
    IncompatibleFiltersError,
    compare,
)
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom.sizing import FilterParams, Layout


def standard_error(keys: int, params: FilterParams) -> float:
    """Keys that the estimate of a filter's keys is off by, at one sigma."""
    x = params.num_hashes * keys / params.num_bits
    return math.sqrt(params.num_bits * (math.exp(x) - 1 - x)) / params.num_hashes


@pytest.mark.parametrize("common", [0, 50, 5000, 10_000])
@pytest.mark.parametrize("rate", [0.2, 0.01, 1e-6])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_estimates(tmp_path: Path, seed: int, layout: Layout, rate: float, common: int) -> None:
    """Known overlaps are estimated within 5 standard errors of all three terms together."""
    keys = random.Random(seed).sample(range(2**60), 20_000 - common)
    one = make(
        tmp_path / "one", keys[:10_000], capacity=12_000, error_rate=rate, layout=layout, seed=seed
    )
    two = make(tmp_path / "two", keys[10_000 - common :], one)
    found = compare(one, two)
    with BloomFilter.open(one, "r") as a, BloomFilter.open(two, "r") as b:
        errors = [standard_error(n, a.params) for n in (10_000, 10_000, 20_000 - common)]
        assert found.first_count == a.approx_count
        assert found.second_count == b.approx_count
        assert (a.common_count(b), a.jaccard(b)) == (found.common_count, found.jaccard)
        assert b.jaccard(one) == found.jaccard
        assert not a.isdisjoint(b)
    bound = 5 * sum(errors) + 1
    assert found.common_count == pytest.approx(common, abs=bound)
    assert found.union_count == pytest.approx(20_000 - common, abs=bound)
    assert found.jaccard == pytest.approx(common / (20_000 - common), abs=2 * bound / 10_000)
    assert found.union_count == pytest.approx(
        found.first_count + found.second_count - found.common_count, abs=2
    )
    assert 0 <= found.common_count <= min(found.first_count, found.second_count)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_bits_count(tmp_path: Path, seed: int, layout: Layout) -> None:
    """Arrays of some MiB and a bit are compared to their last word, and not by their counters."""
    one, two, both = (make_random(tmp_path / f"{i}", 3_000_000, layout, seed + i) for i in range(3))
    for path in (one, two):
        with BloomFilter.open(path) as seen:
            seen.union_update(both)
        set_counters(path, keys_added=1, positions_set=1)
    found = compare(one, two)
    with BloomFilter.open(one, "r") as seen:
        ones, twos, either = (
            seen.params.estimated_count(bits_of(*paths).bit_count())
            for paths in ([one], [two], [one, two])
        )
    assert found.first_count == round(ones)
    assert found.second_count == round(twos)
    assert found.common_count == round(ones + twos - either)


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_full_and_empty(tmp_path: Path, two: list[str]) -> None:
    empty, full = make(tmp_path / "empty", (), two[0]), make(tmp_path / "full", (), two[0])
    with BloomFilter.open(full) as seen:
        seen._storage.views.words[:] = 2**64 - 1
    assert compare(empty, empty).jaccard == 1
    assert compare(empty, two[0]).jaccard == compare(full, empty).jaccard == 0
    assert compare(empty, two[0]).common_count == 0
    assert compare(full, two[0]).common_count == compare(two[0], two[0]).first_count
    assert compare(full, full).jaccard == compare(two[0], two[0]).jaccard == 1
    with BloomFilter.open(empty) as seen:
        assert all(seen.isdisjoint(path) for path in (empty, full, two[0]))
    with BloomFilter.open(full) as seen:
        assert not seen.isdisjoint(two[0])


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("place", [0, 1 << 20, -1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_disjoint_is_certain(tmp_path: Path, layout: Layout, place: int) -> None:
    """One common bit anywhere, and it is no longer certain; without it, it is."""
    one = make(tmp_path / "one", capacity=1_500_000, layout=layout)
    two = make(tmp_path / "two", (), one)
    with BloomFilter.open(one) as a, BloomFilter.open(two) as b:
        words = [each._storage.views.words.view("u1") for each in (a, b)]
        words[0][:], words[1][:] = 0x55, 0xAA
        assert a.isdisjoint(b)
        assert a.common_count(b) == 0
        words[1][place] |= 4
        assert not a.isdisjoint(b)
        del words


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("place", [0, 1 << 20, -1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_subset_and_equal(tmp_path: Path, layout: Layout, place: int) -> None:
    """One bit anywhere that only one filter has is found, in whichever of the two it is."""
    one = make(tmp_path / "one", capacity=1_500_000, layout=layout)
    two = make(tmp_path / "two", (), one)
    with BloomFilter.open(one) as a, BloomFilter.open(two) as b, BloomFilter.open(one) as again:
        words = [each._storage.views.words.view("u1") for each in (a, b)]
        words[0][:], words[1][:] = 0x55, 0x55
        assert (a <= b, a >= b, a == b, a != b) == (True, True, True, False)
        words[1][place] |= 2
        assert (a <= b, a >= b, a == b, a != b) == (True, False, False, True)
        assert a.issubset(two)
        assert not b.issubset(one)
        assert a == again
        del words


@pytest.mark.parametrize("copied", [False, True])
def test_one_file_is_equal_while_it_is_written(
    tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """Keys that are added between two reads of one file make no difference; in a copy they do."""
    other = shutil.copy(two[0], tmp_path / "copy") if copied else two[0]
    with BloomFilter.open(two[0]) as a, BloomFilter.open(other) as again:
        assert a == again
        read, new = UnmappedFilter.segments, itertools.count(10**6)

        def add_and_read(self: UnmappedFilter) -> Any:
            a.add_many(list(itertools.islice(new, 50)))
            yield from read(self)

        monkeypatch.setattr(UnmappedFilter, "segments", add_and_read)
        assert (a == again) is not copied
        assert again <= a


def test_operators_of_sets(tmp_path: Path, two: list[str]) -> None:
    """What a filter cannot do as a set does it raises an error that names the way."""
    other = make(tmp_path / "other", capacity=9)
    with BloomFilter.open(two[0]) as a, BloomFilter.open(two[1]) as b:
        with pytest.raises(TypeError, match=r"mmbloom.merge\(path, .* one \|= other"):
            a | b
        with pytest.raises(TypeError, match=r"mmbloom.intersect\(path, "):
            a & b
        with pytest.raises(TypeError, match=r"mmbloom.intersect\(path, "):
            a &= b  # noqa: PLW2901
        with pytest.raises(TypeError, match=r"os.replace\(\)"):
            a.clear()
        with pytest.raises(TypeError, match="approx_count"):
            len(a)
        with pytest.raises(TypeError, match="keys are not stored"):
            list(a)
        assert a
        with pytest.raises(TypeError, match="unhashable"):
            hash(a)
        with BloomFilter.open(other) as small:
            assert a != small
            with pytest.raises(IncompatibleFiltersError, match="capacity"):
                _ = a <= small
        for stranger in (None, {"a"}, two[0]):
            assert a != stranger
            with pytest.raises(TypeError, match="not supported"):
                _ = a <= stranger
        with GrowingFilter.create(tmp_path / "growing", 9) as growing:
            assert growing == growing  # noqa: PLR0124
            with pytest.raises(TypeError, match="BloomFilter and a GrowingFilter"):
                _ = a == growing
            with pytest.raises(TypeError, match=r"mmbloom.merge\(path, "):
                growing | growing
        assert sorted(os.listdir(tmp_path)) == ["growing", "one", "other", "two"]


@pytest.mark.parametrize("which", [0, 1])
def test_sealed_inputs(tmp_path: Path, two: list[str], which: int) -> None:
    """A sealed filter is compared as a living one, and a damaged seal is refused."""
    before = compare(*two)
    seal(two[which])
    assert compare(*two) == before
    flip(two[which], 4096 + 200, 2)
    with pytest.raises(FormatError, match="checksum of MiB 0") as caught:
        compare(*two)
    assert caught.value.path == two[which]


ASK: dict[str, Callable[[BloomFilter, Any], object]] = {
    "common_count": BloomFilter.common_count,
    "jaccard": BloomFilter.jaccard,
    "isdisjoint": BloomFilter.isdisjoint,
    "issubset": BloomFilter.issubset,
}


@pytest.mark.parametrize("ask", ASK)
def test_what_cannot_be_compared(tmp_path: Path, two: list[str], ask: str) -> None:
    """One that is closed or replaced."""
    with BloomFilter.open(two[0], "r") as seen, BloomFilter.open(two[1], "r") as replaced:
        os.replace(make(tmp_path / "new", (), two[1]), two[1])
        for one, another in ((seen, replaced), (replaced, seen)):
            with pytest.raises(FileChangedError):
                ASK[ask](one, another)
    with pytest.raises(ClosedFilterError):
        ASK[ask](seen, two[1])


def test_nothing_is_changed(two: list[str]) -> None:
    """Law 14: filters that may only be read are compared, and not a byte or time changes."""
    for path in two:
        os.chmod(path, 0o400)
    with untouched(two[0]), untouched(two[1]):
        compare(*two)
    check_folder(Path(two[0]).parent, "one", "two")
