"""merge: exactly the bits of all its inputs, counted anew; the inputs stay as they are."""

import itertools
import os
import random
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from checks import array_of, check_folder, check_pickles, counters_of, seal, set_counters
from damages import untouched
from maps import maps_made
from naive import LAYOUTS
from reference import NaiveFilter
from unions import check_union, live_writer, make, make_random

from mmbloom import (
    BloomFilter,
    CapacityWarning,
    IncompatibleFiltersError,
    MmbloomWarning,
    merge,
    verify,
)
from mmbloom.sizing import FilterParams, Layout


@pytest.mark.parametrize("number", [1, 2, 50])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_merge_is_the_or(tmp_path: Path, seed: int, layout: Layout, number: int) -> None:
    """The array is the OR of all arrays, no key is lost, and the figures are near the truth."""
    chance, first = random.Random(seed), tmp_path / "0"
    make(first, capacity=6000, layout=layout, seed=seed)
    parts = [chance.sample(range(9000), 5500 // number) for _ in range(number)]
    sources = [make(tmp_path / f"{i + 1}", part, first) for i, part in enumerate(parts)]
    united, truth = str(tmp_path / "united"), set(itertools.chain(*parts))
    merge(united, sources)
    check_union(united, *sources)
    assert counters_of(united)["keys_added"] == pytest.approx(len(truth), rel=0.05)
    with BloomFilter.open(united) as seen:
        assert seen.contains_many(sorted(truth)).all()
        assert seen.info().unfinished_batches == 0
        assert seen.recount() == counters_of(united)["positions_set"]
        assert seen.add_many(range(-5, 0)).any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_merge_of_many_pieces(tmp_path: Path, seed: int, layout: Layout) -> None:
    """Arrays of 10 MiB and a bit, set up to their last word, are united to their last word."""
    sources = [make_random(tmp_path / f"{i}", 9_000_000, layout, seed + i) for i in range(3)]
    assert 10 << 20 < len(array_of(sources[0])) < 11 << 20
    assert len(array_of(sources[0])) % (1 << 20)
    merge(tmp_path / "united", map(Path, sources))
    check_union(str(tmp_path / "united"), *sources)


def test_merged_header(tmp_path: Path, two: list[str]) -> None:
    """A union is a filter of its own, with its own uuid and time, and the inputs' parameters."""
    merge(tmp_path / "united", two)
    raws = [Path(path).read_bytes() for path in (*two, str(tmp_path / "united"))]
    assert raws[2][8:64] == raws[0][8:64]  # version to error rate
    uuids, times = [raw[72:88] for raw in raws], [struct.unpack_from("<Q", r, 64) for r in raws]
    assert len(set(uuids)) == 3
    assert times[2] > times[1] > times[0]
    assert counters_of(str(tmp_path / "united"))["flushed_ns"] >= times[2][0]


def test_merge_with_a_live_filter(tmp_path: Path) -> None:
    """Law 4: every key whose add had returned before the merge is in it, whoever goes on adding."""
    live = make(tmp_path / "live", capacity=2_000_000)
    other = make(tmp_path / "other", range(-100, 0), live)
    with live_writer(live, distinct=1_000_000) as acknowledged:
        for number in range(10):
            keys = range(-100, acknowledged(10 * (number + 1)))
            merge(tmp_path / f"{number}", [other, live])
            with BloomFilter.open(tmp_path / f"{number}") as seen:
                assert seen.contains_many(keys).all()
                assert seen.recount() == seen.info().positions_set
    assert len(keys) > 1000


def test_sealed_inputs(tmp_path: Path, two: list[str]) -> None:
    """Sealed and living filters are united alike, and the result is no sealed one."""
    living = str(shutil.copy(two[1], tmp_path / "living"))
    seal(two[1])
    for number, sources in enumerate((two, two[::-1], [two[1]])):
        united = str(tmp_path / f"{number}")
        merge(united, sources)
        check_union(united, *(living if source == two[1] else source for source in sources))


def test_an_input_named_twice(tmp_path: Path, two: list[str]) -> None:
    """A filter united with itself is itself, and its keys are not counted twice."""
    united = str(tmp_path / "united")
    merge(united, [two[0]] * 3)
    check_union(united, *[two[0]] * 3)
    assert array_of(united) == array_of(two[0])
    assert counters_of(united)["keys_added"] == pytest.approx(300, rel=0.05)


OTHERS: dict[str, Any] = {
    "capacity": 1001,
    "error_rate": 0.02,
    "layout": "standard",
    "seed": 6,
    "hash": "murmur3",
}


NAMES = ("capacity", "error_rate", "layout", "num_bits", "num_hashes", "seed", "hash")


def spelled(params: FilterParams, name: str) -> str:
    """A parameter as errors have it: the key of SipHash as its fingerprint only."""
    return params.key_hash.spelled_seed if name == "seed" else str(getattr(params, name))


@pytest.mark.parametrize("count", range(1, 6))
def test_mismatch_names_every_difference(tmp_path: Path, two: list[str], count: int) -> None:
    """Every parameter that differs is named with both values, and nothing is made."""
    for names in itertools.combinations(OTHERS, count):
        other = make(tmp_path / "-".join(names), **{name: OTHERS[name] for name in names})
        with pytest.raises(IncompatibleFiltersError) as caught:
            merge(tmp_path / "out", [*two, other])
        error = caught.value
        assert (error.path, error.other) == (two[0], other)
        with BloomFilter.open(two[0]) as here, BloomFilter.open(other) as there:
            expected = tuple(
                (name, *(spelled(made.params, name) for made in (here, there)))
                for name in NAMES
                if getattr(here.params, name) != getattr(there.params, name)
            )
        assert error.differences == expected
        assert set(names) <= {name for name, _, _ in error.differences}
        for said in (two[0], other, *(f"{n} {ours} and {theirs}" for n, ours, theirs in expected)):
            assert said in str(error)
        assert isinstance(error, ValueError)
        check_pickles(error)
        os.unlink(other)
    check_folder(tmp_path, "one", "two")


def test_inputs_are_never_mapped_nor_changed(
    tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laws 10, 14: no input is mapped, locked or written, and one for reading only will do."""
    os.chmod(two[0], 0o400)
    maps = maps_made(monkeypatch)
    with BloomFilter.open(two[1]) as seen, seen.locked():
        assert maps
        maps.clear()
        seen._storage.close()  # its lock stays
        with untouched(two[0]), untouched(two[1]):
            merge(tmp_path / "out", two)
    assert not maps


def test_damaged_counters_of_inputs(tmp_path: Path, two: list[str]) -> None:
    """Counters of any value do no harm: what can be counted is, and keys are at most the bits."""
    set_counters(two[0], **dict.fromkeys(counters_of(two[0]), 2**64 - 1))
    with pytest.warns(MmbloomWarning, match="counters are damaged"):
        merge(tmp_path / "out", two)
    counters = counters_of(str(tmp_path / "out"))
    assert counters["positions_set"] == counters["keys_added"]
    assert counters["positions_set"].bit_length() < 16
    set_counters(two[0], keys_added=300)
    set_counters(str(tmp_path / "out"), keys_added=300)
    check_union(str(tmp_path / "out"), *two)


def test_full_filters(tmp_path: Path, two: list[str]) -> None:
    """Filters of ones only are united, and said to hold as many keys as such bits can have."""
    with BloomFilter.open(two[0]) as seen:
        seen._storage.views.words[:] = 2**64 - 1
    with pytest.warns(CapacityWarning):
        merge(tmp_path / "out", two)
    naive = NaiveFilter((tmp_path / "out").read_bytes())
    num_bits, num_hashes = naive.fields.num_positions, naive.fields.num_hashes
    assert naive.popcount() == naive.counters[1] == num_bits
    assert num_bits / num_hashes <= naive.counters[0] <= num_bits
    assert verify(tmp_path / "out").ok
