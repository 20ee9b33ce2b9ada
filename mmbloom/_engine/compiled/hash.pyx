# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The hash halves of every form of batch, and which lists and `U` arrays can be hashed.

Those of `reference.hash`, answer for answer. The bytes of keys are hashed where they lie. The
interpreter is needed to find them in its objects only; hashing goes on without it. Spans and
views are proved to lie within their buffers before any is read. Every text is checked before
the first is added: a batch with a wrong key adds nothing.
"""

cimport cython

import numpy as np

from mmbloom._engine.key_batch import (
    ByteKeys, DictionaryKeys, HashedKeys, IntegerKeys, PackedKeys, RowKeys, TextKeys, ViewKeys,
)

from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from mmbloom._engine.compiled.octets cimport load_4, load_8
from mmbloom._engine.compiled.hashes cimport (
    Group, LANES, Murmur3, Seeded, Sink, SipHash, end_keys, hash_group, hash_words, in_groups,
    murmur3_of, siphash_of, siphash_of_octets, take_octets,
)
from mmbloom._engine.compiled.text cimport (
    HIDES_TEXT, PyUnicode_CheckExact, Text, encodable, encodable_points, find_text, item_of, spell,
)


cdef extern from "Python.h":
    void Py_INCREF(PyObject *)
    void Py_DECREF(PyObject *)
    PyObject *PyUnicode_AsUTF8String(PyObject *) except NULL

cdef enum:
    SLICE = 1 << 14  # texts checked at a time, as numpy copies them


ctypedef fused Offset:
    int32_t
    int64_t


def plain(list items):
    """Return whether each item is `bytes`, or a `str` that encodes; see `reference.hash.plain`."""
    cdef Py_ssize_t i, n
    cdef PyObject *item
    cdef Text text
    with cython.critical_section(items):
        n = PyList_GET_SIZE(items)
        for i in range(n):
            item = item_of(items, i, n)
            if find_text(item, &text):
                continue
            if not HIDES_TEXT or not PyUnicode_CheckExact(item):
                return False
            try:
                Py_DECREF(PyUnicode_AsUTF8String(item))
            except UnicodeEncodeError:
                return False
    return True


def first_unencodable(items):
    """Return the first item that has no UTF-8; see `reference.hash.first_unencodable`."""
    cdef Py_ssize_t i, wrong = -1, start = 0
    cdef const uint32_t[:, ::1] rows
    while start < len(items) and wrong < 0:
        rows = code_points(items[start : start + SLICE])
        with nogil:
            for i in range(rows.shape[0]):
                if not encodable_points(&rows[i, 0], rows.shape[1]):
                    wrong = start + i
                    break
        start += SLICE
    return wrong


def code_points(items):
    """Return a U array of one item or more as code points in this machine's byte order."""
    native = np.ascontiguousarray(items, dtype=items.dtype.newbyteorder("="))
    return np.require(native, None, "CA").view(np.uint32).reshape(len(items), -1)


def hash_keys(keys, key_hash):
    """Hash a batch to (h1, h2), two uint64 arrays of shape (n,); see `reference.hash.hash_keys`."""
    cdef Murmur3 murmur3
    cdef SipHash siphash
    if isinstance(keys, HashedKeys):
        return keys.h1, keys.h2
    if isinstance(keys, DictionaryKeys):
        if key_hash not in keys.hashes:
            keys.hashes[key_hash] = hash_keys(keys.values, key_hash)
        h1, h2 = keys.hashes[key_hash]
        return h1[keys.indices], h2[keys.indices]
    name, seed = key_hash
    # Of a list, as its `len` says, which is a call of Python.
    n = keys.stop - keys.start if isinstance(keys, ByteKeys) else len(keys)
    h1, h2 = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    if name == "siphash":
        siphash = siphash_of(seed & 0xFFFFFFFFFFFFFFFF, seed >> 64)
        hash_form[SipHash](keys, &siphash, h1, h2)
    elif name == "murmur3":
        murmur3 = murmur3_of(seed)
        hash_form[Murmur3](keys, &murmur3, h1, h2)
    else:
        raise AssertionError(f"{name!r} is no hash of this engine")
    return h1, h2


