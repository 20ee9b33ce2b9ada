"""Leaving a filter: the last writer brings its file up to date, and frees the shared memory.

Only where the array lies in shared memory is anything done here. What a process that was killed
did not do is done by the next one that opens the filter for writing, and closes it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mmbloom._reentry import CALL
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.resident.working_copy import say_not_saved
from mmbloom.errors import LockTimeoutError, ReentryError

# The lock is wanted for some milliseconds.
_LEAVE_SECONDS = 10.0

# What a killed process has left is not worth waiting for: the next writer that closes removes it.
_SWEEP_SECONDS = 0.1


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
    """Bring the file up to date and remove its copy, if there is one that no other process uses.

    Also remove copies that processes have left that were killed while they made them.

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

    Warns
    -----
    MmbloomWarning
        If the file is not brought up to date, and no other process will do it.
    """
    if storage.closed:
        return
    if storage.drop_share():
        with _lock_of(storage, lock) as free:
            _give_back(storage, free)
    elif storage.may_have_left_copies():
        with (
            _lock_of(storage, lock) as free,
            suppress(LockTimeoutError, ReentryError),
            free.held(_SWEEP_SECONDS, CALL),
        ):
            storage.remove_left_copies()


@contextmanager
def _lock_of(storage: MappedFilter, lock: WriteLock | None) -> Iterator[WriteLock]:
    if lock is not None and lock.state.descriptor is not None:  # of the same file, open already
        yield lock
        return
    # Another one, by another path: the file may have been renamed.
    own = WriteLock(storage.open_path, storage.identity, _LEAVE_SECONDS)
    try:
        yield own
    finally:
        with own.closing():
            pass


def _give_back(storage: MappedFilter, lock: WriteLock) -> None:
    try:
        for _ in range(2):
            with lock.held(_LEAVE_SECONDS, CALL):
                begun = storage.counter("batches_begun")
            try:
                _flush(storage, begun)  # while others may come
            except LockTimeoutError:  # below it is done without the turn, if it can be
                break
            with lock.held(_LEAVE_SECONDS, CALL):
                if storage.give_back():
                    return
        with lock.held(_LEAVE_SECONDS, CALL):  # others have come, added and left, each time
            _flush(storage, storage.counter("batches_begun"), locked=True)
            storage.give_back()
    except (LockTimeoutError, ReentryError) as error:
        if not storage.has_company():  # which would do it in its turn
            say_not_saved(storage.path, error)


def _flush(storage: MappedFilter, begun: int, *, locked: bool = False) -> None:
    if not storage.is_removed():
        storage.flush(_LEAVE_SECONDS, begun, locked=locked)
