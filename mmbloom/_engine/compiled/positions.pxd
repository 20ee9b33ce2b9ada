"""From hash halves to positions, as `mmbloom.format.positions` defines it; inline code.

A position is a bit, or a counter of four bits. The processor waits 80 ns for a cache line of a
large file, and tests or sets what lies in it in 10: so the lines of keys further on are asked
for while those of this key are worked on. In the blocked layout all positions of a key lie in
one block, or in several of one page: a block is one line of bits, four of counters.
"""

from libc.stdint cimport uint8_t, uint64_t


cdef extern from *:
    """
    #include <stdint.h>
    /* High half of a 64 x 64 bit product. */
    static inline uint64_t mmbloom_high(uint64_t a, uint64_t b) {
        return (uint64_t)(((unsigned __int128)a * b) >> 64);
    }
    /* Set bits of a word: the builtin calls a function where the target has no instruction. */
    static inline uint64_t mmbloom_popcount(uint64_t x) {
        x -= x >> 1 & 0x5555555555555555u;
        x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
        x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
        return x * 0x0101010101010101u >> 56;
    }
    /* Ask for a cache line, to be read or written. */
    #define mmbloom_prefetch(line, write) \
        ((write) ? __builtin_prefetch(line, 1) : __builtin_prefetch(line))
    /* A function that only asks for lines has this in it: else gcc sees no effect of it, and
       leaves its calls out. */
    static inline void mmbloom_have_effect(void) { __asm__ volatile(""); }
    """
    uint64_t high "mmbloom_high"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t popcount "mmbloom_popcount"(uint64_t word) noexcept nogil
    void prefetch "mmbloom_prefetch"(const void *line, bint write) noexcept nogil
    void have_effect "mmbloom_have_effect"() noexcept nogil


cdef enum:
    MAX_HASHES = 64
    AHEAD = 32  # keys between asking for a block of bits and touching it
    GROUP = 16  # keys whose positions are worked out together


cdef struct Shape:  # of an array: what its filter's parameters say
    bint blocked  # all of a key in one block
    bint paged  # or in several blocks of one page
    int blocks  # of a key
    int in_each  # bits of a key in each of them
    int num_hashes
    uint64_t num_bits
    uint64_t num_blocks
    uint64_t num_pages
    uint64_t reciprocal  # floor((2^64 - 1) / num_bits)
    uint64_t[MAX_HASHES] multipliers  # G^(i+1)


cdef inline uint64_t block_of(const Shape *shape, uint64_t h1) noexcept nogil:
    return ((h1 >> 32) * shape.num_blocks) >> 32


cdef inline uint64_t page_of(const Shape *shape, uint64_t h1) noexcept nogil:
    """Give the first block of the page that the blocks of a key lie in."""
    return 64 * (((h1 >> 32) * shape.num_pages) >> 32)


# What takes `paged` is given a constant, True if keys have several blocks: compiled for each.


cdef inline uint64_t home_of(const Shape *shape, uint64_t h1, bint paged) noexcept nogil:
    """Give the block of a key, or the first of its page."""
    return page_of(shape, h1) if paged else block_of(shape, h1)


cdef inline uint64_t block_at(uint64_t home, uint64_t h1, int j, bint paged) noexcept nogil:
    """Give the j-th block of a key; its home is as `home_of` gives it."""
    return home + ((h1 + <uint64_t>j * (2 * (h1 >> 6 & 31) + 1)) & 63) if paged else home


cdef inline int num_blocks_of(const Shape *shape, bint paged) noexcept nogil:
    """Give the number of blocks of a key, a constant if it is one."""
    return shape.blocks if paged else 1


cdef inline void ask_for_blocks(
    const Shape *shape, const uint64_t *words, uint64_t h1, bint write, bint paged
) noexcept nogil:
    """Ask for the lines of bits of a key."""
    cdef int j
    cdef uint64_t home = home_of(shape, h1, paged)
    for j in range(num_blocks_of(shape, paged)):
        prefetch(words + 8 * block_at(home, h1, j, paged), write)
    have_effect()


cdef inline uint64_t bit_in_block(const Shape *shape, uint64_t h2, int i) noexcept nogil:
    return (h2 * shape.multipliers[i]) >> 55


cdef inline uint64_t in_block(
    const Shape *shape, const uint64_t *here, uint64_t h2, int first, int after
) noexcept nogil:
    """Test the bits of a key in a block: 1 if all are set."""
    cdef uint64_t bit, found = 1
    cdef int i
    for i in range(first, after):
        bit = bit_in_block(shape, h2, i)
        found &= here[bit >> 6] >> (bit & 63)
    return found & 1


cdef inline uint64_t set_in_block(
    const Shape *shape, uint64_t *here, uint64_t h2, int first, int after
) noexcept nogil:
    """Set the bits of a key in a block, and count those that were clear."""
    cdef uint64_t bit, word, newly_set = 0
    cdef int i
    for i in range(first, after):
        bit = bit_in_block(shape, h2, i)
        word = here[bit >> 6]
        newly_set += ~word >> (bit & 63) & 1
        here[bit >> 6] = word | <uint64_t>1 << (bit & 63)
    return newly_set


