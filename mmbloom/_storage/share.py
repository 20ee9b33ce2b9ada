"""A writer's share in the working copy of a filter: while there is any, the copy is not removed.

There are two locks on bytes of the filter's own file, beyond its end. They work wherever the file
is, also among containers that do not share ``/dev/shm``:

- Each writer whose array is in shared memory locks one byte of many. The process that can lock all
  of them is the last writer, and may make the file the filter again. So an array can move to a copy
  while others write, who follow within the write lock, but never back.
- The process that writes the array to the file locks another byte: else older pieces could
  overwrite newer ones.

All are write locks, which need write permission. A program that may only read the file can take
read locks. It never counts as a writer. If it keeps a byte locked, the writer raises an error that
says so, or works under the write lock instead.

They are locks of an open file (``F_OFD_SETLK``), not of a process, on a descriptor of this
object's own. A forked child inherits none: when it uses the filter it opens its own.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._system.descriptors import OpenFile, opening, remember, reopen
from mmbloom._system.locks import are_locked, lock_bytes, unlock_bytes
from mmbloom._system.sections import IN_A_CALL
from mmbloom.errors import LockTimeoutError, ReentryError

# First byte and number of bytes: far beyond the end of any file.
_WRITING = (1 << 61, 1)
_SHARES = ((1 << 61) + 1, 1 << 32)

_HERE = "in this process"

# To remove a copy takes milliseconds. A longer wait means that the process was stopped.
_PATIENCE = 10.0
_PAUSE = 0.001

_SHARE = "the lock on the array in shared memory"
_TURN = "the lock for writing the array in shared memory to the file"
_BY_READER = "(locked by a program that may only read the file; lslocks shows which)"


class Share:
    """The share of one open filter.

    Parameters
    ----------
    fd : int
        Of the filter's file, open in this process.
    path : str
        Of the file, for errors.

    Attributes
    ----------
    held : bool
        Whether this process has the share: it was not dropped, and is not a parent's.
    inherited : bool
        Whether it is a parent's: then this process has to take its own.
    gives_up : bool
        Whether this process removes the copy, or has done so: set before the header names none.

    Raises
    ------
    OSError
        If the system does not have such locks, or has no descriptor left.
    LockTimeoutError
        If another process is removing the copy and does not finish.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._path, self._byte = path, _any_byte()
        self.held = self.inherited = self.gives_up = self._alone = False
        self._writer: dict[str, int] = {}  # the thread that is writing the array to the file
        with opening:
            self._file = OpenFile(reopen(fd, os.O_RDWR))
            remember(self)
        try:
            self.take()
        except BaseException:
            self.close()
            raise

    def take(self) -> None:
        """Take the share, again if it was dropped."""
        deadline = time.monotonic() + _PATIENCE
        while not lock_bytes(self._file.fd, self._byte, 1):
            if time.monotonic() > deadline:
                lock = _SHARE if self.has_company() else f"{_SHARE} {_BY_READER}"
                raise LockTimeoutError(self._path, _PATIENCE, lock)
            time.sleep(_PAUSE)
            self._byte = _any_byte()  # another writer may have drawn the same
        self.held = True

    def drop(self) -> bool:
        """Drop the share; return whether others have one.

        The order matters: if two do this at once, at least one sees that it is the last.
        """
        self.held = False
        unlock_bytes(self._file.fd, *_SHARES)
        return self.has_company()

    def has_company(self) -> bool:
        """Return whether other writers have a share."""
        return in_use(self._file.fd)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep others from taking a share; if others have one, yield False and drop this one.

        Call it under the write lock: if two are about to leave, the second is then the last.
        """
        try:
            try:
                self._alone = True  # first, so that locks are released after an interrupt
                alone = lock_bytes(self._file.fd, *_SHARES)
                if not alone:
                    self.drop()
                yield alone
            finally:
                self._end_alone()
        finally:  # again, if a signal handler's exception interrupted the one above
            self._end_alone()

    def _end_alone(self) -> None:
        if self._alone:  # not in a child, whose descriptor is closed
            first, number = _SHARES
            kept = self._byte - first if self.held else number
            for start, end in ((0, kept), (kept + 1, number)):
                if start < end:  # length 0 would mean all bytes that follow
                    unlock_bytes(self._file.fd, first + start, end - start)
        self._alone = False

    @contextmanager
    def writing(self, timeout: float | None, *, locked: bool = False) -> Iterator[None]:
        """Return a block in which nobody else writes the array to the file.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for another process that writes it; None for ever.
        locked : bool
            Whether the caller has the write lock. Then nothing changes the array, and a later
            writer writes the same pieces or newer ones: it need not wait for a program that only
            reads.

        Raises
        ------
        LockTimeoutError
            If that takes longer.
        ReentryError
            In a signal handler that interrupts such a block in this thread.
        """
        me = threading.get_ident()
        if self._writer.get(_HERE) == me:
            raise ReentryError(self._path, IN_A_CALL)
        try:
            try:
                self._wait_for_turn(me, timeout, locked=locked)
                yield
            finally:
                self._end_writing(me)
        finally:
            self._end_writing(me)

    def _wait_for_turn(self, me: int, timeout: float | None, *, locked: bool) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        # First among threads of this object, which the lock on the byte does not exclude.
        while self._writer.setdefault(_HERE, me) != me or not lock_bytes(self._file.fd, *_WRITING):
            by_writer = self._writer.get(_HERE) != me or are_locked(self._file.fd, *_WRITING)
            if locked and not by_writer:
                return
            if deadline is not None and time.monotonic() >= deadline:
                lock = _TURN if by_writer else f"{_TURN} {_BY_READER}"
                raise LockTimeoutError(self._path, timeout or 0.0, lock)
            time.sleep(_PAUSE)

    def _end_writing(self, me: int) -> None:
        if self._writer.get(_HERE) == me:  # not in a child, as in `_end_alone`
            unlock_bytes(self._file.fd, *_WRITING)
            self._writer.pop(_HERE, None)

    def close(self) -> None:
        """Drop the share for good."""
        self.held = False
        self._file.close()

    def after_fork(self) -> None:
        """Forget the parent's share (runs in the child)."""
        self.held, self.inherited, self._alone = False, True, False
        self._writer.clear()
        self._file.close()


def in_use(fd: int) -> bool:
    """Return whether a writer has a share in the copy of a file, not counting one taken by `fd`."""
    return are_locked(fd, *_SHARES)


def _any_byte() -> int:
    return _SHARES[0] + int.from_bytes(os.urandom(4), "little")
