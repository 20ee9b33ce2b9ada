"""Leaving a filter: who closes it last brings its file up to date, and frees the shared memory.

Only where the array lies in shared memory is anything done here. What a process that was killed
did not do is done by the next one that opens the filter for writing, and closes it.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import suppress

from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._tasks import WHOLE
from mmbloom.errors import LockTimeoutError, ReentryError

# The lock is wanted for some milliseconds.
_LEAVE_SECONDS = 10.0


def leave_when_dropped(filter_: object, storage: MappedFilter) -> weakref.finalize[..., object]:
    """Let a filter that is dropped, or is open when the program ends, leave its file up to date."""
    storage.on_share = _leave_when_worker_ends
    return weakref.finalize(filter_, leave, storage)


def _leave_when_worker_ends(storage: MappedFilter) -> None:
    """Let a worker of multiprocessing leave at its end, where no finalizers of weakref run."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # noqa: PLC0415  the worker has it

        Finalize(storage, _leave_if_there, (weakref.ref(storage),), exitpriority=0)


def _leave_if_there(storage: weakref.ref[MappedFilter]) -> None:
    if there := storage():
        leave(there)


def leave(storage: MappedFilter, lock: WriteLock | None = None) -> None:
    """Bring the file up to date and remove its copy, if there is one that nobody else uses.

    Parameters
    ----------
    storage : MappedFilter
        Open, and to be closed next; nothing is done if it is closed. No other thread uses it.
    lock : WriteLock, optional
        Its lock.

    Raises
    ------
    DurabilityError
        If the file cannot be written; the copy then stays.
    FileChangedError
        If the file was cut or extended; the copy then stays as well.
    """
    if storage.closed or not storage.drop_share():
        return
    if lock is not None and lock.state.descriptor is not None:  # of the same file, open already
        _give_back(storage, lock)
        return
    # Another one, by another path: the file may have been renamed.
    own = WriteLock(storage.open_path, storage.identity, _LEAVE_SECONDS)
    try:
        _give_back(storage, own)
    finally:
        with own.closing():
            pass


def _give_back(storage: MappedFilter, lock: WriteLock) -> None:
    with suppress(LockTimeoutError, ReentryError):  # others are there, who will do it
        for patient in (True, True, False):
            with lock.held(_LEAVE_SECONDS, WHOLE):
                begun = storage.counter("batches_begun")
                if not patient:  # others have come, added and left, again and again
                    _flush(storage, begun)
            if patient:
                _flush(storage, begun)  # while others may come
            with lock.held(_LEAVE_SECONDS, WHOLE):
                if storage.give_back():
                    break


def _flush(storage: MappedFilter, begun: int) -> None:
    if not storage.is_removed():
        storage.flush(_LEAVE_SECONDS, begun)
