/* Where the bits of a key lie, in one block or in several of one page, and the loops over keys.

   A block is 512 bits: 8 words, one line of the cache. `format/positions.py` says which bits of
   which blocks a key has. For each kind of vectors there is a way to test a key's bits in a block
   and a way to set them, and the same loops over many keys, which `block_loops.h` has.

   The processor waits 80 ns for a line of a large array, and needs 10 ns to test or set the bits in
   it. So the lines of all blocks of a key are prefetched at once, some keys ahead. */

#ifndef MMBLOOM_BLOCKS_H
#define MMBLOOM_BLOCKS_H

#include <stddef.h>
#include <string.h>
#include "vectors.h"

enum {
    MAX_HASHES = 64,
    BLOCK_WORDS = 8,
    LANES_OF_WORDS = 8, /* of the widest vector */
    AHEAD = 32          /* keys between prefetching a block and touching it */
};

/* The parameters of a filter that the loops use. */
typedef struct {
    int blocked; /* all bits of a key are in one block */
    int paged;   /* or in several blocks of one page */
    int blocks;  /* of a key */
    int in_each; /* bits of a key in each of them */
    int num_hashes;
    uint64_t num_bits, num_blocks, num_pages;
    uint64_t reciprocal; /* floor((2^64 - 1) / num_bits) */
    /* G^(i+1), padded so that a vector that begins at the last one can be loaded. */
    uint64_t multipliers[MAX_HASHES + LANES_OF_WORDS];
} Shape;

/* Prefetch a line for reading or writing. A function that only prefetches has HAVE_EFFECT in it:
   otherwise gcc sees no effect, and leaves its calls out. */
#define PREFETCH(line, write) \
    ((write) ? __builtin_prefetch(line, 1) : __builtin_prefetch(line))
#define HAVE_EFFECT() __asm__ volatile("")

/* Set bits of a word: the builtin calls a function where the target has no instruction. */
INLINE uint64_t popcount(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return x * 0x0101010101010101u >> 56;
}

INLINE uint64_t block_of(const Shape *shape, uint64_t h1)
{
    return ((h1 >> 32) * shape->num_blocks) >> 32;
}

/* The first block of the page that the blocks of a key lie in. */
INLINE uint64_t page_of(const Shape *shape, uint64_t h1)
{
    return 64 * (((h1 >> 32) * shape->num_pages) >> 32);
}

/* The block of a key, or the first of its page. */
INLINE uint64_t home_of(const Shape *shape, uint64_t h1, int paged)
{
    return paged ? page_of(shape, h1) : block_of(shape, h1);
}

/* The b-th block of a key whose home `home_of` has returned. */
INLINE uint64_t block_at(uint64_t home, uint64_t h1, int b, int paged)
{
    return paged ? home + ((h1 + (uint64_t)b * (2 * (h1 >> 6 & 31) + 1)) & 63) : home;
}

/* The block that a note refers to: 8 * j + b, for the b-th block of key j. */
INLINE uint64_t block_of_note(const Shape *shape, const uint64_t *h1, uint64_t note, int paged)
{
    uint64_t half = h1[note >> 3];
    return block_at(home_of(shape, half, paged), half, (int)(note & 7), paged);
}

/* The number of blocks of a key, a constant if it is one. */
INLINE int num_blocks_of(const Shape *shape, int paged)
{
    return paged ? shape->blocks : 1;
}

/* The bit of a block that a multiplier selects for a key. */
INLINE uint64_t bit_by(uint64_t h2, uint64_t multiplier)
{
    return (h2 * multiplier) >> 55;
}

/* Prefetch the lines of the bits of a key. */
INLINE void ask_for_blocks(
    const Shape *shape, const uint64_t *words, uint64_t h1, int write, int paged)
{
    uint64_t home = home_of(shape, h1, paged);
    for (int b = 0; b < num_blocks_of(shape, paged); b++)
        PREFETCH(words + BLOCK_WORDS * block_at(home, h1, b, paged), write);
    HAVE_EFFECT();
}

