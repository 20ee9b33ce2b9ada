"""SipHash-1-3, with 128 bits of output, of the bytes at an address or of many keys; inline code.

After the reference code of its authors, Jean-Philippe Aumasson and Daniel J. Bernstein, which is
in the public domain. The numbers of rounds are arguments, constant wherever keys are hashed, so
that the published digests of SipHash-2-4 test this very code.

Six of the rounds come after a key's last word, whatever its length. So the states of several keys
can be finished side by side, and integers be hashed so from the start: with AVX-512 in a quarter
of the time that one after the other takes. Compilers turn those loops into vector code; which of
it runs is the choice of ``vectors``.
"""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.octets cimport load_8, load_part, rotate


cdef struct State:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef inline void start(State *state, uint64_t key_low, uint64_t key_high) noexcept nogil:
    state.v0 = key_low ^ 0x736F6D6570736575ULL
    state.v1 = key_high ^ 0x646F72616E646F6DULL ^ 0xEE
    state.v2 = key_low ^ 0x6C7967656E657261ULL
    state.v3 = key_high ^ 0x7465646279746573ULL


cdef inline void mix(State *state, int rounds) noexcept nogil:
    cdef int i
    for i in range(rounds):
        state.v0 += state.v1
        state.v2 += state.v3
        state.v1 = rotate(state.v1, 13) ^ state.v0
        state.v3 = rotate(state.v3, 16) ^ state.v2
        state.v0 = rotate(state.v0, 32)
        state.v2 += state.v1
        state.v0 += state.v3
        state.v1 = rotate(state.v1, 17) ^ state.v2
        state.v3 = rotate(state.v3, 21) ^ state.v0
        state.v2 = rotate(state.v2, 32)


cdef inline void compress(State *state, uint64_t word, int rounds) noexcept nogil:
    state.v3 ^= word
    mix(state, rounds)
    state.v0 ^= word


cdef inline void end(State *state, int rounds, uint64_t *first, uint64_t *second) noexcept nogil:
    state.v2 ^= 0xEE
    mix(state, rounds)
    first[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    state.v1 ^= 0xDD
    mix(state, rounds)
    second[0] = state.v0 ^ state.v1 ^ state.v2 ^ state.v3


cdef inline void absorb(
    State *state, const uint8_t *key, size_t length, int rounds
) noexcept nogil:
    """Take in `length` bytes, and the length; `key` is not read when there are none."""
    cdef uint64_t last = <uint64_t>length << 56
    cdef size_t left = length
    while left >= 8:
        compress(state, load_8(key), rounds)
        key += 8
        left -= 8
    if left:
        last |= load_part(key, left)
    compress(state, last, rounds)


cdef inline void siphash_of_octets(
    const uint8_t *key, size_t length, State state, int compressions, int finalizations,
    uint64_t *first, uint64_t *second,
) noexcept nogil:
    """Hash `length` bytes to the two halves."""
    absorb(&state, key, length, compressions)
    end(&state, finalizations, first, second)


cdef extern from *:
    """
    #include <stdint.h>
    #include "vectors.h"
    #define LANES 64
    #define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
    #define MIX \
        v0 += v1; v2 += v3; v1 = ROTATE(v1, 13) ^ v0; v3 = ROTATE(v3, 16) ^ v2; \
        v0 = ROTATE(v0, 32); v2 += v1; v0 += v3; v1 = ROTATE(v1, 17) ^ v2; \
        v3 = ROTATE(v3, 21) ^ v0; v2 = ROTATE(v2, 32);
    #define FINISH(first, second) \
        v2 ^= 0xEE; MIX MIX MIX first = v0 ^ v1 ^ v2 ^ v3; \
        v1 ^= 0xDD; MIX MIX MIX second = v0 ^ v1 ^ v2 ^ v3;

    typedef struct { uint64_t v[4][LANES]; } Lanes;

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
            const uint64_t *words, const uint64_t *start, Py_ssize_t n, \
            uint64_t *__restrict h1, uint64_t *__restrict h2) \
        { \
            const uint64_t s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3]; \
            for (Py_ssize_t i = 0; i < n; i++) { \
                uint64_t v0 = s0, v1 = s1, v2 = s2, v3 = s3, word = words[i]; \
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

    static inline void finish_lanes(
        int kind, const Lanes *lanes, uint64_t *h1, uint64_t *h2)
    {
        RUN(kind, finish, lanes, h1, h2);
    }

    static inline void siphash_of_words(
        int kind, const uint64_t *words, const uint64_t *start, Py_ssize_t n, uint64_t *h1,
        uint64_t *h2)
    {
        RUN(kind, words, words, start, n, h1, h2);
    }
    """
    enum:
        LANES
    ctypedef struct Lanes:
        uint64_t[LANES][4] v
    void finish_lanes(int kind, const Lanes *, uint64_t *, uint64_t *) nogil
    void siphash_of_words(
        int kind, const uint64_t *, const uint64_t *, Py_ssize_t, uint64_t *, uint64_t *
    ) nogil
