"""Leaving a filter: the last writer brings its file up to date, and frees the shared memory.

Only where the array lies in shared memory is anything done here. What a process that was killed
did not do is done by the next one that opens the filter for writing, and closes it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mmbloom._storage.lock import WriteLock
from mmbloom._storage.resident.moving import MovingArray
from mmbloom._storage.resident.working_copy import say_not_saved
from mmbloom._system.reentry import CALL
from mmbloom.errors import FileChangedError, LockTimeoutError, ReentryError

# The lock is wanted for some milliseconds.
_LEAVE_SECONDS = 10.0

# What a killed process has left is not worth waiting for: the next writer that closes removes it.
_SWEEP_SECONDS = 0.1


def leave_when_dropped(filter_: object, array: MovingArray) -> weakref.finalize[..., object]:
    """Let a filter that is dropped, or is open when the program ends, leave its file up to date."""
    array.on_share = _leave_when_worker_ends
    if array.place.share is not None:  # of a copy that was there when the file was opened
        array.on_share(array)
    return weakref.finalize(filter_, leave, array)


def _leave_when_worker_ends(array: MovingArray) -> None:
    """Let a worker of multiprocessing leave at its end, where no finalizers of weakref run."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # noqa: PLC0415  the worker has it

        Finalize(array, _leave_if_there, (weakref.ref(array),), exitpriority=0)


def _leave_if_there(array: weakref.ref[MovingArray]) -> None:
    if there := array():
        leave(there)


def leave(array: MovingArray, lock: WriteLock | None = None) -> None:
    """Bring the file up to date and remove its copy, if there is one that no other process uses.

    Also remove copies that processes have left that were killed while they made them.

    Parameters
    ----------
    array : MovingArray
        Open, and to be closed next; nothing is done if it is closed. No other thread uses it.
    lock : WriteLock, optional
        Its lock.

    Raises
    ------
    DurabilityError
        If the file cannot be written; the copy then stays.
    FileChangedError
        If the file was cut or extended; the copy then stays as well.

    Warns
    -----
    MmbloomWarning
        If the file is not brought up to date, and no other process will do it.
    """
    if array.closed:
        return
    if array.drop_share():
        with _lock_of(array, lock) as free:
            _give_back(array, free)
    elif array.may_have_left_copies():
        # What cannot be done now, also where the lock cannot be opened, the next writer does.
        with (
            suppress(LockTimeoutError, ReentryError, FileChangedError, OSError),
            _lock_of(array, lock) as free,
            free.held(_SWEEP_SECONDS, CALL),
        ):
            array.remove_left_copies()


@contextmanager
def _lock_of(array: MovingArray, lock: WriteLock | None) -> Iterator[WriteLock]:
    if lock is not None:  # the filter's own: what a signal handler adds is refused, and waits not
        lock.open_at(array.open_path)
        yield lock
        return
    own = WriteLock(array.open_path, array.identity, _LEAVE_SECONDS)
    try:
        yield own
    finally:
        with own.closing():
            pass


def _give_back(array: MovingArray, lock: WriteLock) -> None:
    try:
        for _ in range(2):
            with lock.held(_LEAVE_SECONDS, CALL):
                begun = array.place.views.counters["batches_begun"]
            try:
                _flush(array, begun)  # while others may come
            except LockTimeoutError:  # below it is done without the turn, if it can be
                break
            with lock.held(_LEAVE_SECONDS, CALL):
                if array.give_back():
                    return
        with lock.held(_LEAVE_SECONDS, CALL):  # others have come, added and left, each time
            _flush(array, array.place.views.counters["batches_begun"], locked=True)
            array.give_back()
    except (LockTimeoutError, ReentryError) as error:
        if not array.has_company():  # which would do it in its turn
            say_not_saved(array.path, error)


def _flush(array: MovingArray, begun: int, *, locked: bool = False) -> None:
    if not array.is_removed():
        array.flush(_LEAVE_SECONDS, begun, locked=locked)