cdef inline uint64_t standard_position(
    const Shape *shape, uint64_t h1, uint64_t h2, int i
) noexcept nogil:
    # A division takes ten times as long as this. For x < 2^63 the estimate of x / m is exact
    # or one too small: x/m - x*reciprocal/2^64 <= x/2^64 < 1/2.
    cdef uint64_t x = (h1 + <uint64_t>i * h2) & 0x7FFFFFFFFFFFFFFFULL
    cdef uint64_t rest = x - high(x, shape.reciprocal) * shape.num_bits
    return rest - shape.num_bits if rest >= shape.num_bits else rest


cdef inline uint64_t position_of(
    const Shape *shape, uint64_t h1, uint64_t h2, int i
) noexcept nogil:
    """Give the i-th position of a key."""
    if shape.blocked:
        return 512 * block_of(shape, h1) + bit_in_block(shape, h2, i)
    if shape.paged:
        return (
            512 * block_at(page_of(shape, h1), h1, i // shape.in_each, True)
            + bit_in_block(shape, h2, i)
        )
    return standard_position(shape, h1, h2, i)


cdef inline void positions_in_blocks(
    const Shape *shape, uint64_t h1, uint64_t h2, const uint8_t *octets, int width, bint write,
    uint64_t *positions, bint paged,
) noexcept nogil:
    cdef int i, j
    cdef uint64_t p, home = home_of(shape, h1, paged)
    for j in range(num_blocks_of(shape, paged)):
        p = 512 * block_at(home, h1, j, paged)
        for i in range(width):  # the whole block: no position is needed to ask for it
            prefetch(octets + (p * width >> 3) + 64 * i, write)
        for i in range(j * shape.in_each, (j + 1) * shape.in_each):
            positions[i] = p + bit_in_block(shape, h2, i)


cdef inline void standard_positions(
    const Shape *shape, uint64_t h1, uint64_t h2, const uint8_t *octets, int width, bint write,
    uint64_t *positions,
) noexcept nogil:
    cdef int i
    for i in range(shape.num_hashes):
        positions[i] = standard_position(shape, h1, h2, i)
        if width:
            prefetch(octets + (positions[i] * width >> 3), write)


cdef inline void positions_of(
    const Shape *shape, uint64_t h1, uint64_t h2, const void *array, int width, bint write,
    uint64_t *positions,
) noexcept nogil:
    """Work out the positions of a key, and ask for the lines of the array that they lie in.

    A position takes `width` bits of the array: 1, or 4, or 0 if nothing is to be asked for.
    """
    cdef const uint8_t *octets = <const uint8_t *>array
    if shape.blocked:
        positions_in_blocks(shape, h1, h2, octets, width, write, positions, False)
    elif shape.paged:
        positions_in_blocks(shape, h1, h2, octets, width, write, positions, True)
    else:
        standard_positions(shape, h1, h2, octets, width, write, positions)


cdef inline Py_ssize_t positions_of_group(
    const Shape *shape, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const void *array, int width, bint write, uint64_t *positions,
) noexcept nogil:
    """Work out, and ask for, those of the next keys of n, `GROUP` at most; returns how many.

    The i-th position of key j is then positions[j * k + i].
    """
    cdef Py_ssize_t j, some = min(n, GROUP)
    for j in range(some):
        positions_of(
            shape, h1[j], h2[j], array, width, write, positions + j * shape.num_hashes
        )
    return some


cdef inline Shape shape_of(object params, Py_ssize_t num_words) except *:
    """Take what the loops need of a filter's parameters, and prove that it fits the array."""
    cdef Shape shape
    cdef uint64_t multiplier = 1
    shape.blocks = params.blocks_per_key
    shape.blocked = params.layout == "blocked" and shape.blocks == 1
    shape.paged = params.layout == "blocked" and shape.blocks > 1
    shape.num_hashes = params.num_hashes
    shape.num_bits = params.num_bits
    if not 1 <= shape.num_hashes <= MAX_HASHES:
        raise ValueError(f"num_hashes is {shape.num_hashes}, expected 1 to {MAX_HASHES}")
    if num_words < 1 or shape.num_bits != <uint64_t>num_words * 64:
        raise ValueError(f"num_bits is {shape.num_bits}, the array has {num_words * 64}")
    if shape.blocked and shape.num_bits % 512:
        raise ValueError(f"num_bits is {shape.num_bits}, expected a multiple of 512")
    if shape.paged:
        if shape.num_bits % 32768:
            raise ValueError(f"num_bits is {shape.num_bits}, expected a multiple of 32768")
        if shape.blocks > 8 or shape.num_hashes % shape.blocks:
            raise ValueError(
                f"blocks_per_key is {shape.blocks}, expected 1 to 8 and a divisor of the "
                f"{shape.num_hashes} hashes"
            )
    elif shape.blocks != 1:
        raise ValueError(f"blocks_per_key is {shape.blocks}, expected 1")
    shape.in_each = shape.num_hashes // shape.blocks
    shape.num_blocks = shape.num_bits // 512
    shape.num_pages = shape.num_bits // 32768
    shape.reciprocal = <uint64_t>0xFFFFFFFFFFFFFFFFULL // shape.num_bits
    for i in range(MAX_HASHES):
        multiplier *= 0x9E3779B97F4A7C15ULL
        shape.multipliers[i] = multiplier
    return shape


cdef inline Py_ssize_t length_of(
    const uint64_t[::1] h1, const uint64_t[::1] h2
) except -1:
    if h1.shape[0] != h2.shape[0]:
        raise ValueError(f"h1 and h2 differ in length: {h1.shape[0]} and {h2.shape[0]}")
    return h1.shape[0]
