# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What is at a path; see `reference.status`."""

from cpython.exc cimport PyErr_SetFromErrnoWithFilenameObject
from libc.stdint cimport uint64_t

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object)


cdef class Status:
    """What is at a path; see `reference.status.Status`."""

    cdef readonly uint64_t st_dev, st_ino, st_size
    cdef readonly unsigned int st_mode


def status_at(str path not None):
    """Look at a path; see `reference.status.status_at`."""
    cdef Stamp found
    cdef Status status = Status.__new__(Status)
    cdef bytes name = PyUnicode_EncodeFSDefault(path)
    cdef const char *at = name
    cdef bint any
    with nogil:
        any = look(at, &found)
    if not any:
        PyErr_SetFromErrnoWithFilenameObject(OSError, path)
    status.st_dev, status.st_ino, status.st_size = found.device, found.inode, found.size
    status.st_mode = found.mode
    return status
