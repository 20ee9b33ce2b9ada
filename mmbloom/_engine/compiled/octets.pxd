"""Declarations of ``octets.h``: little-endian words of the bytes at any address."""

from libc.stdint cimport uint8_t, uint64_t


cdef extern from "octets.h":
    uint64_t load_8(const uint8_t *at) noexcept nogil
    uint64_t load_4(const uint8_t *at) noexcept nogil
    uint64_t load_part(const uint8_t *at, size_t length) noexcept nogil
    uint64_t rotate(uint64_t x, int bits) noexcept nogil
