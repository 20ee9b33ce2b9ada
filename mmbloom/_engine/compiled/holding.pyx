# cython: language_level=3
"""The lock's state, compiled: that of `reference.holding`, without a bytecode between its steps.

A signal handler runs between two bytecodes, so none runs between the system call and the note of
it, and the `with` statement of a `Hold` or `Held` releases what it has taken, whatever a handler
raises. Handlers do run in the callables that are passed, at points where nothing is half done.
"""

cimport cython

from cpython.exc cimport PyErr_SetFromErrno
from cpython.pythread cimport PyThread_get_thread_ident
from libc.errno cimport EACCES, EAGAIN, EINTR, errno

from mmbloom._system.sections import IN_A_CALL, IN_ANOTHER_TASK, RLock, modules
from mmbloom.errors import ReentryError

cdef extern from *:
    """
    #include <pthread.h>
    #include <unistd.h>
    /* Cached, as getpid is a system call; a fork that runs no Python code still runs this. */
    static int mmbloom_pid;
    static void mmbloom_note_pid(void) { mmbloom_pid = (int)getpid(); }
    static int mmbloom_note_pids(void) {
        mmbloom_note_pid();
        return pthread_atfork(NULL, NULL, mmbloom_note_pid);
    }
    """
    int this_process "mmbloom_pid"
    int note_pids "mmbloom_note_pids"()

cdef extern from "<sys/file.h>" nogil:
    int flock(int, int)
    enum:
        LOCK_EX
        LOCK_NB
        LOCK_UN

cdef enum:
    C_BLOCK = 1
    C_CALL = 2


if note_pids():
    raise MemoryError


# Cached: looking these up took most of the time of a key within a block. The two belong together,
# so they are read and written in a critical section.
cdef dict loaded = modules
cdef object known_asyncio = None, running_loop = None


cdef object running_task():
    """Return the task that runs in this thread, as `_system.sections.running_task` does."""
    global known_asyncio, running_loop
    cdef object look = None, asyncio = loaded.get("asyncio")
    if asyncio is None:  # None forbids its import
        return None
    with cython.critical_section(loaded):
        if asyncio is known_asyncio:
            look = running_loop
    if look is None:
        look = getattr(asyncio, "_get_running_loop", None)
        if look is None:  # it is being imported
            return None
        with cython.critical_section(loaded):
            known_asyncio, running_loop = asyncio, look
    cdef object loop = look()
    return None if loop is None else asyncio.current_task(loop)


cdef class LockState:
    """One write lock as this process has it; see `reference.holding.LockState`."""

    def __init__(self, path, open_file, wait):
        self.path, self.open_file, self.wait = path, open_file, wait
        self.forget()

    cpdef forget(self):
        """Reset the state, as in a forked child: not held, nothing open."""
        self.pid, self.depth, self.kind, self.fd = this_process, 0, 0, -1
        write_owner(&self.owner, 0)
        self.threads = RLock()
        self.task = self.inner = self._descriptor = None
        self.turns = {}

    @property
    def descriptor(self):
        """The descriptor that is locked, if it is open."""
        return self._descriptor

    @descriptor.setter
    def descriptor(self, descriptor):
        self.fd = -1 if descriptor is None else descriptor.native
        self._descriptor = descriptor

    cpdef bint mine(self):
        """Return whether the calling thread of this process holds the lock."""
        return (
            read_owner(&self.owner) == PyThread_get_thread_ident() and self.pid == this_process
        )

    cpdef bint in_a_call(self):
        """Return whether this thread is in a call that holds the lock, and not in a block."""
        return self.mine() and self.kind == C_CALL

    cpdef bint around(self):
        """Return whether the running task is in a block that holds the lock, and in no call."""
        return self.mine() and self.kind == C_BLOCK and self.task is running_task()

    cpdef bint of_this_task(self):
        """Return whether the running task holds the lock."""
        return self.mine() and self.task is running_task()

    cpdef swap(self, Hold inner):
        """Release the lock of one file now, and that of `inner` with the outermost hold."""
        cdef Hold before = self.inner
        self.inner = inner
        if before is not None:
            before.leave()

    cdef bint acquire(self) except -1:
        """Take the lock of the file, if it is free."""
        if self._descriptor is None:
            return True
        if self.fd < 0:
            return self._descriptor.try_acquire()
        while flock(self.fd, LOCK_EX | LOCK_NB):
            if errno in (EAGAIN, EACCES):  # some file systems say EACCES
                return False
            if errno != EINTR:
                PyErr_SetFromErrno(OSError)
        return True

    cdef bint seize(self) except -1:
        """Take a free lock for a step of this thread without bytecodes; return False if it is held.

        No depth is noted: this thread cannot read it before `let_go`, and others are kept out.
        """
        cdef object threads = self.threads  # a finalizer that forks leaves the child another one
        if self.pid != this_process or not threads.acquire(False):
            return False
        if self.depth == 0 and self.fd >= 0 and not flock(self.fd, LOCK_EX | LOCK_NB):
            return True
        threads.release()
        return False

    cdef int let_go(self) except -1:
        """Release what `seize` took."""
        try:
            self.release()
        finally:
            self.threads.release()
        return 0

    cdef int release(self) except -1:
        """Release the lock of the file."""
        if self._descriptor is None:
            return 0
        if self.fd < 0:
            self._descriptor.release()
            return 0
        while flock(self.fd, LOCK_UN):
            if errno != EINTR:
                PyErr_SetFromErrno(OSError)
        return 0


