"""The reference engine: exact one-by-one answers from vectorised numpy.

The array is little-endian uint64 words: position p is bit p & 63 of word p >> 6. A key is
new when it is the first of its batch to hold some position that was clear. `claim` finds
the new keys and the bits they need without setting any; `commit` sets them; `contains_with`
answers as if they were set.

Of a blocked filter, whole pages of the array are a slice, which has all bits of its keys. Of P
slices of n pages, the j-th begins at page j * n // P.

No function here reads and writes one word twice in one assignment: duplicate indices in
``a[i] |= mask`` lose bits (0.36 % in one process).
"""

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mmbloom._engine.key_batch import KeyBatch
from mmbloom._engine.reference.hash import hash_keys, hash_one, pieces_of
from mmbloom._system.typing import Array, Bools, HashHalves, Indices, Words
from mmbloom.format.header import BATCHES_BEGUN, BATCHES_DONE, KEYS_ADDED, POSITIONS_SET
from mmbloom.format.positions import blocks_of, positions, positions_of_all
from mmbloom.sizing.formulas import BLOCK_BITS, PAGE_BITS, PAGE_BLOCKS
from mmbloom.sizing.params import FilterParams

C = TypeVar("C", bound=type)
Numbers = Array[np.int32]

# A key's place in its batch is packed below its position, which has at most 43 bits. So many keys
# are claimed together: to take what earlier ones will set as set takes longer with each more.
MOST_TOGETHER = 1 << 20
_INDEX_BITS = np.uint64(20)
_INDEX_MASK = np.uint64(MOST_TOGETHER - 1)
_ONE, _WORD_SHIFT, _BIT_MASK = np.uint64(1), np.uint64(6), np.uint64(63)
_32, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class Claimed(NamedTuple):
    """What `claim` found: nothing is set yet.

    Attributes
    ----------
    new : ndarray of bool, shape (n,)
        True for each key that adding one by one would have reported as new.
    num_new : int
        How many they are, whatever a caller makes of the array.
    updates : list of (ndarray of intp, ndarray of uint64)
        Word indices and the masks to OR into them; no index twice within one pair.
    """

    new: Bools
    num_new: int
    updates: list[tuple[Indices, Words]]


def contains(words: Words, keys: KeyBatch, params: FilterParams, threads: int = 1) -> Bools:
    """Test a batch: True where all positions are set. Bool array of shape (n,); O(k n).

    With the compiled engine a number of threads may work on a large batch.
    """
    found = np.zeros(len(keys), dtype=np.bool_)
    for piece in pieces_of(len(keys)):
        found[piece] = _contains(words, *hash_keys(keys[piece], params.key_hash), params)
    return found


def _contains(words: Words, h1: Words, h2: Words, params: FilterParams) -> Bools:
    found = np.ones(len(h1), dtype=np.bool_)
    for column in positions(h1, h2, params):
        found &= _is_set(words, column)
    return found


def contains_any(
    arrays: list[Words], keys: KeyBatch, params: FilterParams, threads: int = 1
) -> Bools:
    """Test a batch in several arrays of the same parameters: True where one of them has it."""
    found = np.zeros(len(keys), dtype=np.bool_)
    for piece in pieces_of(len(keys)):
        h1, h2 = hash_keys(keys[piece], params.key_hash)
        for words in arrays:
            left = np.flatnonzero(~found[piece])
            found[piece][left] = _contains(words, h1[left], h2[left], params)
    return found


def arrange(h1: Words, h2: Words, params: FilterParams, threads: int = 1, width: int = 1) -> object:
    """Bring n keys that are to change an array into the order of its regions, ahead of the lock.

    In that order the compiled engine waits less for a large array, and a number of threads may
    work on it. A position of the array has `width` bits. The hashes may not change meanwhile.

    Returns
    -------
    object, optional
        What `add`, `increment` or `decrement` of these keys take; None for the order given.
    """
    return None


def add(
    words: Words, h1: Words, h2: Words, params: FilterParams, order: object = None
) -> tuple[Bools, int]:
    """Test and set n keys, with the answers of one at a time.

    Parameters
    ----------
    words, h1, h2, params
        As for `claim`.
    order : object, optional
        What `arrange` has returned for these keys.

    Returns
    -------
    new : ndarray of bool, shape (n,)
        True for each key of which a bit was clear when its turn came.
    newly_set : int
        How many bits were clear before.
    """
    new, newly_set = np.zeros(len(h1), dtype=np.bool_), 0
    for piece in pieces_of(len(h1)):
        claimed = claim(words, h1[piece], h2[piece], params)
        new[piece] = claimed.new
        newly_set += commit(words, claimed)
    return new, newly_set


