"""How long a check stays valid: the wait until all have expired, on clocks that the test sets."""

import time

import pytest

from mmbloom._system import sections
from mmbloom._system.sections import MOMENT_NS, outlast

STEP = 4_000_000  # ns, of the coarse clock


@pytest.mark.parametrize("begun", [0, 1, STEP - 1, STEP - MOMENT_NS, STEP // 2])
def test_outlasts_a_check_by_either_clock(begun: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it is called within a step: a moment passes by the fine clock and by the coarse."""
    fine = begun

    def clock(which: int) -> int:
        return fine if which == sections._CLOCK else fine // STEP * STEP

    def sleep(seconds: float) -> None:
        nonlocal fine
        fine += int(seconds * 1e9)

    monkeypatch.setattr(sections, "_COARSE", -1)
    monkeypatch.setattr(time, "clock_gettime_ns", clock)
    monkeypatch.setattr(time, "sleep", sleep)
    outlast()
    assert fine > begun + MOMENT_NS
    assert fine // STEP * STEP > begun // STEP * STEP + MOMENT_NS
    assert fine < begun + MOMENT_NS + 2 * STEP


def test_clocks_of_this_machine() -> None:
    """The coarse clock is behind the fine one, which is that of `time.monotonic`."""
    for _ in range(1000):
        coarse = time.clock_gettime_ns(sections._COARSE)
        assert coarse <= time.clock_gettime_ns(sections._CLOCK) <= time.monotonic_ns()
