"""From the two halves of a key's hash to its bit positions: one function per layout id.

Each function takes Python ints or uint64 arrays and yields k positions (or arrays of
positions) of the same kind: ints do not wrap at 2^64 and uint64 does, so each formula
ends in a mask that makes the two agree. These formulas are part of the file format and
never change.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from mmbloom._typing import Array, Words
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS, PAGE_BLOCKS
from mmbloom.sizing.params import MAX_HASHES, FilterParams

Hash = TypeVar("Hash", int, Array[np.uint64])
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: Knuth's multiplicative hashing
_MULTIPLIERS = [pow(_GOLDEN, i + 1, 2**64) for i in range(MAX_HASHES)]


def standard(h1: Any, h2: Any, num_bits: int, num_hashes: int) -> Iterator[Any]:
    """Spread over the whole array: ((h1 + i*h2) AND (2^63 - 1)) mod m.

    Double hashing (Kirsch and Mitzenmacher, 2006), as Guava's MURMUR128_MITZ_64 does it.
    """
    for i in range(num_hashes):
        yield ((h1 + h2 * i) & (2**63 - 1)) % num_bits


def blocked(h1: Any, h2: Any, num_bits: int, num_hashes: int) -> Iterator[Any]:
    """Stay within one block of 512 bits: block from the top of h1, bits from h2 * G^(i+1)."""
    start = (((h1 >> 32) * (num_bits // BLOCK_BITS)) >> 32) * BLOCK_BITS
    for multiplier in _MULTIPLIERS[:num_hashes]:
        yield start + (((h2 * multiplier) >> 55) & (BLOCK_BITS - 1))


def paged(h1: Any, h2: Any, num_bits: int, num_hashes: int, blocks: int) -> Iterator[Any]:
    """Stay within b blocks of one page of 64: k/b bits in each.

    The page comes from the top of h1; its lowest six bits are the first block, and the five above
    them the step to the next one, 2*5 bits + 1, around the page: odd, so that all differ. Bits
    are those of `blocked`, the first k/b in the first block.
    """
    page = (((h1 >> 32) * (num_bits // PAGE_BITS)) >> 32) * PAGE_BITS
    step = ((h1 >> 6) & 31) * 2 + 1
    in_each = num_hashes // blocks
    for j in range(blocks):
        start = page + (((h1 & 63) + step * j) & (PAGE_BLOCKS - 1)) * BLOCK_BITS
        for multiplier in _MULTIPLIERS[j * in_each : (j + 1) * in_each]:
            yield start + (((h2 * multiplier) >> 55) & (BLOCK_BITS - 1))


def positions(h1: Hash, h2: Hash, params: FilterParams) -> Iterator[Hash]:
    """Yield the `params.num_hashes` positions of a key, or of each key of a batch.

    Parameters
    ----------
    h1, h2 : int or ndarray of uint64, shape (n,)
        The two halves of the key's hash: see ``header.py``.
    params : FilterParams
        The filter's parameters.

    Yields
    ------
    int or ndarray of uint64, shape (n,)
        The i-th position of each key, below `params.num_bits`.

    Examples
    --------
    >>> from mmbloom.sizing import FilterParams
    >>> list(positions(3, 5, FilterParams(10, 0.1, "standard", 64, 3)))
    [3, 8, 13]
    """
    if params.layout == "standard":
        return standard(h1, h2, params.num_bits, params.num_hashes)
    if params.blocks_per_key == 1:
        return blocked(h1, h2, params.num_bits, params.num_hashes)
    return paged(h1, h2, params.num_bits, params.num_hashes, params.blocks_per_key)


def positions_of_all(h1: Words, h2: Words, params: FilterParams) -> Words:
    """Give the positions of each key of a batch at once: uint64 of shape (num_hashes, n)."""
    return np.stack(list(positions(h1, h2, params)))
