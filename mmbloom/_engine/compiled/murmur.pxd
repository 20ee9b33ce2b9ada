"""MurmurHash3_x64_128 of the bytes at an address; inline code.

After Austin Appleby's public-domain MurmurHash3.cpp.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mmbloom._engine.compiled.octets cimport load_8, load_part, rotate


cdef inline uint64_t mix_k1(uint64_t k1) noexcept nogil:
    return rotate(k1 * 0x87C37B91114253D5ULL, 31) * 0x4CF5AD432745937FULL


cdef inline uint64_t mix_k2(uint64_t k2) noexcept nogil:
    return rotate(k2 * 0x4CF5AD432745937FULL, 33) * 0x87C37B91114253D5ULL


cdef inline uint64_t finish(uint64_t h) noexcept nogil:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDULL
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53ULL
    return h ^ h >> 33


cdef inline void finish_both(
    uint64_t h1, uint64_t h2, uint64_t length, uint64_t *first, uint64_t *second
) noexcept nogil:
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    h1, h2 = finish(h1), finish(h2)
    h1 += h2
    first[0] = h1
    second[0] = h2 + h1


cdef inline void murmur_of_octets(
    const uint8_t *key, size_t length, uint32_t seed, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Hash `length` bytes to the two halves; `key` is not read when there are none."""
    cdef uint64_t h1 = seed, h2 = seed
    cdef size_t left = length
    while left >= 16:
        h1 ^= mix_k1(load_8(key))
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52DCE729
        h2 ^= mix_k2(load_8(key + 8))
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495AB5
        key += 16
        left -= 16
    if left > 8:
        h2 ^= mix_k2(load_part(key + 8, left - 8))
    if left >= 8:
        h1 ^= mix_k1(load_8(key))
    elif left > 0:
        h1 ^= mix_k1(load_part(key, left))
    finish_both(h1, h2, length, first, second)


cdef inline void murmur_of_word(
    uint64_t word, uint32_t seed, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Hash the 8 bytes of a little-endian number."""
    finish_both(seed ^ mix_k1(word), seed, 8, first, second)
