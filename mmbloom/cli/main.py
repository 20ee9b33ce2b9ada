"""The parser, and the one place where an error becomes a line on stderr and an exit code.

A command is imported when it is asked for: what only tells of the command line needs no numpy.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import mmbloom
from mmbloom.cli.process import (
    EXIT_CODES,
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


def _plain_names(argv: Sequence[str]) -> list[str]:
    """Write the names that follow ``--`` so that none of them looks like an option."""
    # parse_intermixed_args (Python 3.11) drops a -- that no positional argument precedes.
    if "--" not in argv:
        return list(argv)
    end = argv.index("--")
    hidden = [f"./{name}" if name[:1] == "-" != name else name for name in argv[end + 1 :]]
    return [*argv[:end], *hidden]


class Command(NamedTuple):
    """A command: its help, and what has to be known of it before and after it runs."""

    summary: str
    words: Callable[[Sequence[str]], list[str]] = _plain_names  # prepares argv for argparse
    past: tuple[str, ...] = ("file",)  # arguments of filters of which it says that they are full


COMMANDS = {
    "create": Command("make an empty filter", past=()),
    "dedup": Command(
        "print each line the first time it is seen, across inputs, runs and processes"
    ),
    "add": Command("mark lines as seen"),
    "check": Command("print the lines that are in a filter"),
    "remove": Command("take lines out of a counting filter"),
    "exclude": Command(
        "list, add or remove exclusions: keys that a filter must answer as not seen",
        words=list,  # keys must not be rewritten; FILE comes first, so argparse keeps the --
    ),
    "grow": Command(
        "make a full filter grow: a folder in its place, with all that it knows", past=()
    ),
    "info": Command("show what a filter is and what it holds", past=()),
    "verify": Command("check everything in a filter that can be checked", past=()),
    "copy": Command("copy a filter, even while others write to it"),
    "merge": Command("make one filter from several", past=("file", "destination")),
    "intersect": Command("make one filter of the keys that several filters share"),
    "compare": Command("estimate how many keys two filters share", past=("file", "other")),
    "repair": Command("make a sound filter from a damaged one", past=("destination",)),
    "export": Command("write a filter in another program's format"),
    "import": Command("make a filter from another program's file", past=("destination",)),
    "plan": Command("show what a filter will cost", past=()),
}


def file_of(command: str) -> Any:
    """Import the file of a command: its `register` declares the options, its `run` does it."""
    # numpy starts a thread a core for linear algebra: a quarter of its import's processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    name = {"import": "import_"}.get(command, command)
    return import_module(f"mmbloom.cli.commands.{name}")


class _Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors; help that cannot be printed is an error."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        flush_stdout()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def parse(argv: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Read the command and its options, which may stand before, between and after files."""
    if argv and argv[0] in COMMANDS:
        command = COMMANDS[argv[0]]
        parser = _Parser(
            allow_abbrev=False,  # otherwise a new option could change what a script means
            prog=f"mmbloom {argv[0]}",
            description=f"{command.summary.capitalize()}.",
            epilog=EXIT_CODES,
        )
        file_of(argv[0]).register(parser)
        return argv[0], parser.parse_intermixed_args(command.words(argv[1:]))
    parser = _Parser(
        prog="mmbloom",
        description="A memory-mapped, persistent Bloom filter that many processes share.",
        epilog=f"mmbloom COMMAND --help describes a command; {EXIT_CODES}",
    )
    parser.add_argument("--version", action="version", version=f"mmbloom {mmbloom.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary)
    parser.parse_args(argv)  # --help, --version, or an error: all of them exit
    raise AssertionError("argparse accepted an unknown command")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Raises nothing but argparse's own exit."""
    args = argparse.Namespace()
    with said_warnings(), unwinding():
        try:
            prepare()
            command, args = parse(sys.argv[1:] if argv is None else argv)
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
