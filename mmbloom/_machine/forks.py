"""What a forked child must not share with its parent, and makes anew.

- A descriptor that has a lock: the child closes what it inherited, and opens its own. It is made
  under `opening`, and remembered.
- A lock of threads, which a thread may have had that the child has not.
"""

import os
import threading
import weakref
from typing import Protocol


class AfterFork(Protocol):
    """What a child makes anew."""

    def after_fork(self) -> None:
        """Leave what is open to the parent (runs in the child)."""


# Held while something is opened that is not yet remembered, or closed that is remembered no more:
# a fork by another thread in between would give the child a descriptor that keeps the lock of a
# killed parent. One lock for all of it: with two, the hooks of a fork take them in one order and
# another thread could take them in the other, and both would wait for ever. Within it nothing is
# waited for that may wait for it.
opening = threading.RLock()

_remembered: weakref.WeakSet[AfterFork] = weakref.WeakSet()


def remember(one: AfterFork) -> None:
    """Have ``after_fork`` called in each forked child, as long as the object lives."""
    _remembered.add(one)


class ThreadLock:
    """A lock that one thread of a process has at a time, and can take again."""

    def __init__(self) -> None:
        self._pid, self._lock = os.getpid(), threading.RLock()

    def here(self) -> threading.RLock:
        """Give it as this process has it, for a `with` block."""
        if self._pid != os.getpid():
            with opening:  # two threads of a child make one
                if self._pid != os.getpid():
                    # In this order: a thread that finds the number right finds the new lock.
                    self._lock = threading.RLock()
                    self._pid = os.getpid()
        return self._lock


def _after_fork_in_child() -> None:
    opening.release()
    for one in list(_remembered):
        one.after_fork()


os.register_at_fork(
    before=opening.acquire,
    after_in_parent=opening.release,
    after_in_child=_after_fork_in_child,
)
