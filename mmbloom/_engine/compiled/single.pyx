# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False
"""Keys one or a few at a time, compiled: from the call to the bits, with no bytecode between.

A call that looks at the file (the definition, in `reference.single`) gives grounds to go without
a look for a moment: until the coarse clock of the kernel, which is read in 5 ns where a look takes
a microsecond, has gone on; or the file names another array; or somebody has to be told something.
What such a call takes for granted was true within that moment, as if it had come then.

The lock is taken for each call all the same, or held around them. What is not the plain case, as
a key of a rare type is not, goes the other way, which also says what is wrong.
"""

cimport cython

import numpy as np

from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr

from mmbloom._engine.compiled.bits cimport OneKey, find
from mmbloom._engine.compiled.holding cimport LockState
from mmbloom._engine.compiled.keyed cimport Murmur3, Seeded, Sink, SipHash, end_keys, take_octets
from mmbloom._engine.compiled.text cimport (
    PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_ASCII, PyUnicode_KIND, encodable, encode,
    has_layout,
)

from mmbloom.format import header

cdef extern from "<sys/stat.h>" nogil:
    ctypedef unsigned long dev_t
    ctypedef unsigned long ino_t
    ctypedef long off_t
    struct struct_stat "stat":
        dev_t st_dev
        ino_t st_ino
        off_t st_size
    int stat(const char *, struct_stat *)

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    #ifdef CLOCK_MONOTONIC_COARSE
    #define MMBLOOM_CLOCK CLOCK_MONOTONIC_COARSE
    #else
    #define MMBLOOM_CLOCK CLOCK_MONOTONIC
    #endif
    static inline int64_t mmbloom_now(clockid_t clock) {
        struct timespec now;
        clock_gettime(clock, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    enum:
        COARSE "MMBLOOM_CLOCK"
        CLOCK_MONOTONIC
    int64_t now_by "mmbloom_now"(int) noexcept nogil

cdef enum:
    MOMENT = 1000000  # ns
    KEYS = 1000  # after so many there is a look, too: 60 us, of which it takes a twentieth
    FEW = 256  # keys of a call: of more the look is a tenth, and other threads would wait
    LONGEST = 512  # code points of a text that is not ASCII

cdef enum Taken:
    NOT_TAKEN
    WITHIN  # a block that has it
    SEIZED

cdef Py_ssize_t POSITIONS_SET = header.POSITIONS_SET
cdef object empty = np.empty, bool_ = np.bool_


cdef uint8_t *octets_of(array) except NULL:
    """Give the place of an array's items, which stays as long as the array."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return <uint8_t *>view.buf


cdef bint hash_few(OneKey one, list keys, Py_ssize_t n, uint64_t *h1, uint64_t *h2) noexcept:
    """Hash the keys of a list if they are n of plain bytes or text; nothing is called meanwhile."""
    if one.keyed:
        return hash_plain[SipHash](keys, n, &one.siphash, h1, h2)
    return hash_plain[Murmur3](keys, n, &one.murmur3, h1, h2)


cdef bint hash_plain(
    list keys, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept:
    cdef Sink sink
    cdef uint8_t[4 * LONGEST] scratch
    cdef const uint8_t *at
    cdef PyObject *key
    cdef Py_ssize_t i, length
    if PyList_GET_SIZE(keys) != n:
        return False
    sink.h1, sink.h2 = h1, h2
    for i in range(n):
        key = <PyObject *>PyList_GET_ITEM(keys, i)
        if type(<object>key) is bytes:
            at = <const uint8_t *>PyBytes_AS_STRING(<object>key)
            length = PyBytes_GET_SIZE(<object>key)
        elif type(<object>key) is str and has_layout(key):
            at, length = <const uint8_t *>PyUnicode_DATA(key), PyUnicode_GET_LENGTH(key)
            if not PyUnicode_IS_ASCII(key):
                if length > LONGEST or not encodable(at, PyUnicode_KIND(key), length):
                    return False
                length, at = encode(at, PyUnicode_KIND(key), length, scratch), scratch
        else:
            return False
        take_octets[Seeded](&sink, i, at, length, hash)
    end_keys[Seeded](&sink, n, hash)
    return True


@cython.no_gc_clear
cdef class SingleKeys:
    """The base of a filter that looks at its file; see `reference.single.SingleKeys`."""

    cdef OneKey one
    cdef LockState lock
    cdef bytes path
    cdef dev_t device
    cdef ino_t inode
    cdef off_t size
    cdef const uint64_t[::1] named
    cdef uint64_t expected
    cdef const uint64_t[::1] listed
    cdef uint64_t edition
    cdef int64_t listed_until
    cdef const uint64_t[::1] news
    cdef uint64_t known
    cdef int64_t until
    cdef int left  # keys; none without grounds
    cdef unsigned int looks  # how often trust has ended
    cdef bint plain  # no key is excluded
    cdef bint fresh  # as somebody has just looked
    cdef double full_at

    def _look_again(self):
        """Look at the file before the next key."""
        require(self)
        self.left = 0
        self.looks += 1
        self.one, self.lock, self.path = None, None, None
        self.named = self.listed = self.news = None

    cdef inline bint is_unchanged(self):
        return (
            now_by(COARSE) < self.until  # first: to read a file that was cut is a fatal signal
            and self.named[0] == self.expected
            and self.listed[0] == self.edition
            and self.news[0] == self.known
        )

    cdef inline bint is_trusted(self, Py_ssize_t keys):
        if self.left < keys or not self.is_unchanged():
            return False
        self.left -= keys
        return True

    cdef bint is_there(self):
        """Look whether the file is; many wait for that together, so that it is worth it."""
        cdef struct_stat found
        cdef bytes path = self.path
        cdef const char *at
        cdef int failed
        if path is None:
            return False
        at = path
        with nogil:
            failed = stat(at, &found)
        return (
            not failed
            and found.st_ino == self.inode
            and found.st_dev == self.device
            and found.st_size == self.size
        )

    cdef bint is_listed_anew(self):
        """Tell whether somebody is to look which keys are excluded."""
        return now_by(CLOCK_MONOTONIC) > self.listed_until

    cdef inline bint is_right_for(self, OneKey one, Py_ssize_t keys):
        """Tell, with the lock, whether keys may be added to this array, and fit into the plan."""
        return (
            self.one is one
            and self.is_unchanged()
            and <double>one.counters[POSITIONS_SET] + keys * one.shape.num_hashes <= self.full_at
        )

    cdef Taken take_lock(self, OneKey one, Py_ssize_t keys) except *:
        """Take the lock for keys that are hashed, if it is free and all is as it was."""
        cdef LockState lock = self.lock
        if lock is None:
            return NOT_TAKEN
        if lock.depth:
            if lock.around() and self.is_right_for(one, keys):
                return WITHIN
        elif lock.seize():
            if self.is_right_for(one, keys):
                return SEIZED
            lock.let_go()
        return NOT_TAKEN

    cdef unsigned int begin_look(self, Py_ssize_t keys):
        """Note what a call that looks at the file begins with; many keys need no grounds."""
        if not 0 < keys <= FEW:
            self._look_again()
        return self.looks

    cdef int renew(self, unsigned int looks, Py_ssize_t keys) except -1:
        """Ask for grounds, after a call the long way, whose answer is known.

        The file is looked at once more: that call may have taken long since it did. What ends the trust meanwhile, as another thread or a finalizer that closes the filter
        does, has ended it. What a signal handler raises amid this is raised.
        """
        cdef OneKey one
        cdef LockState lock
        cdef const uint64_t[::1] named, listed, news
        cdef bytes path
        cdef dev_t device
        cdef ino_t inode
        cdef off_t size
        cdef uint64_t expected, edition, known
        cdef double full_at, listed_until
        cdef bint plain
        cdef int gone = KEYS - self.left if self.one is not None else 0
        cdef int64_t began = now_by(COARSE)
        if not 0 < keys <= FEW:
            return 0
        self.left = 0
        try:
            grounds = self._grounds(gone, KEYS)
            if grounds is None:
                self._look_again()
                return 0
            (
                one, lock, (path, device, inode, size), named, expected, listed, edition,
                listed_until, news, known, plain, full_at,
            ) = grounds
        except BaseException:
            self._look_again()
            raise
        # Let go of only when all is noted: what goes may run anything.
        before = self.one, self.lock
        if looks == self.looks:
            self.one, self.lock = one, lock
            self.path, self.device, self.inode, self.size = path, device, inode, size
            self.named, self.listed, self.news = named, listed, news
            self.expected, self.edition, self.known = expected, edition, known
            self.listed_until = <int64_t>(listed_until * 1e9)
            self.plain, self.full_at = plain, full_at
            self.fresh = plain and not self.is_listed_anew()
            self.until = began + MOMENT
            self.left = KEYS
        return 0

    def __contains__(self, key):
        """Tell whether one key was added (or is a false positive), and is not excluded."""
        cdef uint64_t h1, h2
        cdef OneKey one
        cdef unsigned int looks
        cdef bint found
        if self.is_trusted(1):
            one = self.one
            one.hash(key, &h1, &h2)
            found = one.has(h1, h2)
            if self.fresh or not found:  # only a hit may be excluded
                return found
        looks = self.looks
        found = super(SingleKeys, self).__contains__(key)
        self.renew(looks, 1)
        return found

    def contains_many(self, keys, *, nulls="error"):
        """See `Filter.contains_many`."""
        cdef uint64_t[FEW] h1, h2
        cdef uint8_t *answers
        cdef OneKey one
        cdef Py_ssize_t n = PyList_GET_SIZE(keys) if type(keys) is list else 0
        cdef unsigned int looks
        require(self)
        if 0 < n <= FEW and self.plain and (nulls == "error" or nulls == "skip"):
            found = empty(n, bool_)
            answers = octets_of(found)
            # `plain` once more: while the file is looked at, other threads run.
            if self.is_there() and self.is_trusted(n) and self.plain:
                one = self.one
                if hash_few(one, keys, n, h1, h2):
                    with nogil:  # a page may have to come from the disk
                        find(&one.words[0], h1, h2, n, &one.shape, answers)
                    # Only a hit may be excluded.
                    if not memchr(answers, 1, n) or not self.is_listed_anew():
                        return found
        looks = self.begin_look(n)
        found = super(SingleKeys, self).contains_many(keys, nulls=nulls)
        self.renew(looks, n)
        return found

    def add(self, key):
        """See `Filter.add`."""
        cdef uint64_t h1, h2
        cdef OneKey one
        cdef unsigned int looks
        cdef Taken taken
        cdef bint new
        require(self)
        if self.fresh and self.full_at > 0 and self.is_trusted(1):
            one = self.one
            one.hash(key, &h1, &h2)  # which may call anything
            taken = self.take_lock(one, 1)
            if taken:
                new = one.put(h1, h2)
                if taken == SEIZED:
                    self.lock.let_go()
                return new
        looks = self.looks
        new = super(SingleKeys, self).add(key)
        self.renew(looks, 1)
        return new

    def add_many(self, keys, *, nulls="error"):
        """See `Filter.add_many`."""
        cdef uint64_t[FEW] h1, h2
        cdef uint8_t *answers
        cdef OneKey one
        cdef LockState lock
        cdef Py_ssize_t n = PyList_GET_SIZE(keys) if type(keys) is list else 0
        cdef unsigned int looks
        cdef Taken taken
        require(self)
        if 0 < n <= FEW and self.plain and (nulls == "error" or nulls == "skip"):
            new = empty(n, bool_)
            answers = octets_of(new)
            if self.full_at > 0 and self.is_there() and self.is_trusted(n) and self.plain:
                one, lock = self.one, self.lock
                if not self.is_listed_anew() and hash_few(one, keys, n, h1, h2):
                    taken = self.take_lock(one, n)
                    if taken:
                        with nogil:
                            one.put_all(h1, h2, n, answers)
                        if taken == SEIZED:
                            lock.let_go()
                        return new
        looks = self.begin_look(n)
        new = super(SingleKeys, self).add_many(keys, nulls=nulls)
        self.renew(looks, n)
        return new


cdef int require(self) except -1:
    # A method that is taken from the class can be called on anything.
    if not isinstance(self, SingleKeys):
        raise TypeError(f"expected a filter, got {type(self).__name__}")
    return 0
