"""False-positive rates and key counts: the formulas of both layouts.

n is the number of keys, p the false-positive rate, m the number of bits, k the number of hashes,
and b the number of blocks per key. The standard layout uses the textbook formulas (Broder and
Mitzenmacher, "Network Applications of Bloom Filters", 2004), plus a term for double hashing. The
formulas of the blocked layout average over the Poisson-distributed number of keys in a block of 512
bits (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).

If a key has several blocks in one page, the numbers of keys in two blocks of a page are not
independent, because some keys fall into both. Those keys are also Poisson-distributed, and are
counted separately.
"""

import math
from collections.abc import Iterable
from typing import get_args

import numpy as np

from mmbloom._system.typing import Array, Layout

BLOCK_BITS = 512  # one cache line
PAGE_BLOCKS = 64  # that several blocks of a key are chosen from: one page of 4096 bytes
PAGE_BITS = PAGE_BLOCKS * BLOCK_BITS
MAX_BLOCKS_PER_KEY = 8
_PER_BIT = math.log1p(-1 / BLOCK_BITS)  # ln of the chance that one bit choice misses a given bit


# By the number of blocks a key: the share of the keys in one block of a key that are in another
# block of it as well. Found by counting all 2048 ways to choose a first block and a step.
_SHARED = {2: 1 / 32, 3: 1 / 24, 4: 1 / 16, 5: 29 / 400, 6: 43 / 480, 7: 3 / 28, 8: 1 / 8}


