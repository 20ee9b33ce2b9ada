"""The command as a process: its exit codes, its standard streams, and the signals that end it.

Data goes to stdout; messages go to stderr, one line each. SIGTERM and SIGHUP end the command
as Ctrl-C does: open blocks are left in order.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

from mmbloom._system.descriptors import fill_streams, open_file
from mmbloom.errors import MmbloomWarning

OK, NOTHING_FOUND, USAGE, NOT_A_FILTER, LOCK_TIMEOUT, IO_ERROR, FULL = range(7)
NOT_SOUND = NOT_ALIKE = TOO_FULL = NOTHING_FOUND


# 128 + SIGHUP, SIGINT, SIGPIPE, SIGTERM, as shells report what a signal has ended.
HUNG_UP, INTERRUPTED, UNREAD, TERMINATED = 129, 130, 141, 143

EXIT_CODES = """\
exit codes: 0 success; 1 nothing found, not sound, not comparable or too full; 2 usage error; \
3 not a usable filter; 4 lock timeout; 5 I/O error; 6 the filter is full; 129, 130 and 143 ended \
by SIGHUP, SIGINT (Ctrl-C) and SIGTERM; 141 the reader of stdout stopped reading"""


class CommandError(Exception):
    """The command cannot be done, or not to its end; its message says why."""

    code: ClassVar[int]


class UsageError(CommandError):
    """The command line asks for something impossible."""

    code = USAGE


class StoppedError(CommandError):
    """The filter is full, and all that was printed is marked."""

    code = FULL


STDIN_FD, STDOUT_FD, STDERR_FD = 0, 1, 2


def escaped(text: str) -> str:
    r"""Escape control characters, which a file name may contain, and a terminal would obey.

    Examples
    --------
    >>> print(escaped("a\x1b[2J\n\u202eb"))
    a\x1b[2J\n\u202eb
    >>> print(escaped(os.fsdecode(b"caf\xe9")))  # a name in Latin-1
    caf\xe9
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    # How Python decodes a byte of a name that is no UTF-8.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(character)[1:-1]


_names: dict[str, str] = {}


def name_as(path: str, name: str) -> None:
    """In messages, show this path, and what is in it, as `name`: a copy as its original."""
    _names[path] = name


def say(message: str) -> None:
    """Print one line to stderr, escaped."""
    for path, name in _names.items():
        message = message.replace(path, name)
    with suppress(OSError):  # a full disk under stderr must not change the exit code
        print(f"mmbloom: {escaped(message)}", file=sys.stderr, flush=True)


# What to do after a run with -d that was stopped: it marks lines that it does not print.
NOT_TO_REPEAT = "start with a new filter, or with a copy made before this run"


def terminal_columns() -> int:
    """Return how many columns the terminal at stdout has; 0 if it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 0
    import shutil  # noqa: PLC0415  a few milliseconds, for people only

    return shutil.get_terminal_size().columns


def in_rows(rows: Iterable[tuple[str, str]], width: int = 15) -> str:
    """Write a name and a value a line, escaped; a narrow terminal has long values in two lines."""
    columns = terminal_columns()
    lines = [escaped(f"{name:<{width}} {value}") for name, value in rows]
    return "\n".join(_folded(line, width + 1, columns) for line in lines)


def _folded(line: str, indent: int, columns: int) -> str:
    if not columns or len(line) <= columns or indent > columns // 2:
        return line
    import textwrap  # noqa: PLC0415  as above

    values = textwrap.wrap(
        line[indent:], columns - indent, break_long_words=False, break_on_hyphens=False
    )
    return line[:indent] + ("\n" + " " * indent).join(values)


@contextmanager
def said_warnings() -> Iterator[None]:
    """Print every warning of mmbloom as one line to stderr."""

    def show(message: Warning | str, *_where: object) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", MmbloomWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # accepts any further arguments
        yield


def prepare() -> None:
    """Make all three streams usable, even if they were closed or cannot encode.

    A closed stream is replaced by /dev/null, for what else is opened, such as an input.
    """
    fill_streams()
    # A closed stream is None here: print would then write elsewhere, or nowhere.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path can have any bytes


def flush_stdout() -> None:
    """Flush stdout; an error names stdout."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout") from error


def abandon_streams() -> None:
    """Redirect streams that cannot be written to /dev/null; else Python would exit with 120."""
    for stream, descriptor in ((sys.stdout, STDOUT_FD), (sys.stderr, STDERR_FD)):
        try:
            stream.flush()
        except OSError:
            null = open_file(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)


_AGAIN_AFTER = 0.001  # seconds
_SIGNAL_CODES = {signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}


@contextmanager
def unwinding() -> Iterator[None]:
    """Turn the signals into exceptions for a block: Ctrl-C into KeyboardInterrupt, as Python does.

    The others are `SystemExit`. Ignored signals stay ignored (nohup). An exception that was raised
    within a finalizer, of which Python prints a traceback and no more, is raised again soon after.
    """
    before, hook = {}, sys.unraisablehook
    lost = list[BaseException]()

    def note(unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, (KeyboardInterrupt, SystemExit)):
            lost.append(unraisable.exc_value)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER)
        else:
            hook(unraisable)

    def raise_lost(*_: object) -> None:
        raise lost[-1]

    answers: dict[signal.Signals, Callable[..., object]] = {
        number: lambda *_, code=code: sys.exit(code) for number, code in _SIGNAL_CODES.items()
    }
    answers |= {signal.SIGALRM: raise_lost, signal.SIGINT: signal.default_int_handler}
    for number, answer in answers.items():
        if threading.current_thread() is not threading.main_thread():
            continue
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, answer)
    if signal.SIGALRM in before:
        sys.unraisablehook = note
    try:
        yield
    finally:
        if signal.SIGALRM in before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