def siphash(const uint8_t[::1] octets, key, int compressions=1, int finalizations=3):
    """Hash one input, with any numbers of rounds; see `reference.hash.siphash`."""
    cdef uint64_t h1, h2
    cdef SipHash keyed = siphash_of(key & 0xFFFFFFFFFFFFFFFF, key >> 64)
    cdef const uint8_t *at = &octets[0] if octets.shape[0] else NULL
    siphash_of_octets(
        at, octets.shape[0], keyed.state, compressions, finalizations, &h1, &h2
    )
    return h1, h2


cdef int hash_form(keys, const Seeded *hash, h1, h2) except -1:
    """Hash a batch, in whatever form."""
    if not len(h1):
        return 0
    if isinstance(keys, ByteKeys):
        hash_list[Seeded](keys.items, keys.start, hash, h1, h2)
    elif isinstance(keys, IntegerKeys):
        # A chunk at a time: any width, byte order and stride becomes 8 aligned bytes.
        items = keys.items.astype("<i8", copy=False)
        if not (items.flags.c_contiguous and items.flags.aligned):
            items = items.copy()
        hash_integers[Seeded](items.view("<u8"), hash, h1, h2)
    elif isinstance(keys, PackedKeys):
        starts, ends = aligned(keys.starts), aligned(keys.ends)
        if starts.dtype == np.int32 and ends.dtype == np.int32:
            hash_spans[int32_t, Seeded](keys.octets, starts, ends, hash, h1, h2)
        else:
            starts, ends = starts.astype(np.int64, copy=False), ends.astype(np.int64, copy=False)
            hash_spans[int64_t, Seeded](keys.octets, starts, ends, hash, h1, h2)
    elif isinstance(keys, RowKeys):
        rows = keys.rows if keys.rows.strides[1] == 1 else np.ascontiguousarray(keys.rows)
        hash_rows[Seeded](rows, keys.padded, hash, h1, h2)
    elif isinstance(keys, TextKeys):
        hash_texts[Seeded](code_points(keys.items), hash, h1, h2)
    elif isinstance(keys, ViewKeys):
        hash_views[Seeded](np.ascontiguousarray(keys.views), keys.buffers, hash, h1, h2)
    else:
        raise TypeError(f"{type(keys).__name__} is no form of batch")
    return 0


cdef inline object aligned(array):
    """Return an array with aligned items; `np.require` takes ten times as long."""
    return array if array.flags.aligned else array.copy()


cdef inline Sink sink_of(uint64_t[::1] h1, uint64_t[::1] h2) noexcept:
    cdef Sink sink
    sink.h1, sink.h2 = &h1[0], &h2[0]
    return sink


cdef int hash_list(
    list items, Py_ssize_t first, const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2
) except -1:
    """Hash a part of a list; its objects are kept meanwhile, even if the list changes."""
    cdef Sink sink = sink_of(h1, h2)
    cdef Py_ssize_t i, n = h1.shape[0], held = 0
    cdef size_t longest = 0
    cdef uint8_t *scratch = NULL
    cdef PyObject **objects
    cdef Text text
    cdef Text *texts
    texts = <Text *>malloc(n * (sizeof(Text) + sizeof(PyObject *)))
    if texts == NULL:
        raise MemoryError
    objects = <PyObject **>(texts + n)
    try:
        with cython.critical_section(items):
            if first + n > PyList_GET_SIZE(items):
                raise ValueError("the list of keys changed its size while in use")
            for i in range(n):
                objects[i] = kept(item_of(items, first + i, first + n))
                held = i + 1
                if not find_text(objects[i], &texts[i]):
                    refuse(objects[i], i)
                if texts[i].width:
                    longest = max(longest, texts[i].length)
        if longest:
            scratch = <uint8_t *>malloc(4 * longest)
            if scratch == NULL:
                raise MemoryError
        with nogil:
            if longest or not hash_long_texts[Seeded](texts, n, hash, &h1[0], &h2[0]):
                for i in range(n):
                    text = texts[i]
                    spell(&text, scratch)
                    take_octets[Seeded](&sink, i, text.at, text.length, hash)
                end_keys[Seeded](&sink, n, hash)
    finally:
        for i in range(held):
            Py_DECREF(objects[i])
        free(scratch)
        free(texts)
    return 0


