"""Looking into lists and str of the interpreter, with it held; inline, compiled modules only.

Nothing here can raise: these are CPython's macros, for a list and a place within it, and for
objects whose type is known.
"""

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(PyObject *)
    int PyUnicode_KIND(PyObject *)
    void *PyUnicode_DATA(PyObject *)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *)


cdef extern from *:
    """
    /* Before Python 3.12 a str could be without the layout that is read here. */
    #if PY_VERSION_HEX < 0x030C0000
    #define MMBLOOM_HAS_LAYOUT(text) PyUnicode_IS_READY(text)
    #else
    #define MMBLOOM_HAS_LAYOUT(text) 1
    #endif
    """
    bint has_layout "MMBLOOM_HAS_LAYOUT"(PyObject *text)


cdef enum:
    OBJECTS_AHEAD = 12  # objects between asking for one and looking at it


cdef inline PyObject *item_of(list items, Py_ssize_t i) noexcept:
    return <PyObject *>PyList_GET_ITEM(items, i)
