# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The kernels of slices, compiled: those of `reference.slices`, answer for answer.

No loop uses an index that it did not compute from the parameters: each slice number is below the
number of slices by its formula.
"""

import numpy as np

from libc.stdint cimport int32_t, uint64_t

from mmbloom._engine.compiled.blocks cimport Shape, block_of, page_of
from mmbloom._engine.compiled.positions cimport length_of, shape_of


cdef Shape whole_of(params, Py_ssize_t slices) except *:
    """Return the parameters that the loops use, after checking the number of slices."""
    cdef Shape shape = shape_of(params, params.num_bits // 64)
    if not (shape.blocked or shape.paged):
        raise ValueError("layout is 'standard', expected 'blocked'")
    pages = pages_of(&shape)
    if not 1 <= slices <= min(pages, 0x7FFFFFFF):
        raise ValueError(f"slices is {slices}, expected 1 to {pages}")
    return shape


cdef inline uint64_t pages_of(const Shape *shape) noexcept nogil:
    """Count the pages, of which the last may have fewer blocks than the others."""
    return (shape.num_blocks + 63) // 64


cdef inline uint64_t unit_of(const Shape *shape, uint64_t h1) noexcept nogil:
    """Return the block of a key, or its page if it has several blocks."""
    return block_of(shape, h1) if shape.blocked else page_of(shape, h1) // 64


cdef inline int32_t slice_of(
    const Shape *shape, uint64_t h1, uint64_t slices, uint64_t pages
) noexcept nogil:
    cdef uint64_t page = unit_of(shape, h1)
    if shape.blocked:
        page //= 64
    return <int32_t>(((page + 1) * slices - 1) // pages)


def slices_of(const uint64_t[::1] h1, params, slices):
    """Return the number of the slice of each key; see `reference.slices.slices_of`."""
    cdef Shape shape = whole_of(params, slices)
    cdef uint64_t count = slices, pages = pages_of(&shape)
    cdef Py_ssize_t i, n = h1.shape[0]
    numbers = np.empty(n, np.int32)
    cdef int32_t[::1] found = numbers
    with nogil:
        for i in range(n):
            found[i] = slice_of(&shape, h1[i], count, pages)
    return numbers


def partition(const uint64_t[::1] h1, const uint64_t[::1] h2, params, slices):
    """Group keys by slice; see `reference.slices.partition`."""
    cdef Shape shape = whole_of(params, slices)
    cdef uint64_t count = slices, pages = pages_of(&shape)
    cdef Py_ssize_t i, at, n = length_of(h1, h2)
    cdef int32_t j
    starts = np.zeros(slices + 1, np.intp)
    rows, grouped1, grouped2 = np.empty(n, np.intp), np.empty(n, np.uint64), np.empty(n, np.uint64)
    cdef Py_ssize_t[::1] begin = starts, order = rows
    cdef Py_ssize_t[::1] next_of = np.zeros(slices + 1, np.intp)
    cdef uint64_t[::1] g1 = grouped1, g2 = grouped2
    # Kept: another thread may change the hashes between the two passes.
    cdef int32_t[::1] numbers = np.empty(n, np.int32)
    with nogil:
        for i in range(n):
            numbers[i] = slice_of(&shape, h1[i], count, pages)
            begin[numbers[i] + 1] += 1
        for i in range(<Py_ssize_t>count):
            begin[i + 1] += begin[i]
            next_of[i] = begin[i]
        for i in range(n):
            j = numbers[i]
            at = next_of[j]
            next_of[j] = at + 1
            order[at], g1[at], g2[at] = i, h1[i], h2[i]
    return starts, rows, (grouped1, grouped2)


def rebase(const uint64_t[::1] h1, params, first, units):
    """Return hash halves relative to a part; see `reference.slices.rebase`."""
    cdef Shape shape = whole_of(params, 1)
    cdef uint64_t start = first, size = units, local, high
    cdef Py_ssize_t i, n = h1.shape[0], foreign = -1
    if not 1 <= units <= 0x80000000:
        raise ValueError(f"units is {units}, expected 1 to 2**31")
    rebased = np.empty(n, np.uint64)
    cdef uint64_t[::1] of_part = rebased
    with nogil:
        for i in range(n):
            local = unit_of(&shape, h1[i]) - start  # wraps below it
            if local >= size:
                foreign = i
                break
            high = ((local << 32) + size - 1) // size
            of_part[i] = (high << 32) | (h1[i] & <uint64_t>0xFFFFFFFF)
    return (np.asarray(h1), foreign) if foreign >= 0 else (rebased, -1)