def _meeting(h1: Words, params: FilterParams) -> Bools:
    """Return which of n keys may hold a position that another of them holds as well.

    Only keys of one block can do that in the blocked layout, and in a large filter few share one:
    a key alone in its blocks is new if the array lacks a bit of it, whatever the others are. Two
    and a half times as fast as sorting all positions (10^9 keys planned, 2 million added).

    Returns
    -------
    ndarray of bool, shape (n,)
        Of the standard layout True for each key.
    """
    if params.layout == "standard":
        return np.ones(len(h1), dtype=np.bool_)
    # A block and the index of its key are one number: sorted in a third of argsort's time.
    below = np.uint64(len(h1).bit_length())
    index = np.arange(len(h1), dtype=np.uint64)
    blocks = blocks_of(h1, params.num_bits, params.blocks_per_key)
    packed = np.concatenate([block << below | index for block in blocks])
    packed.sort()
    first = _starts_of_runs(packed >> below)
    alone = first & np.append(first[1:], [True])
    met = np.zeros(len(h1), dtype=np.bool_)
    met[(packed[~alone] & ((_ONE << below) - _ONE)).astype(np.intp)] = True
    return met


def claim(words: Words, h1: Words, h2: Words, params: FilterParams) -> Claimed:
    """Find which of n keys are new, duplicates within the batch included; set nothing.

    Parameters
    ----------
    words : ndarray of uint64
        The bit array.
    h1, h2 : ndarray of uint64, shape (n,)
        Hash halves of the keys.
    params : FilterParams
        Layout and number of hashes.

    Returns
    -------
    Claimed
    """
    found = np.zeros(len(h1), dtype=np.bool_)
    all_updates: list[tuple[Indices, Words]] = []
    for piece in pieces_of(len(h1), MOST_TOGETHER):
        # What earlier pieces will set counts as set for later ones, as one by one.
        pending = _positions_in(all_updates)
        columns = positions_of_all(h1[piece], h2[piece], params)
        clear = _clear(words, columns, pending)
        lacking = np.flatnonzero(clear.any(axis=0))
        # Of those that lack a bit alone: to sort a batch of known keys was 8 % of its time.
        met = _meeting(h1[piece][lacking], params)
        new, updates = _claim_lacking(columns, clear, lacking, met)
        found[piece] = new
        all_updates += updates
    return Claimed(found, int(np.count_nonzero(found)), all_updates)


def _clear(words: Words, columns: Words, pending: Words) -> Bools:
    """Return which positions are clear; the sorted positions `pending` are taken as set."""
    clear = np.empty(columns.shape, dtype=np.bool_)
    for i, column in enumerate(columns):
        np.logical_not(_is_set(words, column), out=clear[i])
        if len(pending):
            clear[i] &= ~_is_in(pending, column)
    return clear


def _claim_lacking(
    columns: Words, clear: Bools, lacking: Indices, met: Bools
) -> tuple[Bools, list[tuple[Indices, Words]]]:
    """Claim those of at most 2**20 keys that lack a bit; of them, `met` tells which may meet."""
    alone, candidates = lacking[~met], lacking[met]
    new = np.zeros(clear.shape[1], dtype=np.bool_)
    new[alone] = True
    updates: list[tuple[Indices, Words]] = []
    if len(alone):
        updates += [(_word_of(column[alone]), _mask_of(column[alone])) for column in columns]
    if len(candidates):
        updates.append(_first_to_hold(columns, clear, candidates, new))
    return new, updates


def contains_with(
    words: Words, claimed: Claimed, h1: Words, h2: Words, params: FilterParams
) -> Bools:
    """Test n keys as if a claim of the same array were committed. Bool array of shape (n,)."""
    index, mask = _by_word(claimed.updates)
    found = np.ones(len(h1), dtype=np.bool_)
    for column in positions(h1, h2, params):
        is_set = _is_set(words, column)
        if len(index):
            word = _word_of(column)
            place = np.minimum(np.searchsorted(index, word), len(index) - 1)
            is_set |= (index[place] == word) & (mask[place] & _mask_of(column) != 0)
        found &= is_set
    return found


