"""Write lines to stdout or append them to a file.

Files are appended to, never emptied. The filter still knows the lines that an earlier run
wrote and will not print them again, so emptying its output would lose them for good.

For the same reason an output is on the disk before the marks of its lines are: a mark that a
power cut leaves without its line would lose that line.
"""

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO

from mmbloom._storage.atomic import sync_folder
from mmbloom.cli.process import STDIN_FD, STDOUT_FD, UsageError
from mmbloom.cli.report import STDIN
from mmbloom.errors import FormatError
from mmbloom.format.exclusion_list import exclusions_path
from mmbloom.lines import LineWriter

# A chunk of lines. 5 million lines of 144 bytes into cat took 1.3 s, and 2.0 with the 64 KiB that
# pipes have by default, as writer and reader waited for each other.
_PIPE_BYTES = 1 << 20


@contextmanager
def open_output(
    path: str | None,
    terminator: bytes,
    *,
    delimiter: bytes | None = None,
    durable: bool = False,
) -> Iterator[LineWriter]:
    """Open a file for appending; None is stdout. With a delimiter it is for rows of CSV.

    When the block has succeeded, a regular file is on the disk, and so is its name. Only stdout is
    left to the system, unless `durable` says that each write is on the disk before it returns.

    Raises
    ------
    UsageError
        If `durable` is asked for and the output is no regular file.
    """
    with ExitStack() as stack:
        if path is None:
            file = stack.enter_context(FileIO(STDOUT_FD, "wb", closefd=False))
        else:
            file = stack.enter_context(FileIO(path, "ab"))
        if durable:
            _require_regular(path, file.fileno())
        _widen(file.fileno())
        again = stack.enter_context(_again(file))
        force = partial(_force, file.fileno(), path, durable=durable)
        if durable:
            force(name_too=True)
        name = "stdout" if path is None else path
        sync = force if durable else None
        if delimiter is None:
            yield LineWriter(file, terminator, name=name, again=again, sync=sync)
        else:
            from mmbloom.rows import RowWriter  # noqa: PLC0415  only for CSV

            if not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_APPEND:
                again = None  # of `>`: what others have written there is none of our rows
            yield RowWriter(file, delimiter, name=name, again=again, sync=sync)
        if durable or (path is not None and _is_regular(file.fileno())):
            force(name_too=True)


def _widen(fd: int) -> None:
    """Let a pipe hold what is written at a time, if it is one."""
    if stat.S_ISFIFO(os.fstat(fd).st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user has as many pages in pipes as are allowed
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _force(fd: int, path: str | None, *, durable: bool, name_too: bool = False) -> None:
    """Force an output to the disk."""
    try:
        os.fsync(fd)
        if name_too:
            _force_name(fd, path)
    except OSError as error:
        # Whatever it says next time: the system reports such an error once.
        marked = (
            "the lines of the last write are not marked: run again, with an output on a sound disk"
            if durable
            else "lines that the filter knows may be missing in it: add it to a new filter "
            "(create --like), and run again with that"
        )
        reason = f"{error.strerror}: it could not be forced to the disk; {marked}"
        raise OSError(error.errno, reason, path or "stdout") from error


def _force_name(fd: int, path: str | None) -> None:
    """Force the name of an open file in its folder to the disk."""
    real = os.path.realpath(f"/dev/fd/{fd}" if path is None else path)
    try:
        there = os.path.samestat(os.stat(real), os.fstat(fd))
    except OSError:
        there = False
    _force_names(os.path.dirname(real) if there else None)


def _force_names(folder: str | None) -> None:
    """Force the names in a folder to the disk; if it is not known or may not be read, all there is.

    That takes longer, and is rare.
    """
    try:
        if folder is not None:
            sync_folder(folder)
            return
    except (FileNotFoundError, PermissionError):
        pass
    os.sync()


def _is_regular(file: str | int) -> bool:
    return stat.S_ISREG(os.stat(file).st_mode)


def _require_regular(path: str | None, file: str | int) -> None:
    if not _is_regular(file):
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
        _force_names(os.path.dirname(folder))


def require_folder(path: str) -> None:
    """Check that the folder of an output exists; if not, raise an OSError naming the output."""
    try:
        os.stat(os.path.join(os.path.dirname(path), "."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


@contextmanager
def _again(file: FileIO) -> Iterator[int | None]:
    """Open a regular file for reading, to look at how it ends; None of other files.

    It is looked at before each write, under the filter's lock. Another run that appends to the
    same file can be killed at any time, and our line must not be joined to its half line.
    """
    again = -1
    if _is_regular(file.fileno()):
        with suppress(OSError):  # we may only write to it, or there is no /dev/fd
            again = os.open(f"/dev/fd/{file.fileno()}", os.O_RDONLY)
    if again < 0:
        yield None
        return
    try:
        yield again
    finally:
        os.close(again)


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
