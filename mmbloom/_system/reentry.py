"""What both engines need to tell a thread that has a write lock already from one that has not.

The rules are those of ``_engine/reference/holding.py``.
"""

import sys
from threading import RLock
from typing import Protocol

__all__ = [
    "AMID",
    "BLOCK",
    "CALL",
    "OF_A_TASK",
    "Descriptor",
    "RLock",
    "modules",
    "running_task",
]

# What the lock is taken for, by which the next taking by the same thread is allowed or refused.
BLOCK = 1  # a block of the caller's, which may call anything, in the same task
CALL = 2  # a call of ours, within which nothing else takes the lock

AMID = (
    "called amid another call of the same thread that holds the write lock, as from a signal "
    "handler, a __del__ or a weakref callback: note the keys there, and add them when that call "
    "has returned"
)
OF_A_TASK = (
    "another task of this thread, or the code around its event loop, holds the write lock: wait "
    "for it with `async with filter.claim(...)`, or call from a thread, as asyncio.to_thread does"
)

modules = sys.modules


class Descriptor(Protocol):
    """What the lock is on."""

    @property
    def native(self) -> int:
        """The descriptor, for the compiled engine to call flock on; -1 to call these methods."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free; True as well if this descriptor has it already."""

    def release(self) -> None:
        """Give it back; nothing happens if this descriptor does not have it."""

    def close(self) -> None:
        """Close it, which in a forked child leaves the lock to the parent."""


def running_task() -> object:
    """Give the task of asyncio that runs in this thread; None if there is none."""
    asyncio = modules.get("asyncio")  # without it there are no tasks
    look = getattr(asyncio, "_get_running_loop", None)
    loop = None if look is None else look()
    return None if loop is None else asyncio.current_task(loop)  # type: ignore[union-attr]
