"""The reference kernels of four-bit counters: exact one-by-one answers from vectorised numpy.

The array is little-endian uint64 words of sixteen counters: counter p is in bits 4 * (p & 15)
and the three above of word p >> 4. A key is there when none of its counters is 0. Adding one
raises each DISTINCT counter of the key by one, and removing one that is there lowers each by
one, so that a removal takes exactly what the addition gave. A counter at 15 counts no more:
it stays, for ever.

Removing lowers to 0 what gets to 0, and only then the rest: after a kill in between a key of
the batch is untouched, or not found any more, or one that is found when all is done as well.
So a batch that was killed and is removed again takes nothing from other keys that removing
it twice would not have taken.
"""

import numpy as np

from mmbloom._engine.key_batch import KeyBatch
from mmbloom._engine.reference.bits import count_set
from mmbloom._engine.reference.hash import hash_keys, pieces_of
from mmbloom._system.typing import Array, Bools, Words
from mmbloom.format.positions import positions
from mmbloom.sizing.params import FilterParams

COUNTER_BITS = 4
SATURATED = 15
_FOUR, _LAST = np.uint64(COUNTER_BITS), np.uint64(15)
_ONE_IN_EACH = np.uint64(0x1111_1111_1111_1111)
Held = tuple[Words, Array[np.intp]]  # distinct positions, and the key that has each


def counted_contains(words: Words, keys: KeyBatch, params: FilterParams, threads: int = 1) -> Bools:
    """Test a batch: True where no counter of a key is 0. Bool array of shape (n,)."""
    found = np.zeros(len(keys), dtype=np.bool_)
    for piece in pieces_of(len(keys)):
        found[piece] = _contains(words, *hash_keys(keys[piece], params.key_hash), params)
    return found


def _contains(words: Words, h1: Words, h2: Words, params: FilterParams) -> Bools:
    found = np.ones(len(h1), dtype=np.bool_)
    for column in positions(h1, h2, params):
        found &= _counts(words, column) != 0
    return found


def increment(
    words: Words, h1: Words, h2: Words, params: FilterParams, order: object = None
) -> tuple[Bools, int]:
    """Test and count n keys, with the answers of one at a time.

    Returns
    -------
    new : ndarray of bool, shape (n,)
        True for each key of which a counter was 0 when its turn came.
    newly_set : int
        How many counters were 0 before.
    """
    new = np.zeros(len(h1), dtype=np.bool_)
    newly_set = 0
    for piece in pieces_of(len(h1)):
        held, _ = distinct = _distinct(h1[piece], h2[piece], params)
        new[piece] = _first_of_zero(words, distinct, len(h1[piece]))
        position, more = np.unique(held, return_counts=True)
        before = _counts(words, position)
        added = np.minimum(more.astype(np.uint64), _LAST - before)
        _change(words, position, added, np.add)
        newly_set += int(np.count_nonzero(before == 0))
    return new, newly_set


def counted_claim(words: Words, h1: Words, h2: Words, params: FilterParams) -> Bools:
    """Find which of n keys are new, duplicates within the batch included; count nothing.

    Bool array of shape (n,), as `increment` would answer. Memory is in proportion to n.
    """
    return _first_of_zero(words, _distinct(h1, h2, params), len(h1))


def decrement(
    words: Words, h1: Words, h2: Words, params: FilterParams, order: object = None
) -> tuple[Bools, int]:
    """Test n keys and uncount those that are there, with the answers of one at a time.

    Returns
    -------
    found : ndarray of bool, shape (n,)
        True for each key of which no counter was 0 when its turn came.
    newly_clear : int
        How many counters became 0.
    """
    found = np.zeros(len(h1), dtype=np.bool_)
    newly_clear = 0
    for piece in pieces_of(len(h1)):
        distinct = _distinct(h1[piece], h2[piece], params)
        # Counters only fall here: what is not there at first is not there at its turn.
        found[piece] = _contains(words, h1[piece], h2[piece], params)
        _refuse_the_late(words, distinct, found[piece])
        held, key = distinct
        position, less = np.unique(held[found[piece][key]], return_counts=True)
        before = _counts(words, position)
        taken = np.where(before == _LAST, np.uint64(0), less.astype(np.uint64))
        gone = taken == before
        _change(words, position[gone], taken[gone], np.subtract)
        _change(words, position[~gone], taken[~gone], np.subtract)
        newly_clear += int(np.count_nonzero(gone))
    return found, newly_clear


