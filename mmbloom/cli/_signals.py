"""Ending when asked to: SIGTERM and SIGHUP unwind what is under way, as Ctrl-C does.

The default would end the process at once, and leave behind the temporary file of a filter that
was being made: as large as the filter (law 8).
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mmbloom.cli._errors import HUNG_UP, TERMINATED

_CODES = {"SIGTERM": TERMINATED, "SIGHUP": HUNG_UP}


@contextmanager
def unwinding() -> Iterator[None]:
    """Turn the signals into `SystemExit` for a block; those that are ignored stay so (nohup)."""
    before = {}
    for name, code in _CODES.items():
        number = getattr(signal, name, None)  # no SIGHUP on Windows
        if number is None or threading.current_thread() is not threading.main_thread():
            continue
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, lambda *_, code=code: sys.exit(code))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
