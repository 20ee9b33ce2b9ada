"""Work on several cores, results in order: threads that live no longer than one call.

A pool that outlived the call would have to be found again after a fork, and be closed; to
start one takes 0.1 ms, which is nothing to the batches that need one. The kernels release
the interpreter, so threads are enough.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

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


def read_ahead(items: Iterable[T]) -> Generator[T]:
    """Iterate in another thread, at most two items ahead; errors come in their place.

    To be closed when it is not read to its end. The other thread then stops at its next
    item; it is not waited for long, as it may be reading what never comes (a pipe).

    Examples
    --------
    >>> list(read_ahead(range(3)))
    [0, 1, 2]
    """
    ready: deque[tuple[T] | BaseException | None] = deque()
    filled, room = threading.Semaphore(0), threading.Semaphore(1)
    stopped = False

    def run() -> None:
        last: BaseException | None = None
        try:
            for item in items:
                ready.append((item,))
                filled.release()
                room.acquire()
                if stopped:
                    return
        except BaseException as error:  # noqa: BLE001  whatever it is, it is raised below
            last = error
        ready.append(last)
        filled.release()

    thread = threading.Thread(target=run, name="mmbloom-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            filled.acquire()
            found = ready.popleft()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            room.release()
            yield found[0]
    finally:
        stopped = True
        room.release()
        thread.join(_PATIENCE)
