"""Both hashes by one interface: a function is compiled once for each, and chosen once per batch.

Inline code.

MurmurHash3_x64_128 is here, after Austin Appleby's public-domain MurmurHash3.cpp; SipHash-1-3, of
one key or of many side by side, is in ``siphash.h``. `Seeded` is the seed of either, and a function
that takes one is translated to C once for each. The keys of a batch go through a `Sink`: there
SipHash collects 64 keys and finishes them together; if they are long, it takes them in together.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mmbloom._engine.compiled.octets cimport load_8, load_part, rotate
from mmbloom._engine.compiled.vectors cimport chosen


cdef extern from "siphash.h":
    enum:
        LANES

    ctypedef struct State:
        pass

    ctypedef struct Lanes:
        pass

    State started(uint64_t key_low, uint64_t key_high) noexcept nogil
    State absorbed(
        State, const uint8_t *key, size_t taken, size_t length, int rounds
    ) noexcept nogil
    void finish(State, int rounds, uint64_t *first, uint64_t *second) noexcept nogil

    void put_lane(Lanes *, size_t lane, State) noexcept nogil
    State lane_of(const Lanes *, size_t lane) noexcept nogil
    bint can_absorb(int kind) noexcept nogil
    void absorb_lanes "absorb_avx512"(
        const uint8_t *const *at, const size_t *lengths, State start, Lanes *
    ) noexcept nogil
    void finish_lanes(int kind, const Lanes *, uint64_t *h1, uint64_t *h2) noexcept nogil
    void siphash_of_words(
        int kind, const uint64_t *words, State start, Py_ssize_t n, uint64_t *h1, uint64_t *h2
    ) noexcept nogil


cdef inline void siphash_of_octets(
    const uint8_t *key, size_t length, State state, int compressions, int finalizations,
    uint64_t *first, uint64_t *second,
) noexcept nogil:
    """Hash `length` bytes to the two halves."""
    finish(absorbed(state, key, 0, length, compressions), finalizations, first, second)


cdef inline uint64_t mix_k1(uint64_t k1) noexcept nogil:
    return rotate(k1 * 0x87C37B91114253D5ULL, 31) * 0x4CF5AD432745937FULL


cdef inline uint64_t mix_k2(uint64_t k2) noexcept nogil:
    return rotate(k2 * 0x4CF5AD432745937FULL, 33) * 0x87C37B91114253D5ULL


cdef inline uint64_t fmix64(uint64_t h) noexcept nogil:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCDULL
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53ULL
    return h ^ h >> 33


cdef inline void finish_murmur(
    uint64_t h1, uint64_t h2, uint64_t length, uint64_t *first, uint64_t *second
) noexcept nogil:
    h1 ^= length
    h2 ^= length
    h1 += h2
    h2 += h1
    h1, h2 = fmix64(h1), fmix64(h2)
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
    finish_murmur(h1, h2, length, first, second)


cdef inline void murmur_of_word(
    uint64_t word, uint32_t seed, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Hash the 8 bytes of a little-endian number."""
    finish_murmur(seed ^ mix_k1(word), seed, 8, first, second)


cdef enum:
    FEW = 16  # keys that are finished one by one as fast as in all lanes
    LONG = 16  # bytes of a key that waits for others: 64 of twice that are taken in together


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
    made.state = started(key_low, key_high)
    return made


cdef inline void hash_octets(
    const uint8_t *key, size_t length, const Seeded *hash, uint64_t *first, uint64_t *second
) noexcept nogil:
    """Hash `length` bytes to the two halves; `key` is not read when there are none."""
    if Seeded is Murmur3:
        murmur_of_octets(key, length, hash.seed, first, second)
    else:
        siphash_of_octets(key, length, hash.state, 1, 3, first, second)


ctypedef const uint8_t *Octets

cdef struct Sink:
    uint64_t *h1  # where the hash halves of all keys go
    uint64_t *h2
    # Of SipHash, the keys since the last multiple of LANES: where each lies that was not taken in
    # yet, else NULL, and its state is in `lanes`.
    Octets[LANES] at
    size_t[LANES] lengths
    Lanes lanes


cdef inline void take_octets(
    Sink *sink, Py_ssize_t i, const uint8_t *key, size_t length, bint stays, const Seeded *hash
) noexcept nogil:
    """Hash key i, of `length` bytes; keys come in order, and `end_keys` after the last.

    A key that `stays` where it is may be read as late as in `end_keys`.
    """
    cdef Py_ssize_t lane = i & (LANES - 1)
    if Seeded is Murmur3:
        murmur_of_octets(key, length, hash.seed, &sink.h1[i], &sink.h2[i])
    else:
        sink.at[lane], sink.lengths[lane] = key if stays else NULL, length
        if sink.at[lane] == NULL:
            put_lane(&sink.lanes, lane, absorbed(hash.state, key, 0, length, 1))
        if lane == LANES - 1:
            absorb(sink, LANES, hash)
            finish_lanes(chosen, &sink.lanes, sink.h1 + i - lane, sink.h2 + i - lane)


cdef inline void absorb(Sink *sink, Py_ssize_t n, const SipHash *hash) noexcept nogil:
    """Take in those of n keys that were not yet, at once if all of them are long."""
    cdef Py_ssize_t lane
    cdef size_t octets = 0
    cdef bint whole = n == LANES and can_absorb(chosen)
    if whole:
        for lane in range(n):
            octets += sink.lengths[lane]
            whole &= sink.at[lane] != NULL
    if whole and octets >= 2 * LONG * LANES:
        absorb_lanes(sink.at, sink.lengths, hash.state, &sink.lanes)
        return
    for lane in range(n):
        if sink.at[lane] != NULL:
            put_lane(
                &sink.lanes, lane, absorbed(hash.state, sink.at[lane], 0, sink.lengths[lane], 1)
            )


cdef inline void end_keys(Sink *sink, Py_ssize_t n, const Seeded *hash) noexcept nogil:
    """Finish the last of n keys."""
    cdef uint64_t[LANES] h1, h2
    cdef Py_ssize_t i, left = n & (LANES - 1), first = n - left
    if Seeded is not Murmur3:
        absorb(sink, left, hash)
        if left > FEW:
            # Lanes without a key hold whatever they did.
            finish_lanes(chosen, &sink.lanes, h1, h2)
            for i in range(left):
                sink.h1[first + i] = h1[i]
                sink.h2[first + i] = h2[i]
            return
        for i in range(left):
            finish(lane_of(&sink.lanes, i), 3, &sink.h1[first + i], &sink.h2[first + i])


cdef inline void hash_words(
    const uint64_t *words, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept nogil:
    """Hash n keys of 8 bytes, given as little-endian numbers."""
    cdef Py_ssize_t i
    if Seeded is Murmur3:
        for i in range(n):
            murmur_of_word(words[i], hash.seed, &h1[i], &h2[i])
    else:
        siphash_of_words(chosen, words, hash.state, n, h1, h2)
