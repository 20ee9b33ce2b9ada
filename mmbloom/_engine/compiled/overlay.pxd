"""What a claim will set, and the loops that make it, ask it and set it; inline code.

The overlay is a hash table from cells of the array to masks. A key is new if it has a bit that
is clear in both the array and the overlay. So duplicates within a batch are told as one by one,
whatever the number of keys.

A cell is a block of 8 words in the blocked layout, where all bits of a key lie in one or a few; a
single word in the standard layout.

Testing and setting keys of several blocks is here, too: the lines of all blocks of a key are
asked for at once, some keys ahead, as in `claim_paged`.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from mmbloom._engine.compiled.positions cimport (
    AHEAD, Shape, ask_for_blocks, bit_in_block, block_in_page, block_of, page_of, popcount,
    position_of, prefetch, prefetch_to_write, standard_position,
)


cdef enum:
    FIRST_ROOM = 1024  # cells that an overlay can hold before it grows: more than a key has


cdef struct Overlay:
    int width  # words in a cell: 8 in the blocked layout, 1 in the standard one
    size_t used  # cells held
    size_t room  # cells that fit
    size_t places  # of the index: a power of two, at least twice `room`
    uint32_t *index  # place to slot + 1; 0 is free
    uint64_t *cells  # slot to cell
    uint64_t *masks  # slot to `width` words


cdef inline bint has_room(Overlay *overlay, size_t cells) noexcept nogil:
    """Make sure that so many cells can be added; False if there is no memory."""
    return overlay.room - overlay.used >= cells or grow(overlay)


cdef inline bint grow(Overlay *overlay) noexcept nogil:
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


cdef inline void release(Overlay *overlay) noexcept nogil:
    free(overlay.index)
    free(overlay.cells)
    free(overlay.masks)


cdef inline size_t home_of(const Overlay *overlay, uint64_t cell) noexcept nogil:
    """Give the place where the search for a cell begins."""
    return (cell * 0x9E3779B97F4A7C15ULL >> 32) & (overlay.places - 1)


cdef inline size_t place_of(const Overlay *overlay, uint64_t cell) noexcept nogil:
    """Find where a cell is in the index, or the free place where it would be."""
    cdef size_t place = home_of(overlay, cell)
    while overlay.index[place] and overlay.cells[overlay.index[place] - 1] != cell:
        place = (place + 1) & (overlay.places - 1)
    return place


cdef inline uint64_t *masks_of(Overlay *overlay, uint64_t cell) noexcept nogil:
    """Give the masks of a cell, made zero when it is new; call after `has_room`."""
    cdef size_t place = place_of(overlay, cell)
    cdef uint64_t *masks
    if overlay.index[place]:
        return overlay.masks + (overlay.index[place] - 1) * <size_t>overlay.width
    masks = overlay.masks + overlay.used * <size_t>overlay.width
    memset(masks, 0, overlay.width * sizeof(uint64_t))
    overlay.cells[overlay.used] = cell
    overlay.used += 1
    overlay.index[place] = <uint32_t>overlay.used
    return masks


cdef inline uint64_t mask_of_word(const Overlay *overlay, uint64_t word) noexcept nogil:
    """Give the mask of one word of the array, 0 if its cell is not held."""
    cdef uint32_t slot
    if not overlay.used:
        return 0
    slot = overlay.index[place_of(overlay, word // <uint64_t>overlay.width)]
    if not slot:
        return 0
    return overlay.masks[(slot - 1) * <size_t>overlay.width + word % <uint64_t>overlay.width]


cdef inline bint claim_blocked(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    """Claim n keys; False if there is no memory."""
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
            if not has_room(overlay, 1):
                return False
            masks = masks_of(overlay, block)
            missing = 0
            for w in range(8):
                missing |= wanted[w] & ~(here[w] | masks[w])
                masks[w] |= wanted[w]
        answers[j] = missing != 0
    return True


cdef inline bint claim_paged(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    """Claim n keys of several blocks each; False if there is no memory."""
    cdef Py_ssize_t j
    cdef int i, w, b, first
    cdef uint64_t bit, page, block, lacking, missing
    cdef uint64_t[8] wanted
    cdef const uint64_t *here
    cdef uint64_t *masks
    for j in range(min(n, AHEAD)):
        ask_for_blocks(shape, words, h1[j], False)
    for j in range(n):
        if j + AHEAD < n:
            page = page_of(shape, h1[j + AHEAD])
            for b in range(shape.blocks):
                block = block_in_page(page, h1[j + AHEAD], b)
                prefetch(words + 8 * block)
                prefetch(overlay.index + home_of(overlay, block))
        if not has_room(overlay, shape.blocks):
            return False
        page = page_of(shape, h1[j])
        missing = 0
        first = 0
        for b in range(shape.blocks):
            block = block_in_page(page, h1[j], b)
            here = words + 8 * block
            for w in range(8):
                wanted[w] = 0
            for i in range(first, first + shape.in_each):
                bit = bit_in_block(shape, h2[j], i)
                wanted[bit >> 6] |= <uint64_t>1 << (bit & 63)
            first += shape.in_each
            lacking = 0
            for w in range(8):
                lacking |= wanted[w] & ~here[w]
            if lacking:  # a line that is not changed is not written
                masks = masks_of(overlay, block)
                for w in range(8):
                    missing |= wanted[w] & ~(here[w] | masks[w])
                    masks[w] |= wanted[w]
        answers[j] = missing != 0
    return True


cdef inline bint claim_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    """Claim what is not in the array, which `answers` tells; False if there is no memory."""
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t p, bit, clear
    cdef uint64_t *masks
    for j in range(n):
        if answers[j]:
            answers[j] = 0
            continue
        if not has_room(overlay, shape.num_hashes):
            return False
        clear = 0
        for i in range(shape.num_hashes):
            p = standard_position(shape, h1[j], h2[j], i)
            bit = <uint64_t>1 << (p & 63)
            if not words[p >> 6] & bit:
                masks = masks_of(overlay, p >> 6)
                clear |= ~masks[0] & bit
                masks[0] |= bit
        answers[j] = clear != 0
    return True


cdef inline void find_with(
    const uint64_t *words, const Overlay *overlay, const uint64_t *h1, const uint64_t *h2,
    Py_ssize_t n, const Shape *shape, uint8_t *answers,
) noexcept nogil:
    """Test those keys again that are not in the array as it is."""
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t p, word
    for j in range(n):
        if answers[j]:
            continue
        for i in range(shape.num_hashes):
            p = position_of(shape, h1[j], h2[j], i)
            word = words[p >> 6] | mask_of_word(overlay, p >> 6)
            if not word >> (p & 63) & 1:
                break
        else:
            answers[j] = 1


cdef inline uint64_t commit_all(uint64_t *words, const Overlay *overlay) noexcept nogil:
    """Set what the overlay holds, and count the bits that were clear."""
    cdef uint64_t newly_set = 0, mask
    cdef size_t slot, width = overlay.width
    cdef size_t i
    cdef uint64_t *cell
    for slot in range(overlay.used):
        if slot + AHEAD < overlay.used:
            prefetch_to_write(words + width * overlay.cells[slot + AHEAD], 1)
        cell = words + width * overlay.cells[slot]
        for i in range(width):
            mask = overlay.masks[slot * width + i]
            newly_set += popcount(mask & ~cell[i])
            cell[i] |= mask
    return newly_set


cdef inline uint8_t has_paged(
    const uint64_t *words, uint64_t h1, uint64_t h2, const Shape *shape
) noexcept nogil:
    cdef int b, i, first = 0
    cdef uint64_t bit, page = page_of(shape, h1), found = 1
    cdef const uint64_t *block
    for b in range(shape.blocks):
        block = words + 8 * block_in_page(page, h1, b)
        for i in range(first, first + shape.in_each):
            bit = bit_in_block(shape, h2, i)
            found &= block[bit >> 6] >> (bit & 63)
        # The first block tells nearly all absent keys: half of the work, or more, is saved.
        if not found & 1:
            return 0
        first += shape.in_each
    return 1


cdef inline void find_paged(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(min(n, AHEAD)):
        ask_for_blocks(shape, words, h1[j], False)
    for j in range(n):
        if j + AHEAD < n:
            ask_for_blocks(shape, words, h1[j + AHEAD], False)
        answers[j] = has_paged(words, h1[j], h2[j], shape)


cdef inline uint64_t set_paged(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int b, i
    cdef uint64_t bit, page, word, newly_set = 0
    cdef uint64_t *block
    for j in range(min(n, AHEAD)):
        ask_for_blocks(shape, words, h1[j], True)
    for j in range(n):
        if j + AHEAD < n:
            ask_for_blocks(shape, words, h1[j + AHEAD], True)
        answers[j] = not has_paged(words, h1[j], h2[j], shape)
        if not answers[j]:
            continue  # a page that is not changed is not written back
        page = page_of(shape, h1[j])
        for b in range(shape.blocks):
            block = words + 8 * block_in_page(page, h1[j], b)
            for i in range(b * shape.in_each, (b + 1) * shape.in_each):
                bit = bit_in_block(shape, h2[j], i)
                word = block[bit >> 6]
                newly_set += ~word >> (bit & 63) & 1
                block[bit >> 6] = word | <uint64_t>1 << (bit & 63)
    return newly_set
