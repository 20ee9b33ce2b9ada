"""The kernels of slices: both engines against a definition in Python's own numbers."""

from dataclasses import replace
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from kernels import COMPILED, Engine, each_engine, needs_compiled
from naive import HASH, Hash, OneByOne, split, step_of

from mmbloom.sizing import FilterParams


@st.composite
def cuts(draw: st.DrawFn) -> tuple[FilterParams, int, list[Hash]]:
    """Parameters of a blocked filter, a number of slices that it has, and hashes."""
    blocks = draw(st.sampled_from([1, 2, 3, 8]))
    units = draw(st.sampled_from([1, 2, 3, 17, 64, 65, 1000, 2**16 + 1, 2**28]))
    num_bits = step_of("blocked", blocks) * units
    params = FilterParams(
        10, 0.1, "blocked", num_bits, blocks * draw(st.integers(1, 4)), blocks_per_key=blocks
    )
    pages = -(-num_bits // 32768)
    slices = draw(st.sampled_from([1, 2, 3, 64, 1000, 70_000, pages]))
    return params, min(slices, pages), draw(st.lists(HASH, max_size=30))


def slice_of(key: Hash, params: FilterParams, slices: int) -> int:
    """By the definition: the slice whose pages have the first position of the key."""
    pages = -(-params.num_bits // 32768)
    page = min(OneByOne(params).positions(key)) // 32768
    return max(
        j
        for j in (page * slices // pages, page * slices // pages + 1)
        if j < slices and j * pages // slices <= page
    )


@each_engine
@hypothesis.given(cut=cuts())
def test_slice_of_each_key(engine: Engine, cut: tuple[FilterParams, int, list[Hash]]) -> None:
    params, slices, keys = cut
    numbers = engine.slices_of(split(keys)[0], params, slices)
    assert numbers.dtype == np.int32
    assert numbers.tolist() == [slice_of(key, params, slices) for key in keys]
    if slices <= 70_000:  # else it is arrays of hundreds of MB, which the next test has once
        keys_by_slice(engine, *cut)


@each_engine
def test_partition_into_most_slices(engine: Engine) -> None:
    params = FilterParams(10, 0.1, "blocked", 2**40, 8, blocks_per_key=8)
    ends = (0, 1, 2**63, 2**64 - 2, 2**64 - 1)
    keys_by_slice(
        engine, params, 2**25, [(h1, h2) for h1 in reversed(ends) for h2 in (0, 2**64 - 1)]
    )


def keys_by_slice(engine: Engine, params: FilterParams, slices: int, keys: list[Hash]) -> None:
    """Partition, and compare with sorting by the definition."""
    h1, h2 = split(keys)
    expected = [slice_of(key, params, slices) for key in keys]
    starts, rows, (by1, by2) = engine.partition(h1, h2, params, slices)
    order = sorted(range(len(keys)), key=lambda row: expected[row])
    assert rows.tolist() == order
    assert list(zip(by1.tolist(), by2.tolist(), strict=True)) == [keys[row] for row in order]
    assert len(starts) == slices + 1
    assert starts[0] == 0
    counts = np.bincount(np.array(expected, int), minlength=slices)
    assert (np.diff(starts) == counts).all()


@each_engine
@hypothesis.given(cut=cuts())
def test_positions_within_a_slice(
    engine: Engine, cut: tuple[FilterParams, int, list[Hash]]
) -> None:
    """Of the slice as a filter by itself, a key has the same bits, counted from its beginning."""
    params, slices, keys = cut
    pages, unit = -(-params.num_bits // 32768), step_of("blocked", params.blocks_per_key)
    for key in keys:
        number = slice_of(key, params, slices)
        first, stop = (32768 * (j * pages // slices) for j in (number, number + 1))
        size = min(stop, params.num_bits) - first
        h1, h2 = split([key])
        local, foreign = engine.rebase(h1, params, first // unit, size // unit)
        assert foreign == -1
        part = OneByOne(replace(params, num_bits=size))
        found = part.positions((int(local[0]), int(h2[0])))
        assert {first + position for position in found} == OneByOne(params).positions(key)


@each_engine
def test_foreign_keys_are_found(engine: Engine) -> None:
    """Of keys before and after a part the first is named, and nothing is made of them."""
    params = FilterParams(10, 0.1, "blocked", 512 * 256, 3)
    h1 = np.array([(block << 32) // 256 + 1 << 32 for block in (64, 127, 63, 128)], np.uint64)
    assert engine.rebase(h1[:2], params, 64, 64)[1] == -1
    assert engine.rebase(h1, params, 64, 64)[1] == 2
    assert engine.rebase(h1[3:], params, 64, 64)[1] == 0
    assert engine.rebase(h1[:0], params, 64, 64)[1] == -1


@needs_compiled
@pytest.mark.parametrize(
    ("changed", "slices", "said"),
    [
        ({"layout": "standard"}, 1, "layout is 'standard', expected 'blocked'"),
        ({}, 0, "slices is 0, expected 1 to 4"),
        ({}, 5, "slices is 5, expected 1 to 4"),
    ],
)
def test_compiled_refuses(changed: dict[str, Any], slices: int, said: str) -> None:
    """Whatever would lead a loop out of its arrays is refused before."""
    params = replace(FilterParams(10, 0.1, "blocked", 512 * 256, 3), **changed)
    h1 = np.zeros(3, np.uint64)
    for call in (
        lambda: COMPILED.slices_of(h1, params, slices),
        lambda: COMPILED.partition(h1, h1, params, slices),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(ValueError, match="differ in length"):
        COMPILED.partition(h1, h1[1:], FilterParams(10, 0.1, "blocked", 512 * 256, 3), 2)
    with pytest.raises(ValueError, match="units is 0"):
        COMPILED.rebase(h1, FilterParams(10, 0.1, "blocked", 512 * 256, 3), 0, 0)
