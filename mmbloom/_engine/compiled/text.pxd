"""Where the bytes of a key lie, and code points as UTF-8; inline code.

Reading objects cannot raise: it uses CPython's macros, for an index within a list and for objects
of known types. Any thread may read them while the caller keeps the interpreter. The caller holds a
critical section of the list: without the global lock, another thread could change it.

A module for every Python (abi3) may not know the memory layout of objects. There, functions replace
the macros, and a `str` hides its text, which then only the interpreter can encode.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t


cdef extern from "Python.h":
    bint PyLong_CheckExact(PyObject *)
    int64_t PyLong_AsLongLongAndOverflow(PyObject *, int *) noexcept  # of an int it raises nothing

cdef extern from "Python.h" nogil:  # which read what never changes
    PyObject *get_item "PyList_GET_ITEM"(PyObject *, Py_ssize_t) noexcept
    bint PyBytes_CheckExact(PyObject *) noexcept
    char *PyBytes_AS_STRING(PyObject *) noexcept
    Py_ssize_t PyBytes_GET_SIZE(PyObject *) noexcept
    bint PyUnicode_CheckExact(PyObject *) noexcept
    bint PyUnicode_IS_ASCII(PyObject *) noexcept
    int PyUnicode_KIND(PyObject *) noexcept
    void *PyUnicode_DATA(PyObject *) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *) noexcept


cdef extern from *:
    """
    /* Before Python 3.12 a str could be without the layout that is read here. */
    #if PY_VERSION_HEX < 0x030C0000
    #define MMBLOOM_HAS_LAYOUT(text) PyUnicode_IS_READY(text)
    #else
    #define MMBLOOM_HAS_LAYOUT(text) 1
    #endif
    #ifndef Py_LIMITED_API
    #define MMBLOOM_HIDES_TEXT 0
    #else
    #define MMBLOOM_HIDES_TEXT 1
    #undef MMBLOOM_HAS_LAYOUT
    #define MMBLOOM_HAS_LAYOUT(text) 0
    /* Not called where there is no layout; the compiler leaves these branches out. */
    #define PyUnicode_IS_ASCII(text) 0
    #define PyUnicode_KIND(text) 1
    #define PyUnicode_DATA(text) NULL
    #define PyUnicode_GET_LENGTH(text) 0
    #define PyBytes_AS_STRING(octets) PyBytes_AsString((PyObject *)(octets))
    #define PyBytes_GET_SIZE(octets) PyBytes_Size((PyObject *)(octets))
    #define PyList_GET_SIZE(items) PyList_Size((PyObject *)(items))
    #define PyList_GET_ITEM(items, i) PyList_GetItem((PyObject *)(items), i)
    #endif
    """
    bint has_layout "MMBLOOM_HAS_LAYOUT"(PyObject *text) noexcept nogil
    const bint HIDES_TEXT "MMBLOOM_HIDES_TEXT"  # every str
    void prefetch_object "__builtin_prefetch"(PyObject *) noexcept nogil


cdef enum:
    OBJECTS_AHEAD = 12  # objects between prefetching one and reading it
    LONGEST = 512  # code points whose bytes are written to the stack


cdef struct Text:
    const uint8_t *at
    size_t length
    int width  # bytes a code point, as CPython has them; 0 where these are the bytes of the key


ctypedef fused Point:
    uint8_t
    uint16_t
    uint32_t


cdef inline PyObject *item_of(PyObject *items, Py_ssize_t i, Py_ssize_t stop) noexcept nogil:
    """Return an item of a list that is read up to `stop`, and prefetch a later one."""
    if i + OBJECTS_AHEAD < stop:
        prefetch_object(get_item(items, i + OBJECTS_AHEAD))
    return get_item(items, i)


cdef inline uint32_t all_bits(const Point *text, size_t length) noexcept nogil:
    """Or all code points together: none is larger. The compiler makes SIMD of it."""
    cdef size_t i
    cdef uint32_t bits = 0
    for i in range(length):
        bits |= text[i]
    return bits


cdef inline bint encodable_points(const Point *text, size_t length) noexcept nogil:
    cdef size_t i
    if all_bits[Point](text, length) < 0xD800:
        return True
    for i in range(length):
        if 0xD800 <= text[i] <= 0xDFFF or text[i] > 0x10FFFF:
            return False
    return True


cdef inline size_t encode_points(const Point *text, size_t length, uint8_t *out) noexcept nogil:
    cdef size_t i
    cdef uint32_t c
    cdef uint8_t *at = out
    if all_bits[Point](text, length) < 0x80:
        for i in range(length):
            out[i] = <uint8_t>text[i]
        return length
    for i in range(length):
        c = text[i]
        if c < 0x80:
            at[0] = <uint8_t>c
            at += 1
        elif c < 0x800:
            at[0] = <uint8_t>(0xC0 | c >> 6)
            at[1] = <uint8_t>(0x80 | c & 0x3F)
            at += 2
        elif c < 0x10000:
            at[0] = <uint8_t>(0xE0 | c >> 12)
            at[1] = <uint8_t>(0x80 | c >> 6 & 0x3F)
            at[2] = <uint8_t>(0x80 | c & 0x3F)
            at += 3
        else:
            at[0] = <uint8_t>(0xF0 | c >> 18 & 0x07)
            at[1] = <uint8_t>(0x80 | c >> 12 & 0x3F)
            at[2] = <uint8_t>(0x80 | c >> 6 & 0x3F)
            at[3] = <uint8_t>(0x80 | c & 0x3F)
            at += 4
    return at - out


cdef inline bint encodable(const Text *text) noexcept nogil:
    """Return whether all is in Unicode and nothing is a surrogate, for which UTF-8 has no bytes."""
    if text.width == 2:
        return encodable_points(<const uint16_t *>text.at, text.length)
    return text.width < 4 or encodable_points(<const uint32_t *>text.at, text.length)


cdef inline void spell(Text *text, uint8_t *scratch) noexcept nogil:
    """Turn code points that are encodable into their UTF-8, at most 4 bytes each, in scratch."""
    if text.width == 0:
        return
    if text.width == 1:
        text.length = encode_points(text.at, text.length, scratch)
    elif text.width == 2:
        text.length = encode_points(<const uint16_t *>text.at, text.length, scratch)
    else:
        text.length = encode_points(<const uint32_t *>text.at, text.length, scratch)
    text.at, text.width = scratch, 0


cdef inline bint find_text(PyObject *key, Text *text) noexcept nogil:
    """Find where a `bytes`, or the code points of a `str`, lie.

    Return False if it is neither, or of a subclass, or if the text has no UTF-8 or is hidden.
    """
    if PyBytes_CheckExact(key):
        text.at, text.length = <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        text.width = 0
        return True
    if not PyUnicode_CheckExact(key) or not has_layout(key):
        return False
    text.width = 0 if PyUnicode_IS_ASCII(key) else PyUnicode_KIND(key)
    text.at, text.length = <const uint8_t *>PyUnicode_DATA(key), PyUnicode_GET_LENGTH(key)
    return encodable(text)


cdef inline bint find_short_key(PyObject *key, Text *text, int64_t *number) noexcept:
    """Find where a key lies that needs scratch for `LONGEST` code points at most.

    An int, whose key is the 8 bytes of its two's complement, is put into `number`, unless it has
    more bits.
    """
    cdef int overflow = 0
    if PyLong_CheckExact(key):
        number[0] = PyLong_AsLongLongAndOverflow(key, &overflow)
        text.at, text.length, text.width = <const uint8_t *>number, 8, 0
        return not overflow
    return find_text(key, text) and (text.width == 0 or text.length <= LONGEST)
