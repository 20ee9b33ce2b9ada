# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What is at a path, and whether it still is; see `reference.status`."""

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


cdef class LastLook:
    """What a look at a file has found; see `reference.status.LastLook`."""

    def __cinit__(self, file, words):
        cdef const uint64_t[::1] now
        cdef int i
        self.path, self.looked.device, self.looked.inode, self.looked.size = file
        self.looked.path = self.path
        self.kept = [word for word, _ in words]
        self.looked.num_words = len(words)
        if self.looked.num_words > MOST_WORDS:
            raise ValueError(f"{len(words)} words, expected {MOST_WORDS} at most")
        for i in range(self.looked.num_words):
            now = self.kept[i]
            if not now.shape[0]:
                raise ValueError("a word is missing")
            self.looked.words[i].now, self.looked.words[i].then = &now[0], words[i][1]

    def holds(self):
        """Look at the file again."""
        cdef bint found
        with nogil:
            found = still_holds(&self.looked)
        return found


cdef bint still_holds(const Looked *looked) noexcept nogil:
    """Look at a file again."""
    cdef Stamp found
    cdef int i
    # The file first: to read a word of one that was cut is a fatal signal.
    if not look(looked.path, &found):
        return False
    if (
        found.inode != looked.inode
        or found.device != looked.device
        or found.size != looked.size
    ):
        return False
    for i in range(looked.num_words):
        if looked.words[i].now[0] != looked.words[i].then:
            return False
    return True