/* Each kind has these, for the n multipliers of a key in one block:

   has_KIND   returns whether all bits are set
   set_KIND   sets them, and counts those that were clear; it does not write a block that has all,
              whose page stays clean
   put_KIND   does the same, for blocks that usually have a clear bit
   join_KIND  does the same with the bits of a mask of 8 words
   cover_KIND adds them to such a mask; returns whether any is in neither the block nor the mask */

INLINE int has_scalar(const uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    uint64_t found = 1;
    for (int i = 0; i < n; i++) {
        uint64_t bit = bit_by(h2, multipliers[i]);
        found &= block[bit >> 6] >> (bit & 63);
    }
    return found & 1;
}

INLINE uint64_t set_scalar(uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    uint64_t newly_set = 0;
    if (has_scalar(block, h2, multipliers, n))
        return 0;
    for (int i = 0; i < n; i++) {
        uint64_t bit = bit_by(h2, multipliers[i]), word = block[bit >> 6];
        newly_set += ~word >> (bit & 63) & 1;
        block[bit >> 6] = word | (uint64_t)1 << (bit & 63);
    }
    return newly_set;
}

#define put_scalar set_scalar

INLINE uint64_t join_scalar(uint64_t *block, const uint64_t *mask)
{
    uint64_t newly_set = 0;
    for (int w = 0; w < BLOCK_WORDS; w++) {
        uint64_t clear = mask[w] & ~block[w];
        if (clear) {
            newly_set += popcount(clear);
            block[w] |= clear;
        }
    }
    return newly_set;
}

INLINE int cover_scalar(
    const uint64_t *block, uint64_t *mask, uint64_t h2, const uint64_t *multipliers, int n)
{
    uint64_t lacking = 0;
    for (int i = 0; i < n; i++) {
        uint64_t bit = bit_by(h2, multipliers[i]), w = bit >> 6, one = (uint64_t)1 << (bit & 63);
        lacking |= one & ~(block[w] | mask[w]);
        mask[w] |= one;
    }
    return lacking != 0;
}

#define KIND scalar
#define TARGET
#include "block_loops.h"

/* A bit becomes a mask by shifting 1 in each word by the bit's number minus that of the first bit
   of the word: for a shift by 64 or more, or a negative one, AVX2 and AVX-512 return 0. */

#ifdef MMBLOOM_X86

/* Testing a key by a mask takes as long as word by word: 12 ns for 18 bits in two blocks. */
#define has_avx2 has_scalar

typedef struct { __m256i low, high; } Mask256;

TARGET_AVX2 INLINE uint64_t join_mask_avx2(uint64_t *block, Mask256 mask)
{
    __m256i *at = (__m256i *)block;
    __m256i low = _mm256_loadu_si256(at), high = _mm256_loadu_si256(at + 1);
    __m256i clear_low = _mm256_andnot_si256(low, mask.low);
    __m256i clear_high = _mm256_andnot_si256(high, mask.high);
    __m256i clear = _mm256_or_si256(clear_low, clear_high);
    uint64_t words[BLOCK_WORDS], newly_set = 0;
    if (_mm256_testz_si256(clear, clear))
        return 0;
    _mm256_storeu_si256((__m256i *)words, clear_low);
    _mm256_storeu_si256((__m256i *)words + 1, clear_high);
    for (int w = 0; w < BLOCK_WORDS; w++)
        newly_set += (uint64_t)__builtin_popcountll(words[w]);
    _mm256_storeu_si256(at, _mm256_or_si256(low, mask.low));
    _mm256_storeu_si256(at + 1, _mm256_or_si256(high, mask.high));
    return newly_set;
}

TARGET_AVX2 INLINE uint64_t join_avx2(uint64_t *block, const uint64_t *mask)
{
    const __m256i *at = (const __m256i *)mask;
    Mask256 both = {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
    return join_mask_avx2(block, both);
}

TARGET_AVX2 INLINE uint64_t set_avx2(
    uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i low = _mm256_setr_epi64x(0, -64, -128, -192);
    const __m256i high = _mm256_setr_epi64x(-256, -320, -384, -448);
    Mask256 mask = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int i = 0; i < n; i++) {
        __m256i bit = _mm256_set1_epi64x((long long)bit_by(h2, multipliers[i]));
        mask.low = _mm256_or_si256(
            mask.low, _mm256_sllv_epi64(one, _mm256_add_epi64(bit, low)));
        mask.high = _mm256_or_si256(
            mask.high, _mm256_sllv_epi64(one, _mm256_add_epi64(bit, high)));
    }
    return join_mask_avx2(block, mask);
}

