/* SipHash-1-3, with 128 bits of output, of the bytes at an address or of many keys side by side.

   After the reference code of its authors, Jean-Philippe Aumasson and Daniel J. Bernstein, which is
   in the public domain. The numbers of rounds are arguments, constant wherever keys are hashed, so
   that the published digests of SipHash-2-4 test this very code.

   Six of the rounds come after a key's last word, whatever its length: they are done for 64 keys at
   once. Integers are hashed that way from the start, with AVX-512 in a quarter of the time of one
   after the other. Compilers turn those loops into vector code. The words of long keys are taken in
   for eight keys at once, which pays only with AVX-512, as it can rotate: a key of 144 bytes takes
   14 ns that way, and 30 alone. */

#ifndef MMBLOOM_SIPHASH_H
#define MMBLOOM_SIPHASH_H

#include "octets.h"
#include "vectors.h"

#define LANES 64

typedef struct { uint64_t v0, v1, v2, v3; } State;

typedef struct { uint64_t v[4][LANES]; } Lanes;

#define MIX \
    v0 += v1; v2 += v3; v1 = rotate(v1, 13) ^ v0; v3 = rotate(v3, 16) ^ v2; \
    v0 = rotate(v0, 32); v2 += v1; v0 += v3; v1 = rotate(v1, 17) ^ v2; \
    v3 = rotate(v3, 21) ^ v0; v2 = rotate(v2, 32);
#define FINISH(first, second) \
    v2 ^= 0xEE; MIX MIX MIX first = v0 ^ v1 ^ v2 ^ v3; \
    v1 ^= 0xDD; MIX MIX MIX second = v0 ^ v1 ^ v2 ^ v3;

INLINE State started(uint64_t key_low, uint64_t key_high)
{
    State state = {
        key_low ^ 0x736F6D6570736575u, key_high ^ 0x646F72616E646F6Du ^ 0xEE,
        key_low ^ 0x6C7967656E657261u, key_high ^ 0x7465646279746573u,
    };
    return state;
}

INLINE State mixed(State state, int rounds)
{
    uint64_t v0 = state.v0, v1 = state.v1, v2 = state.v2, v3 = state.v3;
    for (int i = 0; i < rounds; i++) {
        MIX
    }
    return (State){v0, v1, v2, v3};
}

INLINE State compressed(State state, uint64_t word, int rounds)
{
    state.v3 ^= word;
    state = mixed(state, rounds);
    state.v0 ^= word;
    return state;
}

/* Take in `length` bytes but for the first words, of `taken` bytes, and the length. None are read if
   none are left. */
INLINE State absorbed(
    State state, const uint8_t *key, size_t taken, size_t length, int rounds)
{
    uint64_t last = (uint64_t)length << 56;
    size_t left = length - taken;
    for (key += taken; left >= 8; key += 8, left -= 8)
        state = compressed(state, load_8(key), rounds);
    if (left)
        last |= load_part(key, left);
    return compressed(state, last, rounds);
}

INLINE void finish(State state, int rounds, uint64_t *first, uint64_t *second)
{
    state.v2 ^= 0xEE;
    state = mixed(state, rounds);
    *first = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
    state.v1 ^= 0xDD;
    state = mixed(state, rounds);
    *second = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

INLINE void put_lane(Lanes *lanes, size_t lane, State state)
{
    lanes->v[0][lane] = state.v0;
    lanes->v[1][lane] = state.v1;
    lanes->v[2][lane] = state.v2;
    lanes->v[3][lane] = state.v3;
}

INLINE State lane_of(const Lanes *lanes, size_t lane)
{
    return (State){lanes->v[0][lane], lanes->v[1][lane], lanes->v[2][lane], lanes->v[3][lane]};
}

#define FUNCTIONS(name, attributes) \
    attributes static inline void finish_##name( \
        const Lanes *lanes, uint64_t *__restrict h1, uint64_t *__restrict h2) \
    { \
        for (int i = 0; i < LANES; i++) { \
            uint64_t v0 = lanes->v[0][i], v1 = lanes->v[1][i]; \
            uint64_t v2 = lanes->v[2][i], v3 = lanes->v[3][i]; \
            FINISH(h1[i], h2[i]) \
        } \
    } \
    attributes static inline void words_##name( \
        const uint64_t *words, State start, ptrdiff_t n, \
        uint64_t *__restrict h1, uint64_t *__restrict h2) \
    { \
        for (ptrdiff_t i = 0; i < n; i++) { \
            uint64_t v0 = start.v0, v1 = start.v1, v2 = start.v2, v3 = start.v3; \
            uint64_t word = words[i]; \
            v3 ^= word; MIX v0 ^= word; \
            v3 ^= (uint64_t)8 << 56; MIX v0 ^= (uint64_t)8 << 56; \
            FINISH(h1[i], h2[i]) \
        } \
    }

