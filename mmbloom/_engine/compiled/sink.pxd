"""One interface for both hashes: a function is compiled once for each, and chosen once per batch.

`Seeded` is the seed of either hash, and a function that takes one is translated to C once for each.
The keys of a batch go through a `Sink`, in which SipHash keeps the states of 64 keys to finish them
at once. Inline code.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from mmbloom._engine.compiled.murmur cimport murmur_of_octets, murmur_of_word
from mmbloom._engine.compiled.siphash cimport (
    LANES, Lanes, State, absorb_lanes, absorbed, can_absorb, finish, finish_lanes, lane_of,
    put_lane, siphash_of_octets, siphash_of_words, started,
)
from mmbloom._engine.compiled.vectors cimport chosen


cdef enum:
    FEW = 16  # keys that are finished one by one as fast as in all lanes
    LONG = 32  # bytes of a key from which on groups are faster


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


cdef struct Sink:
    uint64_t *h1  # where the hash halves of all keys go
    uint64_t *h2
    Lanes lanes  # SipHash's states of the last keys, from a multiple of LANES on


cdef inline void take_octets(
    Sink *sink, Py_ssize_t i, const uint8_t *key, size_t length, const Seeded *hash
) noexcept nogil:
    """Hash key i, of `length` bytes; keys come in order, and `end_keys` after the last."""
    if Seeded is Murmur3:
        murmur_of_octets(key, length, hash.seed, &sink.h1[i], &sink.h2[i])
    else:
        put_lane(&sink.lanes, i & (LANES - 1), absorbed(hash.state, key, 0, length, 1))
        if i & (LANES - 1) == LANES - 1:
            finish_lanes(chosen, &sink.lanes, sink.h1 + i - (LANES - 1), sink.h2 + i - (LANES - 1))


cdef inline void end_keys(Sink *sink, Py_ssize_t n, const Seeded *hash) noexcept nogil:
    """Finish the last of n keys."""
    cdef uint64_t[LANES] h1, h2
    cdef Py_ssize_t i, left = n & (LANES - 1), first = n - left
    if Seeded is not Murmur3:
        if left > FEW:
            # Lanes without a key hold whatever they did.
            finish_lanes(chosen, &sink.lanes, h1, h2)
            for i in range(left):
                sink.h1[first + i] = h1[i]
                sink.h2[first + i] = h2[i]
            return
        for i in range(left):
            finish(lane_of(&sink.lanes, i), 3, &sink.h1[first + i], &sink.h2[first + i])


ctypedef const uint8_t *Octets

cdef struct Group:  # keys whose words are taken in at once, where they lie
    Octets[LANES] at
    size_t[LANES] lengths


cdef inline bint in_groups(size_t octets, Py_ssize_t n, const Seeded *hash) noexcept nogil:
    """Return whether n keys with this number of bytes together are hashed faster in groups."""
    return Seeded is SipHash and can_absorb(chosen) and octets >= LONG * <size_t>n


cdef inline void hash_group(
    const Group *group, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept nogil:
    """Hash n keys, of at most 64."""
    cdef Lanes lanes
    cdef Py_ssize_t i
    if Seeded is SipHash:
        absorb_lanes(chosen, group.at, group.lengths, n, hash.state, &lanes)
        if n == LANES:
            finish_lanes(chosen, &lanes, h1, h2)
        else:
            for i in range(n):
                finish(lane_of(&lanes, i), 3, &h1[i], &h2[i])


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
