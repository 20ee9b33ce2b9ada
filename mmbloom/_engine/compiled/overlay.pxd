"""What a claim will set, and the loops that make it, ask it and set it; inline code.

The overlay is a list of cells, the parts of the array that will change, and a hash table of them. A
key is new if it has a bit that is clear in both the array and the overlay. So duplicates within a
batch are told as one by one, whatever the number of keys. Most keys of a batch share no block with
another one: these are new if the array lacks a bit of them, and their cells are in the list alone.

A cell is a block of 8 words in the blocked layout, where all bits of a key lie in one or a few; a
single word in the standard layout, where it holds the bits to set. Most blocks get the bits of one
key: they hold a note of it, 8 * j + b for its b-th block, and the mask of its bits is made again
when they are set. That takes 3 ns, and less than to keep 64 bytes for each, which are more than the
processor's second cache can hold. Where keys meet, and where there are so many that most do, a
block gets masks: MET, and which.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from mmbloom._engine.compiled.blocks cimport (
    AHEAD, BlockLoops, Cell, MET, Shape, block_at, home_of, num_blocks_of, popcount, prefetch,
)
from mmbloom._engine.compiled.positions cimport bit_in_block, position_of, standard_position


cdef enum:
    BITS_A_BLOCK = 64  # of the two maps that tell which keys meet: so few others seem to
    LARGEST_MAP = 24  # binary logarithm of its bits
    AT_ONCE = 1 << 14  # keys for which room is made together
    FEWEST_PLACES = 256  # of the index
    MOST_AT_FIRST = 1 << 16  # those of a chunk of keys in two blocks each, and then some
    FIRST_MEETINGS = 64  # as many of masks


cdef struct Overlay:
    const Shape *shape
    bint crowded  # so many keys that most meet others: each is given masks at once
    const uint64_t *h2  # of all keys, which a note leads to
    size_t used  # cells held
    size_t room  # cells that fit
    size_t indexed  # cells that are in the index
    size_t places  # of the index: a power of two, at least a quarter more than these
    # Of each place slot + 1, 0 if it is free, and above it the lower half of `at`: so the search
    # for what is not held, as most blocks are not, looks at no cell. That halved its time.
    uint64_t *index
    Cell *cells
    size_t met  # cells with masks
    size_t meeting_room  # masks that fit
    uint64_t *masks  # 8 words for each


cdef inline bint begin(Overlay *overlay, size_t keys) noexcept nogil:
    """Make room for all cells of a chunk; False if there is no memory.

    To grow to them, cell by cell, takes as long again as to hold them.
    """
    cdef size_t cells = keys * (overlay.shape.blocks if whole_blocks(overlay) else 1)
    overlay.crowded = whole_blocks(overlay) and cells > 2 * overlay.shape.num_blocks
    overlay.places = FEWEST_PLACES
    overlay.index = <uint64_t *>calloc(overlay.places, sizeof(uint64_t))
    return overlay.index != NULL and make_room(overlay, min(cells, <size_t>MOST_AT_FIRST) + 1)


cdef inline bint whole_blocks(const Overlay *overlay) noexcept nogil:
    """Tell whether a cell is a block, and not a word."""
    return overlay.shape.blocked or overlay.shape.paged


cdef inline bint has_room(Overlay *overlay, size_t cells) noexcept nogil:
    """Make sure that a number of cells can be added, and one be written behind them.

    False if there is no memory.
    """
    cdef size_t needed = overlay.used + cells + 1
    return needed <= overlay.room or make_room(overlay, max(needed, 2 * overlay.room))


cdef inline bint make_room(Overlay *overlay, size_t room) noexcept nogil:
    """Make room for a number of cells in all; False if there is no memory."""
    cdef void *moved = NULL
    if room < <size_t>1 << 31:
        moved = realloc(overlay.cells, room * sizeof(Cell))
    if moved == NULL:
        return False
    overlay.cells = <Cell *>moved
    overlay.room = room
    return True


cdef inline bint has_places(Overlay *overlay, size_t cells) noexcept nogil:
    """Make sure that a number of cells can be put into the index; False if there is no memory."""
    cdef size_t slot, before = overlay.places, needed = overlay.indexed + cells
    cdef uint64_t *index = overlay.index
    if needed + needed // 4 <= before:
        return True
    while overlay.places < needed + needed // 4:
        overlay.places *= 2
    overlay.index = <uint64_t *>calloc(overlay.places, sizeof(uint64_t))
    if overlay.index == NULL:
        overlay.index, overlay.places = index, before
        return False
    for slot in range(before):
        if index[slot]:
            note_at(overlay, place_of(overlay, overlay.cells[slot_of(index[slot])].at),
                    slot_of(index[slot]))
    free(index)
    return True


cdef inline void release(Overlay *overlay) noexcept nogil:
    free(overlay.index)
    free(overlay.cells)
    free(overlay.masks)


cdef inline size_t start_of(const Overlay *overlay, uint64_t at) noexcept nogil:
    """Give the place where the search for a cell begins."""
    return (at * 0x9E3779B97F4A7C15ULL >> 32) & (overlay.places - 1)


cdef inline size_t place_of(const Overlay *overlay, uint64_t at) noexcept nogil:
    """Find where a cell is in the index, or the free place where it would be."""
    cdef size_t place = start_of(overlay, at)
    cdef uint64_t entry = overlay.index[place]
    while entry and (
        entry >> 32 != at & 0xFFFFFFFFU or overlay.cells[slot_of(entry)].at != at
    ):
        place = (place + 1) & (overlay.places - 1)
        entry = overlay.index[place]
    return place


cdef inline size_t slot_of(uint64_t entry) noexcept nogil:
    """Give the slot of a place that is not free."""
    return (entry & 0xFFFFFFFFU) - 1


cdef inline void note_at(Overlay *overlay, size_t place, size_t slot) noexcept nogil:
    """Write the entry of a place."""
    overlay.index[place] = overlay.cells[slot].at << 32 | (slot + 1)


cdef inline void hold(Overlay *overlay, size_t place, uint64_t at, uint64_t held) noexcept nogil:
    """Put a new cell at its free place; call after `has_room` and `has_places`."""
    overlay.cells[overlay.used].at = at
    overlay.cells[overlay.used].held = held
    note_at(overlay, place, overlay.used)
    overlay.used += 1
    overlay.indexed += 1


cdef inline void bits_of(const Overlay *overlay, uint64_t note, uint64_t *bits) noexcept nogil:
    """Work out the bits in a block, as 8 words, of the key that a note leads to."""
    cdef int in_each = overlay.shape.in_each, first = <int>(note & 7) * in_each
    cdef int w, i
    cdef uint64_t bit, h2 = overlay.h2[note >> 3]
    for w in range(8):
        bits[w] = 0
    for i in range(first, first + in_each):
        bit = bit_in_block(overlay.shape, h2, i)
        bits[bit >> 6] |= <uint64_t>1 << (bit & 63)


cdef inline const uint64_t *bits_held(
    const Overlay *overlay, uint64_t held, uint64_t *room
) noexcept nogil:
    """Give what a block's cell will set, as 8 words, which may be worked out into `room`."""
    if held & MET:
        return overlay.masks + 8 * (held & ~MET)
    bits_of(overlay, held, room)
    return room


