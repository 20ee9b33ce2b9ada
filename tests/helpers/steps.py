"""Something done at one line of a function, as a kill or a signal handler may come there."""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def at_line(
    number: int,
    where: Callable[[CodeType], bool],
    act: Callable[[], object],
    run: Callable[[], Any],
) -> bool:
    """Run something, and act before the line of this number that it comes to; False if none.

    Parameters
    ----------
    number : int
        From 0.
    where : callable
        Which code's lines count.
    act, run : callable
        What `act` raises is raised at that line. No line after it counts.
    """
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if not where(frame.f_code):
            return None
        if event == "line":
            left -= 1
            if left == -1:
                sys.settrace(None)
                act()
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return left < 0
