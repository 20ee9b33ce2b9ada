"""A writer's share in the working copy of a filter: while any is taken, none gives the copy up.

Two locks, each on one byte of the filter's own file, so that they are seen wherever the file is,
by containers that have a ``/dev/shm`` each as well:

- Every writer whose array lies in shared memory has the first one, shared. Who gets it alone is
  the last, and may let the file be the filter again. So an array moves from the file to a copy
  while others write, who follow within the write lock, and never back.
- Who writes the array to the file has the second one alone: older pieces could come over newer.

They are locks of an open file (``F_OFD_SETLK``), not of a process, on a descriptor of this
object's own. A forked child inherits none: when it uses the filter it opens its own.
"""

import fcntl
import os
import struct
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._tasks import AMID
from mmbloom.errors import LockTimeoutError, ReentryError
from mmbloom.format.header import COPY_OFFSET

_SHARED_BYTE, _WRITING_BYTE = COPY_OFFSET, COPY_OFFSET + 1
_LOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit systems

# Who gives a copy up has it alone for some milliseconds; more is a process that was stopped.
_PATIENCE = 10.0
_PAUSE = 0.001


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
        Whether this process has it: it was not dropped, and is not a parent's.
    writes : bool
        Whether this process writes the array to the file just now.

    Raises
    ------
    OSError
        If the system does not know such locks, or has no descriptor left.
    LockTimeoutError
        If another process gives the copy up, and does not get on.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._path, self.writes, self.held = path, False, False
        with _forks:
            # By this name: the file may have been renamed, or removed.
            self._fd = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
            self._close = weakref.finalize(self, os.close, self._fd)
            _shares.add(self)
        self._close.atexit = False  # the file is brought up to date later than that
        try:
            self.take()
        except BaseException:
            self.close()
            raise

    def take(self) -> None:
        """Take the share, again if it was dropped."""
        deadline = time.monotonic() + _PATIENCE
        while not _try(self._fd, fcntl.F_RDLCK, _SHARED_BYTE):
            if time.monotonic() > deadline:
                raise LockTimeoutError(self._path, _PATIENCE)
            time.sleep(_PAUSE)
        self.held = True

    def drop(self) -> bool:
        """Drop the share; tell whether others have one.

        In this order: of two that do so at once, one at least sees that it is the last.
        """
        self.held = False
        _try(self._fd, fcntl.F_UNLCK, _SHARED_BYTE)
        return in_use(self._fd)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep others from taking a share; False if any has one, and then this one is dropped.

        Call it under the write lock: of two that are about to leave, the second is then the last.
        """
        alone = _try(self._fd, fcntl.F_WRLCK, _SHARED_BYTE)
        if not alone:
            self.drop()
        try:
            yield alone
        finally:
            if alone:  # not alone any more
                _try(self._fd, fcntl.F_RDLCK, _SHARED_BYTE)

    @contextmanager
    def writing(self, timeout: float | None) -> Iterator[None]:
        """Be the only one who writes the array to the file.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for another who does; None for ever.

        Raises
        ------
        LockTimeoutError
            If that takes longer.
        ReentryError
            In a signal handler amid such a block.
        """
        if self.writes:
            raise ReentryError(self._path, AMID)
        self.writes = True
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
            while not _try(self._fd, fcntl.F_WRLCK, _WRITING_BYTE):
                if deadline is not None and time.monotonic() >= deadline:
                    raise LockTimeoutError(self._path, timeout or 0.0)
                time.sleep(_PAUSE)
            yield
        finally:  # whether it was taken or not: an interrupt may have come in between
            if self.writes:  # not in a child, whose descriptor is closed
                _try(self._fd, fcntl.F_UNLCK, _WRITING_BYTE)
            self.writes = False

    def close(self) -> None:
        """Drop the share for good."""
        self.held = False
        _shares.discard(self)
        self._close()

    def after_fork(self) -> None:
        """Leave it to the parent (runs in the child)."""
        self.held = self.writes = False
        self._close()


def in_use(fd: int) -> bool:
    """Tell whether a writer has a share in the copy of a file, not counting one taken by `fd`."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_BYTE, 1, 0)
    answer: bytes = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _try(fd: int, kind: int, byte: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):  # the two ways to say that another has it
        return False
    return True


_shares: weakref.WeakSet[Share] = weakref.WeakSet()

# Held while a descriptor is opened and not yet known to `after_fork`.
_forks = threading.RLock()


def _after_fork_in_child() -> None:
    for share in list(_shares):
        share.after_fork()
    _forks.release()


os.register_at_fork(
    before=_forks.acquire,
    after_in_parent=_forks.release,
    after_in_child=_after_fork_in_child,
)
