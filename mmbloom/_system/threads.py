"""Work on several cores, results in order: threads that live no longer than one call.

A pool that outlived the call would have to be found again after a fork, and be closed; to
start one takes 0.1 ms, which is nothing to the batches that need one. The kernels release
the interpreter, so threads are enough.
"""

import atexit
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_PATIENCE = 0.2  # seconds to wait for a thread that is to stop; only a blocked read takes longer
_BEGUN_AFTER = 5.0  # seconds; only a thread that was never started takes longer
# The signals whose handlers raise exceptions: what ends a program, and time limits.
_RAISING = {signal.SIGALRM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Block signals whose handlers may raise while a thread or a process is started.

    `Thread.start` waits in Python code for the new thread, and a handler that raises there leaves
    a thread that its owner never learns of, or a RuntimeError about a lock that is not held. A
    handler that raises within `Process.start` leaves a child with half of its instructions. What
    is started inherits the mask, so later signals go to the main thread.
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

    The interpreter frees the state of one that has not, and CPython 3.11.2, which Debian 12
    ships, crashes when that thread then reads it. In a program with threads of its own, such a
    thread can be left in spite of `signals_deferred`: one of the others receives the signal.
    """
    deadline = time.monotonic() + _BEGUN_AFTER
    while any(thread.ident is None for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], helpers: int) -> Iterator[R]:
    """Map items in order, while other threads work on some items ahead.

    Parameters
    ----------
    work : callable
        Called once for each item, by any thread.
    items : iterable
        Taken by the calling thread, a few ahead of what is asked for.
    helpers : int
        How many other threads; with none, the work is done by the caller when it asks.

    Examples
    --------
    >>> list(in_order(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    if helpers == 0:
        yield from map(work, items)
        return
    # Here, not above: with the logging that it imports it takes 10 ms.
    from concurrent.futures import Future, ThreadPoolExecutor  # noqa: PLC0415

    pool = ThreadPoolExecutor(helpers, thread_name_prefix="mmbloom")
    left = iter(items)
    try:
        ahead: deque[Future[R]] = deque()
        for item in left:
            try:
                with signals_deferred():  # submit may start a thread
                    ahead.append(pool.submit(work, item))
            except RuntimeError:  # as in `start`: the caller does the rest
                left = chain([item], left)
                break
            if len(ahead) > helpers + 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
    yield from map(work, left)


# Seconds.
_SIGNALS_SEEN_AFTER = 0.5


class ReadAhead(Generic[T]):
    """Iterate in another thread, two items ahead at most; errors come in their place.

    To be closed when it is not read to its end. The other thread then stops at its next
    item; it is not waited for long, as it may be reading what never comes (a pipe).

    An item is kept until the next ones are asked for, and then let go of by the thread that made
    it, which has its memory at hand: to free four chunks of lines took 25 to 55 us in the caller's.
    That is before the next item is given: a caller that an item has woken would wait for the
    interpreter else.

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
        # Queues in C: semaphores in Python take 4 us an item more, and both threads the longer.
        self._ready: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._room: SimpleQueue[object] = SimpleQueue()
        self._used: object = None
        self._asked = self._alone = self._stopped = self._ended = False
        self._mask = set[int]()
        # Known before it is started, so that whatever a signal interrupts, `close` finds it.
        self._thread = threading.Thread(target=self._run, name="mmbloom-read-ahead", daemon=True)

    def _run(self) -> None:
        self._room.get()  # until `start` has returned
        # Else a process that the iterator starts would inherit signals blocked that are to end it.
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        last: BaseException | None = None
        try:
            for item in () if self._stopped else self._items:
                self._room.get()
                if self._stopped:
                    return
                self._ready.put((item,))
        except BaseException as error:  # noqa: BLE001  whatever it is, it is raised in its place
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
            self._room.put(None)  # for its beginning
            self._room.put(None)  # for the first item; for each other one it is done below
        if self._alone:
            return next(self._items)
        while True:  # not for ever at once: a signal just before a wait begins does not end it
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
        """Stop the other thread at its next item, and wait for it, but not for long.

        A forked child, which has no such thread, waits for none: Python knows it as ended there.
        """
        if not self._ended:
            self._ended = self._stopped = True
            self._room.put(None)
            self._room.put(None)
            if self._thread.is_alive():
                self._thread.join(_PATIENCE)
