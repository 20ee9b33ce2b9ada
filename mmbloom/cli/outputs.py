"""The outputs that a command names: what cannot be one is refused before anything is made."""

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress

from mmbloom.cli.process import STDERR_FD, STDIN_FD, STDOUT_FD, UsageError
from mmbloom.cli.report import STDIN
from mmbloom.files import apart
from mmbloom.files.outputs import force_names, is_regular


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