cdef inline uint64_t *masks_for(Overlay *overlay, Cell *cell) noexcept nogil:
    """Give a cell masks of its own in place of its note; NULL if there is no memory."""
    cdef uint64_t note = cell.held
    cdef void *moved
    if overlay.met == overlay.meeting_room:
        overlay.meeting_room = max(2 * overlay.met, <size_t>FIRST_MEETINGS)
        moved = realloc(overlay.masks, 64 * overlay.meeting_room)
        if moved == NULL:
            return NULL
        overlay.masks = <uint64_t *>moved
    cell.held = MET | overlay.met
    overlay.met += 1
    bits_of(overlay, note, overlay.masks + 8 * (cell.held & ~MET))
    return overlay.masks + 8 * (cell.held & ~MET)


cdef inline int claim_again(
    Overlay *overlay, Cell *cell, const uint64_t *here, uint64_t note
) noexcept nogil:
    """Claim a key's part in a block that is held: 1 if a bit is new, -1 if there is no memory."""
    cdef uint64_t[8] wanted, alone
    cdef const uint64_t *others = bits_held(overlay, cell.held, alone)
    cdef uint64_t *masks
    cdef uint64_t missing = 0
    cdef int w
    bits_of(overlay, note, wanted)
    for w in range(8):
        missing |= wanted[w] & ~(here[w] | others[w])
    if not missing:
        return 0
    if cell.held & MET:
        masks = overlay.masks + 8 * (cell.held & ~MET)
    else:
        masks = masks_for(overlay, cell)
        if masks == NULL:
            return -1
    for w in range(8):
        masks[w] |= wanted[w]
    return 1


