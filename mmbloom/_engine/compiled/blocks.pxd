"""Declarations of ``blocks.h``: where the bits of a key lie in blocks, and the loops."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "blocks.h":
    enum:
        MAX_HASHES
        LANES_OF_WORDS
        AHEAD

    ctypedef struct Shape:
        bint blocked
        bint paged
        int blocks
        int in_each
        int num_hashes
        uint64_t num_bits
        uint64_t num_blocks
        uint64_t num_pages
        uint64_t reciprocal
        uint64_t *multipliers

    ctypedef struct BlockLoops:
        void (*find)(
            const uint64_t *, const uint64_t *, const uint64_t *, Py_ssize_t, const Shape *,
            uint8_t *,
        ) noexcept nogil
        size_t (*claim)(
            const uint64_t *, const uint64_t *, const uint64_t *, Py_ssize_t, const Shape *,
            const uint8_t *, uint8_t *, uint32_t *,
        ) noexcept nogil
        uint64_t (*set)(
            uint64_t *, const uint64_t *, const uint64_t *, Py_ssize_t, const Shape *, uint8_t *
        ) noexcept nogil
        uint64_t (*commit)(
            uint64_t *, const uint32_t *, size_t, const uint64_t *, const uint64_t *, const Shape *
        ) noexcept nogil
        bint (*cover)(
            const uint64_t *, uint64_t *, uint64_t h2, const Shape *, int b
        ) noexcept nogil
        uint64_t (*join)(
            uint64_t *, const uint64_t *, const uint64_t *, size_t
        ) noexcept nogil

    const BlockLoops *BLOCK_LOOPS

    void prefetch "PREFETCH"(const void *line, bint write) noexcept nogil
    uint64_t popcount(uint64_t word) noexcept nogil
    uint64_t block_of(const Shape *, uint64_t h1) noexcept nogil
    uint64_t page_of(const Shape *, uint64_t h1) noexcept nogil
    uint64_t home_of(const Shape *, uint64_t h1, bint paged) noexcept nogil
    uint64_t block_of_note(
        const Shape *, const uint64_t *h1, uint64_t note, bint paged
    ) noexcept nogil
    uint64_t block_at(uint64_t home, uint64_t h1, int b, bint paged) noexcept nogil
    int num_blocks_of(const Shape *, bint paged) noexcept nogil
    uint64_t bit_by(uint64_t h2, uint64_t multiplier) noexcept nogil
