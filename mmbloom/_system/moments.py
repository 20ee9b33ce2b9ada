"""How long a check of a file stays valid: 1 ms, in which keys are added without another check.

A check takes 2 us, a key 0.05 us. Most callers use the monotonic clock. For the compiled engine
that clock is as slow as a key, so it reads the kernel's coarse clock, which advances in steps of 1
to 10 ms: there a check can stay valid until the end of the step.
"""

import sys
import time

MOMENT_NS = 1_000_000
MOMENT = MOMENT_NS / 1e9

# CLOCK_MONOTONIC_COARSE, for which the time module has no name.
_COARSE = 6 if sys.platform == "linux" else time.CLOCK_MONOTONIC

_PAUSE = 0.0005


def outlast() -> None:
    """Wait until every check that any process has made so far has expired, by either clock.

    The coarse clock is behind the other one by at most a step: when it has passed the end of the
    moment, both have. A fixed sleep would not do, as a step can be late on a busy machine.
    """
    end = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + MOMENT_NS
    while time.clock_gettime_ns(_COARSE) <= end:
        time.sleep(_PAUSE)
