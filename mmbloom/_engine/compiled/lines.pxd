"""What `at_once` needs of the loops over lines."""

from libc.stdint cimport int64_t, uint8_t


cdef enum:
    AT_ONCE = 32  # bytes of a line that are copied whether it is wanted or not

cdef struct Lines:
    const uint8_t *octets  # the block that they are in
    Py_ssize_t block_size
    const int64_t *starts
    const int64_t *ends
    Py_ssize_t number

cdef Lines lines_in(
    const uint8_t[::1] octets, const int64_t[::1] starts, const int64_t[::1] ends,
    Py_ssize_t extra,
) except *
cdef Py_ssize_t size_of(
    const Lines *lines, const uint8_t *chosen, Py_ssize_t extra
) noexcept nogil
cdef void gather_to(
    uint8_t *at, const Lines *lines, const uint8_t *chosen, Py_ssize_t extra
) noexcept nogil
