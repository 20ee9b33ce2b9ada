# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False
"""Keys one or a few at a time, compiled: from the call to the bits, with no bytecode between.

A call that looks at the file (the definition, in `reference.single`) gives grounds to go without
a look for a moment: until the coarse clock of the kernel, which is read in 5 ns where a look takes
a microsecond, has gone on; or the file names another array; or somebody has to be told something.
What such a call takes for granted was true within that moment, as if it had come then.

A filter of several files, the parts, does the same, newest first. Which files there are is asked
for each call, by a `stat` of their list: a key may have been added to one that is newer.

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
from mmbloom._engine.compiled.sink cimport Murmur3, Seeded, Sink, SipHash, end_keys, take_octets
from mmbloom._engine.compiled.text cimport (
    PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_ASCII, PyUnicode_KIND, encodable, encode,
    has_layout,
)

from mmbloom._machine.moments import MOMENT_NS
from mmbloom.format import header

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/stat.h>
    #include <time.h>
    typedef struct { uint64_t device, inode, size, mtime; } mmbloom_Stamp;
    /* What is there; False if nothing is. */
    static inline int mmbloom_look(const char *path, mmbloom_Stamp *found) {
        struct stat status;
        if (stat(path, &status)) return 0;
        found->device = status.st_dev;
        found->inode = status.st_ino;
        found->size = status.st_size;
        found->mtime = (uint64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        return 1;
    }
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
    ctypedef struct Stamp "mmbloom_Stamp":
        uint64_t device, inode, size, mtime
    bint look "mmbloom_look"(const char *, Stamp *) noexcept nogil
    enum:
        COARSE "MMBLOOM_CLOCK"
        CLOCK_MONOTONIC
        CLOCK_REALTIME
    int64_t now_by "mmbloom_now"(int) noexcept nogil

cdef enum:
    KEYS = 1000  # after so many there is a look, too: 60 us, of which it takes a twentieth
    FEW = 256  # keys of a call: of more the look is a tenth, and other threads would wait
    LONGEST = 512  # code points of a text that is not ASCII

cdef enum Taken:
    NOT_TAKEN
    WITHIN  # a block that has it
    SEIZED

cdef Py_ssize_t KEYS_ADDED = header.KEYS_ADDED
cdef Py_ssize_t POSITIONS_SET = header.POSITIONS_SET
cdef int64_t MOMENT = MOMENT_NS
cdef int64_t EVER = 0x7FFFFFFFFFFFFFFF
cdef object EVERY_BIT = 2**64 - 1
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


cdef class Part:
    """The array of one file, and what tells that it is still the one to ask."""

    cdef OneKey one
    cdef const uint64_t[::1] named
    cdef uint64_t expected
    cdef const uint64_t[::1] news
    cdef uint64_t known

    def __cinit__(self, one, named, expected, news, known):
        self.one, self.named, self.expected = one, named, expected
        self.news, self.known = news, known


cdef inline bint is_in_any(tuple parts, Py_ssize_t first, uint64_t h1, uint64_t h2):
    """Test a key that is hashed in all files but so many of the newest."""
    cdef Py_ssize_t i
    for i in range(first, len(parts)):
        if (<Part>parts[i]).one.has(h1, h2):
            return True
    return False


@cython.no_gc_clear
cdef class SingleKeys:
    """The base of a filter that looks at its files; see `reference.single.SingleKeys`."""

    cdef tuple parts  # newest first
    cdef LockState lock
    cdef LockState section
    cdef bytes path
    cdef Stamp stamp
    cdef object kept
    cdef bint each
    cdef bint renews
    cdef int64_t since
    cdef int64_t ends
    cdef const uint64_t[::1] listed
    cdef uint64_t edition
    cdef int64_t listed_until
    cdef int64_t until
    cdef int left  # keys; none without grounds
    cdef unsigned int looks  # how often trust has ended
    cdef bint plain  # no key is excluded
    cdef bint fresh  # as somebody has just looked
    cdef double full_at
    cdef double capacity

    def _look_again(self):
        """Look at the file before the next key."""
        require(self)
        self.left = 0
        self.looks += 1
        self.parts, self.lock, self.section, self.path = None, None, None, None
        self.kept = self.listed = None

    cdef inline bint is_unchanged(self):
        cdef Part part
        cdef Py_ssize_t i
        # The clock first: to read a file that was cut is a fatal signal.
        if now_by(COARSE) >= self.until or self.listed[0] != self.edition:
            return False
        for i in range(len(self.parts)):
            part = <Part>self.parts[i]
            if part.named[0] != part.expected or part.news[0] != part.known:
                return False
        return self.ends == EVER or self.since <= now_by(CLOCK_REALTIME) < self.ends

    cdef inline bint is_trusted(self, Py_ssize_t keys):
        if self.left < keys or not self.is_unchanged():
            return False
        self.left -= keys
        return True

    cdef inline bint is_stamped(self, const Stamp *found):
        return (
            found.inode == self.stamp.inode
            and found.device == self.stamp.device
            and found.size == self.stamp.size
            and (found.mtime == self.stamp.mtime or not self.each)
        )

    cdef inline bint is_listed(self):
        """Look whether these are all the files; for others to run meanwhile it is too short."""
        cdef Stamp found
        return not self.each or (look(self.path, &found) and self.is_stamped(&found))

    cdef bint is_there(self):
        """Look whether the file, or the list, is; many wait for that, so that it is worth it."""
        cdef Stamp found
        cdef bytes path = self.path
        cdef const char *at
        cdef bint any
        if path is None:
            return False
        at = path
        with nogil:
            any = look(at, &found)
        return any and self.is_stamped(&found)

    cdef bint is_listed_anew(self):
        """Tell whether somebody is to look which keys are excluded."""
        return now_by(CLOCK_MONOTONIC) > self.listed_until

    cdef inline bint is_right_for(self, tuple parts, Py_ssize_t keys):
        """Tell, with the lock, whether keys may be added to the newest, and fit into the plan."""
        cdef OneKey one = (<Part>parts[0]).one
        return (
            self.parts is parts
            and self.is_unchanged()
            and <double>one.counters[POSITIONS_SET] + keys * one.shape.num_hashes <= self.full_at
            and <double>one.counters[KEYS_ADDED] + keys <= self.capacity
            and self.is_listed()
        )

    cdef Taken take_lock(self, tuple parts, Py_ssize_t keys) except *:
        """Take the lock for keys that are hashed, if it is free and all is as it was."""
        cdef LockState lock = self.lock
        if lock is None:
            return NOT_TAKEN
        if self.section.depth:
            # The lock, too: a block of a folder that waits for it is around a handler already.
            if self.section.around() and lock.mine() and self.is_right_for(parts, keys):
                return WITHIN
        elif lock.seize():
            if self.is_right_for(parts, keys):
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

        The file is looked at once more: that call may have taken long since it did. What ends the
        trust meanwhile, as another thread or a finalizer that closes the filter does, has ended
        it. What a signal handler raises amid this is raised.
        """
        cdef tuple parts
        cdef LockState lock, section
        cdef const uint64_t[::1] listed
        cdef bytes path
        cdef object mtime
        cdef Stamp stamp
        cdef uint64_t edition
        cdef double full_at, capacity, listed_until, since, ends
        cdef bint plain, each, renews
        cdef int gone = KEYS - self.left if self.parts is not None else 0
        cdef int64_t began = now_by(COARSE)
        if not 0 < keys <= FEW:
            return 0
        self.left = 0
        try:
            grounds = self._grounds(gone, KEYS)
        except BaseException:
            self._look_again()
            raise
        if grounds is None:
            self._look_again()
            return 0
        try:
            (
                found, lock, section,
                (path, stamp.device, stamp.inode, stamp.size, mtime), kept, each, since,
                ends, renews, listed, edition, listed_until, plain, full_at, capacity,
            ) = grounds
            stamp.mtime = mtime & EVERY_BIT  # before 1970, and after 2554, as `look` counts them
            parts = tuple([Part(*one) for one in found])
        except Exception:  # the next key looks again; this call's answer is right all the same
            self._look_again()
            return 0
        # Let go of only when all is noted: what goes may run anything.
        before = self.parts, self.lock, self.section, self.kept
        if looks == self.looks:
            self.parts, self.lock, self.section = parts, lock, section
            self.path, self.stamp, self.kept = path, stamp, kept
            self.each, self.renews = each, renews
            self.since = <int64_t>(since * 1e9) if ends < 1e9 * 9 else 0
            self.ends = <int64_t>(ends * 1e9) if ends < 1e9 * 9 else EVER
            self.listed, self.edition = listed, edition
            self.listed_until = <int64_t>(listed_until * 1e9)
            self.plain, self.full_at, self.capacity = plain, full_at, capacity
            self.fresh = plain and not self.is_listed_anew()
            self.until = began + MOMENT
            self.left = KEYS
        return 0

    def __contains__(self, key):
        """Tell whether one key was added (or is a false positive), and is not excluded."""
        cdef uint64_t h1, h2
        cdef tuple parts
        cdef unsigned int looks
        cdef bint found
        if self.is_trusted(1):
            parts = self.parts
            (<Part>parts[0]).one.hash(key, &h1, &h2)  # which may call anything
            if not self.each or (self.parts is parts and self.is_listed()):
                found = is_in_any(parts, 0, h1, h2)
                if self.fresh or not found:  # only a hit may be excluded
                    return found
        looks = self.looks
        found = super(SingleKeys, self).__contains__(key)
        self.renew(looks, 1)
        return found

    def contains_many(self, keys, *, nulls="error"):
        """See `Filter.contains_many`."""
        cdef uint64_t[FEW] h1, h2
        cdef uint8_t[FEW] more
        cdef uint8_t *answers
        cdef uint8_t *here
        cdef OneKey one
        cdef tuple parts
        cdef Py_ssize_t i, j, n = PyList_GET_SIZE(keys) if type(keys) is list else 0
        cdef unsigned int looks
        require(self)
        if 0 < n <= FEW and self.plain and (nulls == "error" or nulls == "skip"):
            found = empty(n, bool_)
            answers = octets_of(found)
            # `plain` once more: while the file is looked at, other threads run.
            if self.is_there() and self.is_trusted(n) and self.plain:
                parts = self.parts
                if hash_few((<Part>parts[0]).one, keys, n, h1, h2):
                    for i in range(len(parts)):
                        one, here = (<Part>parts[i]).one, answers
                        if i:
                            here = &more[0]
                        with nogil:  # a page may have to come from the disk
                            find(&one.words[0], h1, h2, n, &one.shape, here)
                            for j in range(n):
                                answers[j] |= here[j]
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
        cdef tuple parts
        cdef unsigned int looks
        cdef Taken taken
        cdef bint new
        require(self)
        if self.fresh and self.full_at > 0 and self.left:  # all else is looked at with the lock
            self.left -= 1
            parts = self.parts
            (<Part>parts[0]).one.hash(key, &h1, &h2)  # which may call anything
            taken = self.take_lock(parts, 1)
            if taken:
                new = not is_in_any(parts, 1, h1, h2)
                if new or self.renews:
                    new = (<Part>parts[0]).one.put(h1, h2) and new
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
        cdef tuple parts
        cdef Py_ssize_t n = PyList_GET_SIZE(keys) if type(keys) is list else 0
        cdef unsigned int looks
        cdef Taken taken
        require(self)
        if 0 < n <= FEW and self.plain and (nulls == "error" or nulls == "skip"):
            new = empty(n, bool_)
            answers = octets_of(new)
            if self.full_at > 0 and self.is_there() and self.is_trusted(n) and self.plain:
                parts, lock = self.parts, self.lock
                one = (<Part>parts[0]).one
                if (
                    len(parts) == 1
                    and not self.is_listed_anew()
                    and hash_few(one, keys, n, h1, h2)
                ):
                    taken = self.take_lock(parts, n)
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
