"""How many bits and hashes a new filter gets, and how many keys they are good for.

Formulas for the standard layout, a search for the blocked one. The numbers that the format
allows are in ``params.py``; false-positive rates are in ``formulas.py``.
"""

import math
from functools import lru_cache

from mmbloom._typing import HashName, Layout
from mmbloom.sizing.formulas import BLOCK_BITS, false_positive_rate
from mmbloom.sizing.params import (
    DEFAULT_HASH,
    MAX_BLOCKS,
    MAX_HASHES,
    MIN_BITS,
    FilterParams,
    require_capacity,
    require_error_rate,
)

# The textbook's sizes make do with a whole k: its rate at capacity is up to 5 % above the one
# planned for, near 0.35.
_STANDARD_SPARE = 15 / 16


def to_plan_for(error_rate: float, layout: Layout) -> float:
    """Give the rate to plan for where the one at capacity must not be above `error_rate`."""
    return error_rate * _STANDARD_SPARE if layout == "standard" else error_rate


# What a whole k and double hashing may add to the rate, before more bits make up for it: at most
# so many times the textbook's, or a MiB.
_TOLERATED, _MOST = 1.05, 16
SMALL_BITS = 2**23
# The formulas speak of many keys. Plans for fewer than these by them had up to 25 times the rate
# asked for (measured: 1 key at 0.01), so that fewer get the bits and hashes of so many.
_FEW_KEYS = 64


def plan_standard(capacity: int, error_rate: float) -> tuple[int, int]:
    """Take the textbook's bits and hashes, and more bits where double hashing asks for them."""
    keys = max(capacity, _FEW_KEYS)
    num_bits, num_hashes = _textbook(keys, error_rate)

    def rate(bits: int) -> float:
        return false_positive_rate(keys, bits, num_hashes, layout="standard")

    if rate(num_bits) <= _TOLERATED * error_rate:
        return num_bits, num_hashes
    low, high = num_bits // 64, max(_MOST * num_bits, SMALL_BITS) // 64
    if rate(64 * high) > error_rate:
        raise ValueError(
            f"{capacity} keys at an error rate of {error_rate!r} need more than {_MOST} times the "
            "textbook's bits in the standard layout, as its double hashing has few sets of "
            "positions; use the blocked layout, or a higher error rate"
        )
    while high - low > 1:  # low is not good, high is
        middle = (low + high) // 2
        low, high = (low, middle) if rate(64 * middle) <= error_rate else (middle, high)
    # Of an odd number of words: a key's step that shares powers of two with m comes back to the
    # same positions too soon, but for those that wrap at 2^63 (1.4 times the rate at m = 24 * 64).
    return 64 * (high | 1), num_hashes


