"""Which slice of a filter a key belongs to, and its hash as that slice has it, the reference.

The array of a blocked filter follows h1: whole pages of it are a slice, which has all bits of its
keys. Of P slices of n pages, the j-th begins at page j * n // P.
"""

import numpy as np

from mmbloom._system.typing import Array, HashHalves, Indices, Words
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS, PAGE_BLOCKS
from mmbloom.sizing.params import FilterParams

Numbers = Array[np.int32]

_32 = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def slices_of(h1: Words, params: FilterParams, slices: int) -> Numbers:
    """Return the number of the slice that each key belongs to: int32 of shape (n,).

    Parameters
    ----------
    h1 : ndarray of uint64, shape (n,)
        First hash halves of the keys.
    params : FilterParams
        Of the whole filter, which is blocked.
    slices : int
        How many slices it has, at most as many as it has pages.
    """
    pages = -(-params.num_bits // PAGE_BITS)
    page = _units_of(h1, params)
    if params.blocks_per_key == 1:
        page //= np.uint64(PAGE_BLOCKS)
    # The last slice that begins at this page or before it.
    return (((page + np.uint64(1)) * np.uint64(slices) - np.uint64(1)) // np.uint64(pages)).astype(
        np.int32
    )


def partition(
    h1: Words, h2: Words, params: FilterParams, slices: int
) -> tuple[Indices, Indices, HashHalves]:
    """Bring the keys of each slice together, in the order that they have.

    Parameters
    ----------
    h1, h2 : ndarray of uint64, shape (n,)
        Hash halves of the keys.
    params, slices
        As for `slices_of`.

    Returns
    -------
    starts : ndarray of intp, shape (slices + 1,)
        Where the keys of each slice begin in the arrays below, and n.
    rows : ndarray of intp, shape (n,)
        The place that each key has in the batch.
    hashes : pair of ndarray of uint64, shape (n,)
        The hash halves, in that order.
    """
    numbers = slices_of(h1, params, slices)
    # Of 16 bits numpy sorts by radix.
    narrow = numbers.astype(np.uint16) if slices <= 1 << 16 else numbers
    rows = np.argsort(narrow, kind="stable")
    starts = np.zeros(slices + 1, np.intp)
    np.cumsum(np.bincount(numbers, minlength=slices), out=starts[1:])
    return starts, rows, (h1[rows], h2[rows])


def rebase(h1: Words, params: FilterParams, first: int, units: int) -> tuple[Words, int]:
    """Turn first hash halves of a filter into those of a part of it, taken as a filter by itself.

    What the kernels of bits then do in the part is what they would do in the whole. The low half,
    which chooses blocks within a page, stays.

    Parameters
    ----------
    h1 : ndarray of uint64, shape (n,)
        First hash halves.
    params : FilterParams
        Of the whole filter, which is blocked.
    first, units : int
        Where the part begins, and how large it is: in pages, or in blocks where a key has one.

    Returns
    -------
    ndarray of uint64, shape (n,)
        Those of the part.
    int
        The first key that does not belong to it, or -1.
    """
    local = _units_of(h1, params) - np.uint64(first)  # wraps below it
    foreign = local >= np.uint64(units)
    if foreign.any():
        return h1, int(foreign.argmax())
    # The least number whose high half the formula of positions maps to this unit.
    high = ((local << _32) + np.uint64(units - 1)) // np.uint64(units)
    return high << _32 | h1 & _LOW, -1


def _units_of(h1: Words, params: FilterParams) -> Words:
    """Return the block of each key, or its page if it has several blocks."""
    unit_bits = BLOCK_BITS if params.blocks_per_key == 1 else PAGE_BITS
    return ((h1 >> _32) * np.uint64(params.num_bits // unit_bits)) >> _32
