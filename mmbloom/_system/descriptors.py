"""Open descriptors: above the standard streams, closed after their last user, renewed in a child.

A file is opened again by its descriptor here, as Linux and macOS have it.

A lock never crosses a fork: the child opens what it locks again. ``remember`` has it do that.
"""

import errno
import fcntl
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol


def open_file(path: str, flags: int, mode: int = 0o666, *, dir_fd: int | None = None) -> int:
    """Return the descriptor of a file opened as `os.open` does; it is above the standard streams'.

    It is an `opener` for `open` and `io.FileIO`, too. A file that /dev/stdin or /dev/fd/N names is
    opened again, as on Linux: macOS would duplicate the descriptor, and reading the beginning by
    one would take it from the other.
    """
    fill_streams()
    if sys.platform == "darwin":
        fd = _STREAMS.get(path, path.removeprefix("/dev/fd/"))
        if path != fd and fd.isdecimal() and stat.S_ISREG(os.fstat(int(fd)).st_mode):
            return reopen(int(fd), flags)
    return os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)


_STREAMS = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


def path_of(fd: int) -> str:
    """Return a path of an open file; on Linux it leads there whatever became of its name."""
    path = f"/proc/self/fd/{fd}"
    if sys.platform == "darwin":  # where /dev/fd is no link to the file
        found: bytes = fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024))
        path = os.fsdecode(found.split(b"\0", 1)[0])
    return path


def reopen(fd: int, flags: int) -> int:
    """Open the file of a descriptor again, as `os.open` does.

    Raises
    ------
    FileNotFoundError
        If the system does not lead there: without /proc, or on macOS if its path is gone or is
        that of another file by now.
    PermissionError
        If it may not be opened so.
    """
    again = open_file(path_of(fd), flags)
    try:
        if not os.path.samestat(os.fstat(fd), os.fstat(again)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(again)
        raise
    return again


def fill_streams() -> None:
    """Put /dev/null in the place of each standard stream that is closed.

    Each is opened the wrong way round, so reading stdin or writing to stdout is still an error.
    No other program inherits it.
    """
    for stream, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            fcntl.fcntl(stream, fcntl.F_GETFD)
        except OSError:
            # Another thread may have opened something else there in between.
            if (null := os.open(os.devnull, mode)) != stream:
                os.close(null)


def widen_pipe(fd: int, size: int) -> None:
    """Let a pipe hold so many bytes, where the system lets a program choose (Linux)."""
    if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(fd).st_mode):
        with suppress(OSError):  # the user has as many pages in pipes as are allowed
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)


class AfterFork(Protocol):
    """An object that a forked child renews."""

    def after_fork(self) -> None:
        """Leave what is open to the parent (runs in the child)."""


# Held from opening something until it is remembered, and from forgetting it until it is closed: a
# fork by another thread in between would leave the child a descriptor that keeps the lock of a
# killed parent. One lock serves for everything: with two, the fork hooks could take them in one
# order and another thread in the other, and both would wait for ever. Code that holds it waits for
# nothing that may wait for it.
opening = threading.RLock()

_remembered: weakref.WeakSet[AfterFork] = weakref.WeakSet()


def remember(one: AfterFork) -> None:
    """Have ``after_fork`` called in each forked child, as long as the object lives."""
    _remembered.add(one)


def _after_fork_in_child() -> None:
    opening.release()
    for one in list(_remembered):
        one.after_fork()


os.register_at_fork(
    before=opening.acquire,
    after_in_parent=opening.release,
    after_in_child=_after_fork_in_child,
)


class ThreadLock:
    """A reentrant lock between the threads of one process; a forked child gets a new one."""

    def __init__(self) -> None:
        self._pid, self._lock = os.getpid(), threading.RLock()

    def here(self) -> threading.RLock:
        """Return the lock of this process, for a `with` block."""
        if self._pid != os.getpid():
            with opening:  # or two threads of a child would each make one
                if self._pid != os.getpid():
                    # In this order: a thread that finds the right pid finds the new lock.
                    self._lock = threading.RLock()
                    self._pid = os.getpid()
        return self._lock


class OpenFile:
    """An open file; the descriptor belongs to this object.

    Attributes
    ----------
    fd : int
        The descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._users, self._closed, self._lock = set[object](), False, ThreadLock()
        self._close = weakref.finalize(self, os.close, fd)
        self._close.atexit = False

    @contextmanager
    def used(self) -> Iterator[int]:
        """Keep the file open in a block; yields the descriptor, or -1 if it is closed."""
        user = object()
        try:
            with self._lock.here():
                self._users.add(user)
                closed = self._closed
            yield -1 if closed else self.fd
        finally:
            with self._lock.here():
                self._users.discard(user)
                closed = self._closed
            if closed:
                self.close()

    def close(self) -> None:
        """Close the file, or leave that to its last user; calling it again is fine."""
        with self._lock.here():
            self._closed, in_use = True, bool(self._users)
        if not in_use:
            self._close()
