"""From hash halves to positions, as `mmbloom.format.positions` defines it; inline code.

A position is a bit, or a counter of four bits. In the blocked layout all positions of a key lie in
one block, or in several of one page, which ``blocks.h`` finds: a block is one line of bits, four of
counters.
"""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.blocks cimport (
    LANES_OF_WORDS, MAX_HASHES, Shape, bit_by, block_at, block_of, home_of, num_blocks_of, page_of, prefetch,
)


cdef extern from *:
    """
    #include <stdint.h>
    /* High half of a 64 x 64 bit product. */
    static inline uint64_t mmbloom_high(uint64_t a, uint64_t b) {
        return (uint64_t)(((unsigned __int128)a * b) >> 64);
    }
    """
    uint64_t high "mmbloom_high"(uint64_t a, uint64_t b) noexcept nogil


cdef enum:
    GROUP = 16  # keys whose positions are worked out together


cdef inline uint64_t bit_in_block(const Shape *shape, uint64_t h2, int i) noexcept nogil:
    return bit_by(h2, shape.multipliers[i])


# Functions with `paged`, True if keys have several blocks, get a constant: one version each.


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
    """Return the i-th position of a key."""
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
        for i in range(width):  # the whole block: no position is needed to prefetch it
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
    """Compute the positions of a key, and prefetch the lines of the array that they lie in.

    A position takes `width` bits of the array: 1 or 4, or 0 to prefetch nothing.
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
    """Compute and prefetch those of the next keys of n, at most `GROUP`; return how many.

    The i-th position of key j is then positions[j * k + i].
    """
    cdef Py_ssize_t j, some = min(n, GROUP)
    for j in range(some):
        positions_of(shape, h1[j], h2[j], array, width, write, positions + j * shape.num_hashes)
    return some


cdef inline Shape shape_of(object params, Py_ssize_t num_words) except *:
    """Return the parameters that the loops use, after checking that they fit the array."""
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
    for i in range(MAX_HASHES + LANES_OF_WORDS):
        multiplier *= 0x9E3779B97F4A7C15ULL
        shape.multipliers[i] = multiplier
    return shape


cdef inline Py_ssize_t length_of(const uint64_t[::1] h1, const uint64_t[::1] h2) except -1:
    if h1.shape[0] != h2.shape[0]:
        raise ValueError(f"h1 and h2 differ in length: {h1.shape[0]} and {h2.shape[0]}")
    return h1.shape[0]
