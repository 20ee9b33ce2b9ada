"""For how long a look at a file is good: a moment, in which keys go without one.

Each thing that is looked at has one `Look`.

A look takes 2 us and a key 0.05. Most callers measure the moment by the monotonic clock. The
compiled engine, for which that clock is as slow as a key, takes the kernel's coarse one, which
goes on in steps of 1 to 10 ms: there a look can be good until the end of the step.
"""

import sys
import time
from collections.abc import Callable
from time import monotonic

MOMENT_NS = 1_000_000
MOMENT = MOMENT_NS / 1e9


class Look:
    """A look at something, and until when it is good.

    Attributes
    ----------
    until : float
        By the monotonic clock; 0 if there was none, or what it has found is good no longer.
    """

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = 0.0

    def is_over(self) -> bool:
        """Tell whether it is time to look again."""
        return monotonic() > self.until

    def take(self, look: Callable[[], object]) -> None:
        """Look, which can fail; what is found is good from when it began."""
        self.until, began = 0.0, monotonic()
        look()
        self.until = began + MOMENT


# CLOCK_MONOTONIC_COARSE, for which the time module has no name.
_COARSE = 6 if sys.platform == "linux" else time.CLOCK_MONOTONIC

_PAUSE = 0.0005


def outlast() -> None:
    """Wait until each look that any process has taken so far is good no longer, by either clock.

    The coarse clock is behind the other one, by a step at most: when it has passed the end of the
    moment, both have. Not for a fixed time, as on a busy machine a step can be late.
    """
    end = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + MOMENT_NS
    while time.clock_gettime_ns(_COARSE) <= end:
        time.sleep(_PAUSE)
