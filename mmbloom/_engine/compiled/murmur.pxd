"""MurmurHash3_x64_128 of the bytes at an address; inline code.

After Austin Appleby's public-domain MurmurHash3.cpp. All loads go through memcpy, so that
any address is as good as an aligned one, and none reads beyond the key's last byte.
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
