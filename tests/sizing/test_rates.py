"""The formulas are right on paper, and real filters behave as they say."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import get_args

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from kernels import COMPILED, NUMPY

from mmbloom import BloomFilter
from mmbloom._system.typing import Layout
from mmbloom.sizing import FilterParams, plan
from mmbloom.sizing.formulas import estimate_count, false_positive_rate, textbook_rate

LAYOUTS = get_args(Layout)


def slow_blocked_rate(num_keys: int, num_bits: int, num_hashes: int) -> float:
    """Sum the Poisson series term by term with 60 digits, straight from the format's text."""
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(512) * num_keys / num_bits
        poisson, total = (-mean).exp(), Decimal(0)
        miss = Decimal(511) / Decimal(512)
        for j in range(int(mean) * 3 + 400):
            total += poisson * (1 - miss ** (num_hashes * j)) ** num_hashes
            poisson *= mean / (j + 1)
        return float(total)


@pytest.mark.parametrize(
    ("num_keys", "num_bits", "num_hashes"),
    [
        (1, 512, 1),
        (1, 512, 64),
        (100, 1024, 5),
        (52, 512, 7),
        (10**6, 9_900_032, 6),
        (10**9, 38_510_000_128, 16),
        (10**6, 10**6 // 512 * 512, 3),  # overfull
        (1000, 512 * 400, 12),  # nearly empty
        (3000, 512, 2),
    ],
)
def test_blocked_rate_is_the_poisson_sum(num_keys: int, num_bits: int, num_hashes: int) -> None:
    """The blocked rate agrees with the series summed in exact decimals, to 9 digits."""
    expected = slow_blocked_rate(num_keys, num_bits, num_hashes)
    assert false_positive_rate(num_keys, num_bits, num_hashes) == pytest.approx(expected, rel=1e-9)


def test_standard_rate_by_hand() -> None:
    """k = 10 and 20 bits a key give the textbook's 0.0000889, double hashing next to nothing."""
    rate = false_positive_rate(1_000_000, 20_000_000, 10, layout="standard")
    assert round(textbook_rate(1_000_000, 20_000_000, 10), 7) == 0.0000889
    fill = 1 - math.exp(-0.5)
    added = 1e6 / 20e6**2 * ((1 + fill) / (1 - fill)) ** 2
    assert rate == pytest.approx(fill**10 + added, rel=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rate_of_empty_and_of_overfull(layout: Layout) -> None:
    """An empty filter has no false positives, an overfull one nothing else."""
    assert false_positive_rate(0, 1024, 5, layout=layout) == 0
    for num_keys in (1e9, 1e15, math.inf):
        assert false_positive_rate(num_keys, 1024, 5, layout=layout) == 1


def test_rate_of_the_least_float() -> None:
    """A number of keys so small that its share of a block is 0 has rate 0."""
    assert false_positive_rate(5e-324, 2**40, 1) == 0


@hypothesis.given(
    st.one_of(st.just(0.0), st.floats(1e-9, 1e12)),
    st.integers(1, 2**31).map(lambda blocks: 512 * blocks),
    st.integers(1, 64),
    st.sampled_from(LAYOUTS),
)
def test_rate_is_a_probability_that_grows_with_keys(
    num_keys: float, num_bits: int, num_hashes: int, layout: Layout
) -> None:
    """Between 0 and 1 for whatever arguments, and no lower with a tenth more keys."""
    rate = false_positive_rate(num_keys, num_bits, num_hashes, layout=layout)
    more = false_positive_rate(num_keys * 1.1, num_bits, num_hashes, layout=layout)
    assert 0 <= rate <= 1
    assert more >= rate * (1 - 1e-4)  # the doubles of a mean of 10^9 have fewer digits


@hypothesis.given(st.integers(1, 2**31), st.integers(1, 64), st.floats(0, 1))
def test_blocks_cost_accuracy(num_blocks: int, num_hashes: int, fill: float) -> None:
    """With few false positives, blocks have more of them than the textbook's filter."""
    num_bits = 512 * num_blocks
    num_keys = fill * num_bits / num_hashes / 2
    standard = textbook_rate(num_keys, num_bits, num_hashes)
    blocked = false_positive_rate(num_keys, num_bits, num_hashes)
    assert blocked >= standard * 0.999


@hypothesis.given(
    st.integers(1, 2**34), st.integers(1, 64), st.floats(0.001, 0.999), st.sampled_from(LAYOUTS)
)
def test_estimate_inverts_expectation(
    words: int, num_hashes: int, fill: float, layout: Layout
) -> None:
    """The estimate from the bits that n keys are expected to leave is n."""
    num_bits = 64 * words if layout == "standard" else 512 * -(-words // 8)
    positions_set = round(fill * num_bits)
    keys = estimate_count(positions_set, num_bits, num_hashes, layout=layout)
    back = FilterParams(1, 0.01, layout, num_bits, num_hashes).expected_positions_set(keys)
    assert back == pytest.approx(min(positions_set, num_bits - 1), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_estimate_at_the_ends(layout: Layout) -> None:
    """No set bit is no key; a full or damaged count is a finite number."""
    assert estimate_count(0, 1024, 5, layout=layout) == 0
    full = estimate_count(1024, 1024, 5, layout=layout)
    assert math.isfinite(full)
    assert full == estimate_count(1023, 1024, 5, layout=layout)
    assert full == estimate_count(2**64 - 1, 1024, 5, layout=layout)


def test_expected_bits_by_hand() -> None:
    """m (1 - e^(-kn/m)) bits; in blocks the k choices of a key may coincide."""
    n, m, k = 1000, 10_240, 7
    standard = m * (1 - math.exp(-k * n / m))
    found = FilterParams(n, 0.01, "standard", m, k).expected_positions_set(n)
    assert found == pytest.approx(standard)
    # A block with j keys has 512 (1 - (511/512)^(kj)) bits: averaged over Poisson(j).
    mean, miss = 512 * n / m, (511 / 512) ** k
    blocked = m * (1 - math.exp(mean * (miss - 1)))
    found = FilterParams(n, 0.01, "blocked", m, k).expected_positions_set(n)
    assert found == pytest.approx(blocked)


# Rate, absent keys asked for: the noise of the count, 1/sqrt(rate * asked), is 3 % at most.
ASKED = [(0.1, 200_000), (0.01, 400_000), (0.001, 2_000_000), (0.0001, 10_000_000)]


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")  # filled to the capacity check
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("rate", "asked"), ASKED)
def test_measured_rate(
    create: Callable[..., BloomFilter], layout: Layout, rate: float, asked: int
) -> None:
    """A filter filled to capacity has 0.85 to 1.1 times the planned rate of false positives.

    Keys are consecutive ints and the seed is fixed, so the count is the same in every run.
    """
    capacity = 200_000
    seen = create(capacity, rate, layout=layout, seed=12345)
    seen.add_many(np.arange(capacity))
    found = sum(
        int(seen.contains_many(np.arange(start, min(start + 10**6, capacity + asked))).sum())
        for start in range(capacity, capacity + asked, 10**6)
    )
    print(f"{layout} {rate}: measured {found / asked:.6g}")
    assert 0.85 * rate < found / asked < 1.1 * rate


# Keys, bits, hashes, and how many filters: three sizes of the textbook, one that is a third full,
# and what is planned for the first.
SMALL = [
    (100, 2880, 20, 40),
    (100, 1920, 13, 20),
    (300, 8640, 20, 80),
    (100, 4672, 20, 60),
    (100, plan(100, 1e-6, layout="standard").num_bits, 20, 200),
]


@pytest.mark.parametrize(("keys", "bits", "hashes", "filters"), SMALL)
def test_measured_rate_of_small_filters(keys: int, bits: int, hashes: int, filters: int) -> None:
    """Where double hashing decides the rate, the formula is 0.8 to 1.5 times what is found."""
    rng = np.random.default_rng(keys + bits)
    params = FilterParams(keys, 0.5, "standard", bits, hashes)
    asked, found = 200_000, 0
    for _ in range(filters):
        words = np.zeros(bits // 64, np.uint64)
        h1, h2 = rng.integers(0, 2**64, (2, keys), np.uint64)
        NUMPY.add(words, h1, h2, params)
        h1, h2 = rng.integers(0, 2**64, (2, asked), np.uint64)
        found += int(COMPILED.contains(words, h1, h2, params).sum())
    expected = false_positive_rate(keys, bits, hashes, layout="standard") * asked * filters
    print(f"{keys} keys, {bits} bits: {found} found, {expected:.4g} expected")
    assert 0.8 * (found - 2 * found**0.5) < expected < 1.5 * (found + 2 * found**0.5)
    if bits == SMALL[-1][1]:
        assert found < 1e-6 * asked * filters + 2 * (1e-6 * asked * filters) ** 0.5
    else:
        assert textbook_rate(keys, bits, hashes) * asked * filters < found / 3


@pytest.mark.parametrize(
    ("keys", "rate"), [(1, 0.01), (2, 1e-3), (10, 1e-4), (50, 1e-4), (64, 1e-3)]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_measured_rate_of_few_keys(layout: Layout, keys: int, rate: float) -> None:
    """What is planned for a handful of keys is kept: its bits are few, and a power of two or so."""
    rng = np.random.default_rng(keys)
    params, asked, filters, found = plan(keys, rate, layout=layout), 20_000, 100, 0
    for _ in range(filters):
        words = np.zeros(params.num_bits // 64, np.uint64)
        h1, h2 = rng.integers(0, 2**64, (2, keys), np.uint64)
        COMPILED.add(words, h1, h2, params)
        h1, h2 = rng.integers(0, 2**64, (2, asked), np.uint64)
        found += int(COMPILED.contains(words, h1, h2, params).sum())
    planned = rate * asked * filters
    print(f"{layout}, {keys} keys at {rate}: {found} found, {planned:.4g} planned")
    assert found < planned + 3 * planned**0.5


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")  # filled to the capacity check
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("share", [0.01, 0.5, 1])
def test_measured_count(create: Callable[..., BloomFilter], layout: Layout, share: float) -> None:
    """The estimated number of keys is within 2 % of the real one, from nearly empty to full."""
    seen = create(200_000, 0.001, layout=layout, seed=1)
    number = int(share * 200_000)
    seen.update(np.arange(number))
    assert seen.approx_count == pytest.approx(number, rel=0.02)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_measured_current_rate(create: Callable[..., BloomFilter], layout: Layout) -> None:
    seen = create(100_000, 0.05, layout=layout, seed=1)
    seen.add_many(np.arange(70_000))
    measured = seen.contains_many(np.arange(10**6, 10**6 + 2_000_000)).mean()
    assert seen.current_error_rate == pytest.approx(measured, rel=0.05)
