"""From keys and error rate to bits and hashes: arithmetic only, no file, no key.

The public page of sizes: `plan`, `best_practice`, and the formulas of ``_rates.py``, which
names their sources.
"""

from dataclasses import dataclass
from typing import NamedTuple, get_args

from mmbloom._asked import require_capacity, require_error_rate
from mmbloom._planning import (
    MAX_BITS,
    MAX_BLOCKS,
    MAX_HASHES,
    MIN_BITS,
    plan_blocked,
    plan_standard,
)
from mmbloom._rates import BLOCK_BITS, Layout, estimate_count, false_positive_rate

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


@dataclass(frozen=True, slots=True)
class FilterParams:
    """All that decides which bits a key sets: two filters with equal ones can be merged.

    Attributes
    ----------
    capacity : int
        Planned number of keys.
    error_rate : float
        Planned false-positive rate at capacity, between 0 and 1.
    layout : {"blocked", "standard"}
        How positions are spread: in one block of 512 bits per key, or over the whole array.
    num_bits : int
        Size of the array in bits.
    num_hashes : int
        Positions per key, 1 to 64.
    seed : int
        Seed of the hash, 0 to 2**32 - 1.

    Raises
    ------
    ValueError
        If a value is out of range; the message names the field, the value and the range.

    Examples
    --------
    >>> plan(1_000_000, 0.01, layout="standard")
    FilterParams(capacity=1000000, error_rate=0.01, layout='standard', num_bits=9585088, \
num_hashes=7, seed=0)
    """

    capacity: int
    error_rate: float
    layout: Layout
    num_bits: int
    num_hashes: int
    seed: int = 0

    def __post_init__(self) -> None:
        step = BLOCK_BITS if self.layout == "blocked" else 64
        largest = MAX_BLOCKS * BLOCK_BITS if self.layout == "blocked" else MAX_BITS
        for field in ("capacity", "num_bits", "num_hashes", "seed"):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{field} is {value!r}, expected an int")
        for field, value, ok, expected in (
            ("capacity", self.capacity, 1 <= self.capacity < 2**64, "1 to 2**64 - 1"),
            ("error_rate", self.error_rate, 0 < self.error_rate < 1, "between 0 and 1"),
            ("layout", self.layout, self.layout in get_args(Layout), "'blocked' or 'standard'"),
            ("num_hashes", self.num_hashes, 1 <= self.num_hashes <= MAX_HASHES, "1 to 64"),
            (
                "num_bits",
                self.num_bits,
                MIN_BITS <= self.num_bits <= largest and self.num_bits % step == 0,
                f"a multiple of {step} from {max(MIN_BITS, step)} to {largest}",
            ),
            ("seed", self.seed, 0 <= self.seed < 2**32, "0 to 2**32 - 1"),
        ):
            if not ok:
                raise ValueError(f"{field} is {value!r}, expected {expected}")

    @property
    def num_bytes(self) -> int:
        """Size of the bit array in bytes; the file is 4096 bytes larger."""
        return self.num_bits // 8

    @property
    def bits_per_key(self) -> float:
        """Bits of the array per planned key."""
        return self.num_bits / self.capacity

    def estimated_count(self, positions_set: int) -> float:
        """Estimate the number of distinct keys from the set bits; see `estimate_count`."""
        return estimate_count(positions_set, self.num_bits, self.num_hashes, layout=self.layout)

    def expected_error_rate(self, positions_set: int) -> float:
        """Compute the false-positive rate to expect with so many bits set.

        Standard layout: (X/m)^k for X set bits. Blocked: `false_positive_rate` of the number of
        keys that `estimate_count` finds, for blocks are not equally full.
        """
        if self.layout == "standard":
            return float((positions_set / self.num_bits) ** self.num_hashes)
        count = self.estimated_count(positions_set)
        return false_positive_rate(count, self.num_bits, self.num_hashes, layout="blocked")


def plan(
    capacity: int, error_rate: float = 0.01, *, layout: Layout = "blocked", seed: int = 0
) -> FilterParams:
    """Choose the number of bits and hashes for a number of keys and an error rate.

    Parameters
    ----------
    capacity : int
        Number of keys to plan for, at least 1.
    error_rate : float, default 0.01
        False-positive rate when `capacity` keys are in, between 0 and 1.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": m = ceil(-n ln p / (ln 2)^2) rounded up to 64 and k = round(m/n ln 2).
        "blocked": the k and the smallest m whose `false_positive_rate` is at most p.
    seed : int, default 0
        Passed through.

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
    return FilterParams(capacity, error_rate, layout, num_bits, num_hashes, seed)


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
    999179
    """
    require_error_rate(error_rate)
    low, high = 1, 64 * num_bits  # low is good enough (or the least), high is not
    while high - low > 1:
        middle = (low + high) // 2
        rate = false_positive_rate(middle, num_bits, num_hashes, layout=layout)
        low, high = (middle, high) if rate <= error_rate else (low, middle)
    return low


class BestPractice(NamedTuple):
    """One row of the table of whole bits per key.

    Attributes
    ----------
    bits_per_key : int
        m/n.
    num_hashes : int
        The k with the lowest error rate for it.
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
        Last row of the table.

    Returns
    -------
    list of BestPractice
        For each m/n the k from 1 to 64 with the lowest (1 - e^(-k n/m))^k: what Fan, Cao, Almeida
        and Broder tabulate in "Summary Cache", 2000.

    Examples
    --------
    >>> best_practice_table(10)[-1][:2]
    (10, 7)
    """
    return [_best_row(bits) for bits in range(1, most_bits_per_key + 1)]


def _best_row(bits_per_key: int) -> BestPractice:
    rate, num_hashes = min(
        (false_positive_rate(1, bits_per_key, k, layout="standard"), k)
        for k in range(1, MAX_HASHES + 1)
    )
    return BestPractice(bits_per_key, num_hashes, rate)


def best_practice(error_rate: float) -> BestPractice:
    """Look up the fewest whole bits per key whose error rate is tolerable (standard layout).

    Parameters
    ----------
    error_rate : float
        Highest false-positive rate to accept, between 1e-19 and 1.

    Returns
    -------
    BestPractice
        The first row of `best_practice_table` that will do. `plan` needs fewer bits, as its bits
        per key are no whole number.

    Raises
    ------
    ValueError
        If it is not below 1, or so low that no filter with at most 64 hashes has it.

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
