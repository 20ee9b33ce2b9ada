"""The array's kernels, for `single` and `counters`."""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.hashes cimport Murmur3, SipHash
from mmbloom._engine.compiled.blocks cimport Shape
from mmbloom._engine.compiled.regions cimport Kernel


cdef tuple run(
    Kernel kernel, const uint64_t *words, const uint64_t[::1] h1, const uint64_t[::1] h2,
    const Shape *shape, order,
)

cdef object ask(
    Kernel kernel, const uint64_t *words, const Shape *shape, int width, keys, key_hash,
    Py_ssize_t threads,
)

cdef uint64_t find(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil


cdef class OneKey:
    cdef const uint64_t[::1] words
    cdef uint64_t[::1] counters
    cdef bint writable
    cdef Shape shape
    cdef bint keyed  # which of the next two it is
    cdef SipHash siphash
    cdef Murmur3 murmur3
    cdef object to_bytes

    cdef int hash(self, key, uint64_t *h1, uint64_t *h2) except -1
    cdef void hash_octets(
        self, const uint8_t *octets, size_t length, uint64_t *h1, uint64_t *h2
    ) noexcept
    cdef bint has(self, uint64_t h1, uint64_t h2) noexcept
    cdef bint put(self, uint64_t h1, uint64_t h2) noexcept
    cdef void put_all(
        self, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n, uint8_t *answers
    ) noexcept nogil
