"""Sizing: how many bits and hashes a filter needs, and how many false positives to expect.

``formulas``  false-positive rates and key counts in both layouts, with their sources
``params``    `FilterParams`, and the limits of the format

These functions only compute: they need no file and no keys. `plan` chooses the bits and hashes of a
new filter, and `capacity_of` computes how many keys they are good for. The standard layout has
formulas; the blocked layout needs a search.

Past its capacity, a filter reports more and more new keys as already seen: 95 % of them at 100
times its capacity.
"""

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple, Self

from mmbloom._system.typing import HashName, Layout
from mmbloom.sizing.formulas import (
    MAX_BLOCKS_PER_KEY,
    estimate_count,
    false_positive_rate,
    textbook_rate,
)
from mmbloom.sizing.params import (
    DEFAULT_HASH,
    MAX_BITS,
    MAX_HASHES,
    MIN_BITS,
    FilterParams,
    require_capacity,
    require_error_rate,
    sizes_of,
)

__all__ = [
    "BestPractice",
    "FilterParams",
    "Layout",
    "best_practice",
    "best_practice_table",
    "capacity_of",
    "estimate_count",
    "false_positive_rate",
    "plan",
]

# The textbook's sizes round k to a whole number: the rate at capacity is up to 5 % above the one
# planned for, near 0.35.
_STANDARD_SPARE = 15 / 16


def to_plan_for(error_rate: float, layout: Layout) -> float:
    """Return the rate to plan for, so that the one at capacity is not above `error_rate`."""
    return error_rate * _STANDARD_SPARE if layout == "standard" else error_rate


# A whole k and double hashing may raise the rate by the first factor; above it more bits make up
# for them: at most the second factor times the textbook's, or a MiB.
_TOLERATED, _MOST = 1.05, 16
SMALL_BITS = 2**23
# The formulas hold for many keys. Plans for fewer than these had up to 25 times the rate asked for
# (measured: 1 key at 0.01): fewer keys get the bits and hashes of 64.
_FEW_KEYS = 64


def plan_standard(capacity: int, error_rate: float) -> tuple[int, int]:
    """Return the textbook's bits and hashes, with more bits where double hashing needs them."""
    keys = max(capacity, _FEW_KEYS)
    num_bits, num_hashes = _textbook(keys, error_rate)

    def rate(bits: int) -> float:
        return false_positive_rate(keys, bits, num_hashes, layout="standard")

    words = num_bits // 64
    if words & words - 1 == 0:
        words |= 1  # see below: 1.13 times the rate was found for 8,192 bits at 1e-3
    if rate(64 * words) <= _TOLERATED * error_rate:
        return 64 * words, num_hashes
    low, high = num_bits // 64, max(_MOST * num_bits, SMALL_BITS) // 64
    if rate(64 * high) > error_rate:
        raise ValueError(
            f"{capacity} keys at an error rate of {error_rate!r} need more than {_MOST} times the "
            "textbook number of bits in the standard layout, whose double hashing has few distinct "
            "sets of positions; use the blocked layout, or a higher error rate"
        )
    while high - low > 1:  # low is too small, high is large enough
        middle = (low + high) // 2
        low, high = (low, middle) if rate(64 * middle) <= error_rate else (middle, high)
    # An odd number of words: a key whose step shares powers of two with m returns to the same
    # positions too soon. Wrapping at 2^63 helps, but not if m is nearly a power of two: 1.4 times
    # the rate was found for 24 words.
    return 64 * (high | 1), num_hashes


