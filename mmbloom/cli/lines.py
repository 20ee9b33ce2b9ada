"""The INPUT arguments: files, and stdin; what a command looks at before it reads them.

The outputs that a command names: what cannot be one is refused before anything is made.

The lines of an input as the options of a command say, with what finds their keys.

Mark the lines of an input in a filter; a long wait for its lock is reported.
"""

import argparse
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from io import FileIO
from types import TracebackType
from typing import Any, Generic, TypeVar

from mmbloom._system import extras as _extras
from mmbloom._system.holders import holder
from mmbloom._system.typing import Bools
from mmbloom.cli.options import line_keys, terminator
from mmbloom.cli.process import STDERR_FD, STDIN_FD, STDOUT_FD, UsageError, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.errors import FilterFullError, LockTimeoutError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.logs import inputs
from mmbloom.logs import outputs as apart
from mmbloom.logs.dedup import Keyed, Proof, Sink, Tally, check_first_lines, dedup_lines, lines_of
from mmbloom.logs.frames import AT_A_TIME, kind_by_name, kind_of
from mmbloom.logs.inputs import HEAD, Looked, Raw, load_library, require_lines
from mmbloom.logs.lines import Chunk, Empty, Found, KeyRule, RawInput
from mmbloom.logs.outputs import force_names, is_regular

_taken = bytearray()  # from a pipe at stdin by `check_inputs`, which cannot put it back


def shown(name: str) -> str:
    """Name an input in a message."""
    return "stdin" if name == STDIN else name


def open_input(name: str, progress: Any) -> AbstractContextManager[RawInput]:
    """Open one input for reading, decompressed."""
    if name != STDIN:
        return inputs.open_input(name, name, progress)
    head = bytes(_taken)
    _taken.clear()
    return inputs.open_input(STDIN_FD, shown(name), progress, head)


def input_names(named: list[str]) -> list[str]:
    """Resolve the INPUT arguments; none means stdin.

    Raises
    ------
    UsageError
        If stdin is named twice.
    """
    if named.count(STDIN) > 1:
        raise UsageError("stdin (-) can be read only once")
    return named or [STDIN]


def check_inputs(names: list[str]) -> None:
    """Fail if an input or its library is missing, before anything is created or marked."""
    _taken.clear()
    if STDIN in names:
        say_what_is_read("lines", "inputs come after the filter")
    for name in names:
        if name != STDIN:
            if os.path.isdir(name):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
            os.stat(name)
        head = _first_bytes(name)
        require_lines(shown(name), head)
        if kind := kind_of(head) or kind_by_name(name):
            load_library(kind, shown(name))
    if STDIN in names and _is_pipe(STDIN_FD) and not _extras.has_zstd():
        # What a pipe brings is not waited for unless it may have to be refused.
        with Raw(STDIN_FD, NO_BAR, "stdin") as raw:
            looked = Looked(raw)
        _taken.extend(looked.head)
        if looked.kind:
            load_library(looked.kind, shown(STDIN))


def say_what_is_read(what: str, else_do: str) -> None:
    """Say that somebody has to type, if stdin is a terminal, and what to do instead."""
    if os.isatty(STDIN_FD):
        say(f"reading {what} from the terminal, up to Ctrl-D: {else_do}")


def _first_bytes(name: str) -> bytes:
    """Look at the beginning of a regular file, without reading on; b"" of all else."""
    file = STDIN_FD if name == STDIN else name
    with suppress(OSError):
        if os.path.isfile(file):
            with FileIO(file, closefd=name != STDIN) as opened:
                return os.pread(opened.fileno(), HEAD, opened.tell())
    return b""


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def keep_stdin() -> int:
    """See to it that stdin can be read twice; gives where it begins.

    What comes from a pipe is kept in a temporary file, which becomes stdin.
    """
    if not os.path.isfile(STDIN_FD):
        import tempfile  # noqa: PLC0415  15 ms, and few runs read twice

        with tempfile.TemporaryFile() as kept:
            try:
                kept.write(_taken)
                _taken.clear()
                block = memoryview(bytearray(AT_A_TIME))
                with Raw(STDIN_FD, NO_BAR, "stdin") as raw:
                    while count := raw.readinto(block):
                        kept.write(block[:count])
                kept.seek(0)
            except OSError as error:
                said = f"{error.strerror}: stdin is kept here, to be read twice; give it as a file"
                said += ", or set TMPDIR to a folder with more space"
                raise OSError(error.errno, said, tempfile.gettempdir()) from error
            os.dup2(kept.fileno(), STDIN_FD)
    return os.lseek(STDIN_FD, 0, os.SEEK_CUR)


