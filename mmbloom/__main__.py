"""The command line as a process: ``python -m mmbloom``, and the installed script.

While its modules are imported, which takes longer than many a command, Ctrl-C ends the process as
it ends one that is not Python. There is nothing to leave in order yet; and the exception that
Python makes of it would be a traceback, or be lost amid an import that catches all exceptions.
"""

import gc
import signal
import sys
from importlib import import_module


def main() -> int:
    """Run the command line with the arguments of the process; returns its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as by nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `process.unwinding`
    # Nearly all that is made is what is imported, and stays: to look through it again and again
    # for cycles, as each 700 objects more would have it, takes 7 ms of 113.
    gc.set_threshold(100_000)
    try:
        code: int = import_module("mmbloom.cli").main()
    finally:
        # The interpreter looks through it all once more as it ends: 15 ms of 116.
        gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
