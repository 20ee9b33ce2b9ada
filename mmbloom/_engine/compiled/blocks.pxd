"""Testing and setting keys whose bits lie in a block, or in several of one page; inline code.

The lines of all blocks of a key are asked for at once, some keys ahead.
"""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.positions cimport (
    AHEAD, Shape, ask_for_blocks, block_at, home_of, in_block, num_blocks_of, set_in_block,
)


cdef inline bint has_blocks(
    const uint64_t *words, uint64_t h1, uint64_t h2, const Shape *shape, bint paged
) noexcept nogil:
    cdef int b, in_each = shape.in_each
    cdef uint64_t home = home_of(shape, h1, paged)
    cdef const uint64_t *block
    for b in range(num_blocks_of(shape, paged)):
        block = words + 8 * block_at(home, h1, b, paged)
        # The first block tells nearly all absent keys: half of the work, or more, is saved.
        if not in_block(shape, block, h2, b * in_each, (b + 1) * in_each):
            return False
    return True


cdef inline void find_in_blocks(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers, bint paged,
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(min(n, AHEAD)):
        ask_for_blocks(shape, words, h1[j], False, paged)
    for j in range(n):
        if j + AHEAD < n:
            ask_for_blocks(shape, words, h1[j + AHEAD], False, paged)
        answers[j] = has_blocks(words, h1[j], h2[j], shape, paged)


cdef inline uint64_t set_in_blocks(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers, bint paged,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int b, in_each = shape.in_each
    cdef uint64_t home, newly_set = 0
    for j in range(min(n, AHEAD)):
        ask_for_blocks(shape, words, h1[j], True, paged)
    for j in range(n):
        if j + AHEAD < n:
            ask_for_blocks(shape, words, h1[j + AHEAD], True, paged)
        answers[j] = not has_blocks(words, h1[j], h2[j], shape, paged)
        if not answers[j]:
            continue  # a page that is not changed is not written back
        home = home_of(shape, h1[j], paged)
        for b in range(num_blocks_of(shape, paged)):
            newly_set += set_in_block(
                shape, words + 8 * block_at(home, h1[j], b, paged), h2[j], b * in_each,
                (b + 1) * in_each,
            )
    return newly_set
