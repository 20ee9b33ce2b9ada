"""Open descriptors: when they are closed, and what of them a fork leaves to the parent.

- A thread that works on a descriptor keeps it open, whatever another thread closes: until then its
  number is no other file's. The last of them closes it; so does the end of its object.
- At the end of a program it is left to the system. Daemon threads and functions of ``atexit``
  still use it then; and a lock on a number that is another file's by now would guard nothing.
- What a forked child must not share with its parent is made under `opening`, and remembered.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class OpenFile:
    """An open file; the descriptor belongs to this object.

    Attributes
    ----------
    fd : int
        The descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._users, self._closed = set[object](), False
        self._close = weakref.finalize(self, os.close, fd)
        self._close.atexit = False

    @contextmanager
    def used(self) -> Iterator[int]:
        """Keep it open in a block; gives the descriptor, or -1 if it is closed."""
        user = object()
        try:
            self._users.add(user)  # first: `close` looks for it after it has said so
            yield -1 if self._closed else self.fd
        finally:
            self._users.discard(user)
            if self._closed:
                self.close()

    def close(self) -> None:
        """Close it, or have the last of its users close it; twice is fine."""
        self._closed = True
        if not self._users:
            self._close()


class AfterFork(Protocol):
    """What a child makes anew."""

    def after_fork(self) -> None:
        """Leave what is open to the parent (runs in the child)."""


# Held while something is opened that is not yet remembered: a fork by another thread in between
# would give the child a descriptor that keeps the lock of a killed parent. One lock for all of
# it: with two, the hooks of a fork take them in one order and another thread could take them in
# the other, and both would wait for ever.
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
