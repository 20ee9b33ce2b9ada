# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The compiled engine: the kernels of `reference.bits`, answer for answer and bit for bit.

The processor waits 80 ns for a cell of a large file and sets its bits in 10: so the cell of
a key further on is asked for while this key's is worked on.

Every position is below the number of bits by its formula; `shape_of` proves that number to
be the array's, and no other loop here leaves what it was given. The interpreter is released
around all of them.
"""

import numpy as np

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from mmbloom._engine.compiled.positions cimport (
    AHEAD, GROUP, MAX_HASHES, Shape, bit_in_block, block_of, length_of, popcount, shape_of,
    standard_position,
)
from mmbloom._engine.compiled.murmur cimport hash_octets, prefetch, prefetch_write
from mmbloom._engine.compiled.objects cimport (
    PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_ASCII, has_layout,
)


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1


def contains(const uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params):
    """Test n keys; see `reference.bits.contains`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    cdef Py_ssize_t n = length_of(h1, h2)
    found = np.empty(n, dtype=np.bool_)
    cdef uint8_t[::1] answers = found.view(np.uint8)
    if n:
        with nogil:
            if shape.blocked:
                contains_blocked(&words[0], &h1[0], &h2[0], n, &shape, &answers[0])
            else:
                contains_standard(&words[0], &h1[0], &h2[0], n, &shape, &answers[0])
    return found


