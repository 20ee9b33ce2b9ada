"""The one place where an error becomes a line on stderr and an exit code."""

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence

from mmbloom import errors
from mmbloom._system.locks import holder
from mmbloom.cli import process
from mmbloom.cli.commands import COMMANDS, function_of
from mmbloom.cli.parser import parse, without_n


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Raises nothing but argparse's own exit."""
    command, args = "", argparse.Namespace()
    with process.said_warnings():
        try:
            process.prepare()
            command, args = parse(sys.argv[1:] if argv is None else argv)
            run = function_of(command)  # all imports are done while Ctrl-C ends the process at once
            with process.unwinding():
                code = _run(run, command, args)
                process.flush_stdout()
        except BrokenPipeError:
            # The reader of our output has stopped (| head): no error to report. The code tells a
            # script that not all was done. Lines that were not written are not marked.
            return process.UNREAD
        except KeyboardInterrupt:
            process.say("interrupted" + _left(command, args))
            return process.INTERRUPTED
        except MemoryError:
            process.say("not enough memory: a line or the filter is larger than the free memory")
            return process.IO_ERROR
        except _EXPLAINED as error:
            code = _explain(error, command, args)
        finally:
            process.abandon_streams()
    return code


def _run(run: Callable[[argparse.Namespace], int], command: str, args: argparse.Namespace) -> int:
    """Run a command; if it is for one filter and several are named, for each of them."""
    _refuse_empty_names(args)
    if not COMMANDS[command].each:
        return run(args)
    files: list[str] = args.file
    if len(files) > 1 and "-" in getattr(args, "keys", ()):
        raise process.UsageError(
            "stdin (-) can be read only once: give a single filter, or the keys in a file"
        )
    worst = process.OK
    for number, file in enumerate(files):
        if number and not args.json:
            print()
        args.file = file
        try:
            worst = max(worst, run(args))
        except BrokenPipeError:
            raise
        except _EXPLAINED as error:
            worst = max(worst, _explain(error, command, args))
    return worst


# The arguments that name a file or a folder.
_PATHS = [
    "file",
    "inputs",
    "output",
    "output_dir",
    "repeats_to",
    "stats_to",
    "like",
    "other",
    "source",
    "destination",
]


def _refuse_empty_names(args: argparse.Namespace) -> None:
    """Refuse an empty name, as of "$FILTER" not set: the system would take it for a folder."""
    for argument in _PATHS:
        value = getattr(args, argument, None)
        if "" in (value if isinstance(value, list) else [value]):
            shown = argument.replace("_", " ")
            raise process.UsageError(f"the argument {shown} is empty: is a shell variable not set?")


def _named(args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    named = [getattr(args, name, None) or [] for name in names]
    return [path for one in named for path in (one if isinstance(one, list) else [one])]


def _left(command: str, args: argparse.Namespace) -> str:
    """Return what a command has left where it was stopped, and what to do."""
    dry = getattr(args, "dry_run", False)  # it leaves nothing
    left = COMMANDS[command].left if command and not dry else ""
    if left and getattr(args, "repeated", False):
        left = f"another run would print the lines marked so far: {process.NOT_TO_REPEAT}"
    elif left and command == "dedup" and not (args.output or args.output_dir):
        left += " (with >> instead of >)"
    return f"; {left}" if left else ""


# A full disk, a full share of it, and a limit of the shell.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_EXPLAINED = (process.CommandError, errors.MmbloomError, OSError, ValueError)

# The first line that fits decides.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.FilterFullError, process.FULL),
    (errors.LockTimeoutError, process.LOCK_TIMEOUT),
    (errors.DurabilityError, process.IO_ERROR),
    (errors.LostBitsError, process.IO_ERROR),
    (errors.NetworkFileSystemError, process.IO_ERROR),
    (errors.InputError, process.IO_ERROR),
    (errors.MissingLibraryError, process.USAGE),
    (errors.MmbloomError, process.NOT_A_FILTER),
    (OSError, process.IO_ERROR),
    (ValueError, process.USAGE),  # a size or seed that no filter can have
)