FUNCTIONS(plain, )
#ifdef MMBLOOM_X86
FUNCTIONS(avx2, TARGET_AVX2)
FUNCTIONS(avx512, TARGET_AVX512)
#define RUN(kind, function, ...) \
    do { \
        if (kind == AVX512) \
            function##_avx512(__VA_ARGS__); \
        else if (kind == AVX2) \
            function##_avx2(__VA_ARGS__); \
        else \
            function##_plain(__VA_ARGS__); \
    } while (0)
#else
#define RUN(kind, function, ...) function##_plain(__VA_ARGS__)
#endif

static inline void finish_lanes(int kind, const Lanes *lanes, uint64_t *h1, uint64_t *h2)
{
    RUN(kind, finish, lanes, h1, h2);
}

static inline void siphash_of_words(
    int kind, const uint64_t *words, State start, ptrdiff_t n, uint64_t *h1, uint64_t *h2)
{
    RUN(kind, words, words, start, n, h1, h2);
}

/* Return whether a kind takes in words of several keys at once. */
static inline int can_absorb(int kind)
{
    return kind == AVX512;
}

#ifdef MMBLOOM_X86

enum {
    SIDE_BY_SIDE = 8,
    MOST_WORDS = 32 /* longer keys are in one heap, and so taken in by fewer words at once */
};

/* Sort keys by their number of words, so that neighbours have equally many. */
static inline void order_by_words(const size_t *lengths, uint8_t *words, uint8_t *order)
{
    uint8_t first[MOST_WORDS + 2] = {0};
    for (int i = 0; i < LANES; i++) {
        words[i] = lengths[i] / 8 < MOST_WORDS ? (uint8_t)(lengths[i] / 8) : MOST_WORDS;
        first[words[i] + 1]++;
    }
    for (int w = 1; w <= MOST_WORDS; w++)
        first[w] += first[w - 1];
    for (int i = 0; i < LANES; i++)
        order[first[words[i]]++] = (uint8_t)i;
}

TARGET_AVX512 static inline __m512i words_of_8(const uint8_t *const *at, size_t offset)
{
    uint64_t words[SIDE_BY_SIDE];
    for (int i = 0; i < SIDE_BY_SIDE; i++)
        memcpy(words + i, at[i] + offset, 8);
    return _mm512_loadu_si512(words);
}

/* Take in 64 keys, eight at a time: as many words at once as the shortest has, then the rest. */
TARGET_AVX512 static inline void absorb_avx512(
    const uint8_t *const *at, const size_t *lengths, State start, Lanes *lanes)
{
    uint8_t words[LANES], order[LANES];
    order_by_words(lengths, words, order);
    for (int group = 0; group < LANES; group += SIDE_BY_SIDE) {
        const uint8_t *keys = order + group, *here[SIDE_BY_SIDE];
        size_t taken = 8 * (size_t)words[keys[0]];
        __m512i v0 = _mm512_set1_epi64((long long)start.v0);
        __m512i v1 = _mm512_set1_epi64((long long)start.v1);
        __m512i v2 = _mm512_set1_epi64((long long)start.v2);
        __m512i v3 = _mm512_set1_epi64((long long)start.v3);
        uint64_t out[4][SIDE_BY_SIDE];
        for (int i = 0; i < SIDE_BY_SIDE; i++)
            here[i] = at[keys[i]];
        for (size_t offset = 0; offset < taken; offset += 8) {
            __m512i word = words_of_8(here, offset);
            v3 = _mm512_xor_si512(v3, word);
            v0 = _mm512_add_epi64(v0, v1);
            v2 = _mm512_add_epi64(v2, v3);
            v1 = _mm512_xor_si512(_mm512_rol_epi64(v1, 13), v0);
            v3 = _mm512_xor_si512(_mm512_rol_epi64(v3, 16), v2);
            v0 = _mm512_rol_epi64(v0, 32);
            v2 = _mm512_add_epi64(v2, v1);
            v0 = _mm512_add_epi64(v0, v3);
            v1 = _mm512_xor_si512(_mm512_rol_epi64(v1, 17), v2);
            v3 = _mm512_xor_si512(_mm512_rol_epi64(v3, 21), v0);
            v2 = _mm512_rol_epi64(v2, 32);
            v0 = _mm512_xor_si512(v0, word);
        }
        _mm512_storeu_si512(out[0], v0);
        _mm512_storeu_si512(out[1], v1);
        _mm512_storeu_si512(out[2], v2);
        _mm512_storeu_si512(out[3], v3);
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            State state = {out[0][i], out[1][i], out[2][i], out[3][i]};
            state = absorbed(state, here[i], taken, lengths[keys[i]], 1);
            put_lane(lanes, keys[i], state);
        }
    }
}

#else

/* Not called: `can_absorb` says that no kind can. */
static inline void absorb_avx512(
    const uint8_t *const *at, const size_t *lengths, State start, Lanes *lanes)
{
    (void)at, (void)lengths, (void)start, (void)lanes;
}

#endif

#endif
