"""Positions are those of the format's formulas, for ints and for arrays alike."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from naive import SHAPES, G, positions_by, step_of

from mmbloom.format.positions import positions
from mmbloom.sizing import FilterParams, Layout

HALF = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1]))


def params_of(layout: Layout, num_bits: int, num_hashes: int, blocks: int = 1) -> FilterParams:
    return FilterParams(10, 0.1, layout, num_bits, num_hashes, blocks_per_key=blocks)


@st.composite
def some_params(draw: st.DrawFn) -> FilterParams:
    """Parameters over the whole range of the format, edges included."""
    layout, blocks = draw(st.sampled_from(SHAPES))
    largest = {64: 2**37, 512: 2**31, 32768: 2**28}[step_of(layout, blocks)]
    steps = draw(st.one_of(st.integers(1, largest), st.sampled_from([1, 2, 3, largest])))
    num_hashes = blocks * draw(st.integers(1, 64 // blocks))
    return params_of(layout, step_of(layout, blocks) * steps, num_hashes, blocks)


@hypothesis.given(st.lists(st.tuples(HALF, HALF), max_size=20), some_params())
def test_arrays_and_ints_agree(keys: list[tuple[int, int]], params: FilterParams) -> None:
    h1 = np.array([one for one, _ in keys], dtype=np.uint64)
    h2 = np.array([two for _, two in keys], dtype=np.uint64)
    columns = list(positions(h1, h2, params))
    assert len(columns) == params.num_hashes
    assert all(column.dtype == np.uint64 and column.shape == h1.shape for column in columns)
    for row, (one, two) in enumerate(keys):
        assert [int(column[row]) for column in columns] == list(positions(one, two, params))


@hypothesis.given(HALF, HALF, some_params())
def test_formulas_of_the_format(h1: int, h2: int, params: FilterParams) -> None:
    """Written down once more in `reference.positions_of`."""
    assert tuple(positions(h1, h2, params)) == positions_by(params, h1, h2)


def test_by_hand() -> None:
    assert list(positions(3, 5, params_of("standard", 64, 3))) == [3, 8, 13]
    assert list(positions(2**63 + 1, 2**63, params_of("standard", 128, 3))) == [1, 1, 1]
    # Half way up four blocks is block 2; the top nine bits of G are 0b100111100 = 316.
    assert list(positions(2**63, 1, params_of("blocked", 2048, 1))) == [1024 + 316]
    # The second of two pages; from block 62 in steps of 2*2 + 1 = 5 to block 3; G^2 >> 55 = 446.
    h1 = 2**63 + 2 * 64 + 62
    assert G**2 % 2**64 >> 55 == 446
    two = params_of("blocked", 65536, 2, 2)
    assert list(positions(h1, 1, two)) == [32768 + 62 * 512 + 316, 32768 + 3 * 512 + 446]


@hypothesis.given(HALF, HALF, some_params())
def test_within_the_array(h1: int, h2: int, params: FilterParams) -> None:
    """Positions are below m, and those of a key in a blocked filter in b blocks of one page."""
    found = list(positions(h1, h2, params))
    assert all(0 <= position < params.num_bits for position in found)
    if params.layout == "blocked":
        blocks = [position // 512 for position in found]
        assert len({*blocks}) == params.blocks_per_key
        if params.blocks_per_key > 1:
            assert len({block // 64 for block in blocks}) == 1
            assert blocks == sorted(blocks, key=blocks.index)  # the bits of a block together


@pytest.mark.parametrize(("blocks", "size"), [(1, 512), (2, 32768)])
@hypothesis.given(h1s=st.lists(HALF, min_size=2), number=st.integers(1, 2**28))
def test_order_of_h1(blocks: int, size: int, h1s: list[int], number: int) -> None:
    """Blocks, or pages, follow h1: a range of it is a contiguous range of the file."""
    params = params_of("blocked", size * number, blocks, blocks)
    found = [next(positions(h1, 0, params)) // size for h1 in sorted(h1s)]
    assert found == sorted(found)


@pytest.mark.parametrize("num_blocks", [1, 3, 1000, 2**31])
def test_first_and_last_block_are_used(num_blocks: int) -> None:
    params = params_of("blocked", 512 * num_blocks, 1)
    assert next(positions(0, 0, params)) // 512 == 0
    assert next(positions(2**64 - 1, 0, params)) // 512 == num_blocks - 1


def test_bits_of_a_block_are_used_evenly() -> None:
    """Each of the 512 bits of a block is drawn about equally often by consecutive hashes."""
    params = params_of("blocked", 512, 8)
    h2 = np.arange(1, 51_201, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)
    for column in positions(h2, h2, params):
        counts = np.bincount(column.astype(np.intp), minlength=512)
        assert 40 < counts.min() <= counts.max() < 160  # 100 expected; six standard deviations
