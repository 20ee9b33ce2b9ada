# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False
"""Keys one or a few at a time, compiled: from the call to the bits, with no bytecode between.

By definition (`reference.bits`) each call checks the file. Here a check makes `Grounds`, and the
next keys rely on its results as if they had come at the same time: where the arrays lie, that the
file is in its place, which keys are excluded, and what the capacity allows.

The grounds are valid until the kernel's coarse clock has advanced by a moment, or for 1,000 keys:
reading the clock takes 5 ns, a check a microsecond. They end at once when a `Word` changes, in the
header of a file or in this process, when the period of the files is over, and when `_look_again`
drops the grounds, as `close` does.

Under the lock, before a key is added, all of that is checked once more, and also that the key fits
into the capacity. A filter of several files checks for each key whether its list of files is the
same, as the key may be in a newer file. Each call takes the lock unless a block around it has it.

Signal handlers, other threads and finalizers may run in any callable, and wherever the interpreter
is released. Without the global lock (PEP 703) other threads run at any time, so the reference to
the grounds is read and replaced in a critical section. A call keeps a reference to its grounds, in
which only the number of keys left changes, and in the end checks that they are still those of the
filter. Anything but the plain case, such as a key of a rare type, takes the long way, which also
raises the errors.
"""

cimport cython

import numpy as np

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr

from mmbloom._engine.compiled.bits cimport OneKey, find
from mmbloom._engine.compiled.holding cimport LockState, read_owner
from mmbloom._engine.compiled.hashes cimport Murmur3, Seeded, Sink, SipHash, end_keys, take_octets
from mmbloom._engine.compiled.octets cimport address_of
from mmbloom._engine.compiled.text cimport LONGEST, Text, find_short_key, spell