def _explain(error: Exception, command: str, args: argparse.Namespace) -> int:
    """Print what an error is, in words of the command line; return the exit code."""
    if isinstance(error, process.CommandError):
        process.say(str(error))
        return error.code
    if isinstance(error, FileNotFoundError):
        for path in _named(args, ("file", "other", "like")):  # what it was asked to read
            if error.filename == os.path.abspath(path):
                process.say(f"{path}: {_missing(path, args)}")
                return process.NOT_A_FILTER
    if isinstance(error, errors.MmbloomError):
        process.say(_of_a_filter(error, command, args))
    elif isinstance(error, OSError):
        process.say(_of_the_system(error, command, args))
    else:
        process.say(str(error))
    return next(code for kind, code in _CODES if isinstance(error, kind))


def _of_the_system(error: OSError, command: str, args: argparse.Namespace) -> str:
    said = error.strerror or str(error)
    # What says more than the system does says what to do, and what may be lost.
    if error.errno in _NO_ROOM and said.endswith(os.strerror(error.errno)):
        said += _left(command, args)
    if error.filename is None:
        return said
    if isinstance(error, FileNotFoundError):
        said += without_n(str(error.filename), args)
    if isinstance(error, FileExistsError) and getattr(args, "replace", None) is False:
        said += "; --replace replaces a filter"
    return f"{error.filename}: {said}"


def _of_a_filter(error: errors.MmbloomError, command: str, args: argparse.Namespace) -> str:
    """Return the message in words of the command line, where the error has those of Python."""
    if isinstance(error, errors.LockTimeoutError) and (who := holder(error.path)):
        return f"{error}; {who} holds it now"
    if isinstance(error, errors.FormatError):
        return _not_usable(error, command, args)
    if isinstance(error, errors.ParameterMismatchError) and "inputs" in args:
        return (
            f"{error.path}: exists with {error.field} {error.found}, expected {error.expected}: "
            "leave out -n and the options that go with it to use the filter as it is, or choose "
            "another path"
        )
    return str(error)


def _missing(path: str, args: argparse.Namespace) -> str:
    if os.path.islink(path):
        return "is a symbolic link whose target does not exist: remove the link"
    # With -n the command would have made it.
    if getattr(args, "capacity", None) is not None:
        return "cannot be created there: no such file or directory"
    makes = "inputs" in args and "capacity" in args
    return "no such filter; give -n N to create it" if makes else "no such filter"


def _begins_as_a_filter(path: str) -> bool:
    from mmbloom.format.header import MAGIC  # noqa: PLC0415  with numpy, which nothing here needs

    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _no_filter(error: errors.NoFilterError, command: str, args: argparse.Namespace) -> str:
    """Return what a file may be that does not begin as a filter, or is too short."""
    if os.path.isdir(error.path):
        why = f"{error.field} is {error.found}"
        return f"{error.path}: is a folder, but not a growing or rotating filter: {why}"
    said = str(error)
    if _begins_as_a_filter(error.path):
        return f"{said}: it was cut off; restore a copy, or add the lines to a new filter"
    if "inputs" in args and error.path == os.path.abspath(args.file):
        name = os.path.basename(error.path)
        said = f"{said}; the filter comes first: mmbloom {command} FILTER {name}"
    return said


def _not_usable(error: errors.FormatError, command: str, args: argparse.Namespace) -> str:
    """Return why a file is not what a command takes, in words of the command line."""
    if isinstance(error, errors.NoFilterError):
        return _no_filter(error, command, args)
    if isinstance(error, errors.DamagedHeaderError) and command != "repair":
        return f"{error}: it is damaged; make a sound filter from it with mmbloom repair"
    kind = error.kind if isinstance(error, errors.OtherKindError) else ""
    if kind == "counters":
        return (
            f"{error.path}: is a counting filter, which {command} does not support: make a plain "
            "filter from it with mmbloom copy --plain"
        )
    if kind in ("growing", "rotating") and getattr(args, "capacity", None) is not None:
        return (
            f"{error.path}: is a {kind} folder, which records its own parameters: leave out -n and "
            "the options that go with it"
        )
    if kind == "bits":
        return (
            f"{error.path}: is a plain filter, from which lines cannot be removed: create a "
            "counting filter with mmbloom create --counting"
        )
    return str(error)
