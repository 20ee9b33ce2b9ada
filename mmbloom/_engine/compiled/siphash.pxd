"""Declarations of ``siphash.h``: SipHash-1-3 of one key, or of many side by side."""

from libc.stdint cimport uint8_t, uint64_t


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
    void absorb_lanes(
        int kind, const uint8_t *const *at, const size_t *lengths, size_t n, State start, Lanes *
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