#define put_avx2 set_avx2
#define cover_avx2 cover_scalar

#define KIND avx2
#define TARGET TARGET_AVX2
#include "block_loops.h"

/* The bits of 8 multipliers in one vector. */
TARGET_AVX512 INLINE __m512i bits_of_8(uint64_t h2, const uint64_t *multipliers)
{
    __m512i key = _mm512_set1_epi64((long long)h2);
    return _mm512_srli_epi64(_mm512_mullo_epi64(key, _mm512_loadu_si512(multipliers)), 55);
}

/* Eight bits at once: a permutation selects the word of each from the block, in a quarter of the
   time of a gather from memory. In the cache, 18 bits of two blocks, in ns: present
   5.8 (gathers, of eight keys at once, 16; one bit after the other 12), absent 3.2 (6.1; 12). */
TARGET_AVX512 INLINE int has_avx512(
    const uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    const __m512i one = _mm512_set1_epi64(1), in_word = _mm512_set1_epi64(63);
    __m512i words = _mm512_loadu_si512(block);
    for (int i = 0; i < n; i += 8) {
        __mmask8 wanted = n - i < 8 ? (__mmask8)((1u << (n - i)) - 1) : (__mmask8)0xFF;
        __m512i bits = bits_of_8(h2, multipliers + i);
        __m512i word = _mm512_permutexvar_epi64(_mm512_srli_epi64(bits, 6), words);
        __m512i bit = _mm512_sllv_epi64(one, _mm512_and_si512(bits, in_word));
        if (_mm512_mask_test_epi64_mask(wanted, word, bit) != wanted)
            return 0;
    }
    return 1;
}

TARGET_AVX512 INLINE uint64_t join_mask_avx512(uint64_t *block, __m512i mask)
{
    __m512i words = _mm512_loadu_si512(block);
    __m512i clear = _mm512_andnot_si512(words, mask);
    if (!_mm512_test_epi64_mask(clear, clear))
        return 0;
    _mm512_storeu_si512(block, _mm512_or_si512(words, mask));
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_popcnt_epi64(clear));
}

TARGET_AVX512 INLINE uint64_t join_avx512(uint64_t *block, const uint64_t *mask)
{
    return join_mask_avx512(block, _mm512_loadu_si512(mask));
}

TARGET_AVX512 INLINE __m512i mask_avx512(uint64_t h2, const uint64_t *multipliers, int n)
{
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i firsts = _mm512_setr_epi64(0, -64, -128, -192, -256, -320, -384, -448);
    __m512i mask = _mm512_setzero_si512();
    uint64_t bits[8];
    for (int i = 0; i < n; i += 8) {
        int some = n - i < 8 ? n - i : 8;
        _mm512_storeu_si512(bits, bits_of_8(h2, multipliers + i));
        for (int j = 0; j < some; j++) {
            __m512i shift = _mm512_add_epi64(firsts, _mm512_set1_epi64((long long)bits[j]));
            mask = _mm512_or_si512(mask, _mm512_sllv_epi64(one, shift));
        }
    }
    return mask;
}

TARGET_AVX512 INLINE uint64_t put_avx512(
    uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    return join_mask_avx512(block, mask_avx512(h2, multipliers, n));
}

TARGET_AVX512 INLINE int cover_avx512(
    const uint64_t *block, uint64_t *mask, uint64_t h2, const uint64_t *multipliers, int n)
{
    __m512i wanted = mask_avx512(h2, multipliers, n), before = _mm512_loadu_si512(mask);
    __m512i there = _mm512_or_si512(before, _mm512_loadu_si512(block));
    __m512i lacking = _mm512_andnot_si512(there, wanted);
    _mm512_storeu_si512(mask, _mm512_or_si512(before, wanted));
    return _mm512_test_epi64_mask(lacking, lacking) != 0;
}

/* Making the mask of many bits takes twice as long as testing them, which is all that a present key
   needs. For few bits it is as fast, and it has no branch that may be mispredicted. */
