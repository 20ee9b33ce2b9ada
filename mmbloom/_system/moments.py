"""For how long a look at a file is good: a moment, in which keys go without one.

A look takes 2 us and a key 0.05. Most callers measure the moment by the monotonic clock. The
compiled engine, for which that clock is as slow as a key, takes the kernel's coarse one, which
goes on in steps of 1 to 10 ms: there a look can be good until the end of the step.
"""

import sys
import time

MOMENT_NS = 1_000_000
MOMENT = MOMENT_NS / 1e9

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