def _textbook(capacity: int, error_rate: float) -> tuple[int, int]:
    """Compute bits and hashes by the textbook's formulas, within what the format allows."""
    ideal = math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2)
    num_bits = max(MIN_BITS, -(-ideal // 64) * 64)
    best = num_bits / capacity * math.log(2)
    num_hashes = min(max(1, round(best)), MAX_HASHES)
    if 1 <= best < MAX_HASHES + 0.5:
        return num_bits, num_hashes
    # Above 0.5 and below about 1e-19 the best k is out of reach: more bits make up for it.
    ideal = math.ceil(-num_hashes * capacity / math.log1p(-(error_rate ** (1 / num_hashes))))
    return max(num_bits, -(-ideal // 64) * 64), num_hashes


@lru_cache(maxsize=256)  # a plan takes 6 ms, and many filters are alike
def plan_blocked(capacity: int, error_rate: float) -> tuple[int, int]:
    """Search the fewest blocks that are good enough, and their number of hashes."""
    best: tuple[int, int] | None = None
    worse_in_a_row = 0
    for num_hashes in range(1, MAX_HASHES + 1):
        num_blocks = _fewest_blocks(capacity, error_rate, num_hashes)
        if num_blocks is not None and (best is None or num_blocks < best[0]):
            best, worse_in_a_row = (num_blocks, num_hashes), 0
        elif best is not None:
            worse_in_a_row += 1
            # The size has one minimum over k; small filters are quantised to whole blocks,
            # so wait for a few larger (or equal) sizes before believing in it.
            if worse_in_a_row == 8:
                break
    if best is None:
        raise ValueError(
            f"{capacity} keys at an error rate of {error_rate!r} need more than {MAX_BLOCKS} "
            "blocks; use the standard layout, fewer keys or a higher error rate"
        )
    return best[0] * BLOCK_BITS, best[1]


def _fewest_blocks(capacity: int, error_rate: float, num_hashes: int) -> int | None:
    def good(num_blocks: int) -> bool:
        rate = false_positive_rate(capacity, num_blocks * BLOCK_BITS, num_hashes, layout="blocked")
        return rate <= error_rate

    if not good(MAX_BLOCKS):
        return None
    low, high = 0, MAX_BLOCKS  # low is not good (or nothing), high is good
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle
    return high


def plan(
    capacity: int,
    error_rate: float = 0.01,
    *,
    layout: Layout = "blocked",
    seed: int = 0,
    hash: HashName = DEFAULT_HASH,
) -> FilterParams:
    """Choose the number of bits and hashes for a number of keys and an error rate.

    Parameters
    ----------
    capacity : int
        Number of keys to plan for, at least 1.
    error_rate : float, default 0.01
        False-positive rate when `capacity` keys are in, between 0 and 1.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": m = ceil(-n ln p / (ln 2)^2) rounded up to 64 and k = round(m/n ln 2), where n
        is at least 64; more bits where that would give more than 1.05 p, as for 100 keys at 1e-6.
        "blocked": the k and the smallest m whose `false_positive_rate` is at most p.
    seed : int, default 0
        Passed through.
    hash : {"siphash", "murmur3"}, default "siphash"
        Passed through: the size does not depend on it.

    Returns
    -------
    FilterParams

    Raises
    ------
    TypeError
        If `capacity` is not an int.
    ValueError
        If a value is out of range, or no filter that this format allows is good enough.

    Notes
    -----
    The standard layout's formulas are the textbook's for the best k (Broder and Mitzenmacher,
    "Network Applications of Bloom Filters", 2004); where that k is below 1 or above 64,
    m = -k n / ln(1 - p^(1/k)). As k is whole, the rate at capacity can be above p: by 0.4 % of it
    at 0.01, by 5 % of it at most, near 0.35. The blocked layout has no closed form (Putze,
    Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007): for each k
    the fewest blocks of 512 bits are found by bisection.

    Examples
    --------
    >>> plan(1_000_000_000, 0.01).num_bytes
    1236987584
    """
    require_capacity(capacity)
    error_rate = require_error_rate(error_rate)
    if not 1 <= capacity < 2**64:
        raise ValueError(f"capacity is {capacity!r}, expected 1 to 2**64 - 1")
    if layout == "blocked":
        num_bits, num_hashes = plan_blocked(capacity, error_rate)
    else:
        num_bits, num_hashes = plan_standard(capacity, error_rate)
    return FilterParams(capacity, error_rate, layout, num_bits, num_hashes, seed, hash)


def capacity_of(
    num_bits: int, num_hashes: int, error_rate: float = 0.01, *, layout: Layout = "blocked"
) -> int:
    """Find the most keys, at least 1, that bring a filter to an error rate; inverts `plan`.

    Parameters
    ----------
    num_bits, num_hashes : int
        m and k of the filter.
    error_rate : float, default 0.01
        Highest `false_positive_rate` to accept, between 0 and 1.
    layout : {"blocked", "standard"}, default "blocked"
        How positions are spread.

    Returns
    -------
    int
        The largest n whose rate is at most that, found by bisection in both layouts.

    Raises
    ------
    ValueError
        If the error rate or the layout is none.

    Examples
    --------
    >>> capacity_of(9_585_088, 7, 0.01, layout="standard")
    999177
    """
    require_error_rate(error_rate)
    low, high = 1, 64 * num_bits  # low is good enough (or the least), high is not
    while high - low > 1:
        middle = (low + high) // 2
        rate = false_positive_rate(middle, num_bits, num_hashes, layout=layout)
        low, high = (middle, high) if rate <= error_rate else (low, middle)
    return low
