# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Claim and commit, compiled: answer now, set later (see `reference.bits.claim`).

What a claim will set it keeps in an overlay, a hash table from cells to masks: a key is new
if it has a bit that is clear in both the array and the overlay, so duplicates within a batch
are told as one by one (law 4), whatever the number of keys.
"""

import numpy as np

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from mmbloom._engine.compiled.positions cimport (
    AHEAD, Shape, bit_in_block, block_of, length_of, popcount, shape_of, standard_position,
)
from mmbloom._engine.compiled.bits cimport contains_standard
from mmbloom._engine.compiled.murmur cimport prefetch, prefetch_write

cdef enum:
    FIRST_ROOM = 1024  # cells that an overlay can hold before it grows


cdef struct Overlay:
    int width  # words in a cell: 8 in the blocked layout, 1 in the standard one
    size_t used  # cells held
    size_t room  # cells that fit
    size_t places  # of the index: a power of two, at least twice `room`
    uint32_t *index  # place to slot + 1; 0 is free
    uint64_t *cells  # slot to cell
    uint64_t *masks  # slot to `width` words


cdef bint grow(Overlay *overlay) noexcept nogil:
    """Make room for twice as many cells; False if there is no memory."""
    cdef size_t room = 2 * overlay.room if overlay.room else FIRST_ROOM
    cdef size_t slot, place
    if room >= <size_t>1 << 31:
        return False
    # One at a time, so that what was moved is never freed twice.
    cdef void *moved = realloc(overlay.cells, room * sizeof(uint64_t))
    if moved == NULL:
        return False
    overlay.cells = <uint64_t *>moved
    moved = realloc(overlay.masks, room * overlay.width * sizeof(uint64_t))
    if moved == NULL:
        return False
    overlay.masks = <uint64_t *>moved
    moved = calloc(2 * room, sizeof(uint32_t))
    if moved == NULL:
        return False
    free(overlay.index)
    overlay.index = <uint32_t *>moved
    overlay.places = 2 * room
    overlay.room = room
    for slot in range(overlay.used):
        place = place_of(overlay, overlay.cells[slot])
        overlay.index[place] = <uint32_t>(slot + 1)
    return True


cdef inline size_t home_of(const Overlay *overlay, uint64_t cell) noexcept nogil:
    """Where the search for a cell begins."""
    return (cell * 0x9E3779B97F4A7C15ULL >> 32) & (overlay.places - 1)


cdef inline size_t place_of(const Overlay *overlay, uint64_t cell) noexcept nogil:
    """Where a cell is in the index, or the free place where it would be."""
    cdef size_t place = home_of(overlay, cell)
    while overlay.index[place] and overlay.cells[overlay.index[place] - 1] != cell:
        place = (place + 1) & (overlay.places - 1)
    return place


cdef inline uint64_t *masks_of(Overlay *overlay, uint64_t cell) noexcept nogil:
    """The masks of a cell, made zero when it is new; NULL if there is no memory."""
    cdef size_t place
    cdef uint64_t *masks
    if overlay.used == overlay.room and not grow(overlay):
        return NULL
    place = place_of(overlay, cell)
    if overlay.index[place]:
        return overlay.masks + (overlay.index[place] - 1) * <size_t>overlay.width
    masks = overlay.masks + overlay.used * <size_t>overlay.width
    memset(masks, 0, overlay.width * sizeof(uint64_t))
    overlay.cells[overlay.used] = cell
    overlay.used += 1
    overlay.index[place] = <uint32_t>overlay.used
    return masks


cdef class Claimed:
    """What `claim` found: nothing is set yet; see `reference.bits.Claimed`."""

    cdef readonly object new
    cdef Overlay overlay
    cdef Py_ssize_t num_words

    def __dealloc__(self):
        free(self.overlay.index)
        free(self.overlay.cells)
        free(self.overlay.masks)


def claim(const uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params):
    """Find which of n keys are new, and set nothing; see `reference.bits.claim`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    cdef Py_ssize_t n = length_of(h1, h2)
    cdef Claimed claimed = Claimed()
    cdef bint done = True
    claimed.new = np.empty(n, dtype=np.bool_)
    claimed.num_words = words.shape[0]
    claimed.overlay.width = 8 if shape.blocked else 1
    cdef uint8_t[::1] answers = claimed.new.view(np.uint8)
    if n:
        with nogil:
            done = grow(&claimed.overlay) and (claim_blocked if shape.blocked else claim_standard)(
                &words[0], &h1[0], &h2[0], n, &shape, &claimed.overlay, &answers[0]
            )
    if not done:
        raise MemoryError
    return claimed


cdef bint claim_blocked(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int i, w
    cdef uint64_t bit, block, missing
    cdef uint64_t[8] wanted
    cdef const uint64_t *here
    cdef uint64_t *masks
    for j in range(min(n, AHEAD)):
        prefetch(words + 8 * block_of(shape, h1[j]))
    for j in range(n):
        if j + AHEAD < n:
            prefetch(words + 8 * block_of(shape, h1[j + AHEAD]))
            prefetch(overlay.index + home_of(overlay, block_of(shape, h1[j + AHEAD])))
        block = block_of(shape, h1[j])
        here = words + 8 * block
        for w in range(8):
            wanted[w] = 0
        for i in range(shape.num_hashes):
            bit = bit_in_block(shape, h2[j], i)
            wanted[bit >> 6] |= <uint64_t>1 << (bit & 63)
        missing = 0
        for w in range(8):
            missing |= wanted[w] & ~here[w]
        if missing:
            masks = masks_of(overlay, block)
            if masks == NULL:
                return False
            missing = 0
            for w in range(8):
                missing |= wanted[w] & ~(here[w] | masks[w])
                masks[w] |= wanted[w]
        answers[j] = missing != 0
    return True


cdef bint claim_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t p, bit, clear
    cdef uint64_t *masks
    contains_standard(words, h1, h2, n, shape, answers)
    for j in range(n):
        if answers[j]:
            answers[j] = 0
            continue
        clear = 0
        for i in range(shape.num_hashes):
            p = standard_position(shape, h1[j], h2[j], i)
            bit = <uint64_t>1 << (p & 63)
            if not words[p >> 6] & bit:
                masks = masks_of(overlay, p >> 6)
                if masks == NULL:
                    return False
                clear |= ~masks[0] & bit
                masks[0] |= bit
        answers[j] = clear != 0
    return True


def commit(uint64_t[::1] words, Claimed claimed not None):
    """Set the bits that `claim` found; returns how many were clear before."""
    cdef uint64_t newly_set = 0
    if words.shape[0] != claimed.num_words:
        raise ValueError(f"claimed of {claimed.num_words} words, the array has {words.shape[0]}")
    if claimed.overlay.used:
        with nogil:
            newly_set = set_all(&words[0], &claimed.overlay)
    return newly_set


cdef uint64_t set_all(uint64_t *words, const Overlay *overlay) noexcept nogil:
    cdef uint64_t newly_set = 0, mask
    cdef size_t slot, width = overlay.width
    cdef size_t i
    cdef uint64_t *cell
    for slot in range(overlay.used):
        if slot + AHEAD < overlay.used:
            prefetch_write(words + width * overlay.cells[slot + AHEAD])
        cell = words + width * overlay.cells[slot]
        for i in range(width):
            mask = overlay.masks[slot * width + i]
            newly_set += popcount(mask & ~cell[i])
            cell[i] |= mask
    return newly_set