def false_positive_rate(
    num_keys: float,
    num_bits: int,
    num_hashes: int,
    *,
    layout: Layout = "blocked",
    blocks_per_key: int = 1,
) -> float:
    """Compute the expected false-positive rate of a filter that holds `num_keys` keys.

    Parameters
    ----------
    num_keys : float
        Number of distinct keys in the filter, from 0 to infinity.
    num_bits, num_hashes : int
        m and k of the filter.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": f^k + ((1 + f) / (1 - f))^2 n/m^2, where f = 1 - e^(-kn/m) is the share of set
        bits; only f if k = 1. "blocked": the sum over j of
        Poisson(j; 512 n/m) (1 - (1 - 1/512)^(kj))^k.
    blocks_per_key : int, default 1
        b, for the blocked layout: see the notes.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the layout is invalid, or does not allow that many blocks per key.

    Notes
    -----
    The second term of "standard" accounts for double hashing. A key's positions are an arithmetic
    progression modulo m, and there are only about m^2 of these, so some keys share all positions
    with another key, or all but a few. This matters if m is small for the rate: 100 keys at 1e-6 in
    the textbook's 2,880 bits have a rate of 8.7e-05 (measured; 1.1e-04 by this formula).

    With b from 2 to 8 blocks per key and k/b bits in each, let F(j) be the probability that a block
    with j keys has all k/b bits of another key set, u = 512 b n/m the number of keys per block, and
    r the share of these that also fall into another block of the same key: 1/32 for b = 2, 1/24 for
    b = 3. The rate is the sum over z of
    Poisson(z; u r) (sum over j of Poisson(j; u (1 - r)) F(z + j))^b. F is
    (1 - (1 - 1/512)^(jk/b))^(k/b), corrected to the second order for the spread of the number of
    set bits. For b = 2 and 3, filled arrays have this rate within 1 %; for more blocks it is too
    high, by 8 % for b = 8.

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
    _require(layout, num_hashes, blocks_per_key)
    if num_keys <= 0:
        return 0.0
    if layout == "standard":
        fill = -math.expm1(-num_hashes * num_keys / num_bits)
        return standard_rate(num_keys, num_bits, num_hashes, fill)
    mean = BLOCK_BITS * blocks_per_key * num_keys / num_bits
    if mean == 0:  # too small for a double
        return 0.0
    if blocks_per_key > 1:
        return _rate_in_pages(mean, num_hashes // blocks_per_key, blocks_per_key)
    if mean > 1e9:  # millions of times past full: every block is ones
        return 1.0
    keys_in_block, poisson = _poisson(mean)
    hit = -np.expm1(_PER_BIT * num_hashes * keys_in_block)
    return min(1.0, float(np.sum(poisson * hit**num_hashes)))


def textbook_rate(num_keys: float, num_bits: int, num_hashes: int) -> float:
    """Compute (1 - e^(-kn/m))^k: the rate of independent positions."""
    return float(-math.expm1(-num_hashes * num_keys / num_bits)) ** num_hashes


def standard_rate(num_keys: float, num_bits: int, num_hashes: int, fill: float) -> float:
    """Compute the standard layout's rate for a share of set bits, 0 to 1.

    Two keys have the same positions if first position and step are equal: n/m^2 for n keys. All but
    s positions are the same if one begins s steps later, or wraps at 2^63 s steps later, and the
    other s are set by chance: each case adds a factor 1 + 2f + 2f^2 + ... = (1 + f) / (1 - f). With
    random keys 1.4 n/m^2 were found at f = 0.1, 2.3 at 0.2, 3.1 to 4.7 at 0.35, 7 to 10 at 0.5;
    this formula has 1.5, 2.3, 4.3 and 9.
    """
    if fill >= 1:
        return 1.0
    if num_hashes == 1:
        return float(fill)
    shared = ((1 + fill) / (1 - fill)) ** 2 * num_keys / num_bits**2
    return min(1.0, float(fill**num_hashes + shared))


def _poisson(mean: float) -> tuple[Array[np.float64], Array[np.float64]]:
    """Return consecutive numbers and the chance of each, where that is not 0 in a double."""
    spread = 12 * math.sqrt(mean) + 40  # 12 standard deviations
    first = max(0, math.floor(mean - spread))
    numbers = np.arange(first, math.ceil(mean + spread) + 1, dtype=np.float64)
    log_first = first * math.log(mean) - mean - math.lgamma(first + 1)
    log_steps = math.log(mean) - np.log(numbers[1:])
    return numbers, np.exp(log_first + np.concatenate(([0.0], np.cumsum(log_steps))))


def _rate_in_pages(mean: float, bits: int, blocks: int) -> float:
    """Compute the rate of several blocks a key, from the keys a block and the bits in each."""
    if mean < 1e-300:  # its share is too small for a double
        return 0.0
    if mean * bits > 40 * BLOCK_BITS:  # a bit is clear with a chance of e^-40: all are set
        return 1.0
    shared, chance_of_shared = _poisson(mean * _SHARED[blocks])
    others, chance_of_others = _poisson(mean * (1 - _SHARED[blocks]))
    keys = np.arange(shared[0] + others[0], shared[-1] + others[-1] + 1)
    # Element z: the chance with z shared keys, summed over the numbers of others.
    hit = np.correlate(_hit(keys, bits), chance_of_others, "valid")
    return min(1.0, float(np.sum(chance_of_shared * hit**blocks)))


def _hit(keys: Array[np.float64], bits: int) -> Array[np.float64]:
    """Compute the chance that `bits` bits of a block are all set, by its number of keys."""
    clear = np.exp(_PER_BIT * bits * keys)  # share of bits, expected
    both_clear = np.exp(math.log1p(-2 / BLOCK_BITS) * bits * keys)
    variance = np.maximum(0, (clear + (BLOCK_BITS - 1) * both_clear) / BLOCK_BITS - clear**2)
    is_set = -np.expm1(_PER_BIT * bits * keys)
    spread = 1 + bits * (bits - 1) / 2 * variance / np.maximum(is_set, 1 / BLOCK_BITS) ** 2
    hit: Array[np.float64] = np.minimum(1, is_set**bits * spread)
    return hit


def rate_of_any(rates: Iterable[float]) -> float:
    """Compute the rate at which any of several filters has a false positive.

    False positives of different filters count as independent, which is close enough.

    Examples
    --------
    >>> round(rate_of_any([0.5, 0.5, 0.5]), 3)
    0.875
    """
    return 1 - math.prod(1 - rate for rate in rates)


def estimate_count(
    positions_set: int,
    num_bits: int,
    num_hashes: int,
    *,
    layout: Layout = "blocked",
    blocks_per_key: int = 1,
) -> float:
    """Estimate how many distinct keys are in a filter from its set bits.

    Parameters
    ----------
    positions_set : int
        Number of bits that are 1; a value above m counts as m.
    num_bits, num_hashes : int
        m and k of the filter.
    layout : {"blocked", "standard"}, default "blocked"
        "standard": -(m/k) ln(1 - X/m) for X set bits (Swamidass and Baldi, 2007). "blocked": the
        same, solved for keys that draw k/b of 512 bits in each of b blocks:
        -(m/512) ln(1 - X/m) / (b (1 - (1 - 1/512)^(k/b))).
    blocks_per_key : int, default 1
        b, for the blocked layout.

    Returns
    -------
    float
        The estimate. If all bits are set, it is a lower bound: the estimate for a filter with one
        bit still 0.

    Raises
    ------
    ValueError
        If the layout is invalid, or does not allow that many blocks per key.

    Examples
    --------
    >>> round(estimate_count(500_000, 1_000_000, 7, layout="standard"))
    99021
    """
    clear = max(1, num_bits - positions_set)
    drawn = distinct_positions(num_hashes, layout, blocks_per_key)
    return -num_bits / drawn * math.log(clear / num_bits)


def distinct_positions(num_hashes: int, layout: Layout, blocks: int) -> float:
    """Compute how many distinct positions one key draws: in a block, some of them coincide."""
    _require(layout, num_hashes, blocks)
    if layout == "standard":
        return float(num_hashes)
    return -blocks * math.expm1(_PER_BIT * (num_hashes // blocks)) * BLOCK_BITS


def _require(layout: str, num_hashes: int, blocks: int) -> None:
    if layout not in get_args(Layout):  # else a misspelt one would be "blocked"
        raise ValueError(f"layout is {layout!r}, expected 'blocked' or 'standard'")
    most = MAX_BLOCKS_PER_KEY if layout == "blocked" else 1
    if not 1 <= blocks <= most or num_hashes % blocks:
        raise ValueError(
            f"blocks_per_key is {blocks!r}, expected 1 to {MAX_BLOCKS_PER_KEY} in the blocked "
            f"layout, else 1, and a divisor of the {num_hashes} hashes"
        )
