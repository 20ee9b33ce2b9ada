"""The kernels of ``bits.pyx`` that the other compiled modules call."""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.positions cimport Shape


cdef void contains_blocked(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil

cdef void contains_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil
