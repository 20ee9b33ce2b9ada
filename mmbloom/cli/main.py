"""The one place where an error becomes a line on stderr and an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from mmbloom._machine.locks import holder
from mmbloom.cli.parser import COMMANDS, file_of, parse
from mmbloom.cli.process import (
    FULL,
    INTERRUPTED,
    IO_ERROR,
    LOCK_TIMEOUT,
    NOT_A_FILTER,
    UNREAD,
    USAGE,
    InputError,
    StoppedError,
    UsageError,
    abandon_streams,
    flush_stdout,
    prepare,
    said_warnings,
    say,
    unwinding,
)
from mmbloom.errors import (
    DurabilityError,
    FilterFullError,
    LockTimeoutError,
    LostBitsError,
    MmbloomError,
    NetworkFileSystemError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Raises nothing but argparse's own exit."""
    command, args = "", argparse.Namespace()
    with said_warnings():
        try:
            prepare()
            command, args = parse(sys.argv[1:] if argv is None else argv)
            with unwinding():
                code: int = file_of(command).run(args)
                flush_stdout()
                if named := _named(args, COMMANDS[command].past):
                    import_module("mmbloom.cli.filters").say_what_is_past_plan(named)
        except BrokenPipeError:
            # The reader of our output has stopped (| head): no fault of ours, and nothing to say.
            # But not all was done, and a script has to see that. Lines that were not written are
            # not marked.
            return UNREAD
        except KeyboardInterrupt:
            say(COMMANDS[command].interrupted if command else "interrupted")
            return INTERRUPTED
        except MemoryError:
            say("not enough memory: a line or the filter is larger than the memory that is left")
            return IO_ERROR
        except (UsageError, InputError, StoppedError, MmbloomError, OSError, ValueError) as error:
            code, message = _explain(error, _filters(args))
            say(message)
        finally:
            abandon_streams()
    return code


def _filters(args: argparse.Namespace) -> list[str]:
    """List the filters that a command was asked to read."""
    return _named(args, ("file", "other", "like"))


def _named(args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    named = [getattr(args, name, None) or [] for name in names]
    return [path for one in named for path in (one if isinstance(one, list) else [one])]


# The first line that fits decides.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (UsageError, USAGE),
    (InputError, IO_ERROR),
    (StoppedError, FULL),
    (FilterFullError, FULL),
    (LockTimeoutError, LOCK_TIMEOUT),
    (DurabilityError, IO_ERROR),
    (LostBitsError, IO_ERROR),
    (NetworkFileSystemError, IO_ERROR),
    (MmbloomError, NOT_A_FILTER),
    (OSError, IO_ERROR),
    (ValueError, USAGE),  # a size or seed that no filter can have
)


def _explain(error: Exception, filters: Sequence[str]) -> tuple[int, str]:
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    if isinstance(error, LockTimeoutError) and (who := holder(error.path)):
        return code, f"{error}; {who} has it now"
    if not isinstance(error, OSError) or isinstance(error, MmbloomError):
        return code, str(error)
    if error.filename is None:
        return code, error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        for path in filters:
            if error.filename == os.path.abspath(path):
                if os.path.islink(path):
                    return (
                        NOT_A_FILTER,
                        f"{path}: a symbolic link whose target does not exist; remove it",
                    )
                return (
                    NOT_A_FILTER,
                    f"{path}: no such filter; dedup and add create it if you give -n N",
                )
    return code, f"{error.filename}: {error.strerror}"
