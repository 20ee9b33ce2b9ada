"""Open descriptors, and when they are closed.

- A thread that works on a descriptor keeps it open, whatever another thread closes: until then its
  number is no other file's. The last of them closes it; so does the end of its object.
- At the end of a program it is left to the system. Daemon threads and functions of ``atexit``
  still use it then; and a lock on a number that is another file's by now would guard nothing.
"""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom._machine.forks import ThreadLock


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
