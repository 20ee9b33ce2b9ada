"""The command line as a process: ``python -m mmbloom``, and the installed script.

While its modules are imported, which takes longer than many a command, Ctrl-C ends the process at
once, as it ends a program that is not Python. Nothing needs to be cleaned up yet, and Python's
KeyboardInterrupt would print a traceback, or be swallowed by an import that catches everything.
"""

import gc
import signal
import sys
from importlib import import_module


def main() -> int:
    """Run the command line with the arguments of the process; returns its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as by nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `process.unwinding`
    # Nearly every object comes from an import, and stays. The default, a collection every 700
    # objects, would search them for cycles again and again: 7 ms of 113.
    gc.set_threshold(100_000)
    try:
        code: int = import_module("mmbloom.cli").main()
    finally:
        # Otherwise the interpreter searches all objects once more as it exits: 15 ms of 116.
        gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