from mmbloom._system.sections import MOMENT_NS
from mmbloom.format import header

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/stat.h>
    #include <time.h>
    #ifdef __APPLE__
    #define st_mtim st_mtimespec
    #endif
    typedef struct { uint64_t device, inode, size, mtime; } mmbloom_Stamp;
    /* Stat a path; return 0, and set errno, if that fails. */
    static inline int mmbloom_look(const char *path, mmbloom_Stamp *found) {
        struct stat status;
        if (stat(path, &status)) return 0;
        found->device = status.st_dev;
        found->inode = status.st_ino;
        found->size = status.st_size;
        found->mtime = (uint64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        return 1;
    }
    #ifdef __APPLE__ /* the clock of Python's time.monotonic, and faster */
    #define MMBLOOM_MONOTONIC CLOCK_UPTIME_RAW
    #else
    #define MMBLOOM_MONOTONIC CLOCK_MONOTONIC
    #endif
    #ifdef CLOCK_MONOTONIC_COARSE
    #define MMBLOOM_CLOCK CLOCK_MONOTONIC_COARSE
    #else
    #define MMBLOOM_CLOCK MMBLOOM_MONOTONIC
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
        MONOTONIC "MMBLOOM_MONOTONIC"
        CLOCK_REALTIME
    int64_t now_by "mmbloom_now"(int) noexcept nogil
    int read_left "mmbloom_read"(const int *) noexcept
    void write_left "mmbloom_write"(int *, int) noexcept

cdef enum:
    KEYS = 1000  # go by one check at most: they take 60 us, and the check a twentieth of that
    FEW = 256  # keys of a call: of more the check is a tenth, and other threads would wait

cdef enum Taken:
    NOT_TAKEN
    WITHIN  # a block that has it
    SEIZED

cdef Py_ssize_t KEYS_ADDED = header.KEYS_ADDED
cdef Py_ssize_t POSITIONS_SET = header.POSITIONS_SET
cdef int64_t MOMENT = MOMENT_NS
cdef int64_t EVER = 0x7FFFFFFFFFFFFFFF  # nanoseconds
cdef double EVER_SECONDS = 9e9  # the year 2255, which still fits
cdef object EVERY_BIT = 2**64 - 1
cdef object empty = np.empty, bool_ = np.bool_


cdef bint hash_few(OneKey one, list keys, Py_ssize_t n, uint64_t *h1, uint64_t *h2) noexcept:
    """Hash the keys of a list if it has n, all bytes, text or ints; call no Python code."""
    if one.keyed:
        return hash_plain[SipHash](keys, n, &one.siphash, h1, h2)
    return hash_plain[Murmur3](keys, n, &one.murmur3, h1, h2)


cdef bint hash_plain(
    list keys, Py_ssize_t n, const Seeded *hash, uint64_t *h1, uint64_t *h2
) noexcept:
    cdef Sink sink
    cdef uint8_t[4 * LONGEST] scratch
    cdef Text text
    cdef int64_t number
    cdef Py_ssize_t i
    sink.h1, sink.h2 = h1, h2
    with cython.critical_section(keys):
        if PyList_GET_SIZE(keys) != n:
            return False
        for i in range(n):
            if not find_short_key(<PyObject *>PyList_GET_ITEM(keys, i), &text, &number):
                return False
            spell(&text, scratch)
            take_octets[Seeded](&sink, i, text.at, text.length, False, hash)
    end_keys[Seeded](&sink, n, hash)
    return True


cdef int find_unlocked(
    OneKey one, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n, uint8_t *answers
) except -1:
    with nogil:  # a page may have to come from the disk
        find(&one.words[0], h1, h2, n, &one.shape, answers)
    return 0


cdef int64_t nanoseconds(double seconds) noexcept:
    """Return a time in whole nanoseconds; `EVER` if it is too far off for that, as infinity is."""
    return <int64_t>(seconds * 1e9) if seconds < EVER_SECONDS else EVER


@cython.final
cdef class Word:
    """A number in memory, and its value at the check."""

    cdef const uint64_t[::1] now
    cdef uint64_t then

    def __cinit__(self, now, then):
        self.now, self.then = now, then


@cython.final
@cython.no_gc_clear  # a finalizer of the same cycle may still use them
cdef class Grounds:
    """Result of a check; see `reference.bits.Grounds`."""

    cdef OneKey newest
    cdef tuple older
    cdef tuple words
    cdef LockState lock
    cdef LockState section
    cdef bytes path
    cdef Stamp stamp
    cdef object kept
    cdef bint each
    cdef bint renews
    cdef int64_t since
    cdef int64_t ends
    cdef int64_t listed_until
    cdef bint plain
    cdef bint fresh  # plain, and just checked
    cdef double full_at
    cdef double capacity
    cdef int64_t until  # by the coarse clock
    cdef int left  # keys

    def __cinit__(
        self, *, arrays, words, LockState lock not None, LockState section not None, file,
        listed_until, plain, full_at, capacity=INFINITY, since=0.0, ends=INFINITY, renews=False,
        each=False, kept=None,
    ):
        self.newest, *older = [<OneKey?>array for array in arrays]
        self.older = tuple(older)
        self.words = tuple([Word(now, then) for now, then in words])
        self.lock, self.section, self.kept = lock, section, kept
        self.path, self.stamp.device, self.stamp.inode, self.stamp.size, mtime = file
        self.stamp.mtime = mtime & EVERY_BIT  # before 1970, and after 2554, as `look` counts them
        self.each, self.renews = each, renews
        self.since, self.ends = nanoseconds(since), nanoseconds(ends)
        self.listed_until = nanoseconds(listed_until)
        self.plain, self.full_at, self.capacity = plain, full_at, capacity
        self.fresh = plain and not self.is_listed_anew()

    # The methods that query a key are noexcept: nothing in them raises, as both tuples exist from
    # `__cinit__` on, and checking for an error after each call cost an absent key 9 ns of 100.

    cdef inline bint are_in_force(self) noexcept:
        cdef Word word
        cdef Py_ssize_t i
        # The clock first: reading a truncated file is a fatal signal.
        if now_by(COARSE) >= self.until:
            return False
        for i in range(len(self.words)):
            word = <Word>self.words[i]
            if word.now[0] != word.then:
                return False
        return self.ends == EVER or self.since <= now_by(CLOCK_REALTIME) < self.ends

    cdef inline bint allow(self, Py_ssize_t keys) noexcept:
        """Count keys that skip the check; return whether they may."""
        if read_left(&self.left) < keys or not self.are_in_force():
            return False
        self.count(keys)
        return True

    cdef inline void count(self, Py_ssize_t keys) noexcept:
        """Count keys; two threads at once may lose a count, but the clock ends the grounds."""
        write_left(&self.left, read_left(&self.left) - <int>keys)

    cdef inline bint is_stamped(self, const Stamp *found):
        return (
            found.inode == self.stamp.inode
            and found.device == self.stamp.device
            and found.size == self.stamp.size
            and (found.mtime == self.stamp.mtime or not self.each)
        )

    cdef inline bint is_listed(self):
        """Check whether these are all the files; for one key, so no other thread runs."""
        cdef Stamp found
        return not self.each or (look(self.path, &found) and self.is_stamped(&found))

    cdef bint is_there(self):
        """Check whether they are; for several keys, so other threads run."""
        cdef Stamp found
        cdef const char *at = self.path
        cdef bint any
        with nogil:
            any = look(at, &found)
        return any and self.is_stamped(&found)

    cdef bint is_listed_anew(self):
        """Return whether the exclusions must be checked again."""
        return now_by(MONOTONIC) > self.listed_until

    cdef inline bint have_room(self, Py_ssize_t keys):
        """Return whether keys fit into the plan of the newest array."""
        cdef OneKey one = self.newest
        return (
            <double>one.counters[POSITIONS_SET] + keys * one.shape.num_hashes <= self.full_at
            and <double>one.counters[KEYS_ADDED] + keys <= self.capacity
        )

    cdef inline bint is_older(self, uint64_t h1, uint64_t h2) noexcept:
        """Return whether an older array has a key that is hashed."""
        cdef Py_ssize_t i
        for i in range(len(self.older)):
            if (<OneKey>self.older[i]).has(h1, h2):
                return True
        return False


@cython.no_gc_clear
cdef class SingleKeys:
    """The base of a filter, which checks its files; see `reference.bits.SingleKeys`."""

    cdef Grounds grounds  # None: the next key checks
    cdef unsigned int forgotten  # how often

    def _look_again(self):
        """Check the file before the next key."""
        require(self)
        cdef Grounds dropped  # in the end, as dropping it may run any code
        with cython.critical_section(self):
            self.forgotten += 1
            dropped, self.grounds = self.grounds, None

    cdef inline Grounds current(self):
        """Return the grounds; another thread may replace them as soon as this has them."""
        with cython.critical_section(self):
            return self.grounds

    cdef inline bint are_current(self, Grounds grounds):
        """Return whether these grounds are still the current ones."""
        with cython.critical_section(self):
            return self.grounds is grounds

    cdef inline bint may_add(self, Grounds grounds, Py_ssize_t keys):
        """Return, under the lock, whether nothing has changed, and keys fit into the capacity."""
        return (
            self.are_current(grounds)
            and grounds.are_in_force()
            and grounds.have_room(keys)
            and grounds.is_listed()
        )

    cdef Taken take_lock(self, Grounds grounds, Py_ssize_t keys) except *:
        """Take the lock for hashed keys, if it is free and nothing has changed."""
        if read_owner(&grounds.section.owner):
            # The lock, too: a block of a folder that waits for it is around a handler already.
            if grounds.section.around() and grounds.lock.mine() and self.may_add(grounds, keys):
                return WITHIN
        elif grounds.lock.seize():
            if self.may_add(grounds, keys):
                return SEIZED
            grounds.lock.let_go()
        return NOT_TAKEN

    cdef inline Grounds grounds_for(self, Py_ssize_t keys, nulls):
        """Return the grounds for a list of few keys, if no key is excluded."""
        cdef Grounds grounds = self.current()
        if grounds is None or not grounds.plain or not 0 < keys <= FEW:
            return None
        return grounds if nulls == "error" or nulls == "skip" else None

    cdef int renew(self) except -1:
        """Replace the grounds, after a call that checked the file and whose answer is known.

        The file is checked once more, as that call may have taken long since. If another thread or
        a finalizer closes the filter during this check, its grounds never serve. What a signal
        handler raises in it is raised.
        """
        cdef Grounds before, after, made
        cdef unsigned int forgotten
        cdef int64_t began = now_by(COARSE)
        with cython.critical_section(self):
            before, self.grounds = self.grounds, None
            forgotten = self.forgotten
        found = self._grounds(0 if before is None else KEYS - read_left(&before.left), KEYS)
        if isinstance(found, Grounds):
            made = found
            made.until, made.left = began + MOMENT, KEYS
            with cython.critical_section(self):
                if forgotten == self.forgotten:
                    after, self.grounds = self.grounds, made  # of a thread that was faster
        return 0

    def __contains__(self, key):
        """Return whether one key was added (or is a false positive), and is not excluded."""
        cdef uint64_t h1, h2
        cdef Grounds grounds = self.current()
        cdef bint found
        if grounds is not None and grounds.allow(1):
            grounds.newest.hash(key, &h1, &h2)  # which may call anything
            if not grounds.each or (self.are_current(grounds) and grounds.is_listed()):
                found = grounds.newest.has(h1, h2) or grounds.is_older(h1, h2)
                if grounds.fresh or not found:  # only a hit may be excluded
                    return found
        found = super(SingleKeys, self).__contains__(key)
        self.renew()
        return found

    def contains_many(self, keys, *, nulls="error"):
        """See `Filter.contains_many`."""
        cdef uint64_t[FEW] h1, h2
        cdef uint8_t[FEW] more
        cdef uint8_t *answers
        cdef Py_ssize_t i, j, n
        cdef Grounds grounds
        cdef list few
        require(self)
        few = keys if type(keys) is list else self._listed(keys, FEW)
        n = 0 if few is None else PyList_GET_SIZE(few)
        grounds = self.grounds_for(n, nulls)
        if grounds is not None:
            found = empty(n, bool_)
            answers = address_of(found)
            if (
                grounds.is_there()
                and self.are_current(grounds)
                and grounds.allow(n)
                and hash_few(grounds.newest, few, n, h1, h2)
            ):
                find_unlocked(grounds.newest, h1, h2, n, answers)
                for i in range(len(grounds.older)):
                    find_unlocked(<OneKey>grounds.older[i], h1, h2, n, more)
                    for j in range(n):
                        answers[j] |= more[j]
                # Only a hit may be excluded.
                if not memchr(answers, 1, n) or not grounds.is_listed_anew():
                    return found
        if not 0 < n <= FEW:
            self._look_again()  # many need no grounds
        found = super(SingleKeys, self).contains_many(keys, nulls=nulls)
        if 0 < n <= FEW:
            self.renew()
        return found

    def add(self, key):
        """See `Filter.add`."""
        cdef uint64_t h1, h2
        cdef Grounds grounds
        cdef Taken taken
        cdef bint new
        require(self)
        grounds = self.current()
        # All else is checked with the lock.
        if (
            grounds is not None
            and grounds.fresh
            and grounds.full_at > 0
            and read_left(&grounds.left) > 0
        ):
            grounds.count(1)
            grounds.newest.hash(key, &h1, &h2)  # which may call anything
            taken = self.take_lock(grounds, 1)
            if taken:
                new = not grounds.is_older(h1, h2)
                if new or grounds.renews:
                    new = grounds.newest.put(h1, h2) and new
                if taken == SEIZED:
                    grounds.lock.let_go()
                return new
        new = super(SingleKeys, self).add(key)
        self.renew()
        return new

    def add_many(self, keys, *, nulls="error"):
        """See `Filter.add_many`."""
        cdef uint64_t[FEW] h1, h2
        cdef uint8_t *answers
        cdef OneKey one
        cdef Py_ssize_t n
        cdef Grounds grounds
        cdef Taken taken
        cdef list few
        require(self)
        few = keys if type(keys) is list else self._listed(keys, FEW)
        n = 0 if few is None else PyList_GET_SIZE(few)
        grounds = self.grounds_for(n, nulls)
        if grounds is not None:
            new = empty(n, bool_)
            answers = address_of(new)
            if (
                grounds.full_at > 0
                and not grounds.older
                and grounds.is_there()
                and self.are_current(grounds)
                and grounds.allow(n)
                and not grounds.is_listed_anew()
                and hash_few(grounds.newest, few, n, h1, h2)
            ):
                taken = self.take_lock(grounds, n)
                if taken:
                    one = grounds.newest
                    with nogil:
                        one.put_all(h1, h2, n, answers)
                    if taken == SEIZED:
                        grounds.lock.let_go()
                    return new
        if not 0 < n <= FEW:
            self._look_again()  # many need no grounds
        new = super(SingleKeys, self).add_many(keys, nulls=nulls)
        if 0 < n <= FEW:
            self.renew()
        return new


cdef int require(self) except -1:
    # A method that is taken from the class can be called on anything.
    if not isinstance(self, SingleKeys):
        raise TypeError(f"expected a filter, got {type(self).__name__}")
    return 0