cdef void contains_blocked(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t bit, found
    cdef const uint64_t *block
    for j in range(min(n, AHEAD)):
        prefetch(words + 8 * block_of(shape, h1[j]))
    for j in range(n):
        if j + AHEAD < n:
            prefetch(words + 8 * block_of(shape, h1[j + AHEAD]))
        block = words + 8 * block_of(shape, h1[j])
        found = 1
        for i in range(shape.num_hashes):
            bit = bit_in_block(shape, h2[j], i)
            found &= block[bit >> 6] >> (bit & 63)
        answers[j] = found & 1


cdef void contains_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef Py_ssize_t first, j, some
    cdef int i, k = shape.num_hashes
    cdef uint64_t p, found
    first = 0
    while first < n:
        some = min(n - first, GROUP)
        for j in range(some):
            for i in range(k):
                p = standard_position(shape, h1[first + j], h2[first + j], i)
                prefetch(words + (p >> 6))
                positions[j * k + i] = p
        for j in range(some):
            found = 1
            for i in range(k):
                p = positions[j * k + i]
                found &= words[p >> 6] >> (p & 63)
            answers[first + j] = found & 1
        first += GROUP


def add(uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params):
    """Test and set n keys, one by one; see `reference.bits.add`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    cdef Py_ssize_t n = length_of(h1, h2)
    cdef uint64_t newly_set = 0
    new = np.empty(n, dtype=np.bool_)
    cdef uint8_t[::1] answers = new.view(np.uint8)
    if n:
        with nogil:
            if shape.blocked:
                newly_set = add_blocked(&words[0], &h1[0], &h2[0], n, &shape, &answers[0])
            else:
                newly_set = add_standard(&words[0], &h1[0], &h2[0], n, &shape, &answers[0])
    return new, newly_set


cdef uint64_t add_blocked(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef Py_ssize_t j
    cdef int i
    cdef uint64_t bit, word, found, newly_set = 0
    cdef uint64_t *block
    for j in range(min(n, AHEAD)):
        prefetch_write(words + 8 * block_of(shape, h1[j]))
    for j in range(n):
        if j + AHEAD < n:
            prefetch_write(words + 8 * block_of(shape, h1[j + AHEAD]))
        block = words + 8 * block_of(shape, h1[j])
        found = 1
        for i in range(shape.num_hashes):
            bit = bit_in_block(shape, h2[j], i)
            found &= block[bit >> 6] >> (bit & 63)
        answers[j] = ~found & 1
        if found & 1:
            continue  # a page that is not changed is not written back
        for i in range(shape.num_hashes):
            bit = bit_in_block(shape, h2[j], i)
            word = block[bit >> 6]
            newly_set += ~word >> (bit & 63) & 1
            block[bit >> 6] = word | <uint64_t>1 << (bit & 63)
    return newly_set


cdef uint64_t add_standard(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef Py_ssize_t first, j, some
    cdef int i, k = shape.num_hashes
    cdef uint64_t p, word, clear, newly_set = 0
    first = 0
    while first < n:
        some = min(n - first, GROUP)
        for j in range(some):
            for i in range(k):
                p = standard_position(shape, h1[first + j], h2[first + j], i)
                prefetch_write(words + (p >> 6))
                positions[j * k + i] = p
        for j in range(some):
            clear = 0
            for i in range(k):
                p = positions[j * k + i]
                word = words[p >> 6]
                if not word >> (p & 63) & 1:
                    words[p >> 6] = word | <uint64_t>1 << (p & 63)
                    clear += 1
            answers[first + j] = clear != 0
            newly_set += clear
        first += GROUP
    return newly_set


cdef class OneKey:
    """One key at a time on one bit array; see `reference.bits.OneKey`."""

    cdef const uint64_t[::1] words
    cdef uint64_t[::1] counters
    cdef bint writable
    cdef Shape shape
    cdef uint32_t seed
    cdef object to_bytes

    def __cinit__(self, words, counters, params, to_bytes):
        self.words = words
        self.shape = shape_of(params, self.words.shape[0])
        self.seed = params.seed
        self.to_bytes = to_bytes
        self.writable = words.flags.writeable
        if self.writable:
            self.counters = counters
            if self.counters.shape[0] < 4:
                raise ValueError(f"{self.counters.shape[0]} counters, expected 4 or more")

    cdef int hash(self, key, uint64_t *h1, uint64_t *h2) except -1:
        cdef int64_t number
        cdef int overflow = 0
        cdef PyObject *text = <PyObject *>key
        if type(key) is str and has_layout(text) and PyUnicode_IS_ASCII(text):
            hash_octets(
                <const uint8_t *>PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text), self.seed, h1,
                h2,
            )
            return 0
        if type(key) is int:
            number = PyLong_AsLongLongAndOverflow(key, &overflow)
            if not overflow:
                hash_octets(<const uint8_t *>&number, 8, self.seed, h1, h2)
                return 0
        if type(key) is not bytes:
            key = self.to_bytes(key)
        hash_octets(
            <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), self.seed, h1, h2
        )
        return 0

    def contains(self, key):
        """Test a key."""
        cdef uint64_t h1, h2
        cdef uint8_t found
        self.hash(key, &h1, &h2)
        if self.shape.blocked:
            contains_blocked(&self.words[0], &h1, &h2, 1, &self.shape, &found)
        else:
            contains_standard(&self.words[0], &h1, &h2, 1, &self.shape, &found)
        return found != 0

    def add(self, key):
        """Set a key's bits and count them; True if one was clear. The write lock is held."""
        cdef uint64_t h1, h2
        cdef uint8_t found
        cdef uint64_t *words
        if not self.writable:
            raise ValueError("the array is read-only")
        words = <uint64_t *>&self.words[0]
        self.hash(key, &h1, &h2)
        # Tested first: a key that is there leaves every byte, and the batch counters, alone.
        if self.shape.blocked:
            contains_blocked(words, &h1, &h2, 1, &self.shape, &found)
        else:
            contains_standard(words, &h1, &h2, 1, &self.shape, &found)
        if found:
            return False
        self.counters[2] += 1
        if self.shape.blocked:
            self.counters[1] += add_blocked(words, &h1, &h2, 1, &self.shape, &found)
        else:
            self.counters[1] += add_standard(words, &h1, &h2, 1, &self.shape, &found)
        self.counters[0] += 1
        self.counters[3] += 1
        return True

    def positions_set(self):
        """Read the counter of bits set."""
        return self.counters[1]


def count_set(const uint64_t[::1] words):
    """Count the set bits."""
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(words.shape[0]):
            total += popcount(words[i])
    return total
