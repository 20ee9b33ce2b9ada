"""What Cython takes of ``regions.h``: large batches, in the order of the regions of an array."""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.blocks cimport BlockLoops, Shape


cdef extern from "regions.h":
    enum:
        MOST_IN_REGIONS
    bint in_regions(const Shape *, Py_ssize_t n) noexcept nogil
    uint64_t do_in_regions(
        const BlockLoops *, uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
        const Shape *, uint8_t *answers, bint adding, int threads,
    ) noexcept nogil