def _by_word(updates: list[tuple[Indices, Words]]) -> tuple[Indices, Words]:
    """Make one update of many: word indices in ascending order, none twice, and their masks."""
    if not updates:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.uint64)
    index, mask = (np.concatenate(column) for column in zip(*updates, strict=True))
    order = np.argsort(index, kind="stable")
    start = np.flatnonzero(_starts_of_runs(index[order]))
    return index[order][start], np.bitwise_or.reduceat(mask[order], start)


def _positions_in(updates: list[tuple[Indices, Words]]) -> Words:
    """List the positions that updates will set, in ascending order, each once."""
    index, mask = _by_word(updates)
    octets = mask.astype("<u8").view(np.uint8).reshape(-1, 8)
    place, bit = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
    return (index[place].astype(np.uint64) << _WORD_SHIFT) + bit.astype(np.uint64)


def commit(words: Words, claimed: Claimed) -> int:
    """Set the bits that `claim` found, and count those that were clear."""
    newly_set = 0
    for index, mask in claimed.updates:
        before = words[index]
        words[index] = before | mask
        newly_set += int(np.bitwise_count(mask & ~before).sum())
    return newly_set


class OneKey:
    """One key at a time on one bit array; prepared once, so that a call costs little.

    Parameters
    ----------
    words : ndarray of uint64
        The bit array.
    counters : ndarray of uint64, shape (4,) or more
        Those of the file, in the order of `MUTABLE_FIELDS`: a key that is new is a batch.
    params : FilterParams
        Layout, number of hashes and seed.
    to_bytes : callable
        Turns a key of any type into its bytes, or raises.
    """

    def __init__(
        self,
        words: Words,
        counters: Words,
        params: FilterParams,
        to_bytes: Callable[[Any], bytes],
    ) -> None:
        self._octets, self._counters = words.view(np.uint8).data, counters
        self._params, self._to_bytes = params, to_bytes

    def contains(self, key: Any) -> bool:
        """Test a key."""
        h1, h2 = hash_one(self._to_bytes(key), self._params.key_hash)
        return all(self._octets[p >> 3] >> (p & 7) & 1 for p in positions(h1, h2, self._params))

    def add(self, key: Any) -> bool:
        """Set a key's bits and count them; True if one was clear. The write lock is held."""
        h1, h2 = hash_one(self._to_bytes(key), self._params.key_hash)
        clear = {
            p for p in positions(h1, h2, self._params) if not self._octets[p >> 3] >> (p & 7) & 1
        }
        if not clear:
            return False
        self._count(BATCHES_BEGUN, 1)
        for p in clear:
            self._octets[p >> 3] |= 1 << (p & 7)
        self._count(KEYS_ADDED, 1)
        self._count(POSITIONS_SET, len(clear))
        self._count(BATCHES_DONE, 1)
        return True

    def positions_set(self) -> int:
        """Read the counter of bits set."""
        return int(self._counters[POSITIONS_SET])

    def _count(self, place: int, more: int) -> None:
        # Modulo 2**64: a damaged counter stays harmless.
        self._counters[place] = (int(self._counters[place]) + more) % 2**64


class Grounds(NamedTuple):
    """Result of a check of the file, or files, which the next keys need not repeat.

    Attributes
    ----------
    arrays : sequence of OneKey
        Of the files, newest first: keys are asked for in all, and added to the first.
    words : sequence of (memoryview of one uint64, int)
        Numbers that say that all this still holds, and what they were: which array of a file
        counts, whether its last check is good, how often the exclusions have changed.
    lock : LockState
        Of the write lock of the first.
    section : LockState
        What a block of the filter holds around its calls; of a single file the lock itself.
    file : (bytes, int, int, int, int)
        The path of the file, or of the list of the files, and what is there: device, inode, size,
        time of change in nanoseconds. A batch checks whether it still is.
    listed_until : float
        When the exclusions must be checked again, by the monotonic clock.
    plain : bool
        Whether no key is excluded.
    full_at : float
        Up to how many set positions of the first keys may be added.
    capacity : float
        Up to how many keys may be added to it.
    since, ends : float
        From when to when these are the files, by the Unix clock.
    renews : bool
        Whether a key that another file has is added to the first all the same.
    each : bool
        Whether each key checks the list of the files as well.
    kept : object
        What keeps another file from getting the identity of that one, as long as it lives.
    """

    arrays: Sequence[Any]
    words: Sequence[tuple[memoryview, int]]
    lock: Any
    section: Any
    file: tuple[bytes, int, int, int, int]
    listed_until: float
    plain: bool
    full_at: float
    capacity: float = math.inf
    since: float = 0.0
    ends: float = math.inf
    renews: bool = False
    each: bool = False
    kept: object = None


