"""Lines out, to stdout or appended to a file; and the figures of a run, to stderr.

Files are appended to, never emptied: the filter remembers what an earlier run wrote, so
emptying its output would lose those lines for good (law 6).
"""

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import FileIO

from mmbloom.cli._errors import UsageError
from mmbloom.cli._inputs import STDIN
from mmbloom.cli._streams import STDIN_FD, STDOUT_FD
from mmbloom.dedup import Tally
from mmbloom.lines import LineWriter


@contextmanager
def open_output(path: str | None, terminator: bytes) -> Iterator[LineWriter]:
    """Open a file to append to, forced to the disk at the end; None is stdout."""
    if path is None:
        with FileIO(STDOUT_FD, "wb", closefd=False) as file:
            yield LineWriter(file, terminator, name="stdout", mid_line=_mid_line(file, terminator))
        return
    with FileIO(path, "ab") as file:
        yield LineWriter(file, terminator, mid_line=_mid_line(file, terminator))
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fsync(file.fileno())


def print_stats(tally: Tally, started: float) -> None:
    """Print one JSON object to stderr; `started` is a reading of time.perf_counter."""
    seconds = round(time.perf_counter() - started, 3)
    print(json.dumps({**asdict(tally), "seconds": seconds}), file=sys.stderr)


def _mid_line(file: FileIO, terminator: bytes) -> bool:
    """Whether appending would glue a line to one that a killed run left cut off."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return False
    try:
        again = os.open(f"/dev/fd/{file.fileno()}", os.O_RDONLY)
    except OSError:  # write-only for us, or no /dev/fd
        return False
    try:
        return os.pread(again, 1, status.st_size - 1) != terminator
    finally:
        os.close(again)


def refuse_overlap(output: str | None, names: list[str], filter_path: str) -> None:
    """Refuse an output that is also an input, or the filter itself.

    Raises
    ------
    UsageError
        Naming both.
    """
    if output is not None and os.path.realpath(output) == os.path.realpath(filter_path):
        raise UsageError(f"{output}: is the filter itself; write elsewhere")
    try:
        status = os.stat(output if output is not None else STDOUT_FD)
    except OSError:
        return  # made later, and then nothing else
    if not stat.S_ISREG(status.st_mode):
        return
    for name in [*names, filter_path]:
        try:
            there = os.stat(STDIN_FD if name == STDIN else name)
        except OSError:
            continue
        if os.path.samestat(status, there):
            raise UsageError(f"{output or 'stdout'}: is the same file as {name}; write elsewhere")
