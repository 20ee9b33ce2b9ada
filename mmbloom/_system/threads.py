"""Threads of Python: how many are worth starting, how one is started, and one that reads ahead.

The threads of the compiled engine's calls are in C (``_engine/compiled/threads.h``).
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
_PATIENCE = 0.2  # seconds to wait for a thread to stop; only a blocked read takes longer
_BEGUN_AFTER = 5.0  # seconds; only a thread that was never started takes longer
# The signals whose handlers raise exceptions: those that end a program, and time limits.
_RAISING = {signal.SIGALRM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Block signals whose handlers may raise while a thread or a process is started.

    `Thread.start` waits in Python code for the new thread. A handler that raises there leaves a
    thread that its owner does not know of, or a RuntimeError about a lock that is not held. A
    handler that raises within `Process.start` leaves a child with half of its instructions. The
    new thread inherits the mask, so later signals go to the main thread.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:  # the handler of a signal that came just before runs within the next call
        signal.pthread_sigmask(signal.SIG_BLOCK, _RAISING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(thread: threading.Thread) -> bool:
    """Start a thread; return False if the system allows no more (RLIMIT_NPROC, a cgroup)."""
    with signals_deferred():
        try:
            thread.start()
        except RuntimeError:
            return False
    return True


@atexit.register
def _wait_for_begun() -> None:
    """Wait until every started thread has begun to run.

    The interpreter frees the state of a thread that has not, and CPython 3.11.2, which Debian 12
    ships, crashes when the thread then reads it. In a program with threads of its own that can
    happen in spite of `signals_deferred`: one of the other threads receives the signal.
    """
    deadline = time.monotonic() + _BEGUN_AFTER
    while any(thread.ident is None for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def process_limits() -> str:
    """Return what may limit the processes of a user, for messages."""
    return "ulimit -u, or pids.max of a cgroup" if sys.platform == "linux" else "ulimit -u"


_SIGNALS_SEEN_AFTER = 0.5  # seconds


class ReadAhead(Generic[T]):
    """Iterate in another thread, two items ahead at most; errors come in their place.

    Close it unless it is read to its end. The other thread then stops at its next item. `close`
    does not wait for it long, as it may be reading a pipe that delivers nothing.

    The thread that made an item also frees it, when the caller has asked for the next ones: its
    allocator has the memory at hand, while freeing four chunks of lines took the caller 25 to 55
    us. It frees it before it hands over the next item; otherwise a caller that the item has woken
    would wait for the interpreter.

    Parameters
    ----------
    items : iterable
        Read by the other thread alone.

    Examples
    --------
    >>> list(ReadAhead(range(3)))
    [0, 1, 2]
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        # Queues in C: Python's semaphores take 4 us more per item, in both threads.
        self._ready: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._room: SimpleQueue[object] = SimpleQueue()
        self._used: object = None
        self._asked = self._alone = self._stopped = self._ended = False
        self._mask = set[int]()
        # Set before it is started, so that `close` finds it whatever a signal interrupts.
        self._thread = threading.Thread(target=self._run, name="mmbloom-read-ahead", daemon=True)

    def _run(self) -> None:
        self._room.get()  # until `start` has returned
        # Otherwise a process that the iterator starts inherits a mask that blocks SIGTERM.
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        last: BaseException | None = None
        try:
            for item in () if self._stopped else self._items:
                self._room.get()
                if self._stopped:
                    return
                self._ready.put((item,))
        except BaseException as error:  # noqa: BLE001  raised by __next__ in its place
            last = error
        self._ready.put(last)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        if not self._asked:
            self._asked, self._mask = True, signal.pthread_sigmask(signal.SIG_BLOCK, ())
            self._alone = not start(self._thread)
            self._room.put(None)  # lets the thread begin
            self._room.put(None)  # room for the first item; room for the others is made below
        if self._alone:
            return next(self._items)
        while True:  # with a timeout: a signal just before a wait begins does not end the wait
            try:
                found = self._ready.get(timeout=_SIGNALS_SEEN_AFTER)
                break
            except Empty:
                continue
        if isinstance(found, tuple):
            self._room.put(self._used)
            self._used = found
            return found[0]
        self.close()
        if found is None:
            raise StopIteration
        raise found

    def close(self) -> None:
        """Stop the other thread at its next item, and wait for it briefly.

        A forked child has no such thread and does not wait: Python marks it as ended there.
        """
        if not self._ended:
            self._ended = self._stopped = True
            self._room.put(None)
            self._room.put(None)
            if self._thread.is_alive():
                self._thread.join(_PATIENCE)
