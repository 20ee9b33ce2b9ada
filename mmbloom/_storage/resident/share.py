"""A writer's share in the working copy of a filter: while any is taken, none gives the copy up.

Two locks on bytes of the filter's own file, beyond its end, so that they are seen wherever the
file is, by containers that have a ``/dev/shm`` each as well:

- Each writer whose array lies in shared memory has one byte of many. The process that gets all of
  them is the last writer, and may let the file be the filter again. So an array moves from the
  file to a copy while others write, who follow within the write lock, and never back.
- The process that writes the array to the file has another byte: older pieces could come over
  newer ones.

All are locked for writing, which takes write permission. A program that may only read the file
can lock bytes for reading. It is never taken for a writer. If it keeps a byte locked, the writer
says so in an error, or works under the write lock instead.

They are locks of an open file (``F_OFD_SETLK``), not of a process, on a descriptor of this
object's own. A forked child inherits none: when it uses the filter it opens its own.
"""

import fcntl
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._system.forks import OpenFile, open_file, opening, remember
from mmbloom._system.reentry import AMID
from mmbloom.errors import LockTimeoutError, ReentryError

_LOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit systems

# First byte and number of bytes: far beyond the end of any file.
_WRITING = (1 << 61, 1)
_SHARES = ((1 << 61) + 1, 1 << 32)

_HERE = "in this process"

# Giving up a copy takes milliseconds. A longer wait means that the process was stopped.
_PATIENCE = 10.0
_PAUSE = 0.001

_SHARE = "a share in the array in shared memory"
_TURN = "the turn to write the array in shared memory to the file"
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
        Whether this process has it: it was not dropped, and is not a parent's.
    inherited : bool
        Whether it is a parent's: then this process takes one of its own.
    gives_up : bool
        Whether this process gives the copy up, or has done so: set before the header names none.

    Raises
    ------
    OSError
        If the system does not know such locks, or has no descriptor left.
    LockTimeoutError
        If another process gives the copy up, and does not get on.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._path, self._byte = path, _any_byte()
        self.held = self.inherited = self.gives_up = self._alone = False
        self._writer: dict[str, int] = {}  # the thread that writes the array to the file just now
        with opening:
            # By this name: the file may have been renamed, or removed.
            self._file = OpenFile(open_file(f"/proc/self/fd/{fd}", os.O_RDWR))
            remember(self)
        try:
            self.take()
        except BaseException:
            self.close()
            raise

    def take(self) -> None:
        """Take the share, again if it was dropped."""
        deadline = time.monotonic() + _PATIENCE
        while not _try(self._file.fd, fcntl.F_WRLCK, self._byte, 1):
            if time.monotonic() > deadline:
                lock = _SHARE if self.has_company() else f"{_SHARE} {_BY_READER}"
                raise LockTimeoutError(self._path, _PATIENCE, lock)
            time.sleep(_PAUSE)
            self._byte = _any_byte()  # another writer may have drawn the same
        self.held = True

    def drop(self) -> bool:
        """Drop the share; tell whether others have one.

        In this order: of two that do so at once, one at least sees that it is the last.
        """
        self.held = False
        _try(self._file.fd, fcntl.F_UNLCK, *_SHARES)
        return self.has_company()

    def has_company(self) -> bool:
        """Tell whether other writers have a share."""
        return in_use(self._file.fd)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Keep others from taking a share; False if that cannot be, and then this one is dropped.

        Call it under the write lock: of two that are about to leave, the second is then the last.
        """
        try:
            try:
                self._alone = True  # first: what an interrupt leaves is given back below
                alone = _try(self._file.fd, fcntl.F_WRLCK, *_SHARES)
                if not alone:
                    self.drop()
                yield alone
            finally:
                self._end_alone()
        finally:  # an exception out of a handler has kept it from its end
            self._end_alone()

    def _end_alone(self) -> None:
        if self._alone:  # not in a child, whose descriptor is closed
            first, number = _SHARES
            kept = self._byte - first if self.held else number
            for start, end in ((0, kept), (kept + 1, number)):
                if start < end:  # no bytes at all would be all that follow
                    _try(self._file.fd, fcntl.F_UNLCK, first + start, end - start)
        self._alone = False

    @contextmanager
    def writing(self, timeout: float | None, *, locked: bool = False) -> Iterator[None]:
        """Be the only one who writes the array to the file.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for another process that does; None for ever.
        locked : bool
            Whether the caller has the write lock. Then nothing changes the array, so that a
            writer that comes later writes the same or newer pieces: a program that only reads is
            not waited for.

        Raises
        ------
        LockTimeoutError
            If that takes longer.
        ReentryError
            In a signal handler that interrupts such a block of this thread.
        """
        me = threading.get_ident()
        if self._writer.get(_HERE) == me:
            raise ReentryError(self._path, AMID)
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
        # Threads of this object first, of which the lock on the byte keeps none out.
        while self._writer.setdefault(_HERE, me) != me or not _try(
            self._file.fd, fcntl.F_WRLCK, *_WRITING
        ):
            by_writer = self._writer.get(_HERE) != me or _is_locked(self._file.fd, *_WRITING)
            if locked and not by_writer:
                return
            if deadline is not None and time.monotonic() >= deadline:
                lock = _TURN if by_writer else f"{_TURN} {_BY_READER}"
                raise LockTimeoutError(self._path, timeout or 0.0, lock)
            time.sleep(_PAUSE)

    def _end_writing(self, me: int) -> None:
        if self._writer.get(_HERE) == me:  # in a child there is none, as in `_end_alone`
            _try(self._file.fd, fcntl.F_UNLCK, *_WRITING)
            self._writer.pop(_HERE, None)

    def close(self) -> None:
        """Drop the share for good."""
        self.held = False
        self._file.close()

    def after_fork(self) -> None:
        """Leave it to the parent (runs in the child)."""
        self.held, self.inherited, self._alone = False, True, False
        self._writer.clear()
        self._file.close()


def in_use(fd: int) -> bool:
    """Tell whether a writer has a share in the copy of a file, not counting one taken by `fd`."""
    return _is_locked(fd, *_SHARES)


def _any_byte() -> int:
    return _SHARES[0] + int.from_bytes(os.urandom(4), "little")


def _is_locked(fd: int, start: int, number: int) -> bool:
    """Tell whether another open file has any of these bytes locked for writing."""
    asked = _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, start, number, 0)
    answer: bytes = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _try(fd: int, kind: int, start: int, number: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, start, number, 0))
    except (BlockingIOError, PermissionError):  # the two ways to say that another has it
        return False
    return True
