"""What commands that read lines share: inputs and outputs, and the wait for the write lock.

What cannot be an input or an output is refused before anything is made. A long wait is reported.
"""

import argparse
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import repeat
from typing import TypeVar

from mmbloom._system import extras
from mmbloom._system.locks import holder
from mmbloom.cli.options import FIELDS
from mmbloom.cli.process import STDIN_FD, UsageError, say
from mmbloom.cli.report import Tallies
from mmbloom.errors import LockTimeoutError
from mmbloom.logs.compressed import AT_A_TIME, COMPRESSED, kind_by_name, require_appendable
from mmbloom.logs.dedup import Run
from mmbloom.logs.inputs import Inputs, Keyed, Looked, Raw, check_first_lines, load_library, untold
from mmbloom.logs.lines import KeyRule, LineKeys
from mmbloom.logs.outputs import (
    Place,
    force_names,
    is_special,
    refuse_overlap,
    require_apart,
    shown,
)

_taken = bytearray()  # from a pipe at stdin by `check_lines`, which cannot put it back


def places_of(named: list[str]) -> list[Place]:
    """Return the places of the INPUT arguments; none means stdin.

    Raises
    ------
    UsageError
        If stdin is named twice.
    """
    if named.count("-") > 1:
        raise UsageError("stdin (-) can be read only once")
    return [STDIN_FD if name == "-" else name for name in named or ["-"]]


def say_what_is_read(what: str, arguments: str) -> None:
    """Print that somebody has to type, if stdin is a terminal, and what to do instead."""
    if os.isatty(STDIN_FD):
        say(f"reading {what} from the terminal until Ctrl-D; or give {arguments} after the filter")


def keep_stdin() -> int:
    """Make sure that stdin can be read twice; return where it begins.

    What comes from a pipe is kept in a temporary file, which becomes stdin.
    """
    if not os.path.isfile(STDIN_FD):
        import tempfile  # noqa: PLC0415  15 ms, and few runs read twice

        with tempfile.TemporaryFile() as kept:
            try:
                kept.write(_taken)
                _taken.clear()
                block = memoryview(bytearray(AT_A_TIME))
                with Raw(STDIN_FD, untold, "stdin") as raw:
                    while count := raw.fill(block, 0):
                        kept.write(block[:count])
                kept.seek(0)
            except OSError as error:
                said = f"{error.strerror}: stdin is copied to this folder to be read twice: give "
                said += "a file instead, or set TMPDIR to a folder with more space"
                raise OSError(error.errno, said, tempfile.gettempdir()) from error
            os.dup2(kept.fileno(), STDIN_FD)
    return os.lseek(STDIN_FD, 0, os.SEEK_CUR)


def _require_durable(output: Place) -> None:
    """Refuse an output that is there and cannot be forced to the disk, as it is no regular file."""
    if is_special(output):
        raise UsageError(
            f"{shown(output)}: is not a file, so --durable cannot force lines to disk (only the "
            "reader of a pipe can): give -o OUTPUT or --output-dir DIR, or write stdout to a file"
        )


def _make_folder(path: str) -> None:
    """Make a folder for outputs, and those above it; their names are on the disk."""
    made, above = [], os.path.abspath(path)
    while not os.path.lexists(above):
        made.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for folder in reversed(made):
        force_names(os.path.dirname(folder))


