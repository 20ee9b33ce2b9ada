"""Batches that a kernel looks up as they are hashed, for `bits` and `counters`."""

from libc.stdint cimport uint64_t

from mmbloom._engine.compiled.blocks cimport Shape
from mmbloom._engine.compiled.regions cimport Kernel


cdef object look_up(
    Kernel kernel, const uint64_t *words, const Shape *shape, keys, key_hash, Py_ssize_t threads
)
