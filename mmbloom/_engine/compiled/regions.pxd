"""Declarations of ``regions.h``: large batches, in the order of the regions of an array."""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.blocks cimport Shape


cdef extern from "regions.h":
    enum:
        MOST_IN_REGIONS

    # Tests keys, and may add or remove them; returns how many positions it set or cleared.
    ctypedef uint64_t (*Kernel)(
        const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
        const Shape *shape, uint8_t *answers,
    ) noexcept nogil

    bint in_regions(const Shape *, Py_ssize_t n, int width) noexcept nogil
    uint64_t do_in_regions(
        Kernel, const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
        const Shape *, uint8_t *answers, int width, int threads,
    ) noexcept nogil