def _require_folder(path: str) -> None:
    """Check that the folder of an output exists; if not, raise an OSError naming the output."""
    try:
        os.stat(os.path.join(os.path.dirname(path), "."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def require_stats(args: argparse.Namespace, places: Sequence[Place]) -> None:
    """Refuse a file of --stats-to that is another file of the command: it would be overwritten."""
    for path in args.stats_to:
        refuse_overlap(path, places, args.file)
        _require_folder(path)


def refuse_folder(args: argparse.Namespace, places: list[Place]) -> None:
    """Refuse options for a folder of outputs without one, and others with one."""
    if args.output_dir is None:
        if args.jobs > 1:
            raise UsageError(
                "-j N writes one output per input: give the folder with --output-dir DIR"
            )
        if args.relative:
            raise UsageError(
                "--relative applies only to outputs in a folder: also give --output-dir DIR"
            )
        return
    if args.output is not None:
        raise UsageError("-o OUTPUT and --output-dir DIR cannot be combined")
    if args.count or args.unique:
        raise UsageError("-c and -u count lines across all inputs: give one output, -o OUTPUT")
    if STDIN_FD in places:
        raise UsageError("--output-dir names outputs after inputs: give files, not stdin")


def one_each(names: list[str], into: str, *, relative: bool) -> list[str]:
    """Return an output in a folder for each input; refuse two inputs of one output."""
    by_output: dict[str, str] = {}
    for name in names:
        stem, suffix = os.path.splitext(os.path.basename(name))
        base = stem if suffix.lower() in COMPRESSED else stem + suffix
        folder = _folder_of(name) if relative else ""
        if folder.split("/")[0] == "..":
            raise UsageError(
                f"{name}: --relative cannot keep a folder above the current one: give the full path"
            )
        output = os.path.join(into, folder, base)
        if (other := by_output.get(output)) is not None:
            advice = "give --relative to keep their folders"
            if relative or _folder_of(name) == _folder_of(other):
                advice = "read one of them in another run, with another folder"
            raise UsageError(f"{name} and {other} would both be written to {output}: {advice}")
        by_output[output] = name
    return list(by_output)


def _folder_of(name: str) -> str:
    """Return the folder of an input as typed, for one below that of the outputs."""
    folder = os.path.normpath(os.path.dirname(name)).lstrip("/")
    return "" if folder == "." else folder


def check_outputs(
    args: argparse.Namespace, places: list[Place], outputs: list[Place], repeats: list[str]
) -> None:
    """Refuse what cannot be written: before gigabytes are reserved in vain."""
    for output in [*outputs, *repeats]:
        refuse_overlap(output, places, args.file)
        if args.durable:
            _require_durable(output)
    require_apart(outputs, repeats)
    for output in [*outputs, *repeats]:
        if not isinstance(output, str):
            continue
        if args.output_dir is None:
            _require_folder(output)
        else:
            _make_folder(os.path.dirname(output))
        require_appendable(output)
    require_stats(args, [*places, *outputs, *repeats])


def inputs_of(args: argparse.Namespace) -> Inputs:
    """Return how the options of a command have its inputs read."""
    return Inputs(
        line_keys(args),
        b"\0" if args.zero_terminated else b"\n",
        header=not args.no_header,
        proven=args.empty is not None,
        warn=_warn,
    )


def line_keys(args: argparse.Namespace) -> KeyRule:
    """Return the rule by which lines become keys."""
    if args.field is not None and args.json_key:
        raise UsageError("-k FIELD and --json-key cannot be combined")
    if args.field is None and not args.json_key and args.empty not in (None, "whole"):
        raise UsageError("--empty applies only to a chosen field: also give -k FIELD or --json-key")
    return _row_keys(args) if args.csv else _line_keys(args)


def _line_keys(args: argparse.Namespace) -> LineKeys:
    if args.separator is not None and args.field is None:
        raise UsageError("-t SEP sets the field separator: choose the field with -k FIELD")
    if args.no_header:
        raise UsageError("--no-header applies only to CSV: also give --csv")
    if args.crlf and args.zero_terminated:
        raise UsageError("--crlf applies only to lines that end in newline: leave out -z")
    chosen: tuple[int | str, ...] = args.field or ()
    if named := [name for name in chosen if isinstance(name, str)]:
        raise UsageError(f"-k: {named[0]!r} is not a field: {FIELDS}; names need --csv")
    field = tuple(number for number in chosen if isinstance(number, int))
    members: list[str] = args.json_key
    return LineKeys(
        crlf=args.crlf,
        field=field[0] if len(field) == 1 else field or None,
        separator=args.separator,
        json_key=members[0] if len(members) == 1 else tuple(members) or None,
        skip_fields=args.skip_fields,
        skip_chars=args.skip_chars,
        compare_at_most=args.check_chars,
        ignore_case=args.ignore_case,
        empty=args.empty or "whole",
    )


def _row_keys(args: argparse.Namespace) -> KeyRule:
    from mmbloom.logs.rows import RowKeys  # noqa: PLC0415  few runs read CSV

    for given_, option, why in (
        (args.json_key, "--json-key", "applies only to lines of JSON"),
        (args.skip_fields, "-f", "skips words, not columns (-k FIELD chooses these)"),
        (args.zero_terminated, "-z", "applies only to lines, but rows of CSV end in newline"),
        (args.crlf, "--crlf", "applies only to lines; in CSV, both line endings are the same"),
    ):
        if given_:
            raise UsageError(f"{option} {why}: leave out {option} or --csv")
    named = [column for column in args.field or () if isinstance(column, str)]
    if args.no_header and named:
        raise UsageError(f"-k {named[0]}: with --no-header, columns have no names: {FIELDS}")
    try:
        return RowKeys(
            columns=args.field or (),
            delimiter=b"," if args.separator is None else args.separator,
            skip_chars=args.skip_chars,
            compare_at_most=args.check_chars,
            ignore_case=args.ignore_case,
            empty=args.empty or "whole",
        )
    except ValueError as error:
        raise UsageError(f"-t: {error}") from None


def _warn(message: str) -> None:
    say(f"warning: {message}")


def open_lines(
    inputs: Inputs, place: Place, size: int | None = None
) -> AbstractContextManager[Keyed]:
    """Open one input, or its first `size` bytes, decompressed and cut into lines."""
    head = b""
    if place == STDIN_FD:
        head = bytes(_taken)
        _taken.clear()
    return inputs.open(place, shown(place), head=head, size=size)


def check_lines(inputs: Inputs, places: list[Place]) -> None:
    """Fail if inputs cannot be read as asked for, before anything is created or marked.

    Of a pipe that is found only when it is read, unless its library is missing.
    """
    _taken.clear()
    if STDIN_FD in places:
        say_what_is_read("lines", "inputs")
    for path in (place for place in places if isinstance(place, str)):
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        os.stat(path)
        if kind := kind_by_name(path):
            load_library(kind, path)
    mode = os.fstat(STDIN_FD).st_mode if STDIN_FD in places else 0
    if (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and not extras.has_zstd():
        # What a pipe brings is not waited for unless it may have to be refused.
        with Raw(STDIN_FD, untold, "stdin") as raw:
            looked = Looked(raw)
        _taken.extend(looked.head)
        if looked.kind:
            load_library(looked.kind, "stdin")
    files = [place for place in places if os.path.isfile(place)]
    begin = os.lseek(STDIN_FD, 0, os.SEEK_CUR) if STDIN_FD in files else 0
    check_first_lines(open_lines(inputs, place) for place in files)
    if STDIN_FD in files:
        os.lseek(STDIN_FD, begin, os.SEEK_SET)


def mark_lines(
    run: Run, inputs: Inputs, tallies: Tallies, sizes: Iterable[int | None] = repeat(None)
) -> str:
    """Mark the lines of inputs, or of their first bytes, and write those that are new.

    Returns why a filter that is full has stopped it, "" at the end.
    """
    works = zip(tallies, sizes)  # noqa: B905  sizes may be endless
    stopped = run.over((open_lines(inputs, place, size), tally) for (place, tally), size in works)
    if stopped is None:
        return ""
    full, marked = stopped.full, "lines read so far" if run.repeats else "printed lines"
    return (
        f"{full.path}: is full: it holds about {full.keys} keys and has a capacity of "
        f"{full.capacity}; stopped in {stopped.name}: only the {marked} are marked"
    )


T = TypeVar("T")

SILENT_SECONDS = 5.0


@contextmanager
def patiently(
    path: str, enter: Callable[[float | None], AbstractContextManager[T]], timeout: float | None
) -> Iterator[T]:
    """Enter a context that takes the write lock; print a message if the wait is long.

    Parameters
    ----------
    path : str
        The filter.
    enter : callable
        Called with the seconds to wait; returns the context that takes the lock.
    timeout : float or None
        Seconds to wait; None waits for ever.
    """
    begun = time.monotonic()
    first = SILENT_SECONDS if timeout is None else min(SILENT_SECONDS, timeout)
    with ExitStack() as stack:
        try:
            entered = stack.enter_context(enter(first))
        except LockTimeoutError:
            if timeout is not None and timeout <= SILENT_SECONDS:
                raise
            who = holder(path) or "another process, which the system does not name,"
            say(
                f"{path}: {who} is writing to this filter; waiting. If these two commands are "
                "piped into each other, they will wait forever: stop them and put a file in "
                "between."
            )
            left = None if timeout is None else max(0.0, begun + timeout - time.monotonic())
            try:
                entered = stack.enter_context(enter(left))
            except LockTimeoutError as error:  # its time is only the second part of the wait
                raise LockTimeoutError(error.path, timeout or 0.0) from None
        yield entered
