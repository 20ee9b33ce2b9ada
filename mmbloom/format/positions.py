"""From the two halves of a key's hash to its k positions: one formula for each layout id.

h1 and h2 are unsigned 64-bit integers (defined in ``header.py``), m is num_positions, k is
num_hashes and b is blocks_per_key. Products are modulo 2^64, ``>>`` is a shift to the right, and
all divisions are integer divisions. G = 0x9E3779B97F4A7C15 (2^64 divided by the golden ratio, odd:
Knuth's multiplicative hashing), and G^n is its n-th power modulo 2^64. For i from 0 to k - 1:

======  ==================================================================================
layout  position i
======  ==================================================================================
1       ((h1 + i * h2) AND (2^63 - 1)) mod m
2       512 * block + bit(i)
3       32768 * page + 512 * block(i) + bit(i)
======  ==================================================================================

- bit(i) = (h2 * G^(i+1)) >> 55: the top nine bits of the product.
- block = ((h1 >> 32) * (m / 512)) >> 32: one of all blocks of 512 positions, the same for all i.
- page = ((h1 >> 32) * (m / 32768)) >> 32: one of all pages of 64 blocks, the same for all i.
- block(i) = ((h1 AND 63) + j * step) mod 64, with j = i / (k / b), so that each of b blocks gets
  k / b successive positions; and step = 2 * ((h1 >> 6) AND 31) + 1, which is odd, so that these
  blocks differ.

Several positions of one key may be equal. Examples for the hashes in ``header.py``: k = 3 and
m = 6400 in layout 1, k = 3 and m = 5120 in layout 2, and m = 98304, k = 4 and b = 2 in layout 3:

=========  =======  ================  ================  ==========================
key        hash_id  layout 1          layout 2          layout 3
=========  =======  ================  ================  ==========================
"abc"      1        5415, 3778, 2141  1960, 1627, 1909  53160, 52827, 53621, 53249
"abc"      2        67, 2549, 5031    4966, 5010, 4950  67430, 67474, 89430, 89105
-1         1        973, 1342, 3503   4394, 4448, 4141  72490, 72544, 84013, 84208
-1         2        267, 2490, 4713   2099, 2381, 2052  38451, 38733, 38916, 39037
("ab", 1)  1        4044, 4237, 4430  2447, 2240, 2068  39311, 39104, 62996, 63347
("ab", 1)  2        6130, 3353, 576   4758, 4774, 4976  91286, 91302, 95088, 94948
b""        1        143, 1681, 1427   4864, 4883, 4770  73472, 73491, 80034, 80048
b""        2        1255, 1764, 2273  3962, 4077, 4086  85882, 85997, 81398, 80976
=========  =======  ================  ================  ==========================

Each function takes Python ints or uint64 arrays, and yields k positions (or arrays of positions) of
the same type. Python ints do not wrap at 2^64 but uint64 does, so each formula ends with a mask
that makes the two agree. These formulas are part of the file format and never change.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from mmbloom._system.typing import Array, Words
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS, PAGE_BLOCKS
from mmbloom.sizing.params import MAX_HASHES, FilterParams

Hash = TypeVar("Hash", int, Array[np.uint64])
_GOLDEN = 0x9E3779B97F4A7C15  # G
_MULTIPLIERS = [pow(_GOLDEN, i + 1, 2**64) for i in range(MAX_HASHES)]


def standard(h1: Any, h2: Any, num_bits: int, num_hashes: int) -> Iterator[Any]:
    """Yield positions over the whole array: ((h1 + i*h2) AND (2^63 - 1)) mod m.

    Double hashing (Kirsch and Mitzenmacher, 2006), as Guava's MURMUR128_MITZ_64 does it.
    """
    for i in range(num_hashes):
        yield ((h1 + h2 * i) & (2**63 - 1)) % num_bits


def blocked(h1: Any, h2: Any, num_bits: int, num_hashes: int, blocks: int) -> Iterator[Any]:
    """Yield positions within b blocks of 512 bits, k/b in each.

    The blocks come from h1, the bits in them from h2, the first k/b in the first block.
    """
    in_each = num_hashes // blocks
    for j, block in enumerate(blocks_of(h1, num_bits, blocks)):
        for multiplier in _MULTIPLIERS[j * in_each : (j + 1) * in_each]:
            yield block * BLOCK_BITS + (((h2 * multiplier) >> 55) & (BLOCK_BITS - 1))


def blocks_of(h1: Any, num_bits: int, blocks: int) -> Iterator[Any]:
    """Yield the blocks of a key: one of the whole array, or several of one page of 64."""
    if blocks == 1:
        yield ((h1 >> 32) * (num_bits // BLOCK_BITS)) >> 32
        return
    page = (((h1 >> 32) * (num_bits // PAGE_BITS)) >> 32) * PAGE_BLOCKS
    step = ((h1 >> 6) & 31) * 2 + 1
    for j in range(blocks):
        yield page + (((h1 & 63) + step * j) & (PAGE_BLOCKS - 1))


def positions(h1: Hash, h2: Hash, params: FilterParams) -> Iterator[Hash]:
    """Yield the `params.num_hashes` positions of a key, or of each key of a batch.

    Parameters
    ----------
    h1, h2 : int or ndarray of uint64, shape (n,)
        The two halves of the key's hash, as defined in ``header.py``.
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
    return blocked(h1, h2, params.num_bits, params.num_hashes, params.blocks_per_key)


def positions_of_all(h1: Words, h2: Words, params: FilterParams) -> Words:
    """Return the positions of each key of a batch: uint64 of shape (num_hashes, n)."""
    return np.stack(list(positions(h1, h2, params)))