class SingleKeys:
    """The base of a filter that has methods of the same names, which check the file.

    Crawlers, web workers and task queues ask one key at a time, where a check of the file takes
    many times as long as the key itself. The compiled engine trusts a check for a moment; by
    definition each call checks the file.

    A subclass has ``_grounds(gone, more)``, which checks the file and returns `Grounds` for more
    keys, or None; `gone` keys went by the last grounds, and `more` may. It has also
    ``_listed(keys, most)``, which returns the items of an array or a column as a list if there are
    few, else None: to hash few objects takes less time than to look into an array.
    """

    def _look_again(self) -> None:
        """Check the file before the next key."""


def described(cls: C) -> C:
    """Copy to the methods of a class's `SingleKeys` the docstrings of those behind them."""
    (base,) = (base for base in cls.__bases__ if base.__name__ == SingleKeys.__name__)
    for name in {"add", "add_many", "contains_many"} & vars(base).keys():
        behind = getattr(super(base, cls), name)
        update_wrapper(getattr(base, name), behind, assigned=("__doc__",), updated=())
    return cls


def union(words: Words, start: int, more: Words) -> int:
    """Set the bits of `more` in the words from `start` on, and count the new ones; O(len(more)).

    Words that have all of them are not written, so that their pages stay clean.
    """
    part = words[start : start + len(more)]
    missing = more & ~part
    lacking = np.flatnonzero(missing)  # no index twice
    part[lacking] |= missing[lacking]
    return count_set(missing)


def count_set(words: Words) -> int:
    """Count the set bits, 1 MiB at a time so that no large temporary is made."""
    step = 1 << 17
    return sum(
        int(np.bitwise_count(words[start : start + step]).sum(dtype=np.int64))
        for start in range(0, len(words), step)
    )


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
    return (((page + _ONE) * np.uint64(slices) - _ONE) // np.uint64(pages)).astype(np.int32)


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


def _word_of(column: Words) -> Indices:
    return (column >> _WORD_SHIFT).astype(np.intp)


def _mask_of(column: Words) -> Words:
    return _ONE << (column & _BIT_MASK)


def _is_set(words: Words, column: Words) -> Bools:
    return ((words[_word_of(column)] >> (column & _BIT_MASK)) & _ONE).astype(np.bool_)


def _is_in(pending: Words, column: Words) -> Bools:
    place = np.searchsorted(pending, column)
    found: Bools = pending[np.minimum(place, len(pending) - 1)] == column
    return found


def _first_to_hold(
    columns: Words, clear: Bools, candidates: Indices, new: Bools
) -> tuple[Indices, Words]:
    """Mark in `new` the first key at each clear position; return the words to update.

    Sorting position and key packed in one integer brings the keys of each position together,
    the earliest first, and walks the file in order.
    """
    keys = np.broadcast_to(candidates.astype(np.uint64), (len(columns), len(candidates)))
    wanted = clear[:, candidates]
    packed = columns[:, candidates][wanted] << _INDEX_BITS
    packed |= keys[wanted]
    packed.sort()
    position = packed >> _INDEX_BITS
    first = _starts_of_runs(position)
    new[(packed[first] & _INDEX_MASK).astype(np.intp)] = True
    position = position[first]
    word = _word_of(position)
    start = np.flatnonzero(_starts_of_runs(word))
    return word[start], np.bitwise_or.reduceat(_mask_of(position), start)


def _starts_of_runs(ordered: Array[np.uint64] | Indices) -> Bools:
    starts = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts


def _units_of(h1: Words, params: FilterParams) -> Words:
    """Return the block of each key, or its page if it has several blocks."""
    unit_bits = BLOCK_BITS if params.blocks_per_key == 1 else PAGE_BITS
    return ((h1 >> _32) * np.uint64(params.num_bits // unit_bits)) >> _32