def count_nonzero(words: Words) -> int:
    """Count the counters that are not 0, 1 MiB at a time."""
    step = 1 << 17
    return sum(
        count_set(_nonzero(words[start : start + step])) for start in range(0, len(words), step)
    )


def nonzero_bits(words: Words) -> Words:
    """Make of counters the bits of a plain filter: 1 where a counter is not 0.

    Takes a multiple of 4 words, and gives a quarter as many.
    """
    flags = _nonzero(words).astype("<u8", copy=False)  # what numpy computes is in its own order
    octets = flags.view(np.uint8).reshape(-1, 4)  # bits 0 and 4 of each
    pairs = (octets | octets >> 3) & 3
    joined = pairs[:, 0] | pairs[:, 1] << 2 | pairs[:, 2] << 4 | pairs[:, 3] << 6
    return np.ascontiguousarray(joined).view("<u8")


def _counts(words: Words, column: Words) -> Words:
    counts: Words = words[(column >> _FOUR).astype(np.intp)] >> (column & _LAST) * _FOUR & _LAST
    return counts


def _nonzero(words: Words) -> Words:
    folded = words | words >> np.uint64(2)
    flags: Words = (folded | folded >> np.uint64(1)) & _ONE_IN_EACH
    return flags


def _distinct(h1: Words, h2: Words, params: FilterParams) -> Held:
    """List the distinct positions of each key, key by key."""
    columns = np.sort(np.stack(list(positions(h1, h2, params)), axis=1), axis=1)  # (n, k)
    first = np.ones(columns.shape, dtype=np.bool_)
    np.not_equal(columns[:, 1:], columns[:, :-1], out=first[:, 1:])
    return columns[first], np.nonzero(first)[0]


def _first_of_zero(words: Words, distinct: Held, num_keys: int) -> Bools:
    """Return which keys are the first of their batch to hold some counter that is 0."""
    held, key = distinct
    zero = _counts(words, held) == 0
    new = np.zeros(num_keys, dtype=np.bool_)
    first = np.unique(held[zero], return_index=True)[1]
    new[key[zero][first]] = True
    return new


def _refuse_the_late(words: Words, distinct: Held, found: Bools) -> None:
    """Clear `found` for keys that are there at first, and not any more when their turn comes.

    Only counters that more keys would lower than they count can run out. The few keys that
    hold one are gone through one by one; no other key's answer depends on any order.
    """
    held, key = distinct
    held, key = held[found[key]], key[found[key]]
    position, inverse, wanted = np.unique(held, return_inverse=True, return_counts=True)
    before = _counts(words, position)
    scarce = (wanted > before) & (before < _LAST)
    if not scarce.any():
        return
    contested = scarce[inverse]
    left = dict(zip(position[scarce].tolist(), before[scarce].tolist(), strict=True))
    holders: dict[int, list[int]] = {}  # in the order of the keys
    for holder, counter in zip(key[contested].tolist(), held[contested].tolist(), strict=True):
        holders.setdefault(holder, []).append(counter)
    for holder, counters in holders.items():
        if all(left[counter] for counter in counters):
            for counter in counters:
                left[counter] -= 1
        else:
            found[holder] = False


def _change(words: Words, position: Words, by: Words, operation: np.ufunc) -> None:
    """Add to, or subtract from, counters in ascending order, none of which leaves 0 to 15."""
    if not len(position):
        return
    word = (position >> _FOUR).astype(np.intp)
    start = np.flatnonzero(np.concatenate([[True], word[1:] != word[:-1]]))
    total = np.add.reduceat(by << (position & _LAST) * _FOUR, start)
    word = word[start]  # none twice
    words[word] = operation(words[word], total)
