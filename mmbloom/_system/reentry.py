"""What a thread that already holds a write lock may do; both engines refuse the rest with these.

``_engine/reference/holding.py`` has the rules.
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

# Why a thread holds the lock; that decides whether the same thread may take it again.
BLOCK = 1  # for a block of the caller, which may call anything in the same task
CALL = 2  # for one call of ours, during which nothing else may take it

AMID = (
    "called while another call of this thread holds the write lock, as from a signal handler, a "
    "__del__ or a weakref callback: note the keys there, and add them when that call has returned"
)
OF_A_TASK = (
    "another task of this thread, or the code around its event loop, holds the write lock: wait "
    "for it with `async with filter.claim(...)`, or call from a thread, as asyncio.to_thread does"
)

modules = sys.modules


class Descriptor(Protocol):
    """The descriptor that is locked."""

    @property
    def native(self) -> int:
        """The number that the compiled engine calls flock on; -1 if it must call these methods."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free; return True also if this descriptor has it already."""

    def release(self) -> None:
        """Release the lock; does nothing if this descriptor does not have it."""

    def close(self) -> None:
        """Close the descriptor; in a forked child that leaves the lock to the parent."""


def running_task() -> object:
    """Return the asyncio task that runs in this thread; None if there is none."""
    asyncio = modules.get("asyncio")  # without it there are no tasks
    running_loop = getattr(asyncio, "_get_running_loop", None)
    loop = None if running_loop is None else running_loop()
    return None if loop is None else asyncio.current_task(loop)  # type: ignore[union-attr]
