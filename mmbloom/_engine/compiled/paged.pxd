"""Testing and setting keys of several blocks of a page each; inline code.

The lines of all blocks of a key are asked for at once, some keys ahead.
"""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.positions cimport (
    AHEAD, Shape, ask_for_blocks, block_in_page, in_block, page_of, set_in_block,
)


cdef inline uint8_t has_paged(
    const uint64_t *words, uint64_t h1, uint64_t h2, const Shape *shape
) noexcept nogil:
    cdef int b, in_each = shape.in_each
    cdef uint64_t page = page_of(shape, h1)
    cdef const uint64_t *block
    for b in range(shape.blocks):
        block = words + 8 * block_in_page(page, h1, b)
        # The first block tells nearly all absent keys: half of the work, or more, is saved.
        if not in_block(shape, block, h2, b * in_each, (b + 1) * in_each):
            return 0
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
    cdef int b, in_each = shape.in_each
    cdef uint64_t page, newly_set = 0
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
            newly_set += set_in_block(
                shape, words + 8 * block_in_page(page, h1[j], b), h2[j], b * in_each,
                (b + 1) * in_each,
            )
    return newly_set
