# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The hash halves of every form of batch, and which lists and `U` arrays can be hashed.

Those of `reference.hash`, answer for answer. Bytes are hashed where they lie: those of arrays
without the interpreter, those of a list while the caller keeps it. Each span and view is proved to
lie within its buffer before it is read. Every text is checked before the first is added: a batch
with a wrong key adds nothing.

A batch is a job that threads share. Each hashes some keys at a time, which a kernel that changes
nothing then looks up from the thread's stack.
"""

cimport cython

import numpy as np

from mmbloom._engine.key_batch import (
    ByteKeys, DictionaryKeys, HashedKeys, IntegerKeys, PackedKeys, RowKeys, TextKeys, ViewKeys,
)

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mmbloom._engine.compiled.blocks cimport Shape
from mmbloom._engine.compiled.octets cimport address_of, load_4, load_8
from mmbloom._engine.compiled.hashes cimport (
    LONG, Murmur3, Seeded, Sink, SipHash, end_keys, hash_words, murmur3_of, siphash_of,
    siphash_of_octets, take_octets,
)
from mmbloom._engine.compiled.positions cimport length_of
from mmbloom._engine.compiled.regions cimport GATHERED, Kernel
from mmbloom._engine.compiled.text cimport (
    HIDES_TEXT, LONGEST, PyUnicode_CheckExact, Text, encodable, encodable_points, find_text,
    get_item, item_of, spell,
)
from mmbloom._engine.compiled.threads cimport (
    FEWEST_A_THREAD, MOST_THREADS, in_threads, take_next, threads_for,
)


cdef extern from "Python.h":
    void Py_DECREF(PyObject *)
    PyObject *PyUnicode_AsUTF8String(PyObject *) except NULL

cdef enum:
    SLICE = 1 << 14  # texts checked at a time, as numpy copies them
    FEW = 8  # keys that tell how long the others are
    OCTETS = 1 << 24  # of a list at a time: so many are hashed in some milliseconds
    NO_MEMORY = -3  # in the place of a wrong key


cdef enum Form:
    HASHES
    PLACES  # in hashes
    WORDS
    ROWS
    POINTS  # code points of one width
    LISTED
    SPANS
    SHORT_SPANS  # whose offsets are int32
    VIEWS


cdef struct Keys:
    # Keys where they lie: of each form some of this.
    Form form
    Py_ssize_t n
    const uint8_t *at  # the first hash, word, row, text or view, or what spans lie in
    const uint8_t *starts  # the first start of a span, or place
    const uint8_t *ends  # the first end, or second hash
    Py_ssize_t apart, starts_apart, ends_apart  # bytes from one to the next
    size_t size  # bytes of a row, or that spans lie in; code points of a text; buffers; hashes
    bint padded  # rows end before trailing NULs
    const Text *buffers  # that views point into
    PyObject *items  # the list
    Py_ssize_t first  # its first item that is a key


cdef struct Job:
    # What the threads of a call share.
    Keys keys
    bint keyed  # which of the next two it is
    SipHash siphash
    Murmur3 murmur3
    uint64_t *h1  # where the hashes go
    uint64_t *h2
    Kernel kernel  # or, if it is not NULL, what they are for, and where its answers go
    const uint64_t *words
    const Shape *shape
    uint8_t *answers
    Py_ssize_t next  # the first key that no thread has taken
    Py_ssize_t[MOST_THREADS] wrong  # what each thread has met first that is no key, or -1


def plain(list items):
    """Return whether each item is `bytes`, or a `str` that encodes; see `reference.hash.plain`."""
    cdef Py_ssize_t i, n
    cdef PyObject *item
    cdef Text text
    with cython.critical_section(items):
        n = PyList_GET_SIZE(items)
        for i in range(n):
            item = item_of(<PyObject *>items, i, n)
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


def hash_keys(keys, key_hash, Py_ssize_t threads=1):
    """Hash a batch to (h1, h2), two new uint64 arrays of shape (n,); see `reference.hash`."""
    cdef Job job
    # One array: of two, the allocator gave the memory back after each call, 5 ns more a key.
    h1, h2 = np.empty((2, len(keys)), dtype=np.uint64)
    job.h1, job.h2 = <uint64_t *>address_of(h1), <uint64_t *>address_of(h2)
    job.kernel = NULL
    do_job(&job, keys, key_hash, threads)
    return h1, h2


cdef object look_up(
    Kernel kernel, const uint64_t *words, const Shape *shape, keys, key_hash, Py_ssize_t threads
):
    """Hash a batch and run a kernel that changes nothing on it; return a bool array of shape (n,).

    Hashes of arrays stay on the stacks of the threads. Those of a list do not, as the interpreter
    is kept until it is hashed.
    """
    cdef Job job
    if isinstance(keys, ByteKeys):
        keys = HashedKeys(*hash_keys(keys, key_hash, threads))
    answers = np.empty(len(keys), dtype=np.bool_)
    job.kernel, job.words, job.shape = kernel, words, shape
    job.answers = address_of(answers)
    do_job(&job, keys, key_hash, threads)
    return answers


def siphash(const uint8_t[::1] octets, key, int compressions=1, int finalizations=3):
    """Hash one input, with any numbers of rounds; see `reference.hash.siphash`."""
    cdef uint64_t h1, h2
    cdef SipHash keyed = siphash_of(key & 0xFFFFFFFFFFFFFFFF, key >> 64)
    cdef const uint8_t *at = &octets[0] if octets.shape[0] else NULL
    siphash_of_octets(at, octets.shape[0], keyed.state, compressions, finalizations, &h1, &h2)
    return h1, h2


cdef int do_job(Job *job, keys, key_hash, Py_ssize_t threads) except -1:
    """Do a job with the keys of a batch, in whatever form."""
    cdef Py_ssize_t wrong
    name, seed = key_hash
    job.keyed = name == "siphash"
    if job.keyed:
        job.siphash = siphash_of(seed & 0xFFFFFFFFFFFFFFFF, seed >> 64)
    elif name == "murmur3":
        job.murmur3 = murmur3_of(seed)
    else:
        raise AssertionError(f"{name!r} is no hash of this engine")
    if isinstance(keys, ByteKeys):
        return do_list(job, keys.items, keys.start, keys.stop, threads)
    job.keys.n = len(keys)
    if not job.keys.n:
        return 0
    held = find_keys(&job.keys, keys, key_hash, threads)  # until the end of this call
    with nogil:
        wrong = run(job, threads_for(job.keys.n, threads))
    if wrong >= 0:
        fault = "has a lone surrogate" if job.keys.form == POINTS else "lies outside its buffer"
        raise ValueError(f"key {wrong} {fault}")
    return 0


cdef object find_keys(Keys *to, keys, key_hash, Py_ssize_t threads):
    """Find where the keys of a batch lie; return what is to be kept as long as they are read."""
    cdef Text *buffer
    cdef const int64_t[::1] words
    cdef const uint8_t[:, :] rows
    cdef const uint8_t[::1] octets
    if isinstance(keys, DictionaryKeys):
        if key_hash not in keys.hashes:
            keys.hashes[key_hash] = hash_keys(keys.values, key_hash, threads)
        h1, h2 = keys.hashes[key_hash]
        to.form, to.at, to.ends, to.size = PLACES, address_of(h1), address_of(h2), len(h1)
        to.starts, to.starts_apart = address_of(keys.indices), keys.indices.strides[0]
        return h1, h2
    if isinstance(keys, HashedKeys):
        h1, h2 = keys.h1, keys.h2
        length_of(h1, h2)
        to.form, to.at, to.ends = HASHES, address_of(h1), address_of(h2)
        return h1, h2
    if isinstance(keys, IntegerKeys):
        # Any width, byte order and stride becomes 8 aligned bytes.
        items = keys.items.astype("<i8", copy=False)
        if not (items.flags.c_contiguous and items.flags.aligned):
            items = items.copy()
        words = items
        to.form, to.at = WORDS, <const uint8_t *>&words[0]
        return items
    if isinstance(keys, RowKeys):
        items = keys.rows if keys.rows.strides[1] == 1 else np.ascontiguousarray(keys.rows)
        rows = items
        to.form, to.at, to.padded = ROWS, address_of(items), keys.padded
        to.size, to.apart = rows.shape[1], rows.strides[0]
        return items
    if isinstance(keys, TextKeys):
        items = code_points(keys.items)
        to.form, to.at = POINTS, address_of(items)
        to.size, to.apart = items.shape[1], items.strides[0]
        return items
    if isinstance(keys, ViewKeys):
        items = np.ascontiguousarray(keys.views)
        if items.shape[1:] != (16,):
            raise ValueError(f"views of shape {items.shape}, expected 16 bytes each")
        places = np.empty(len(keys.buffers) * sizeof(Text), np.uint8)
        buffer = <Text *>address_of(places)
        to.form, to.at = VIEWS, address_of(items)
        to.size, to.buffers = len(keys.buffers), buffer
        for octets in keys.buffers:
            buffer.at, buffer.length = &octets[0], octets.shape[0]
            buffer += 1
        return items, places
    if not isinstance(keys, PackedKeys):
        raise TypeError(f"{type(keys).__name__} is no form of batch")
    starts, ends, octets = keys.starts, keys.ends, keys.octets
    if starts.ndim != 1 or starts.shape != ends.shape:
        raise ValueError(f"starts of shape {starts.shape}, ends of shape {ends.shape}")
    to.form = SHORT_SPANS
    if starts.dtype != np.int32 or ends.dtype != np.int32:
        starts, ends = starts.astype(np.int64, copy=False), ends.astype(np.int64, copy=False)
        to.form = SPANS
    to.at, to.size = &octets[0], octets.shape[0]
    to.starts, to.starts_apart = address_of(starts), starts.strides[0]
    to.ends, to.ends_apart = address_of(ends), ends.strides[0]
    return starts, ends


cdef int do_list(
    Job *job, list items, Py_ssize_t first, Py_ssize_t stop, Py_ssize_t threads
) except -1:
    """Hash a part of a list, some keys at a time.

    The caller keeps the interpreter, so no object of the list goes away while threads read it;
    between two parts others may run. Holding a reference to each object instead made two threads
    no faster than one.
    """
    cdef Py_ssize_t i, n, wrong
    cdef size_t octets
    cdef Text text
    cdef list part
    job.keys.form = LISTED
    while first < stop:
        n = min(FEWEST_A_THREAD * max(1, min(threads, MOST_THREADS)), stop - first)
        if HIDES_TEXT:
            part, job.keys.first = [encoded(item) for item in items[first : first + n]], 0
        else:
            part, job.keys.first = items, first
        with cython.critical_section(part):
            if job.keys.first + n > PyList_GET_SIZE(part):
                raise ValueError("the list of keys changed its size while in use")
            octets = 0
            for i in range(min(n, FEW)):  # which tell how long all are, and so how many to take
                if find_text(get_item(<PyObject *>part, job.keys.first + i), &text):
                    octets += text.length
            n = min(n, max(GATHERED, FEW * OCTETS // (octets + 1)))
            job.keys.n, job.keys.items = n, <PyObject *>part
            wrong = run(job, threads_for(n, threads))
            if wrong >= 0:
                refuse(<PyObject *>PyList_GET_ITEM(part, job.keys.first + wrong), first + wrong)
        with nogil:
            first, job.h1, job.h2 = first + n, job.h1 + n, job.h2 + n
    return 0


cdef inline object encoded(item):
    """Return the UTF-8 of a text that only the interpreter can read."""
    return item.encode() if PyUnicode_CheckExact(<PyObject *>item) else item


cdef int refuse(PyObject *item, Py_ssize_t i) except -1:
    """Raise what is wrong with a key in which `find_text` finds nothing."""
    if PyUnicode_CheckExact(item):
        raise ValueError(f"key {i} has a lone surrogate")
    raise TypeError(f"key {i} is a {type(<object>item).__name__}, not bytes or str")


cdef Py_ssize_t run(Job *job, int threads) except -2 nogil:
    """Do a job in a number of threads; return the first that is no key, or -1."""
    cdef Py_ssize_t wrong = -1
    cdef int t
    job.next = 0
    in_threads(work, job, threads)
    for t in range(threads):
        if job.wrong[t] == NO_MEMORY:
            with gil:
                raise MemoryError
        if job.wrong[t] >= 0 and (wrong < 0 or job.wrong[t] < wrong):
            wrong = job.wrong[t]
    return wrong


cdef void work(void *given, int thread) noexcept nogil:
    """Take some keys of a job after others, until none is left."""
    cdef Job *job = <Job *>given
    cdef uint64_t[GATHERED] first, second
    cdef uint64_t *h1 = first
    cdef uint64_t *h2 = second
    cdef Py_ssize_t at, n, wrong, total = job.keys.n
    job.wrong[thread] = -1
    while True:
        at = take_next(&job.next, GATHERED, total)
        if at == total:
            return
        n = min(total - at, <Py_ssize_t>GATHERED)
        if job.kernel == NULL:
            h1, h2 = job.h1 + at, job.h2 + at
        if job.keyed:
            wrong = hash_some[SipHash](&job.keys, at, n, &job.siphash, h1, h2)
        else:
            wrong = hash_some[Murmur3](&job.keys, at, n, &job.murmur3, h1, h2)
        if wrong != -1:
            # Whoever took keys before these still does them, so the least is the first of all.
            job.wrong[thread] = wrong
            take_next(&job.next, total, total)
            return
        if job.kernel != NULL:
            job.kernel(job.words, h1, h2, n, job.shape, job.answers + at)


cdef Py_ssize_t hash_some(
    const Keys *given, Py_ssize_t first, Py_ssize_t n, const Seeded *hash, uint64_t *h1,
    uint64_t *h2,
) noexcept nogil:
    """Hash n keys from the first on; return -1, or the first that is none, or NO_MEMORY."""
    cdef Keys keys = given[0]  # the compiler sees that nothing changes it
    cdef Sink sink
    cdef Text text
    cdef Py_ssize_t i
    cdef size_t place
    cdef bint stays
    cdef uint8_t[4 * LONGEST] few
    cdef uint8_t *scratch
    if keys.form == WORDS:
        hash_words[Seeded](<const uint64_t *>keys.at + first, n, hash, h1, h2)
        return -1
    if keys.form == HASHES:
        memcpy(h1, keys.at + 8 * first, 8 * n)
        memcpy(h2, keys.ends + 8 * first, 8 * n)
        return -1
    if keys.form == PLACES:
        for i in range(n):
            place = load_8(keys.starts + (first + i) * keys.starts_apart)
            if place >= keys.size:
                return first + i
            h1[i] = (<const uint64_t *>keys.at)[place]
            h2[i] = (<const uint64_t *>keys.ends)[place]
        return -1
    sink.h1, sink.h2 = h1, h2
    for i in range(n):
        if not locate(&keys, first + i, &text):
            return first + i
        stays, scratch = text.width == 0 and text.length >= LONG, few
        if text.width and text.length > LONGEST:
            scratch = <uint8_t *>malloc(4 * text.length)
            if scratch == NULL:
                return NO_MEMORY
        spell(&text, scratch)
        take_octets[Seeded](&sink, i, text.at, text.length, stays, hash)
        if scratch != few:
            free(scratch)
    end_keys[Seeded](&sink, n, hash)
    return -1


cdef inline bint locate(const Keys *keys, Py_ssize_t i, Text *text) noexcept nogil:
    """Find where a key lies; return whether it lies in its buffer, and has UTF-8."""
    cdef Py_ssize_t start, end
    cdef uint64_t which
    cdef const uint8_t *at
    if keys.form == LISTED:
        return find_text(item_of(keys.items, keys.first + i, keys.first + keys.n), text)
    text.width = 0
    if keys.form == ROWS:
        at, text.length = keys.at + i * keys.apart, keys.size
        if keys.padded:
            while text.length >= 8 and load_8(at + text.length - 8) == 0:
                text.length -= 8
            while text.length and at[text.length - 1] == 0:
                text.length -= 1
        text.at = at
        return True
    if keys.form == POINTS:
        text.at, text.length, text.width = keys.at + i * keys.apart, keys.size, 4
        while text.length and load_4(text.at + 4 * text.length - 4) == 0:
            text.length -= 1
        return encodable(text)
    if keys.form == VIEWS:
        at = keys.at + 16 * i
        text.at, text.length = at + 4, load_4(at)
        if text.length <= 12:
            return True
        which, start = load_4(at + 8), load_4(at + 12)
        if which >= keys.size or start + text.length > keys.buffers[which].length:
            return False
        text.at = keys.buffers[which].at + start
        return True
    # Read once: what is proved is what is used, whoever writes to the offsets.
    if keys.form == SPANS:
        start = <int64_t>load_8(keys.starts + i * keys.starts_apart)
        end = <int64_t>load_8(keys.ends + i * keys.ends_apart)
    else:
        start = <int32_t>load_4(keys.starts + i * keys.starts_apart)
        end = <int32_t>load_4(keys.ends + i * keys.ends_apart)
    if not 0 <= start <= end <= <Py_ssize_t>keys.size:
        return False
    text.at, text.length = keys.at + start, end - start
    return True
