"""The lock's state, for `single`."""

cdef extern from *:
    """
    /* For values that a thread reads without the lock, while others may write them. */
    #define mmbloom_read(at) __atomic_load_n(at, __ATOMIC_RELAXED)
    #define mmbloom_write(at, value) __atomic_store_n(at, value, __ATOMIC_RELAXED)
    """
    unsigned long read_owner "mmbloom_read"(const unsigned long *) noexcept
    void write_owner "mmbloom_write"(unsigned long *, unsigned long) noexcept


cdef class LockState:
    cdef readonly object path, open_file, wait, threads, task, turns
    cdef readonly int depth
    cdef public Hold inner
    cdef object _descriptor
    cdef int fd  # the descriptor's, for flock; -1 to call its methods
    cdef int pid
    cdef int kind
    cdef unsigned long owner  # 0 for none; only the thread that it names reads the rest

    cpdef forget(self)
    cpdef bint mine(self)
    cpdef bint in_a_call(self)
    cpdef bint around(self)
    cpdef bint of_this_task(self)
    cpdef swap(self, Hold inner)
    cdef bint acquire(self) except -1
    cdef int release(self) except -1
    cdef bint seize(self) except -1
    cdef int let_go(self) except -1


cdef class Hold:
    cdef readonly LockState state
    cdef public object timeout, deadline
    cdef public double patience  # seconds for other threads of this object
    cdef readonly int phase  # 1: the other threads are out; 2: the lock is taken
    cdef readonly bint first
    cdef int kind
    cdef int pid
    cdef object before, ready, threads

    cdef int enter(self) except -1
    cdef bint take(self, bint refuse) except -1
    cdef bint may_enter(self, bint refuse) except -1
    cpdef leave(self)
