"""Open descriptors: which numbers they have, and when they are closed.

- None is that of a standard stream that the program has closed: what it prints would be written
  into our file.

- A thread that works on a descriptor keeps it open, whatever another thread closes: until then its
  number is no other file's. The last of them closes it; so does the end of its object.
- At the end of a program it is left to the system. Daemon threads and functions of ``atexit``
  still use it then; and a lock on a number that is another file's by now would guard nothing.
"""

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._machine.forks import ThreadLock


def fill_streams() -> None:
    """Put /dev/null in the place of each standard stream that is closed.

    Each is opened the wrong way round, so that reading stdin or writing to stdout is still an
    error; and none is inherited by another program.
    """
    for stream, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            fcntl.fcntl(stream, fcntl.F_GETFD)
        except OSError:
            # Another thread may have opened something else there in between.
            if (null := os.open(os.devnull, mode)) != stream:
                os.close(null)


def open_file(path: str, flags: int, mode: int = 0o666, *, dir_fd: int | None = None) -> int:
    """Return the descriptor of a file opened as `os.open` does; it is above the standard streams'.

    It is an `opener` for `open` and `io.FileIO`, too.
    """
    fill_streams()
    return os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)


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
        """Keep it open in a block; gives the descriptor, or -1 if it is closed."""
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
        """Close it, or have the last of its users close it; twice is fine."""
        with self._lock.here():
            self._closed, in_use = True, bool(self._users)
        if not in_use:
            self._close()
