"""Several blocks a key: filled arrays have the rates that the formula gives, and are planned for.

An array is filled with consecutive ints, and then looked at: for each page, each first block and
each step the chance that random bits are all set is known, and their mean is the rate. So
rates that nobody can count are measured too. That the bits of a key are as good as random is
counted apart, where the rate is high enough.
"""

import numpy as np
import pytest
from kernels import COMPILED, needs_compiled

from mmbloom import _engine
from mmbloom._engine.key_batch import IntegerKeys
from mmbloom._system.typing import HashHalves, HashName, Words
from mmbloom.sizing import FilterParams, estimate_count, false_positive_rate, plan
from mmbloom.sizing.formulas import _SHARED
from mmbloom.sizing.params import KeyHash

PAGES = 400


def hashes_of(keys: range, name: HashName) -> HashHalves:
    """Hash consecutive ints: keys as structured as can be."""
    return _engine.hash_keys(IntegerKeys(np.arange(keys.start, keys.stop)), KeyHash(name, 7))


def filled(params: FilterParams, num_keys: int, name: HashName) -> Words:
    words = np.zeros(params.num_bits // 64, np.uint64)
    for start in range(0, num_keys, 1 << 16):
        keys = range(start, min(num_keys, start + (1 << 16)))
        _engine.add(words, *hashes_of(keys, name), params)
    return words


def rate_of(words: Words, params: FilterParams) -> float:
    """Average over all blocks that a key may have; its bits in each are taken for random."""
    blocks = params.blocks_per_key
    fill = np.bitwise_count(words).reshape(-1, 64, 8).sum(axis=2) / 512
    hit = fill ** (params.num_hashes // blocks)
    first = np.arange(64)
    of_steps = [
        np.prod([hit[:, (first + j * step) % 64] for j in range(blocks)], axis=0).mean()
        for step in range(1, 64, 2)
    ]
    return float(np.mean(of_steps))


# Rate, blocks a key, and the bounds of the measured rate over the model's: three times the spread
# that arrays of this size have.
RATES = [(1e-4, 2, 0.03), (1e-6, 2, 0.06), (1e-9, 3, 0.12), (1e-12, 5, 0.25)]


@pytest.mark.parametrize("name", ["siphash", "murmur3"])
@pytest.mark.parametrize(("rate", "blocks", "bound"), RATES)
def test_measured_rate(rate: float, blocks: int, bound: float, name: HashName) -> None:
    """Filled to capacity an array has the planned rate, and as many bits as expected."""
    capacity = int(PAGES * 32768 / plan(10**9, rate).bits_per_key)
    params = plan(capacity, rate)
    assert params.blocks_per_key == blocks
    words = filled(params, capacity, name)
    measured, model = rate_of(words, params), params.rate_with(capacity)
    print(f"{rate:g}, {name}: measured {measured:.4g}, model {model:.4g}")
    assert measured == pytest.approx(model, rel=bound)
    assert measured < (1 + bound) * rate
    positions_set = _engine.count_set(words)
    assert params.estimated_count(positions_set) == pytest.approx(capacity, rel=0.002)
    assert params.expected_error_rate(positions_set) == pytest.approx(model, rel=0.03)


@pytest.mark.parametrize("name", ["siphash", "murmur3"])
@pytest.mark.parametrize(("num_hashes", "blocks", "keys_in_page"), [(18, 2, 2000), (27, 3, 2000)])
def test_counted_rate(num_hashes: int, blocks: int, keys_in_page: int, name: HashName) -> None:
    """Past its plan, where a million absent ints tell, the rate is the model's: bits are random."""
    pages = 100
    num_bits = 32768 * pages
    params = FilterParams(1, 0.1, "blocked", num_bits, num_hashes, 7, name, blocks_per_key=blocks)
    keys = keys_in_page * pages
    words = filled(params, keys, name)
    asked = 1_000_000
    absent = IntegerKeys(np.arange(10**9, 10**9 + asked))
    found = _engine.contains(words, absent, params).sum()
    model = params.rate_with(keys)
    print(f"k = {num_hashes}, b = {blocks}, {name}: {found} found, {model * asked:.5g} expected")
    assert model * asked > 500
    assert found / asked == pytest.approx(rate_of(words, params), rel=4 * (model * asked) ** -0.5)
    assert found / asked == pytest.approx(model, rel=0.15)


@needs_compiled
@pytest.mark.parametrize("structured", [False, True], ids=["random", "consecutive ints"])
@pytest.mark.parametrize(
    ("num_hashes", "blocks", "model", "millions"),
    [(18, 2, 1e-6, 16), (27, 3, 1e-5, 6)],
    ids=["1e-6", "past 1e-9"],
)
def test_counted_rate_of_few(
    num_hashes: int, blocks: int, model: float, millions: int, structured: bool
) -> None:
    """Absent keys enough are asked for at 1e-6, and past the plan with as many bits as at 1e-9."""
    params = FilterParams(1, 0.1, "blocked", 32768 * 50, num_hashes, blocks_per_key=blocks)
    low, high = 1, params.num_bits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if params.rate_with(middle) <= model else (low, middle)
    chance, found, size = np.random.default_rng(7), 0, 1 << 16

    def halves(first: int, n: int) -> HashHalves:
        if structured:
            return hashes_of(range(first, first + n), "murmur3")
        h1, h2 = chance.integers(0, 2**64, (2, n), np.uint64)
        return h1, h2

    words = np.zeros(params.num_bits // 64, np.uint64)
    COMPILED.add(words, *halves(0, low), params)
    asked = millions * 10**6 // size * size
    for first in range(10**9, 10**9 + asked, size):
        found += int(COMPILED.contains(words, *halves(first, size), params).sum())
    expected = asked * rate_of(words, params)
    print(f"b = {blocks}, {structured=}: {found} found, {expected:.4g} expected of this array")
    assert rate_of(words, params) == pytest.approx(model, rel=0.2)
    assert abs(found - expected) < 4 * expected**0.5


@pytest.mark.parametrize("blocks", _SHARED)
def test_keys_that_two_blocks_share(blocks: int) -> None:
    """The share is that of all 2048 ways to choose blocks, over the pairs of one of them."""
    mine, pairs = {*range(blocks)}, 0
    for first in range(64):
        for step in range(1, 64, 2):
            common = len(mine & {(first + j * step) % 64 for j in range(blocks)})
            pairs += common * (common - 1)
    in_two = pairs / (blocks * (blocks - 1)) / 2048
    assert _SHARED[blocks] == pytest.approx(in_two / (blocks / 64), rel=1e-12)
    assert len(_SHARED) == 7


def test_edges() -> None:
    """No key, hardly any, and far too many; blocks that no layout has."""
    for blocks in range(2, 9):
        rates = [
            false_positive_rate(n, 32768, 3 * blocks, blocks_per_key=blocks)
            for n in (0, 5e-324, 1e-9, 1, 100, 10**4, 1e12, float("inf"))
        ]
        assert rates == sorted(rates)
        assert (rates[0], rates[-1]) == (0, 1)
        assert all(0 <= rate <= 1 for rate in rates)
    for layout, blocks, hashes in (("standard", 2, 4), ("blocked", 9, 9), ("blocked", 2, 3)):
        for formula in (false_positive_rate, estimate_count):
            with pytest.raises(ValueError, match=f"blocks_per_key is {blocks}, expected 1"):
                formula(1, 32768, hashes, layout=layout, blocks_per_key=blocks)  # type: ignore[arg-type]
