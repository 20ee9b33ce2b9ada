"""Declarations of ``regions.h``: keys in the order of the regions of an array."""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.blocks cimport Shape


cdef extern from "regions.h":
    enum:
        GATHERED

    uint64_t LARGE_TO_ASK, LARGE_TO_CHANGE

    ctypedef struct Order:
        uint64_t *o1

    # Tests keys, and may add or remove them; returns how many positions it set or cleared.
    ctypedef uint64_t (*Kernel)(
        const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
        const Shape *shape, uint8_t *answers,
    ) noexcept nogil

    bint in_regions(const Shape *, Py_ssize_t n, int width, uint64_t large) noexcept nogil
    bint arrange_keys(
        Order *, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n, const Shape *,
        int width, Py_ssize_t threads,
    ) noexcept nogil
    bint is_order_of(const Order *, Py_ssize_t n, const Shape *) noexcept nogil
    uint64_t work_in_order(Order *, Kernel, const uint64_t *words, uint8_t *answers) noexcept nogil
