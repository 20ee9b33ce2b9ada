"""The outputs that a command names: what cannot be one is refused before anything is made."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from mmbloom.cli.process import STDIN_FD, STDOUT_FD, UsageError
from mmbloom.cli.report import STDIN
from mmbloom.errors import FormatError
from mmbloom.files.outputs import force_names, is_regular
from mmbloom.format.exclusion_list import exclusions_path


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


def require_apart(outputs: Sequence[str | None], others: Sequence[str]) -> None:
    """Refuse to write what is new and what is not to one file.

    Raises
    ------
    UsageError
        With the name.
    """
    for other in others:
        for output in outputs:
            one = STDOUT_FD if output is None else output
            same = output is not None and os.path.realpath(output) == os.path.realpath(other)
            with suppress(OSError):  # one is not there yet
                there = os.stat(one), os.stat(other)
                same = same or (stat.S_ISREG(there[0].st_mode) and os.path.samestat(*there))
            if same:
                raise UsageError(
                    f"{other}: gets the lines that are not printed, and is the output; write them "
                    "elsewhere"
                )


def _refuse_files_of_a_filter(real: str, output: str, filter_path: str) -> None:
    if real == exclusions_path(filter_path):
        raise UsageError(f"{output}: lists the exclusions of the filter; write elsewhere")
    folder, own = os.path.dirname(real), os.path.realpath(filter_path)
    if os.path.commonpath([folder, own]) == own or _is_filter(folder):
        raise UsageError(
            f"{output}: is in the folder of a filter, for its own files; write elsewhere"
        )


def _is_filter(folder: str) -> bool:
    # As `format.manifest` names it, which with all that it imports takes 4 ms.
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        return False
    from mmbloom._storage.folder import folder_kind  # noqa: PLC0415  so here, not above

    try:
        folder_kind(folder)
    except (FormatError, OSError):
        return False
    return True
