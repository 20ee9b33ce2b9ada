"""Sections of the write lock: who may be in one, and how long the check of a file before it holds.

Both engines keep these rules; ``_engine/reference/holding.py`` has those of a thread that already
holds the lock.

A check that the file is still the one that was opened takes 2 us, a key 0.05 us. So a check stays
valid for a moment, 1 ms, in which keys are added without another one. Most callers use the
monotonic clock. For the compiled engine that clock is as slow as a key, so it reads the kernel's
coarse clock, which advances in steps of 1 to 10 ms: there a check can stay valid until the end of
the step.
"""

import sys
import threading
import time
from typing import Protocol

# Why a thread holds the lock; that decides whether the same thread may take it again.
BLOCK = 1  # for a block of the caller, which may call anything in the same task
CALL = 2  # for one call of ours, during which nothing else may take it

IN_A_CALL = (
    "called while another call in this thread holds the write lock, for example from a signal "
    "handler, __del__ or a weakref callback: keep the keys, and add them after that call returns"
)
IN_ANOTHER_TASK = (
    "another task in this thread, or the code around its event loop, holds the write lock: wait "
    "for it with `async with filter.claim(...)`, or make the call with asyncio.to_thread"
)

# Compiled modules import nothing but the package.
RLock, modules = threading.RLock, sys.modules

MOMENT_NS = 1_000_000
MOMENT = MOMENT_NS / 1e9

# The clock of `time.monotonic`, and CLOCK_MONOTONIC_COARSE, for which the time module has no name.
# macOS has no coarse clock, and its CLOCK_MONOTONIC goes on in sleep: CLOCK_UPTIME_RAW is both.
_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)
_COARSE = getattr(time, "CLOCK_UPTIME_RAW", 6)

_PAUSE = 0.0005


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


def outlast() -> None:
    """Wait until every check that any process has made so far has expired, by either clock.

    The coarse clock is behind the other one by at most a step: when it has passed the end of the
    moment, both have. A fixed sleep would not do, as a step can be late on a busy machine.
    """
    end = time.clock_gettime_ns(_CLOCK) + MOMENT_NS
    while time.clock_gettime_ns(_COARSE) <= end:
        time.sleep(_PAUSE)
