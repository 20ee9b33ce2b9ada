/* Little-endian words of the bytes at any address, for both hashes.

   All loads use memcpy, so an address need not be aligned. None reads beyond the last byte. */

#ifndef MMBLOOM_OCTETS_H
#define MMBLOOM_OCTETS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "vectors.h"

INLINE uint64_t load_8(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

INLINE uint64_t load_4(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, 4);
    return word;
}

/* The 1 to 7 bytes at an address as a little-endian number, without a loop. */
INLINE uint64_t load_part(const uint8_t *at, size_t length)
{
    if (length >= 4)
        return load_4(at) | load_4(at + length - 4) << (8 * (length - 4));
    /* 1 to 3 bytes: the first, the middle and the last cover them all. */
    return at[0] | (uint64_t)at[length >> 1] << (8 * (length >> 1))
         | (uint64_t)at[length - 1] << (8 * (length - 1));
}

INLINE uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

#endif
