"""The write lock: one holder among all threads and processes; the only importer of filelock.

- The lock is on a descriptor of the data file itself, opened for nothing else: it follows
  the inode through links and renames and leaves no extra file. It is never on the mapped
  descriptor: the map would keep the lock after a close.
- The thread that holds it can take it again at no cost.
- It never crosses a fork: the child closes what it inherited and opens its own.
- A signal handler may run at any moment, and another task of an event loop at any await.
  ``_engine/reference/holding.py`` defines what they may do while the lock is held.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from mmbloom._engine import Hold, LockState, engine
from mmbloom._system.descriptors import OpenFile, open_file, opening, remember
from mmbloom._system.sections import BLOCK, IN_A_CALL, IN_ANOTHER_TASK
from mmbloom.errors import ClosedFilterError, FileChangedError, LockTimeoutError, ReentryError

if TYPE_CHECKING:
    import asyncio

# A 50 ms poll gave a p99 wait of 253 ms with 4 writers. Pauses that grow slowly waste a twentieth
# of a wait at most: with them 4 writers of batches add 16.2 million keys a second in total. With
# pauses that double it was 13.1 million, as the lock was free for a fifth of the time.
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.0001, 0.010, 1.05


# How long a task blocks its event loop, at each try, to wait for a thread of its process.
_TASKS_PATIENCE = 0.002


def _filelock() -> Any:
    """Import filelock, for the numpy engine; that takes as long as the rest of this package."""
    import filelock  # noqa: PLC0415

    return filelock


if engine == "numpy":
    _filelock()  # now: a signal handler that adds could interrupt a later import half way


class DescriptorLock:
    """A POSIX lock on a dedicated descriptor of the data file."""

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        try:
            self._file = OpenFile(open_file(path, os.O_RDWR | os.O_NONBLOCK))
        except (FileNotFoundError, NotADirectoryError):
            raise FileChangedError(path, "removed or renamed") from None
        except IsADirectoryError:
            raise FileChangedError(path, "replaced by a folder") from None
        status = os.fstat(self._file.fd)
        if (status.st_dev, status.st_ino) != identity:
            self.close()
            raise FileChangedError(path, "replaced by another file")

    @property
    def native(self) -> int:
        """The descriptor, on which the compiled engine calls flock by itself."""
        return self._file.fd

    def try_acquire(self) -> bool:
        got: bool = _filelock().lock_descriptor(self._file.fd, blocking=False)
        return got

    def release(self) -> None:
        _filelock().unlock_descriptor(self._file.fd)

    def close(self) -> None:
        # Closing, not unlocking: in a forked child the lock may be the parent's.
        self._file.close()


class WriteLock:
    """The exclusive lock of one open filter.

    Parameters
    ----------
    path : str
        Absolute path of the data file.
    identity : (int, int)
        Device and inode of the mapped file; another file at the path is not locked.
    timeout : float or None
        Seconds to wait before `LockTimeoutError`; None waits for ever.

    Attributes
    ----------
    moved : callable
        Called if the file is not at the path any more, and may set `superseded`.
    superseded : bool
        Whether the lock of the file is another object: this one keeps out other threads alone.

    Notes
    -----
    Safe to use from any thread; after a fork parent and child exclude each other.
    """

    def __init__(self, path: str, identity: tuple[int, int], timeout: float | None) -> None:
        self.timeout = timeout
        self._path, self._identity = path, identity
        self._closed = False
        self.superseded = False
        self.moved: Callable[[], object] = bool
        self.state = LockState(path, self._open_file, wait)
        remember(self)

    def _open_file(self) -> None:
        if self._closed:
            raise ClosedFilterError(self._path)
        if self.superseded:
            return
        try:
            self.open_at(self._path)
        except FileChangedError:
            self.moved()
            if not self.superseded:
                raise

    def open_at(self, path: str) -> None:
        """Open the file by this path, unless it is open; its name may have changed."""
        if self.state.descriptor is None:
            with opening:
                self.state.descriptor = DescriptorLock(path, self._identity)

    def after_fork(self) -> None:
        """Drop the parent's lock without releasing it (runs in the child)."""
        self.drop()  # while a child keeps it open, a killed parent's lock would stay
        self.state.forget()

    def held(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Return a block that holds the lock; it raises `LockTimeoutError` after the timeout."""
        return Hold(self.state, timeout, kind)

    def check_alone(self) -> None:
        """Raise `FileChangedError` if holding this lock is not holding that of the file."""
        if self.superseded:
            raise FileChangedError(self._path, "replaced by a folder")

    def own_threads(self) -> AbstractContextManager[object]:
        """Return a block that keeps this object's other threads out, but not other processes."""
        return self.state.threads

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Like `own_threads`, then release the lock permanently.

        Raises
        ------
        ReentryError
            If this interrupts a call of this thread, which would go on without the lock.
        """
        if self.state.in_a_call():
            raise ReentryError(self._path, IN_A_CALL)
        with self.own_threads():
            yield
            self._closed = True
            self.drop()

    def retire(self) -> None:
        """Close the descriptor of a lock that is free, until the lock is wanted again."""
        with self.own_threads():  # no thread of this object takes it in between
            if not self.state.depth:
                self.drop()

    def drop(self) -> None:
        """Close the descriptor, and with it release the lock; for the thread that has it."""
        with opening:  # else a child that is forked meanwhile would keep the lock
            descriptor, self.state.descriptor = self.state.descriptor, None
            if descriptor is not None:
                descriptor.close()


def wait(hold: Hold) -> None:
    """Wait until a hold has its lock; raise `LockTimeoutError`."""
    timeout = hold.timeout
    deadline = hold.deadline = None if timeout is None else time.monotonic() + timeout
    hold.patience = -1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)
    pause = _FIRST_PAUSE
    while not hold.attempt():
        time.sleep(_pause_left(hold, pause, deadline))
        hold.patience = 0  # the threads' time is over: a wait that ended early is not repeated
        pause = min(_GROWTH * pause, _LONGEST_PAUSE)


def _pause_left(hold: Hold, pause: float, deadline: float | None) -> float:
    left = _LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise LockTimeoutError(hold.state.path, hold.timeout or 0.0)
    return min(pause, left)


class Turn:
    """The queue of the tasks of one event loop that wait for one lock.

    Only the first task tries to take the lock: a thousand tasks that all try a hundred times a
    second would keep a core busy.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from asyncio import Lock  # noqa: PLC0415  imported already if there is a loop

        self.loop, self.lock, self.tasks = loop, Lock(), 0


class TaskHold:
    """The lock for one task; its event loop goes on while the task waits.

    Parameters
    ----------
    hold : Hold
        Of kind `BLOCK`.

    Notes
    -----
    The task polls and does not wait in a thread: a thread cannot be cancelled, would take the lock
    for a task that is gone, and its own calls would be another thread's.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._turn: Turn | None = None
        self._mine = False

    async def take(self) -> None:
        """Take the lock; raise `LockTimeoutError`; when cancelled, take nothing."""
        state, timeout = self._hold.state, self._hold.timeout
        if state.of_this_task():  # there is nothing to wait for
            self._hold.__enter__()
            return
        from asyncio import get_running_loop, sleep  # noqa: PLC0415  as in `Turn`
        from asyncio import timeout as limit  # noqa: PLC0415

        loop = get_running_loop()
        turn = self._turn = state.turns.setdefault(id(loop), Turn(loop))
        turn.tasks += 1
        deadline = self._hold.deadline = None if timeout is None else time.monotonic() + timeout
        try:
            try:
                async with limit(timeout):
                    await turn.lock.acquire()
                    self._mine = True
            except TimeoutError:
                raise LockTimeoutError(state.path, timeout or 0.0) from None
            pause = _FIRST_PAUSE
            while not self._hold.try_once():
                # A thread that takes the lock repeatedly holds it at every try of this task, as it
                # releases the interpreter only then. So the task blocks for the thread a little:
                # without that it never got the lock.
                self._hold.patience = _TASKS_PATIENCE
                if state.mine() and state.task is None:  # this wait would keep it from ending
                    raise ReentryError(state.path, IN_ANOTHER_TASK)
                await sleep(_pause_left(self._hold, pause, deadline))
                pause = min(_GROWTH * pause, _LONGEST_PAUSE)
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Release the lock, and let the next task try."""
        self._hold.leave()
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if self._mine:
            turn.lock.release()
        turn.tasks -= 1
        if not turn.tasks:
            self._hold.state.turns.pop(id(turn.loop), None)