cdef bint hash_long_texts(
    const Text *texts, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept nogil:
    """Hash texts in groups if that is faster; return whether it was done."""
    cdef Group group
    cdef Py_ssize_t i, some = min(n, <Py_ssize_t>LANES), first = 0
    cdef size_t octets = 0
    for i in range(some):  # which tell how long all are: only time depends on it
        octets += texts[i].length
    if not in_groups[Seeded](octets, some, hash):
        return False
    while first < n:
        some = min(n - first, <Py_ssize_t>LANES)
        for i in range(some):
            group.at[i], group.lengths[i] = texts[first + i].at, texts[first + i].length
        hash_group[Seeded](&group, some, hash, h1 + first, h2 + first)
        first += some
    return True


cdef inline PyObject *kept(PyObject *item) except NULL:
    """Return a new reference to a key, or to its UTF-8 where the text itself cannot be read.

    The UTF-8 is a new object: that of `PyUnicode_AsUTF8AndSize` would stay in the caller's object.
    """
    if HIDES_TEXT and PyUnicode_CheckExact(item):
        return PyUnicode_AsUTF8String(item)
    Py_INCREF(item)
    return item


cdef int refuse(PyObject *item, Py_ssize_t i) except -1:
    """Raise what is wrong with a key in which `find_text` finds nothing."""
    if PyUnicode_CheckExact(item):
        raise ValueError(f"key {i} has a lone surrogate")
    raise TypeError(f"key {i} is a {type(<object>item).__name__}, not bytes or str")


cdef int hash_integers(
    const uint64_t[::1] items, const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2
) except -1:
    with nogil:
        hash_words[Seeded](&items[0], items.shape[0], hash, &h1[0], &h2[0])
    return 0


cdef int hash_spans(
    const uint8_t[::1] octets, const Offset[:] starts, const Offset[:] ends,
    const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2,
) except -1:
    cdef Sink sink = sink_of(h1, h2)
    cdef Py_ssize_t i, start, end, wrong = -1, size = octets.shape[0]
    cdef size_t some = 0
    cdef const uint8_t *base = &octets[0] if size else NULL
    if starts.shape[0] != h1.shape[0] or ends.shape[0] != h1.shape[0]:
        raise ValueError(f"{starts.shape[0]} starts, {ends.shape[0]} ends, {h1.shape[0]} keys")
    with nogil:
        # The first keys tell how long all are: only time depends on it.
        for i in range(min(starts.shape[0], <Py_ssize_t>LANES)):
            some += <size_t>ends[i] - <size_t>starts[i]
        if in_groups[Seeded](some, min(starts.shape[0], <Py_ssize_t>LANES), hash):
            wrong = hash_long_spans[Offset, Seeded](base, size, starts, ends, hash, &h1[0], &h2[0])
        else:
            for i in range(starts.shape[0]):
                # Read once: what is proved is what is used, whoever writes to the offsets.
                start, end = starts[i], ends[i]
                if not 0 <= start <= end <= size:
                    wrong = i
                    break
                take_octets[Seeded](&sink, i, base + start, end - start, hash)
            end_keys[Seeded](&sink, starts.shape[0], hash)
    if wrong >= 0:
        raise ValueError(
            f"key {wrong} is bytes {starts[wrong]} to {ends[wrong]} of a buffer of {size}"
        )
    return 0


cdef Py_ssize_t hash_long_spans(
    const uint8_t *base, Py_ssize_t size, const Offset[:] starts, const Offset[:] ends,
    const Seeded *hash, uint64_t *h1, uint64_t *h2,
) noexcept nogil:
    """Hash spans in groups; return the first that is wrong, or -1."""
    cdef Group group
    cdef Py_ssize_t i, start, end, some, first = 0, n = starts.shape[0]
    while first < n:
        some = min(n - first, <Py_ssize_t>LANES)
        for i in range(some):
            start, end = starts[first + i], ends[first + i]
            if not 0 <= start <= end <= size:
                return first + i
            group.at[i], group.lengths[i] = base + start, end - start
        hash_group[Seeded](&group, some, hash, h1 + first, h2 + first)
        first += some
    return -1


cdef int hash_rows(
    const uint8_t[:, :] rows, bint padded, const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2
) except -1:
    cdef Sink sink = sink_of(h1, h2)
    cdef Py_ssize_t i
    cdef size_t length, width = rows.shape[1]
    cdef const uint8_t *row
    if rows.shape[0] != h1.shape[0] or (width > 1 and rows.strides[1] != 1):
        raise ValueError(f"{rows.shape[0]} rows for {h1.shape[0]} keys, or bytes apart")
    with nogil:
        for i in range(rows.shape[0]):
            row = &rows[i, 0] if width else NULL
            length = width
            if padded:
                while length >= 8 and load_8(row + length - 8) == 0:
                    length -= 8
                while length and row[length - 1] == 0:
                    length -= 1
            take_octets[Seeded](&sink, i, row, length, hash)
        end_keys[Seeded](&sink, rows.shape[0], hash)
    return 0


cdef int hash_texts(
    const uint32_t[:, ::1] rows, const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2
) except -1:
    cdef Sink sink = sink_of(h1, h2)
    cdef Py_ssize_t i, wrong = -1
    cdef size_t width = rows.shape[1]
    cdef Text text
    cdef uint8_t *scratch
    if rows.shape[0] != h1.shape[0] or not width:
        raise ValueError(f"{rows.shape[0]} texts for {h1.shape[0]} keys, or of no width")
    scratch = <uint8_t *>malloc(4 * width)
    if scratch == NULL:
        raise MemoryError
    with nogil:
        for i in range(rows.shape[0]):
            text.at = <const uint8_t *>&rows[i, 0]
            text.width = 4
            text.length = width
            while text.length and rows[i, text.length - 1] == 0:
                text.length -= 1
            if not encodable(&text):
                wrong = i
                break
            spell(&text, scratch)
            take_octets[Seeded](&sink, i, text.at, text.length, hash)
        end_keys[Seeded](&sink, rows.shape[0], hash)
    free(scratch)
    if wrong >= 0:
        raise ValueError(f"key {wrong} has a lone surrogate")
    return 0


cdef int hash_views(
    const uint8_t[:, ::1] views, list buffers, const Seeded *hash, uint64_t[::1] h1, uint64_t[::1] h2
) except -1:
    """Hash Arrow's views: 4 bytes of length, then up to 12 of text, or 4 + buffer + offset."""
    cdef Py_ssize_t i, wrong
    cdef uint64_t count = len(buffers)
    cdef const uint8_t[::1] buffer
    if views.shape[0] != h1.shape[0] or views.shape[1] != 16:
        raise ValueError(f"views of shape {views.shape[0]}, {views.shape[1]} for {h1.shape[0]} keys")
    cdef Text *texts = <Text *>malloc((count or 1) * sizeof(Text))
    if texts == NULL:
        raise MemoryError
    try:
        for i in range(count):
            buffer = buffers[i]
            texts[i].at = &buffer[0] if buffer.shape[0] else NULL
            texts[i].length = buffer.shape[0]
        wrong = hash_all_views[Seeded](views, texts, count, hash, h1, h2)
    finally:
        free(texts)
    if wrong >= 0:
        raise ValueError(f"key {wrong} is a view that points past its buffer")
    return 0


cdef Py_ssize_t hash_all_views(
    const uint8_t[:, ::1] views, const Text *texts, uint64_t count, const Seeded *hash,
    uint64_t[::1] h1, uint64_t[::1] h2,
) except -2:
    """Hash all views; return the first that is wrong, or -1."""
    cdef Sink sink = sink_of(h1, h2)
    cdef Py_ssize_t i
    cdef uint64_t which, offset, length
    cdef const uint8_t *view
    with nogil:
        for i in range(views.shape[0]):
            view = &views[i, 0]
            length = load_4(view)
            if length <= 12:
                take_octets[Seeded](&sink, i, view + 4, length, hash)
                continue
            which, offset = load_4(view + 8), load_4(view + 12)
            if which >= count or offset + length > texts[which].length:
                return i
            take_octets[Seeded](&sink, i, texts[which].at + offset, length, hash)
        end_keys[Seeded](&sink, views.shape[0], hash)
    return -1
