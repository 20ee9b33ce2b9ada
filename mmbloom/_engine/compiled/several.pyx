# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Several arrays of the same parameters at once, compiled (see `reference.bits.contains_any`).

A key's positions are the same in all of them, and are worked out once. Most keys are in none:
at most every second bit is set, so that the first few tell.
"""

import numpy as np

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.positions cimport (
    GROUP, MAX_HASHES, Shape, bit_in_block, block_of, length_of, shape_of, standard_position,
)
from mmbloom._engine.compiled.murmur cimport prefetch

cdef enum:
    FEW = 4  # which 15 of 16 absent keys have not all of, if the array is just full


def contains_any(arrays, const uint64_t[::1] h1, const uint64_t[::1] h2, params):
    """Test n keys in several arrays; see `reference.bits.contains_any`."""
    cdef Shape shape
    cdef Py_ssize_t n = length_of(h1, h2)
    cdef const uint64_t[::1] words
    held = list(arrays)  # so that their memory stays while the interpreter is released
    cdef uint64_t[::1] starts = np.zeros(len(held), dtype=np.uint64)
    for number, array in enumerate(held):
        words = array
        shape = shape_of(params, words.shape[0])
        starts[number] = <uint64_t>&words[0]
    found = np.zeros(n, dtype=np.bool_)
    cdef uint8_t[::1] answers = found.view(np.uint8)
    if n and starts.shape[0]:
        with nogil:
            contains_in_any(&starts[0], starts.shape[0], &h1[0], &h2[0], n, &shape, &answers[0])
    return found


cdef void contains_in_any(
    const uint64_t *starts, Py_ssize_t num_arrays, const uint64_t *h1, const uint64_t *h2,
    Py_ssize_t n, const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef Py_ssize_t first, j, a, some
    cdef int i, k = shape.num_hashes, few = min(shape.num_hashes, FEW)
    cdef uint64_t p, found
    cdef const uint64_t *words
    first = 0
    while first < n:
        some = min(n - first, GROUP)
        for j in range(some):
            for i in range(k):
                positions[j * k + i] = position_of(shape, h1[first + j], h2[first + j], i)
            for a in range(num_arrays):
                prefetch(<const uint64_t *>starts[a] + (positions[j * k] >> 6))
        for j in range(some):
            for a in range(num_arrays):
                words, found = <const uint64_t *>starts[a], 1
                for i in range(few):
                    p = positions[j * k + i]
                    found &= words[p >> 6] >> (p & 63)
                if found & 1:
                    for i in range(few, k):
                        p = positions[j * k + i]
                        found &= words[p >> 6] >> (p & 63)
                    if found & 1:
                        answers[first + j] = 1
                        break
        first += GROUP


cdef inline uint64_t position_of(
    const Shape *shape, uint64_t h1, uint64_t h2, int i
) noexcept nogil:
    if shape.blocked:
        return 512 * block_of(shape, h1) + bit_in_block(shape, h2, i)
    return standard_position(shape, h1, h2, i)
