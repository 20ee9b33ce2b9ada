# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Which lists and `U` arrays can be hashed as they are; see `reference.hash`.

Every key is looked at before the first is added: a batch with a wrong key adds nothing.
"""

import numpy as np

from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t

from mmbloom._engine.compiled.murmur cimport prefetch
from mmbloom._engine.compiled.objects cimport (
    OBJECTS_AHEAD, PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_ASCII, PyUnicode_KIND,
    has_layout, item_of,
)
from mmbloom._engine.compiled.utf8 cimport encodable


cdef extern from "Python.h":
    bint PyBytes_CheckExact(PyObject *)
    bint PyUnicode_CheckExact(PyObject *)

cdef enum:
    SLICE = 1 << 14  # texts checked at a time (law 17)


def plain(list items):
    """Whether every item is a `bytes`, or a `str` that encodes; see `reference.hash.plain`."""
    cdef Py_ssize_t i, n = PyList_GET_SIZE(items)
    cdef PyObject *item
    for i in range(n):
        if i + OBJECTS_AHEAD < n:
            prefetch(item_of(items, i + OBJECTS_AHEAD))
        item = item_of(items, i)
        if PyBytes_CheckExact(item):
            continue
        if not PyUnicode_CheckExact(item) or not has_layout(item):
            return False
        if not PyUnicode_IS_ASCII(item) and not encodable(
            <const uint8_t *>PyUnicode_DATA(item), PyUnicode_KIND(item), PyUnicode_GET_LENGTH(item)
        ):
            return False
    return True


def first_unencodable(items):
    """Find the first item of a U array that has no UTF-8; see `reference.hash.first_unencodable`."""
    cdef Py_ssize_t i, wrong = -1, start = 0
    cdef const uint32_t[:, ::1] rows
    while start < len(items) and wrong < 0:
        rows = code_points(items[start : start + SLICE])
        with nogil:
            for i in range(rows.shape[0]):
                if not encodable(<const uint8_t *>&rows[i, 0], 4, rows.shape[1]):
                    wrong = start + i
                    break
        start += SLICE
    return wrong


def code_points(items):
    """A U array, which has one item or more, as code points of this machine's byte order."""
    native = np.ascontiguousarray(items, dtype=items.dtype.newbyteorder("="))
    return np.require(native, None, "CA").view(np.uint32).reshape(len(items), -1)