cdef struct Meetings:  # a place for each block, which may be that of others as well
    int shift
    uint64_t *once  # a bit for each place that a key has
    uint64_t *twice  # that several have


cdef inline bint find_meetings(
    Meetings *meetings, const uint64_t *h1, Py_ssize_t n, const Overlay *overlay, bint paged
) noexcept nogil:
    """Find the blocks that several keys have; False if there is no memory."""
    cdef const Shape *shape = overlay.shape
    cdef int b, bits = 6
    cdef Py_ssize_t j
    cdef uint64_t home, place, bit
    while not overlay.crowded and bits < LARGEST_MAP and (
        <size_t>1 << bits < <size_t>n * BITS_A_BLOCK * shape.blocks
    ):
        bits += 1
    meetings.shift = 64 - bits
    meetings.once = <uint64_t *>calloc(2, <size_t>1 << (bits - 3))
    if meetings.once == NULL:
        return False
    meetings.twice = meetings.once + (<size_t>1 << (bits - 6))
    if overlay.crowded:
        meetings.twice[0] = ~<uint64_t>0  # all do
        return True
    for j in range(n):
        home = home_of(shape, h1[j], paged)
        for b in range(num_blocks_of(shape, paged)):
            place = place_of_block(meetings, block_at(home, h1[j], b, paged))
            bit = <uint64_t>1 << (place & 63)
            meetings.twice[place >> 6] |= meetings.once[place >> 6] & bit
            meetings.once[place >> 6] |= bit
    return True


cdef inline uint64_t place_of_block(const Meetings *meetings, uint64_t block) noexcept nogil:
    return block * 0x9E3779B97F4A7C15ULL >> meetings.shift


cdef inline bint meets(
    const Meetings *meetings, uint64_t home, uint64_t h1, const Shape *shape, bint paged
) noexcept nogil:
    """Tell whether a key may share a block with another one."""
    cdef int b
    cdef uint64_t place, found = 0
    for b in range(num_blocks_of(shape, paged)):
        place = place_of_block(meetings, block_at(home, h1, b, paged))
        found |= meetings.twice[place >> 6] >> (place & 63)
    return found & 1


cdef inline bint index_all(Overlay *overlay) noexcept nogil:
    """Put each cell into the index, for keys that are none of the claim's; False without memory."""
    cdef size_t slot, place
    if not has_places(overlay, overlay.used - overlay.indexed):
        return False
    for slot in range(overlay.used):
        place = place_of(overlay, overlay.cells[slot].at)
        if not overlay.index[place]:
            note_at(overlay, place, slot)
            overlay.indexed += 1
    return True


cdef inline int claim_block(
    Overlay *overlay, const uint64_t *here, uint64_t block, uint64_t note
) noexcept nogil:
    """Claim the part of a key in a block that lacks a bit of it; as `claim_again`."""
    cdef size_t place
    if not (has_room(overlay, 1) and has_places(overlay, 1)):
        return -1
    place = place_of(overlay, block)
    if overlay.index[place]:
        return claim_again(overlay, overlay.cells + slot_of(overlay.index[place]), here, note)
    hold(overlay, place, block, note)
    if overlay.crowded and masks_for(overlay, overlay.cells + overlay.used - 1) == NULL:
        return -1
    return 1


cdef inline bint claim_in_blocks(
    const uint64_t *words, const uint64_t *h1, Py_ssize_t n, Overlay *overlay, uint8_t *answers,
    bint paged,
) noexcept nogil:
    """Claim n keys, of which `answers` tells the blocks that lack a bit; False without memory."""
    cdef Meetings meetings
    cdef bint done = find_meetings(&meetings, h1, n, overlay, paged)
    cdef Py_ssize_t j = 0
    while done and j < n:
        done = claim_some(words, h1, j, min(j + AT_ONCE, n), overlay, &meetings, answers, paged)
        j += AT_ONCE
    free(meetings.once)
    return done


