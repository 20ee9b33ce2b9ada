"""The write lock: one holder among all threads and processes; the only importer of filelock.

- The lock is on a descriptor of the data file itself, opened for nothing else: it follows
  the inode through links and renames and leaves no extra file. Never on the mapped one: the
  map would keep the lock after a close.
- It is taken again for free by the thread that holds it.
- It never crosses a fork: the child closes what it inherited and opens its own.
"""

import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import lock_descriptor, unlock_descriptor

from mmbloom.errors import ClosedFilterError, FileChangedError, LockTimeoutError

# A 50 ms poll gave a p99 wait of 253 ms with 4 writers. Pauses that grow slowly waste a
# twentieth of a wait at most: 4 writers of batches add 16.2 million keys a second in total so,
# and 13.1 with pauses that double, as the lock lay free for a fifth of the time.
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.0001, 0.010, 1.05


class DescriptorLock:
    """A POSIX lock on a dedicated descriptor of the data file."""

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            raise FileChangedError(path, "removed or renamed") from None
        except IsADirectoryError:
            raise FileChangedError(path, "replaced by a folder") from None
        self._close_fd = weakref.finalize(self, os.close, self._fd)
        status = os.fstat(self._fd)
        if (status.st_dev, status.st_ino) != identity:
            self.close()
            raise FileChangedError(path, "replaced by another file")

    def try_acquire(self) -> bool:
        return lock_descriptor(self._fd, blocking=False)

    def release(self) -> None:
        unlock_descriptor(self._fd)

    def close(self) -> None:
        # Closing, not unlocking: in a forked child the lock may be the parent's.
        self._close_fd()


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

    Notes
    -----
    Safe to use from any thread; after a fork parent and child exclude each other.
    """

    def __init__(
        self,
        path: str,
        identity: tuple[int, int],
        timeout: float | None,
        backend: type[DescriptorLock] = DescriptorLock,
    ) -> None:
        self.timeout = timeout
        self._path, self._identity, self._backend = path, identity, backend
        self._closed = False
        self._forget()
        _locks.add(self)

    def _forget(self) -> None:
        """Start afresh, as after a fork: not held, nothing open."""
        self._pid = os.getpid()
        self._threads = threading.RLock()
        self._depth, self._owner = 0, 0
        self._held: DescriptorLock | None = None

    def after_fork(self) -> None:
        """Give up the parent's lock without releasing it (runs in the child)."""
        # While a child keeps the descriptor open, a killed parent's lock would stay.
        if self._held is not None:
            self._held.close()
        self._forget()

    @contextmanager
    def held(self, timeout: float | None) -> Iterator[None]:
        """Hold the lock for a block; raises `LockTimeoutError` if that takes too long to get."""
        self.acquire(timeout)
        owner = os.getpid()
        try:
            yield
        finally:
            # A child forked within the block leaves it without the lock: it is the parent's.
            if os.getpid() == owner:
                self.release()

    def __enter__(self) -> None:
        """Take the lock for a block of this package's own, which never forks."""
        self.acquire(self.timeout)

    def __exit__(self, *error: object) -> None:
        self.release()

    def mine(self) -> bool:
        """Tell whether the calling thread of this very process holds the lock."""
        return self._owner == threading.get_ident() and self._pid == os.getpid()

    @contextmanager
    def own_threads(self) -> Iterator[None]:
        """Keep this object's other threads out of a block; other processes may go on."""
        with self._threads:
            yield

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Like `own_threads`, then release the lock permanently."""
        with self._threads:
            yield
            self._closed = True
            if self._held is not None:
                self._held.close()
                self._held = None

    def acquire(self, timeout: float | None) -> None:
        """Take the lock, for `release` to give back; `held` is this as a block."""
        if self._pid != os.getpid():  # a fork that ran no Python handlers
            self.after_fork()
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._threads.acquire(blocking=False):
            patience = -1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)
            if not self._threads.acquire(timeout=patience):
                raise LockTimeoutError(self._path, timeout or 0.0)
        try:
            if self._depth == 0:
                self._take(deadline, timeout)
            self._depth += 1
            self._owner = threading.get_ident()
        except BaseException:
            self._threads.release()
            raise

    def _take(self, deadline: float | None, timeout: float | None) -> None:
        if self._closed:
            raise ClosedFilterError(self._path)
        if self._held is None:
            with _forks:
                self._held = self._backend(self._path, self._identity)
        if self._held.try_acquire():
            return
        pause = _FIRST_PAUSE
        while True:
            left = _LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise LockTimeoutError(self._path, timeout or 0.0)
            time.sleep(min(pause, left))
            if self._held.try_acquire():
                return
            pause = min(_GROWTH * pause, _LONGEST_PAUSE)

    def release(self) -> None:
        """Give back what `acquire` took."""
        self._depth -= 1
        try:
            if self._depth == 0:
                self._owner = 0
                if self._held is not None:
                    self._held.release()
        finally:
            self._threads.release()

    def retire(self) -> None:
        """Release the lock, and close its descriptor until the lock is wanted again."""
        with self._threads:  # of this object none takes it in between
            self.release()
            if self._depth == 0 and self._held is not None:
                self._held.close()
                self._held = None


_locks: "weakref.WeakSet[WriteLock]" = weakref.WeakSet()


# Held while a descriptor is opened and not yet known to `after_fork`: a fork by another
# thread in between would give the child a copy that keeps a killed holder's lock.
_forks = threading.RLock()


def _after_fork_in_child() -> None:
    _forks.release()
    for lock in list(_locks):
        lock.after_fork()


os.register_at_fork(
    before=_forks.acquire,
    after_in_parent=_forks.release,
    after_in_child=_after_fork_in_child,
)
