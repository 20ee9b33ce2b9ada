"""The end of a filter's use: the last writer updates the file and frees the shared memory.

This only concerns arrays in shared memory. If a process was killed before it did so, the next one
that opens the filter for writing and closes it does.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mmbloom._storage.lock import WriteLock
from mmbloom._storage.resident.moving import MovingArray
from mmbloom._storage.resident.working_copy import say_not_saved
from mmbloom._system.sections import CALL
from mmbloom.errors import FileChangedError, LockTimeoutError, ReentryError

# The lock is needed for some milliseconds.
_LEAVE_SECONDS = 10.0

# What a killed process left is not worth a longer wait: the next writer that closes removes it.
_SWEEP_SECONDS = 0.1


def leave_when_dropped(filter_: object, array: MovingArray) -> weakref.finalize[..., object]:
    """Update the file of a filter that is dropped, or still open when the program ends."""
    array.on_share = _leave_when_worker_ends
    if array.place.share is not None:  # the copy existed when the file was opened
        array.on_share(array)
    return weakref.finalize(filter_, leave, array)


def _leave_when_worker_ends(array: MovingArray) -> None:
    """Call `leave` at the end of a multiprocessing worker, where no weakref finalizers run."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # noqa: PLC0415  the worker has it

        Finalize(array, _leave_if_there, (weakref.ref(array),), exitpriority=0)


def _leave_if_there(array: weakref.ref[MovingArray]) -> None:
    if there := array():
        leave(there)


def leave(array: MovingArray, lock: WriteLock | None = None) -> None:
    """Bring the file up to date and remove its copy, if there is one that no other process uses.

    Also remove copies of processes that were killed while they made them.

    Parameters
    ----------
    array : MovingArray
        It is closed next, and no other thread uses it. If it is closed already, nothing is done.
    lock : WriteLock, optional
        Its lock.

    Raises
    ------
    DurabilityError
        If the file cannot be written; the copy then stays.
    FileChangedError
        If the file was cut or extended; the copy then stays, too.

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
        # If that cannot be done now, the next writer does it.
        with (
            suppress(LockTimeoutError, ReentryError, FileChangedError, OSError),
            _lock_of(array, lock) as free,
            free.held(_SWEEP_SECONDS, CALL),
        ):
            array.remove_left_copies()


@contextmanager
def _lock_of(array: MovingArray, lock: WriteLock | None) -> Iterator[WriteLock]:
    if lock is not None:  # the filter's own: a signal handler that adds is refused at once
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
            except LockTimeoutError:  # it is tried under the write lock below
                break
            with lock.held(_LEAVE_SECONDS, CALL):
                if array.give_back():
                    return
        with lock.held(_LEAVE_SECONDS, CALL):  # others came, added and left, each time
            _flush(array, array.place.views.counters["batches_begun"], locked=True)
            array.give_back()
    except (LockTimeoutError, ReentryError) as error:
        if not array.has_company():  # another writer would do it later
            say_not_saved(array.path, error)


def _flush(array: MovingArray, begun: int, *, locked: bool = False) -> None:
    if not array.is_removed():
        array.flush(_LEAVE_SECONDS, begun, locked=locked)
