"""How many false positives, and how many keys: the formulas of both layouts.

n is the number of keys, p the false-positive rate, m the number of bits, k the number of
hashes. The standard layout's formulas are the textbook ones (Broder and Mitzenmacher,
"Network Applications of Bloom Filters", 2004), and what double hashing adds to them; those of
the blocked layout average over the Poisson number of keys that fall into one block of 512 bits
(Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).
"""

import math
from collections.abc import Iterable
from typing import get_args

import numpy as np

from mmbloom._typing import Layout

BLOCK_BITS = 512  # one cache line
_PER_BIT = math.log1p(-1 / BLOCK_BITS)  # ln of the chance that one bit choice misses a given bit


def false_positive_rate(
    num_keys: float, num_bits: int, num_hashes: int, *, layout: Layout = "blocked"
) -> float:
    """Compute the expected false-positive rate of a filter that holds `num_keys` keys.

    Parameters
    ----------
    num_keys : float
        Number of distinct keys in the filter; 0 or more, may be infinite.
    num_bits, num_hashes : int
        m and k of the filter.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": f^k + ((1 + f) / (1 - f))^2 n/m^2, where f = 1 - e^(-kn/m) is the share of set
        bits; f for k = 1. "blocked": the sum over j of
        Poisson(j; 512 n/m) (1 - (1 - 1/512)^(kj))^k.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the layout is none of the two.

    Notes
    -----
    The second term of "standard" is what double hashing adds: a key's positions are an arithmetic
    progression modulo m, of which there are about m^2 only, so that some keys have those of
    another key, or all but a few of them. It matters where m is small for the rate: 100 keys at
    1e-6 in the textbook's 2,880 bits have 8.7e-05 (measured; 1.1e-04 by this formula).

    References
    ----------
    Standard: Broder and Mitzenmacher, "Network Applications of Bloom Filters", 2004; Kirsch and
    Mitzenmacher, "Less Hashing, Same Performance", 2008. Blocked: Putze, Sanders and Singler,
    "Cache-, Hash- and Space-Efficient Bloom Filters", 2007.

    Examples
    --------
    >>> round(false_positive_rate(1_000_000, 20_000_000, 10, layout="standard"), 6)
    8.9e-05
    """
    _require(layout)
    if num_keys <= 0:
        return 0.0
    if layout == "standard":
        fill = -math.expm1(-num_hashes * num_keys / num_bits)
        return standard_rate(num_keys, num_bits, num_hashes, fill)
    mean = BLOCK_BITS * num_keys / num_bits
    if mean == 0:  # less than a double can hold
        return 0.0
    if mean > 1e9:  # millions of times past full: every block is ones
        return 1.0
    # 12 standard deviations hold all of the distribution that a double can see.
    spread = 12 * math.sqrt(mean) + 40
    first = max(0, math.floor(mean - spread))
    keys_in_block = np.arange(first, math.ceil(mean + spread) + 1, dtype=np.float64)
    log_first = first * math.log(mean) - mean - math.lgamma(first + 1)
    log_steps = math.log(mean) - np.log(keys_in_block[1:])
    poisson = np.exp(log_first + np.concatenate(([0.0], np.cumsum(log_steps))))
    hit = -np.expm1(_PER_BIT * num_hashes * keys_in_block)
    return min(1.0, float(np.sum(poisson * hit**num_hashes)))


def textbook_rate(num_keys: float, num_bits: int, num_hashes: int) -> float:
    """Compute (1 - e^(-kn/m))^k: the rate if each position were drawn on its own."""
    return float(-math.expm1(-num_hashes * num_keys / num_bits)) ** num_hashes


def standard_rate(num_keys: float, num_bits: int, num_hashes: int, fill: float) -> float:
    """Compute the standard layout's rate for a share of set bits, 0 to 1.

    A key has the positions of another where both begin and step alike: for n keys n/m^2. It has
    all but s of them where it begins s steps further on, or wraps at 2^63 that much later, and
    the other s are set by chance: each time 1 + 2f + 2f^2 + ... = (1 + f) / (1 - f). Of random keys
    1.4 n/m^2 were found at f = 0.1, 2.3 at 0.2, 3.1 to 4.7 at 0.35, 7 to 10 at 0.5; this has 1.5,
    2.3, 4.3 and 9.
    """
    if fill >= 1:
        return 1.0
    if num_hashes == 1:
        return float(fill)
    shared = ((1 + fill) / (1 - fill)) ** 2 * num_keys / num_bits**2
    return min(1.0, float(fill**num_hashes + shared))


def rate_of_any(rates: Iterable[float]) -> float:
    """Compute the rate of filters of which any may take a key for one of its own.

    Their hashes are taken for independent: they differ in no way that counts.

    Examples
    --------
    >>> round(rate_of_any([0.5, 0.5, 0.5]), 3)
    0.875
    """
    return 1 - math.prod(1 - rate for rate in rates)


def estimate_count(
    positions_set: int, num_bits: int, num_hashes: int, *, layout: Layout = "blocked"
) -> float:
    """Estimate how many distinct keys are in a filter from its set bits.

    Parameters
    ----------
    positions_set : int
        Number of bits that are 1; values above m count as m.
    num_bits, num_hashes : int
        m and k of the filter.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": -(m/k) ln(1 - X/m) (Swamidass and Baldi, 2007). "blocked": the same
        solved for keys that draw k of 512 bits: -(m/512) ln(1 - X/m) / (1 - (1 - 1/512)^k).

    Returns
    -------
    float
        A full filter gives the estimate of one whose last bit is still 0, a lower bound.

    Raises
    ------
    ValueError
        If the layout is none of the two.

    Examples
    --------
    >>> round(estimate_count(500_000, 1_000_000, 7, layout="standard"))
    99021
    """
    clear = max(1, num_bits - positions_set)
    return -num_bits / _draws(num_hashes, layout) * math.log(clear / num_bits)


def expected_positions_set(
    num_keys: float, num_bits: int, num_hashes: int, *, layout: Layout = "blocked"
) -> float:
    """Invert `estimate_count`: the number of set bits that `num_keys` keys leave.

    Examples
    --------
    >>> round(expected_positions_set(99_021, 1_000_000, 7, layout="standard"))
    500000
    """
    return num_bits * -math.expm1(-_draws(num_hashes, layout) * num_keys / num_bits)


def _draws(num_hashes: int, layout: Layout) -> float:
    """Distinct positions that one key draws: in a block, some of its k coincide."""
    _require(layout)
    if layout == "standard":
        return float(num_hashes)
    return -math.expm1(_PER_BIT * num_hashes) * BLOCK_BITS


def _require(layout: str) -> None:
    if layout not in get_args(Layout):  # a misspelt one must not be taken for the other
        raise ValueError(f"layout is {layout!r}, expected 'blocked' or 'standard'")
