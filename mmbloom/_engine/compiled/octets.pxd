"""Where an array lies, and declarations of ``octets.h``: little-endian words of bytes anywhere."""

from cpython.buffer cimport PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t


cdef extern from "octets.h":
    uint64_t load_8(const uint8_t *at) noexcept nogil
    uint64_t load_4(const uint8_t *at) noexcept nogil
    uint64_t load_part(const uint8_t *at, size_t length) noexcept nogil
    uint64_t rotate(uint64_t x, int bits) noexcept nogil


cdef inline uint8_t *address_of(array) except? NULL:
    """Return the place of an array's first item, which stays as long as the array."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_STRIDED_RO)
    PyBuffer_Release(&view)
    return <uint8_t *>view.buf