TARGET_AVX512 INLINE uint64_t set_avx512(
    uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    if (n > 8 && has_avx512(block, h2, multipliers, n))
        return 0;
    return put_avx512(block, h2, multipliers, n);
}

#define KIND avx512
#define TARGET TARGET_AVX512
#include "block_loops.h"

#endif

#ifdef MMBLOOM_NEON

#define has_neon has_scalar

/* A NEON shift uses only the last byte of its count, so a comparison selects the word. */
INLINE uint64_t join_mask_neon(uint64_t *block, const uint64x2_t *mask)
{
    uint64x2_t words[4], clear[4];
    uint8x16_t counts = vdupq_n_u8(0);
    for (int q = 0; q < 4; q++) {
        words[q] = vld1q_u64(block + 2 * q);
        clear[q] = vbicq_u64(mask[q], words[q]);
        counts = vaddq_u8(counts, vcntq_u8(vreinterpretq_u8_u64(clear[q])));
    }
    uint64_t newly_set = vaddlvq_u8(counts);
    if (newly_set)
        for (int q = 0; q < 4; q++)
            vst1q_u64(block + 2 * q, vorrq_u64(words[q], mask[q]));
    return newly_set;
}

INLINE uint64_t join_neon(uint64_t *block, const uint64_t *mask)
{
    uint64x2_t all[4];
    for (int q = 0; q < 4; q++)
        all[q] = vld1q_u64(mask + 2 * q);
    return join_mask_neon(block, all);
}

INLINE uint64_t set_neon(uint64_t *block, uint64_t h2, const uint64_t *multipliers, int n)
{
    uint64x2_t mask[4], number[4];
    for (int q = 0; q < 4; q++) {
        mask[q] = vdupq_n_u64(0);
        number[q] = vcombine_u64(vcreate_u64(2 * q), vcreate_u64(2 * q + 1));
    }
    for (int i = 0; i < n; i++) {
        uint64_t at = bit_by(h2, multipliers[i]);
        uint64x2_t word = vdupq_n_u64(at >> 6), bit = vdupq_n_u64((uint64_t)1 << (at & 63));
        for (int q = 0; q < 4; q++)
            mask[q] = vorrq_u64(mask[q], vandq_u64(vceqq_u64(word, number[q]), bit));
    }
    return join_mask_neon(block, mask);
}

#define put_neon set_neon
#define cover_neon cover_scalar

#define KIND neon
#define TARGET
#include "block_loops.h"

#endif

/* The loops of each kind; none where it is not compiled. */
typedef struct {
    void (*find)(const uint64_t *, const uint64_t *, const uint64_t *, ptrdiff_t, const Shape *,
                 uint8_t *);
    size_t (*claim)(const uint64_t *, const uint64_t *, const uint64_t *, ptrdiff_t,
                    const Shape *, const uint8_t *, uint8_t *, uint32_t *);
    uint64_t (*set)(uint64_t *, const uint64_t *, const uint64_t *, ptrdiff_t, const Shape *,
                    uint8_t *);
    uint64_t (*commit)(uint64_t *, const uint32_t *, size_t, const uint64_t *, const uint64_t *,
                       const Shape *);
    int (*cover)(const uint64_t *, uint64_t *, uint64_t, const Shape *, int);
    uint64_t (*join)(uint64_t *, const uint64_t *, const uint64_t *, size_t);
} BlockLoops;

static const BlockLoops BLOCK_LOOPS[KINDS] = {
    [SCALAR] = {find_scalar, claim_scalar, set_keys_scalar, commit_scalar, cover_block_scalar,
                join_all_scalar},
#ifdef MMBLOOM_X86
    [AVX2] = {find_avx2, claim_avx2, set_keys_avx2, commit_avx2, cover_block_avx2,
              join_all_avx2},
    [AVX512] = {find_avx512, claim_avx512, set_keys_avx512, commit_avx512, cover_block_avx512,
                join_all_avx512},
#endif
#ifdef MMBLOOM_NEON
    [NEON] = {find_neon, claim_neon, set_keys_neon, commit_neon, cover_block_neon,
              join_all_neon},
#endif
};

#endif
