"""Little-endian words of the bytes at any address; inline code of both hashes.

All loads go through memcpy, so that any address is as good as an aligned one, and none reads
beyond the last byte.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline uint64_t load_8(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t load_4(const uint8_t *at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint64_t load_part(const uint8_t *at, size_t length) noexcept nogil:
    """The 1 to 7 bytes at an address as a little-endian number, without a loop."""
    if length >= 4:
        return load_4(at) | load_4(at + length - 4) << (8 * (length - 4))
    # 1 to 3 bytes: the first, the middle and the last cover them all.
    return (
        <uint64_t>at[0]
        | <uint64_t>at[length >> 1] << (8 * (length >> 1))
        | <uint64_t>at[length - 1] << (8 * (length - 1))
    )


cdef inline uint64_t rotate(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)
