"""What a claim will set, and the loops that build, query and set it; inline code.

A key is new if it has a bit that is clear in both the array and what the keys before it will set. So
duplicates within a batch get the answers of adding one by one, however many keys there are.

If the bits of a key lie in blocks, most keys of a batch share no block with another key;
`find_meeting` finds the others. For most keys the array alone decides, and a note is kept:
8 * j + b for the b-th block of key j. The mask of its bits is computed again when they are set, in
3 ns. Keeping it would take longer: 64 bytes per block are more than the processor's second cache
can hold.

All other keys are claimed in the overlay: a hash table of cells, the parts of the array that will
change, with a mask for each. A cell is a block of 8 words; in the standard layout it is a word, and
all keys are claimed there.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from mmbloom._engine.compiled.blocks cimport (
    AHEAD, BlockLoops, Shape, block_at, block_of_note, home_of, num_blocks_of, popcount, prefetch,
)
from mmbloom._engine.compiled.positions cimport position_of, standard_position


cdef enum:
    BITS_A_BLOCK = 64  # of the two maps that find keys that meet: enough that few others seem to
    LARGEST_MAP = 24  # binary logarithm of its bits
    FEWEST_PLACES = 256  # of the index
    FEWEST_CELLS = 64
    MOST_KEYS = 1 << 29  # whose notes have 32 bits


cdef struct Overlay:
    const Shape *shape
    const uint64_t *h1  # of all keys, which notes refer to
    const uint64_t *h2
    uint32_t *notes  # of blocks that one key alone will change
    size_t noted
    int width  # words of a cell
    size_t used  # cells held
    size_t room  # cells that fit
    size_t places  # of the index: a power of two, at least a quarter more than these
    # For each place slot + 1, or 0 if it is free, and above it the lower half of the cell's number:
    # so a search for a cell that is not held reads no cell.
    uint64_t *index
    uint64_t *at  # of each cell, which block, or which word
    uint64_t *masks  # and what to set there


cdef inline bint begin(Overlay *overlay, size_t keys) noexcept nogil:
    """Make room for a claim of so many keys; return False if there is no memory."""
    overlay.width = 8 if in_blocks(overlay.shape) else 1
    overlay.places = FEWEST_PLACES
    overlay.index = <uint64_t *>calloc(overlay.places, sizeof(uint64_t))
    if in_blocks(overlay.shape) and keys < MOST_KEYS:
        overlay.notes = <uint32_t *>malloc(keys * overlay.shape.blocks * sizeof(uint32_t))
    return overlay.index != NULL and (overlay.notes != NULL or not in_blocks(overlay.shape))


cdef inline bint in_blocks(const Shape *shape) noexcept nogil:
    """Return whether all bits of a key lie in one block, or in a few."""
    return shape.blocked or shape.paged


cdef inline void release(Overlay *overlay) noexcept nogil:
    free(overlay.notes)
    free(overlay.index)
    free(overlay.at)
    free(overlay.masks)


cdef inline bint has_room(Overlay *overlay, size_t cells) noexcept nogil:
    """Make room for so many more cells; return False if there is no memory."""
    cdef size_t needed = overlay.used + cells
    return (needed <= overlay.room or make_room(overlay, needed)) and (
        needed + needed // 4 <= overlay.places or make_places(overlay, needed)
    )


cdef inline bint make_room(Overlay *overlay, size_t needed) noexcept nogil:
    cdef size_t room = max(needed, 2 * overlay.room, <size_t>FEWEST_CELLS)
    cdef void *moved
    if room >= <size_t>1 << 31:
        return False
    moved = realloc(overlay.at, room * sizeof(uint64_t))
    if moved == NULL:
        return False
    overlay.at = <uint64_t *>moved
    moved = realloc(overlay.masks, room * overlay.width * sizeof(uint64_t))
    if moved == NULL:
        return False
    overlay.masks = <uint64_t *>moved
    overlay.room = room
    return True


cdef inline bint make_places(Overlay *overlay, size_t needed) noexcept nogil:
    cdef size_t slot, places = overlay.places
    cdef uint64_t *index
    while places < needed + needed // 4:
        places *= 2
    index = <uint64_t *>calloc(places, sizeof(uint64_t))
    if index == NULL:
        return False
    free(overlay.index)
    overlay.index, overlay.places = index, places
    for slot in range(overlay.used):
        note_at(overlay, place_of(overlay, overlay.at[slot]), slot)
    return True


cdef inline size_t place_of(const Overlay *overlay, uint64_t at) noexcept nogil:
    """Find where a cell is in the index, or the free place where it would be."""
    cdef size_t place = (at * 0x9E3779B97F4A7C15ULL >> 32) & (overlay.places - 1)
    cdef uint64_t entry = overlay.index[place]
    while entry and (entry >> 32 != at & 0xFFFFFFFFU or overlay.at[slot_of(entry)] != at):
        place = (place + 1) & (overlay.places - 1)
        entry = overlay.index[place]
    return place


cdef inline size_t slot_of(uint64_t entry) noexcept nogil:
    """Return the slot of a place that is not free."""
    return (entry & 0xFFFFFFFFU) - 1


cdef inline void note_at(Overlay *overlay, size_t place, size_t slot) noexcept nogil:
    """Write the entry of a place."""
    overlay.index[place] = overlay.at[slot] << 32 | (slot + 1)


cdef inline uint64_t *mask_at(Overlay *overlay, uint64_t at) noexcept nogil:
    """Return the mask of a cell, which is held from now on; call after `has_room`."""
    cdef size_t slot, place = place_of(overlay, at)
    cdef int w
    if overlay.index[place]:
        return overlay.masks + overlay.width * slot_of(overlay.index[place])
    slot = overlay.used
    overlay.at[slot] = at
    for w in range(overlay.width):
        overlay.masks[overlay.width * slot + w] = 0
    note_at(overlay, place, slot)
    overlay.used += 1
    return overlay.masks + overlay.width * slot


cdef inline bint find_meeting(
    const Shape *shape, const uint64_t *h1, Py_ssize_t n, uint8_t *meeting
) noexcept nogil:
    """Mark which of n keys may share a block with another; False if there is no memory."""
    if <uint64_t>n * shape.blocks > 2 * shape.num_blocks:
        memset(meeting, 1, n)  # most do
        return True
    if shape.paged:
        return find_meeting_in(shape, h1, n, meeting, True)
    return find_meeting_in(shape, h1, n, meeting, False)


cdef inline bint find_meeting_in(
    const Shape *shape, const uint64_t *h1, Py_ssize_t n, uint8_t *meeting, bint paged
) noexcept nogil:
    cdef int b, bits = 6
    cdef Py_ssize_t j
    cdef uint64_t home, place, bit, met
    cdef uint64_t *once  # a bit for each place that a block has, which others may have as well
    cdef uint64_t *twice  # for each that several have
    while bits < LARGEST_MAP and <size_t>1 << bits < <size_t>n * BITS_A_BLOCK * shape.blocks:
        bits += 1
    once = <uint64_t *>calloc(2, <size_t>1 << (bits - 3))
    if once == NULL:
        return False
    twice = once + (<size_t>1 << (bits - 6))
    for j in range(n):
        home = home_of(shape, h1[j], paged)
        for b in range(num_blocks_of(shape, paged)):
            place = place_of_block(block_at(home, h1[j], b, paged), bits)
            bit = <uint64_t>1 << (place & 63)
            twice[place >> 6] |= once[place >> 6] & bit
            once[place >> 6] |= bit
    for j in range(n):
        home = home_of(shape, h1[j], paged)
        met = 0
        for b in range(num_blocks_of(shape, paged)):
            place = place_of_block(block_at(home, h1[j], b, paged), bits)
            met |= twice[place >> 6] >> (place & 63)
        meeting[j] = met & 1
    free(once)
    return True


cdef inline uint64_t place_of_block(uint64_t block, int bits) noexcept nogil:
    return block * 0x9E3779B97F4A7C15ULL >> (64 - bits)


cdef inline bint claim_in_blocks(
    const uint64_t *words, Py_ssize_t n, Overlay *overlay, uint8_t *answers,
    const BlockLoops *loops,
) noexcept nogil:
    """Claim n keys; False if there is no memory."""
    cdef Py_ssize_t j
    cdef uint8_t lacking
    cdef bint done = True
    cdef uint8_t *meeting = <uint8_t *>malloc(n)
    if meeting == NULL or not find_meeting(overlay.shape, overlay.h1, n, meeting):
        free(meeting)
        return False
    overlay.noted = loops.claim(
        words, overlay.h1, overlay.h2, n, overlay.shape, meeting, answers, overlay.notes
    )
    for j in range(n):
        lacking = answers[j]
        answers[j] = lacking != 0
        # In this order: few keys meet, but a branch on "is new" is mispredicted for every third.
        if meeting[j] and lacking:
            done = has_room(overlay, overlay.shape.blocks)
            if not done:
                break
            answers[j] = claim_meeting(words, 8 * <uint64_t>j, lacking, overlay, loops)
    free(meeting)
    return done


cdef inline bint claim_meeting(
    const uint64_t *words, uint64_t note, int lacking, Overlay *overlay, const BlockLoops *loops
) noexcept nogil:
    """Claim a key that may share blocks with others; return whether it is new."""
    cdef bint new = False
    while lacking:
        if lacking & 1:
            new |= cover_noted(words, note, overlay, loops)
        lacking >>= 1
        note += 1
    return new


cdef inline bint cover_noted(
    const uint64_t *words, uint64_t note, Overlay *overlay, const BlockLoops *loops
) noexcept nogil:
    """Hold what a note refers to; return whether a bit was missing. Call after `has_room`."""
    cdef const Shape *shape = overlay.shape
    cdef uint64_t block = block_of_note(shape, overlay.h1, note, shape.paged)
    return loops.cover(
        words + 8 * block, mask_at(overlay, block), overlay.h2[note >> 3], shape, note & 7
    )


cdef inline bint claim_standard(
    const uint64_t *words, Py_ssize_t n, Overlay *overlay, uint8_t *answers
) noexcept nogil:
    """Claim the keys that `answers` says are not in the array; return False without memory."""
    cdef const Shape *shape = overlay.shape
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t p, bit, clear
    cdef uint64_t *mask
    for j in range(n):
        if answers[j]:
            answers[j] = 0
            continue
        if not has_room(overlay, shape.num_hashes):
            return False
        clear = 0
        for i in range(shape.num_hashes):
            p = standard_position(shape, overlay.h1[j], overlay.h2[j], i)
            bit = <uint64_t>1 << (p & 63)
            if not words[p >> 6] & bit:
                mask = mask_at(overlay, p >> 6)
                clear |= ~mask[0] & bit
                mask[0] |= bit
        answers[j] = clear != 0
    return True


cdef inline bint hold_noted(
    const uint64_t *words, Overlay *overlay, const BlockLoops *loops
) noexcept nogil:
    """Hold what all notes refer to, for keys outside the claim; return False without memory."""
    cdef size_t i
    if not has_room(overlay, overlay.noted):
        return False
    for i in range(overlay.noted):
        cover_noted(words, overlay.notes[i], overlay, loops)
    overlay.noted = 0
    return True


cdef inline uint64_t mask_of_word(const Overlay *overlay, uint64_t word) noexcept nogil:
    """Return the mask of one word of the array, 0 if its cell is not held."""
    cdef uint64_t entry = overlay.index[place_of(overlay, word // overlay.width)]
    if not entry:
        return 0
    return overlay.masks[overlay.width * slot_of(entry) + word % overlay.width]


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


cdef inline uint64_t commit_all(
    uint64_t *words, const Overlay *overlay, const BlockLoops *loops
) noexcept nogil:
    """Set what was noted and what the overlay holds, and count the bits that were clear."""
    cdef size_t slot
    cdef uint64_t newly_set = 0
    cdef uint64_t *here
    if in_blocks(overlay.shape):
        newly_set = loops.commit(
            words, overlay.notes, overlay.noted, overlay.h1, overlay.h2, overlay.shape
        )
        return newly_set + loops.join(words, overlay.at, overlay.masks, overlay.used)
    for slot in range(overlay.used):
        if slot + AHEAD < overlay.used:
            prefetch(words + overlay.at[slot + AHEAD], True)
        here = words + overlay.at[slot]
        newly_set += popcount(overlay.masks[slot] & ~here[0])
        here[0] |= overlay.masks[slot]
    return newly_set
