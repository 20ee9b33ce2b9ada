"""Write lines to stdout or append them to a file, and the figures of a run to stderr.

Files are appended to, never emptied. The filter still knows the lines that an earlier run
wrote and will not print them again, so emptying its output would lose them for good.
"""

import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from io import FileIO

from mmbloom._storage.folder import folder_kind
from mmbloom.cli.inputs import STDIN
from mmbloom.cli.process import STDIN_FD, STDOUT_FD, UsageError
from mmbloom.dedup import Tally
from mmbloom.errors import FormatError
from mmbloom.format.exclusion_list import exclusions_path
from mmbloom.lines import LineWriter


@contextmanager
def open_output(path: str | None, terminator: bytes) -> Iterator[LineWriter]:
    """Open a file for appending and force it to the disk at the end; None is stdout."""
    with ExitStack() as stack:
        if path is None:
            file = stack.enter_context(FileIO(STDOUT_FD, "wb", closefd=False))
        else:
            file = stack.enter_context(FileIO(path, "ab"))
        look = stack.enter_context(_tail_of(file, terminator))
        name = "stdout" if path is None else path
        yield LineWriter(file, terminator, name=name, ends_mid_line=look)
        if path is not None and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            try:
                os.fsync(file.fileno())
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from error


def require_folder(path: str) -> None:
    """Check that the folder of an output exists; if not, raise an OSError naming the output."""
    try:
        os.stat(os.path.join(os.path.dirname(path), "."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


@contextmanager
def _tail_of(file: FileIO, terminator: bytes) -> Iterator[Callable[[], bool] | None]:
    """Yield a function that tells whether a regular file ends mid-line; None for other files.

    It is called before each write, under the filter's lock. Another run that appends to the
    same file can be killed at any time, and our line must not be joined to its half line.
    """
    again = -1
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        with suppress(OSError):  # we may only write to it, or there is no /dev/fd
            again = os.open(f"/dev/fd/{file.fileno()}", os.O_RDONLY)
    if again < 0:
        yield None
        return

    def ends_mid_line() -> bool:
        size = os.fstat(again).st_size
        return size > 0 and os.pread(again, 1, size - 1) != terminator

    try:
        yield ends_mid_line
    finally:
        os.close(again)


def print_stats(tally: Tally, started: float) -> None:
    """Print one JSON object to stderr; `started` is a reading of time.perf_counter."""
    seconds = round(time.perf_counter() - started, 3)
    with suppress(OSError):  # the work is done, even if the figures cannot be printed
        print(json.dumps({**asdict(tally), "seconds": seconds}), file=sys.stderr, flush=True)


def refuse_overlap(output: str | None, names: list[str], filter_path: str) -> None:
    """Refuse an output that is also an input; refuse the filter, and what belongs to a filter.

    Raises
    ------
    UsageError
        With both names.
    """
    for name in names:
        if name != STDIN and os.path.realpath(name) == os.path.realpath(filter_path):
            raise UsageError(f"{name}: is the filter itself, not an input; give other inputs")
    if output is not None and os.path.realpath(output) == os.path.realpath(filter_path):
        raise UsageError(f"{output}: is the filter itself; write elsewhere")
    if output is not None:
        _refuse_files_of_a_filter(os.path.realpath(output), output, filter_path)
    try:
        status = os.stat(output if output is not None else STDOUT_FD)
    except OSError:
        return  # it does not exist yet, so it is no other file
    if not stat.S_ISREG(status.st_mode):
        return
    for name in [*names, filter_path]:
        try:
            there = os.stat(STDIN_FD if name == STDIN else name)
        except OSError:
            continue
        if os.path.samestat(status, there):
            raise UsageError(f"{output or 'stdout'}: is the same file as {name}; write elsewhere")


def _refuse_files_of_a_filter(real: str, output: str, filter_path: str) -> None:
    if real == exclusions_path(filter_path):
        raise UsageError(f"{output}: lists the exclusions of the filter; write elsewhere")
    folder, own = os.path.dirname(real), os.path.realpath(filter_path)
    if os.path.commonpath([folder, own]) == own or _is_filter(folder):
        raise UsageError(
            f"{output}: is in the folder of a filter, for its own files; write elsewhere"
        )


def _is_filter(folder: str) -> bool:
    try:
        folder_kind(folder)
    except (FormatError, OSError):
        return False
    return True
