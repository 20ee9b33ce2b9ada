"""The two hashes behind one name each: a function that is compiled for both asks neither twice.

`Seeded` is the seed of either; a function that takes one is translated to C once for each, and
which of them runs is chosen once a batch. The keys of a batch go through a `Sink`, in which
SipHash keeps the states of 64 keys, to finish them at once.

MurmurHash3_x64_128 comes first, after Austin Appleby's public-domain MurmurHash3.cpp. All loads go
through memcpy, so that any address is as good as an aligned one, and none reads beyond the key's
last byte. Then SipHash-1-3, with 128 bits of output, of the bytes at an address or of many keys.

After the reference code of its authors, Jean-Philippe Aumasson and Daniel J. Bernstein, which is
in the public domain. The numbers of rounds are arguments, constant wherever keys are hashed, so
that the published digests of SipHash-2-4 test this very code.

Six of the rounds come after a key's last word, whatever its length. So the states of several keys
can be finished side by side, and integers be hashed so from the start: with AVX-512 in a quarter
of the time that one after the other takes. Compilers turn those loops into vector code; which of
it runs is asked of the processor, so that one build serves all.
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
    #if defined(__GNUC__) && defined(__x86_64__)
    FUNCTIONS(avx2, __attribute__((target("avx2"))))
    FUNCTIONS(avx512, __attribute__((target("avx512f,avx512vl"))))
    #define RUN(function, ...) \
        do { \
            if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) \
                function##_avx512(__VA_ARGS__); \
            else if (__builtin_cpu_supports("avx2")) \
                function##_avx2(__VA_ARGS__); \
            else \
                function##_plain(__VA_ARGS__); \
        } while (0)
    #else
    #define RUN(function, ...) function##_plain(__VA_ARGS__)
    #endif

    static inline void finish_lanes(const Lanes *lanes, uint64_t *h1, uint64_t *h2)
    {
        RUN(finish, lanes, h1, h2);
    }

    static inline void siphash_of_words(
        const uint64_t *words, const uint64_t *start, Py_ssize_t n, uint64_t *h1, uint64_t *h2)
    {
        RUN(words, words, start, n, h1, h2);
    }
    """
    enum:
        LANES
    ctypedef struct Lanes:
        uint64_t[LANES][4] v
    void finish_lanes(const Lanes *, uint64_t *, uint64_t *) nogil
    void siphash_of_words(
        const uint64_t *, const uint64_t *, Py_ssize_t, uint64_t *, uint64_t *
    ) nogil


cdef enum:
    FEW = 16  # keys that are finished one by one as fast as in all lanes


cdef struct Murmur3:
    uint32_t seed


cdef struct SipHash:
    State state  # as the secret key starts it


ctypedef fused Seeded:
    Murmur3
    SipHash


cdef inline Murmur3 murmur3_of(uint32_t seed) noexcept:
    cdef Murmur3 made
    made.seed = seed
    return made


cdef inline SipHash siphash_of(uint64_t key_low, uint64_t key_high) noexcept:
    cdef SipHash made
    start(&made.state, key_low, key_high)
    return made


cdef inline void hash_octets(
    const uint8_t *key, size_t length, const Seeded *hash, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Hash `length` bytes to the two halves; `key` is not read when there are none."""
    if Seeded is Murmur3:
        murmur_of_octets(key, length, hash.seed, first, second)
    else:
        siphash_of_octets(key, length, hash.state, 1, 3, first, second)


cdef struct Sink:
    uint64_t *h1  # where the hash halves of all keys go
    uint64_t *h2
    Lanes lanes  # SipHash's states of the last keys, from a multiple of LANES on


cdef inline void take_octets(
    Sink *sink, Py_ssize_t i, const uint8_t *key, size_t length, const Seeded *hash
) noexcept nogil:
    """Hash key i, of `length` bytes; keys come in order, and `end_keys` after the last."""
    cdef State state
    if Seeded is Murmur3:
        murmur_of_octets(key, length, hash.seed, &sink.h1[i], &sink.h2[i])
    else:
        state = hash.state
        absorb(&state, key, length, 1)
        sink.lanes.v[0][i & (LANES - 1)] = state.v0
        sink.lanes.v[1][i & (LANES - 1)] = state.v1
        sink.lanes.v[2][i & (LANES - 1)] = state.v2
        sink.lanes.v[3][i & (LANES - 1)] = state.v3
        if i & (LANES - 1) == LANES - 1:
            finish_lanes(&sink.lanes, sink.h1 + i - (LANES - 1), sink.h2 + i - (LANES - 1))


cdef inline void end_keys(Sink *sink, Py_ssize_t n, const Seeded *hash) noexcept nogil:
    """Finish the last of n keys."""
    cdef uint64_t[LANES] h1, h2
    cdef State state
    cdef Py_ssize_t i, left = n & (LANES - 1), first = n - left
    if Seeded is not Murmur3:
        if left > FEW:
            # Lanes without a key hold whatever they did.
            finish_lanes(&sink.lanes, h1, h2)
            for i in range(left):
                sink.h1[first + i] = h1[i]
                sink.h2[first + i] = h2[i]
            return
        for i in range(left):
            state.v0, state.v1 = sink.lanes.v[0][i], sink.lanes.v[1][i]
            state.v2, state.v3 = sink.lanes.v[2][i], sink.lanes.v[3][i]
            end(&state, 3, &sink.h1[first + i], &sink.h2[first + i])


cdef inline void hash_words(
    const uint64_t *words, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept nogil:
    """Hash n keys of 8 bytes, given as little-endian numbers."""
    cdef Py_ssize_t i
    if Seeded is Murmur3:
        for i in range(n):
            murmur_of_word(words[i], hash.seed, &h1[i], &h2[i])
    else:
        siphash_of_words(words, &hash.state.v0, n, h1, h2)