@cython.no_gc_clear  # as `__dealloc__` uses its attributes
cdef class Hold:
    """One acquisition of a lock, released once; see `reference.holding.Hold`."""

    def __init__(self, LockState state not None, timeout, int kind, before=None, ready=None):
        self.state, self.timeout, self.kind = state, timeout, kind
        self.before, self.ready = before, ready

    def __enter__(self):
        """Take the lock, waiting for it."""
        self.enter()
        return self

    def __exit__(self, kind, error, traceback):
        """Release the lock."""
        self.leave()

    cdef int enter(self) except -1:
        if self.phase:
            raise RuntimeError("a block that is entered cannot be entered again")
        try:
            if self.before is not None:
                self.before()
            if not self.take(True):
                self.state.wait(self)
            if self.ready is not None:
                self.ready(self, True)
            self.state.kind = self.kind
        except BaseException:
            self.leave()
            raise
        return 0

    def try_once(self):
        """Take the lock if this task can have it at once; return whether it did."""
        cdef bint got
        if self.phase:
            raise RuntimeError("a block that is entered cannot be entered again")
        try:
            if self.before is not None:
                self.before()
            got = self.take(False) and (self.ready is None or self.ready(self, False))
            if got:
                self.state.kind = self.kind
            else:
                self.leave()
        except BaseException:
            self.leave()
            raise
        return got

    def attempt(self):
        """Take the lock if it is free; on False, other threads that are kept out stay out."""
        return self.take(True)

    cdef bint take(self, bint refuse) except -1:
        cdef LockState state = self.state
        cdef object task = None
        if self.phase == 0:
            if state.pid != this_process:  # a fork that ran no Python handlers
                state.forget()
            threads = state.threads
            if not threads.acquire(True, self.patience):
                return False
            self.phase, self.pid, self.threads = 1, state.pid, threads
        if state.depth:
            if not self.may_enter(refuse):
                return False
            state.kind, self.first = C_CALL, False
            state.depth += 1
            self.phase = 2
            return True
        if state._descriptor is None and state.open_file is not None:
            state.open_file()
        if self.kind == C_BLOCK:
            task = running_task()
        if not state.acquire():
            return False
        state.kind, self.first = C_CALL, True
        write_owner(&state.owner, PyThread_get_thread_ident())
        state.depth = 1
        self.phase = 2
        state.task = task
        return True

    cdef bint may_enter(self, bint refuse) except -1:
        cdef LockState state = self.state
        if state.kind == C_CALL:
            raise ReentryError(state.path, IN_A_CALL)
        if state.task is running_task():
            return True
        if refuse:
            raise ReentryError(state.path, IN_ANOTHER_TASK)
        return False

    cpdef leave(self):
        """Release what was taken; do nothing when called again, or in a forked child."""
        cdef LockState state = self.state
        cdef Hold inner = None
        cdef object task = None
        cdef int phase = self.phase
        self.patience = 0
        if phase == 0:
            return
        self.phase = 0
        if this_process != self.pid:  # it is the parent's
            return
        try:
            if phase == 2:
                state.kind = C_BLOCK  # around a hold there is a block, or nothing
                state.depth -= 1
                if state.depth == 0:
                    inner, task = state.inner, state.task  # let go of when all is done
                    write_owner(&state.owner, 0)
                    state.inner, state.task = None, None
                    try:
                        if inner is not None:
                            inner.leave()
                    finally:
                        state.release()
        finally:
            self.threads.release()

    def __dealloc__(self):
        """Release what a block that was never left has taken.

        Not `__del__`, which a module for every Python (abi3) cannot have. What this calls may run
        any code, but keeps no reference to this object.
        """
        if self.phase and self.state is not None and self.state.mine():
            Hold.leave(self)


cdef class Held:
    """A block under a lock that calls its subclass when it begins and when it ends.

    `reference.holding.Held` says what a subclass defines.
    """

    cdef readonly Hold hold

    def __init__(self, Hold hold not None):
        self.hold = hold

    def __enter__(self):
        """Take the lock, and begin; try again if `_again` returns True for the error."""
        self._check_unused()
        try:
            return self.enter()
        except Exception as error:
            if not self._again(error):
                raise
            return self.enter()

    cdef object enter(self):
        try:
            self.hold.enter()
            return self._begin_as_call()
        except BaseException:
            self.hold.leave()
            raise

    cpdef object _begin_as_call(self):
        """Begin, with the lock."""
        self.hold.state.kind = C_CALL
        answer = self._begin()
        self.hold.state.kind = C_BLOCK
        return answer

    def __exit__(self, kind, error, traceback):
        """End, and release the lock."""
        try:
            self.hold.state.kind = C_CALL
            self._end(kind)
        finally:
            self.hold.leave()
