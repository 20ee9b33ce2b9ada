"""Work on several cores, results in order: threads that live no longer than one call.

A pool that outlived the call would have to be found again after a fork, and be closed; to
start one takes 0.1 ms, which is nothing to the batches that need one. The kernels release
the interpreter, so threads are enough.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_PATIENCE = 0.2  # seconds to wait for a thread that is to stop; only a blocked read takes longer


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
    try:
        ahead: deque[Future[R]] = deque()
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > helpers + 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


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
        self._items = items
        # Queues in C: semaphores in Python take 4 us an item more, and both threads the longer.
        self._ready: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._room: SimpleQueue[object] = SimpleQueue()
        self._used: object = None
        self._room.put(None)  # for the first one; for each other one the caller does it
        self._stopped = self._ended = False
        self._thread: threading.Thread | None = None

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items:
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
        if self._thread is None:
            self._thread = _started(self._run, "mmbloom-read-ahead")
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
        """Stop the other thread at its next item."""
        if not self._ended:
            self._ended = self._stopped = True
            _leave(self._thread, self._room)


def _started(run: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread: known to its owner when it runs, so that none is joined that does not."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _leave(thread: threading.Thread | None, wake: "SimpleQueue[object]") -> None:
    """Have a thread that was told to stop see it, and wait for it, but not for long.

    A forked child, which has no such thread, waits for none: Python knows it as ended there.
    """
    wake.put(None)
    if thread is not None:
        thread.join(_PATIENCE)