class FirstBytes:
    """An input up to a byte, so that what is read twice is the same, though more was appended."""

    def __init__(self, source: RawInput, size: int) -> None:
        self._source, self._left = source, size

    def readinto(self, buffer: Any, /) -> int | None:
        """Read some bytes; 0 at the last one."""
        count = self._source.readinto(memoryview(buffer)[: self._left]) if self._left else 0
        self._left -= count or 0
        return count


def _require_regular(path: str | None, file: str | int) -> None:
    if not is_regular(file):
        raise UsageError(
            f"{path or 'stdout'}: is no file, so --durable cannot force lines to the disk (of a "
            "pipe only the reader can); give -o OUTPUT or --output-dir DIR, or redirect stdout to "
            "a file"
        )


def require_durable(path: str | None) -> None:
    """Refuse an output that is there and cannot be forced to the disk.

    Raises
    ------
    UsageError
        If it is no regular file.
    """
    with suppress(FileNotFoundError):  # it will be made
        _require_regular(path, STDOUT_FD if path is None else path)


def make_folder(path: str) -> None:
    """Make a folder for outputs, and those above it; their names are on the disk."""
    made, above = [], os.path.abspath(path)
    while not os.path.lexists(above):
        made.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for folder in reversed(made):
        force_names(os.path.dirname(folder))