def _textbook(capacity: int, error_rate: float) -> tuple[int, int]:
    """Compute bits and hashes by the textbook's formulas, within what the format allows."""
    ideal = math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2)
    num_bits = max(MIN_BITS, -(-ideal // 64) * 64)
    best = num_bits / capacity * math.log(2)
    num_hashes = min(max(1, round(best)), MAX_HASHES)
    if 1 <= best < MAX_HASHES + 0.5:
        return num_bits, num_hashes
    # Above 0.5 and below about 1e-19 the best k is not allowed: more bits make up for it.
    ideal = math.ceil(-num_hashes * capacity / math.log1p(-(error_rate ** (1 / num_hashes))))
    return max(num_bits, -(-ideal // 64) * 64), num_hashes


# A plan with at most this many times the textbook's bits needs no more blocks a key.
_NEAR_TEXTBOOK = 1.1


@lru_cache(maxsize=256)  # a plan takes milliseconds, and many filters have the same
def plan_blocked(capacity: int, error_rate: float) -> tuple[int, int, int]:
    """Find bits, hashes and blocks a key: the fewest blocks whose size is near the textbook's.

    If none is near (a small filter is whole blocks, or whole pages), take the smallest size, with
    the fewest blocks that have it.
    """
    textbook = -capacity * math.log(error_rate) / math.log(2) ** 2
    for blocks in range(1, MAX_BLOCKS_PER_KEY + 1):
        if best := _fewest(capacity, error_rate, blocks, textbook, _NEAR_TEXTBOOK * textbook):
            return (*best, blocks)
    smallest: tuple[int, int, int] | None = None
    for blocks in range(1, MAX_BLOCKS_PER_KEY + 1):
        most = smallest[0] - 1 if smallest else math.inf
        if best := _fewest(capacity, error_rate, blocks, textbook, most):
            smallest = (*best, blocks)
    if smallest is None:
        raise ValueError(
            f"{capacity} keys at an error rate of {error_rate!r} need more than {MAX_BITS} bits; "
            "use fewer keys or a higher error rate"
        )
    return smallest


def _fewest(
    capacity: int, error_rate: float, blocks: int, textbook: float, most: float
) -> tuple[int, int] | None:
    """Find the fewest bits that are good enough, with the fewest hashes; None if above `most`.

    The textbook's number is a lower bound: it holds if all blocks are equally full.
    """
    step, largest = sizes_of("blocked", blocks)
    least, end = max(1, math.floor(textbook / step)), math.floor(min(most, largest) / step)
    best: tuple[int, int] | None = None
    if least > end:
        return None
    for num_hashes in range(blocks, MAX_HASHES + 1, blocks):

        def good(units: int, num_hashes: int = num_hashes) -> bool:
            rate = false_positive_rate(
                capacity, units * step, num_hashes, layout="blocked", blocks_per_key=blocks
            )
            return rate <= error_rate

        # Most numbers of hashes need more bits than the best so far. The textbook's rate, which
        # blocks never halve, excludes those that need far more; one check excludes the others.
        hopeless = textbook_rate(capacity, end * step, num_hashes) > 2 * error_rate
        if not hopeless and good(end):
            end = bisect_left(range(end), True, lo=least, key=good)
            best = (end * step, num_hashes)
            end -= 1
            if end < least:
                break
    return best


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
        Number of keys, at least 1.
    error_rate : float, default 0.01
        False-positive rate when the filter holds `capacity` keys, between 0 and 1.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": m = ceil(-n ln p / (ln 2)^2) rounded up to 64 and k = round(m/n ln 2), where n
        is at least 64; more bits if the rate would exceed 1.05 p, as with 100 keys at 1e-6.
        "blocked": the k and the smallest m whose `false_positive_rate` is at most p, with
        the fewest blocks per key, 1 to 8, for which that m is at most 10 % above the textbook
        value -n ln p / (ln 2)^2: 1 down to about 0.1 %, 2 at 1e-4 to 1e-6, 3 at 1e-9.
    seed : int, default 0
        Copied to the result.
    hash : {"siphash", "murmur3"}, default "siphash"
        Copied to the result; the size does not depend on it.

    Returns
    -------
    FilterParams

    Raises
    ------
    TypeError
        If `capacity` is not an int.
    ValueError
        If a value is out of range, or no filter that this format allows reaches the rate.

    Notes
    -----
    The standard layout uses the textbook formulas for the best k (Broder and Mitzenmacher,
    "Network Applications of Bloom Filters", 2004). If that k is below 1 or above 64,
    m = -k n / ln(1 - p^(1/k)). If m is a power of two, 64 bits are added. Because k is an integer,
    the rate at capacity can be above p: by 0.4 % of p at 0.01, and by at most 5 % of p, near 0.35.

    The blocked layout has no closed form (Putze, Sanders and Singler, "Cache-, Hash- and
    Space-Efficient Bloom Filters", 2007), so for each k the fewest blocks of 512 bits are found by
    bisection. More blocks per key cost time, and the array is then whole pages of 64 blocks. If a
    filter is so small that no such m is within the 10 %, it gets the smallest m that reaches the
    rate, with the fewest blocks per key: 100 keys at 1e-6 get one block per key, because a page
    would be eight times as large.

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
        num_bits, num_hashes, blocks = plan_blocked(capacity, error_rate)
    else:
        (num_bits, num_hashes), blocks = plan_standard(capacity, error_rate), 1
    return FilterParams(capacity, error_rate, layout, num_bits, num_hashes, seed, hash, blocks)


def capacity_of(
    num_bits: int,
    num_hashes: int,
    error_rate: float = 0.01,
    *,
    layout: Layout = "blocked",
    blocks_per_key: int = 1,
) -> int:
    """Compute how many keys a filter holds at an error rate, at least 1: the inverse of `plan`.

    Parameters
    ----------
    num_bits, num_hashes : int
        m and k of the filter.
    error_rate : float, default 0.01
        The highest acceptable `false_positive_rate`, between 0 and 1.
    layout : {"blocked", "standard"}, default "blocked"
        Where a key's positions lie, as in `FilterParams`.
    blocks_per_key : int, default 1
        Blocks per key in the blocked layout.

    Returns
    -------
    int
        The largest n with at most that rate, found by bisection in both layouts.

    Raises
    ------
    ValueError
        If the error rate or layout is invalid, or the layout does not allow that many blocks per
        key.

    Examples
    --------
    >>> capacity_of(9_585_088, 7, 0.01, layout="standard")
    999177
    """
    require_error_rate(error_rate)
    low, high = 1, 64 * num_bits  # low keeps the rate (or is the least), high does not
    while high - low > 1:
        middle = (low + high) // 2
        rate = false_positive_rate(
            middle, num_bits, num_hashes, layout=layout, blocks_per_key=blocks_per_key
        )
        low, high = (middle, high) if rate <= error_rate else (low, middle)
    return low


class BestPractice(NamedTuple):
    """One row of the table of whole bits per key.

    Attributes
    ----------
    bits_per_key : int
        m/n.
    num_hashes : int
        The k with the lowest error rate for that m/n.
    error_rate : float
        (1 - e^(-k n/m))^k.
    """

    bits_per_key: int
    num_hashes: int
    error_rate: float


def best_practice_table(most_bits_per_key: int = 32) -> list[BestPractice]:
    """List the best number of hashes for each whole number of bits per key (standard layout).

    Parameters
    ----------
    most_bits_per_key : int, default 32
        Bits per key in the last row.

    Returns
    -------
    list of BestPractice
        For each m/n, the k from 1 to 64 with the lowest (1 - e^(-k n/m))^k, as tabulated by Fan,
        Cao, Almeida and Broder in "Summary Cache", 2000.

    Examples
    --------
    >>> best_practice_table(10)[-1][:2]
    (10, 7)
    """
    return [_best_row(bits) for bits in range(1, most_bits_per_key + 1)]


def _best_row(bits_per_key: int) -> BestPractice:
    rate, num_hashes = min((textbook_rate(1, bits_per_key, k), k) for k in range(1, MAX_HASHES + 1))
    return BestPractice(bits_per_key, num_hashes, rate)


def best_practice(error_rate: float) -> BestPractice:
    """Look up the fewest whole bits per key that reach an error rate (standard layout).

    Parameters
    ----------
    error_rate : float
        The highest acceptable false-positive rate, between 1e-19 and 1.

    Returns
    -------
    BestPractice
        The first row of `best_practice_table` that reaches it. `plan` needs fewer bits, because it
        is not limited to whole bits per key.

    Raises
    ------
    ValueError
        If the rate is not below 1, or too low for a filter with at most 64 hashes.

    Examples
    --------
    >>> best_practice(0.001)[:2]
    (15, 10)
    """
    require_error_rate(error_rate)
    for bits_per_key in range(1, 93):  # k = 64 is best at 92 bits per key
        row = _best_row(bits_per_key)
        if row.error_rate <= error_rate:
            return row
    raise ValueError(f"error_rate is {error_rate!r}, expected at least {row.error_rate:.1e}")


# A filter that calls every other new key seen is useless, and so is a folder with it.
_USELESS_RATE = 0.5


def most_keys(capacity: float) -> float:
    """Return the estimated number of keys above which a filter is past its plan.

    It is above the capacity by more than the spread of the estimate, about sqrt(n)/4: a filter that
    has just the planned keys is not past its plan.
    """
    return capacity + math.sqrt(capacity)


def full_at(params: FilterParams) -> float:
    """Return the number of set positions above which a filter is past its plan."""
    return params.expected_positions_set(most_keys(params.capacity))


def share_of(error_rate: float) -> str:
    """Return a false-positive rate as a percentage, for messages.

    Examples
    --------
    >>> share_of(0.8512), share_of(1), share_of(0.000123)
    ('about 85 %', 'about 100 %', 'about 0.012 %')
    """
    percent = 100 * error_rate
    return f"about {percent:.0f} %" if percent >= 10 else f"about {percent:.2g} %"


class Fill(NamedTuple):
    """How full a filter is.

    Attributes
    ----------
    keys : float
        The estimated number of keys.
    capacity : int
        The filter's capacity.
    now : float
        The false-positive rate to expect now.

    Examples
    --------
    >>> from mmbloom.sizing import plan
    >>> print(Fill.with_keys(plan(1000, 0.01), 2000).past_plan)
    past its capacity: it holds about 2000 keys and has a capacity of 1000: about 9.6 % of new \
keys are now reported as seen
    """

    keys: float
    capacity: int
    now: float

    @classmethod
    def of(cls, params: FilterParams, positions_set: int) -> Self:
        """Return how full a filter is, by its set positions."""
        keys, now = params.estimated_count(positions_set), params.expected_error_rate(positions_set)
        return cls(keys, params.capacity, now)

    @classmethod
    def with_keys(cls, params: FilterParams, keys: float) -> Self:
        """Return how full a filter is with a number of keys."""
        return cls(keys, params.capacity, params.rate_with(keys))

    @property
    def is_past(self) -> bool:
        """Whether it has more keys than planned."""
        return self.keys > most_keys(self.capacity)

    @property
    def is_useless(self) -> bool:
        """Whether at least every other new key is a false positive."""
        return self.now >= _USELESS_RATE

    def __str__(self) -> str:
        return f"holds about {round(self.keys)} keys and has a capacity of {self.capacity}"

    def taken(self, noun: str = "keys") -> str:
        """Return what it means for new keys, or lines."""
        return f"{share_of(self.now)} of new {noun} are now reported as seen"

    @property
    def past_plan(self) -> str:
        """The whole message about a filter past its plan."""
        return f"past its capacity: it {self}: {self.taken()}"
