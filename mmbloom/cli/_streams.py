"""The standard streams: data to stdout, words to stderr, each word on one line."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mmbloom.errors import MmbloomWarning

STDIN_FD, STDOUT_FD = 0, 1


def say(message: str) -> None:
    """Print one line to stderr, whatever characters a file name has."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
    with suppress(OSError):  # a full disk under stderr must not change the exit code
        print(f"mmbloom: {line}", file=sys.stderr, flush=True)


@contextmanager
def said_warnings() -> Iterator[None]:
    """Print every warning of mmbloom as one line to stderr."""

    def show(message: Warning | str, *_where: object) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", MmbloomWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # takes any rest
        yield


def prepare() -> None:
    """Make all three streams usable, even if they were closed or cannot encode.

    Without a stand-in for a closed stdout the filter could be opened as descriptor 1, and
    lines be written into it. Reading the stand-in for stdin, or writing that for stdout, is
    an error as it should be.
    """
    for fd, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    # None where the stream was closed: print would then print elsewhere, or nowhere.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path of any bytes


def flush_stdout() -> None:
    """Get everything printed out of this process; an error names stdout."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout") from error


def abandon_stdout() -> None:
    """Let the interpreter flush at exit what is left in stdout's buffer, to nowhere."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT_FD)