def require_folder(path: str) -> None:
    """Check that the folder of an output exists; if not, raise an OSError naming the output."""
    try:
        os.stat(os.path.join(os.path.dirname(path), "."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def require_stats(
    args: argparse.Namespace, names: list[str], outputs: Sequence[str | None]
) -> None:
    """Refuse a file of --stats-to that is another file of the command: it would be overwritten."""
    for path in args.stats_to:
        if path != STDERR_FD:
            refuse_overlap(path, names, args.file)
            written = [STDOUT_FD if output is None else output for output in outputs]
            apart.refuse_overlap(path, written, args.file)
            require_folder(path)


def refuse_overlap(output: str | None, names: list[str], filter_path: str) -> None:
    """Refuse an output that is an input or the filter, or belongs to one; see `files.apart`."""
    inputs = [STDIN_FD if name == STDIN else name for name in names]
    apart.refuse_overlap(STDOUT_FD if output is None else output, inputs, filter_path)


@contextmanager
def open_lines(
    args: argparse.Namespace, name: str, progress: Any, size: int | None = None
) -> Iterator[Keyed]:
    """Open one input, or its first `size` bytes, decompressed."""
    if not hasattr(args, "proof"):
        args.proof = Proof(args.empty is not None)
    with open_input(name, progress) as source:
        yield lines_of(
            source if size is None else FirstBytes(source, size),
            shown(name),
            line_keys(args),
            terminator=terminator(args),
            header=not args.no_header,
            proof=args.proof,
            is_file=_is_file(name),
            warn=None if getattr(args, "warned", False) else partial(_warn, args),
        )


def _warn(args: argparse.Namespace, message: str) -> None:
    args.warned = True  # once a run
    say(f"warning: {message}")


def find_keys(lines: Keyed, name: str) -> Iterator[tuple[Chunk, Found]]:
    """Give each chunk with its keys; in the end `warn_of_lacking`."""
    number = lacking = 0
    for chunk in lines.chunks:
        found = lines.keys.find(chunk)
        number, lacking = number + len(chunk), lacking + found.lacking
        yield chunk, found
    warn_of_lacking(lines.keys, name, number, lacking)


def check_lines(args: argparse.Namespace, names: list[str]) -> None:
    """Fail if inputs cannot be read as asked for, before anything is created or marked.

    Of a pipe that is found only when it is read.
    """
    check_inputs(names)
    files = [name for name in names if _is_file(name)]
    begin = os.lseek(STDIN_FD, 0, os.SEEK_CUR) if STDIN in files else 0
    check_first_lines(open_lines(args, name, NO_BAR) for name in files)
    if STDIN in files:
        os.lseek(STDIN_FD, begin, os.SEEK_SET)


def _is_file(name: str) -> bool:
    return os.path.isfile(STDIN_FD if name == STDIN else name)


def warn_of_lacking(keys: KeyRule, name: str, lines: int, lacking: int) -> None:
    """Say so if no line of an input has the field or member asked for, and that is no error."""
    if not lines or lines != lacking:
        return
    say(f"warning: {shown(name)}: no line has the {keys.part} empty: {_DONE[keys.empty]}")


_DONE: dict[Empty, str] = {
    "whole": "each whole line was its own key",
    "skip": "each line was skipped",
    "key": "all lines were the same for it",
}


def mark_lines(
    args: argparse.Namespace,
    seen: Filter,
    name: str,
    bar: Any,
    writer: Sink,
    *,
    tally: Tally,
    repeats_to: Sink | None = None,
    size: int | None = None,
) -> str:
    """Mark the lines of one input, or of its first `size` bytes, and write those that are new.

    Counts them in `tally`, so that what was done is known after an error too. Returns why a filter
    that is full has stopped it, "" at the end: no error, so that the output is completed.
    """
    keys, path, stopped = line_keys(args), seen.path, ""
    repeats = getattr(args, "repeated", False)

    def enter(claim: Claim) -> AbstractContextManager[Bools]:
        return Patiently(path, claim.within, args.lock_timeout)

    try:
        with open_lines(args, name, bar, size) as lines:
            dedup_lines(
                seen,
                lines,
                shown(name),
                writer,
                repeats=repeats,
                repeats_to=repeats_to,
                locked=lambda: Patiently(path, seen.locked, args.lock_timeout),
                enter=enter,
                tally=tally,
            )
    except FilterFullError as full:
        marked = "what was read before" if repeats else "what is printed"
        stopped = (
            f"{full.path}: is full: it holds about {full.keys} keys and was planned for "
            f"{full.capacity}; stopped in {shown(name)}: {marked} is marked, and nothing else"
        )
    warn_of_lacking(keys, name, tally.lines, tally.lacking)
    return stopped


T = TypeVar("T")

SILENT_SECONDS = 5.0


class Patiently(Generic[T]):
    """Enter a context that takes the write lock; print a message if the wait is long.

    A class, as a generator with its stack of contexts takes 3 us more for each chunk of lines.

    Parameters
    ----------
    path : str
        The filter.
    enter : callable
        Called with the seconds to wait; returns the context that takes the lock.
    timeout : float or None
        Seconds to wait; None waits for ever.
    """

    def __init__(
        self,
        path: str,
        enter: Callable[[float | None], AbstractContextManager[T]],
        timeout: float | None,
    ) -> None:
        self._path, self._enter, self._timeout = path, enter, timeout

    def __enter__(self) -> T:
        begun, timeout = time.monotonic(), self._timeout
        first = SILENT_SECONDS if timeout is None else min(SILENT_SECONDS, timeout)
        self._entered = self._enter(first)
        try:
            return self._entered.__enter__()
        except LockTimeoutError:
            if timeout is not None and timeout <= SILENT_SECONDS:
                raise
        who = holder(self._path) or "another process, which the system does not name,"
        say(
            f"{self._path}: {who} is writing to this filter; waiting. If these two commands are "
            "piped into each other, they will wait for ever: stop them and put a file in between."
        )
        self._entered = self._enter(
            None if timeout is None else max(0.0, begun + timeout - time.monotonic())
        )
        try:
            return self._entered.__enter__()
        except LockTimeoutError as error:  # its time is only the second part of the wait
            raise LockTimeoutError(error.path, timeout or 0.0) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._entered.__exit__(kind, error, traceback)