cdef inline bint claim_some(
    const uint64_t *words, const uint64_t *h1, Py_ssize_t first, Py_ssize_t after,
    Overlay *overlay, const Meetings *meetings, uint8_t *answers, bint paged,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int b, lacking
    cdef uint64_t home
    if not has_room(overlay, (after - first) * overlay.shape.blocks):
        return False
    for j in range(first, after):
        lacking = answers[j]
        home = home_of(overlay.shape, h1[j], paged)
        if lacking and meets(meetings, home, h1[j], overlay.shape, paged):
            if not claim_meeting(words, home, h1[j], j, lacking, overlay, &answers[j], paged):
                return False
            continue
        answers[j] = lacking != 0
        for b in range(num_blocks_of(overlay.shape, paged)):
            # Without a branch, which would be guessed wrong for each third key of a log. What is
            # written for a block that lacks nothing is written over.
            overlay.cells[overlay.used].at = block_at(home, h1[j], b, paged)
            overlay.cells[overlay.used].held = 8 * <uint64_t>j + b
            overlay.used += lacking >> b & 1
    return True


cdef inline bint claim_meeting(
    const uint64_t *words, uint64_t home, uint64_t h1, Py_ssize_t j, int lacking,
    Overlay *overlay, uint8_t *answer, bint paged,
) noexcept nogil:
    """Claim a key that may share blocks with others; False if there is no memory."""
    cdef int b, new
    cdef uint64_t block
    answer[0] = 0
    for b in range(num_blocks_of(overlay.shape, paged)):
        if lacking >> b & 1:
            block = block_at(home, h1, b, paged)
            new = claim_block(overlay, words + 8 * block, block, 8 * <uint64_t>j + b)
            if new < 0:
                return False
            answer[0] |= new
    return True


cdef inline uint64_t mask_of_word(const Overlay *overlay, uint64_t word) noexcept nogil:
    """Give the mask of one word of the array, 0 if its cell is not held."""
    cdef bint whole = whole_blocks(overlay)
    cdef uint64_t[8] room
    cdef uint64_t entry = 0, held
    if overlay.used:
        entry = overlay.index[place_of(overlay, word >> 3 if whole else word)]
    if not entry:
        return 0
    held = overlay.cells[slot_of(entry)].held
    return bits_held(overlay, held, room)[word & 7] if whole else held


cdef inline bint claim_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    Overlay *overlay, uint8_t *answers,
) noexcept nogil:
    """Claim what is not in the array, which `answers` tells; False if there is no memory."""
    cdef const Shape *shape = overlay.shape
    cdef Py_ssize_t j
    cdef int i
    cdef size_t place
    cdef uint64_t p, bit, clear
    cdef Cell *cell
    for j in range(n):
        if answers[j]:
            answers[j] = 0
            continue
        if not (has_room(overlay, shape.num_hashes) and has_places(overlay, shape.num_hashes)):
            return False
        clear = 0
        for i in range(shape.num_hashes):
            p = standard_position(shape, h1[j], h2[j], i)
            bit = <uint64_t>1 << (p & 63)
            if not words[p >> 6] & bit:
                place = place_of(overlay, p >> 6)
                if not overlay.index[place]:
                    hold(overlay, place, p >> 6, 0)
                cell = overlay.cells + slot_of(overlay.index[place])
                clear |= ~cell.held & bit
                cell.held |= bit
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


cdef inline uint64_t commit_all(
    uint64_t *words, const Overlay *overlay, const BlockLoops *loops
) noexcept nogil:
    """Set what the overlay holds, and count the bits that were clear."""
    cdef size_t slot
    cdef uint64_t newly_set = 0
    cdef uint64_t *here
    if whole_blocks(overlay):
        return loops.commit(
            words, overlay.cells, overlay.used, overlay.h2, overlay.masks, overlay.shape
        )
    for slot in range(overlay.used):
        if slot + AHEAD < overlay.used:
            prefetch(words + overlay.cells[slot + AHEAD].at, True)
        here = words + overlay.cells[slot].at
        newly_set += popcount(overlay.cells[slot].held & ~here[0])
        here[0] |= overlay.cells[slot].held
    return newly_set
