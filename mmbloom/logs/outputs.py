"""Write lines to stdout or append them to a file, compressed if its name says so.

Files are appended to, never emptied. The filter still knows the lines that an earlier run wrote and
will not print them again, so emptying its output would lose them permanently.

For the same reason an output reaches the disk before the marks of its lines do: if a power cut kept
a mark but not its line, that line would be lost.

An output must not be an input, the filter, a file that belongs to the filter, or another output.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import FileIO
from typing import Any

from mmbloom._storage.atomic import sync_folder
from mmbloom._storage.warnings import warn
from mmbloom._system import disk
from mmbloom._system.descriptors import open_file, path_of, reopen, widen_pipe
from mmbloom.errors import ColumnError, FormatError, InputError, MmbloomWarning
from mmbloom.format.exclusions import exclusions_path
from mmbloom.logs.compressed import CompressedFile, FrameWriter, kind_by_name
from mmbloom.logs.lines import Existing, LineWriter, PlainFile, RawOutput

# A chunk of lines. 5 million lines of 144 bytes into cat took 1.3 s, and 2.0 with the 64 KiB that
# pipes have by default, as writer and reader waited for each other.
_PIPE_BYTES = 1 << 20


Place = str | int
"""A path, or the descriptor of a file that is open."""


@contextmanager
def open_output(
    place: Place, terminator: bytes, *, delimiter: bytes | None = None, durable: bool = False
) -> Iterator[LineWriter]:
    """Open a file for appending, or stdout by its descriptor; pass a delimiter for CSV rows.

    When the block has succeeded, a regular file and its name are on the disk. Stdout is left to the
    system, unless `durable` is set: then each write is on the disk before it returns.
    """
    with ExitStack() as stack:
        frames: FrameWriter | None = None
        existing: Existing | None = None
        name = shown(place)
        if isinstance(place, str):
            kind = kind_by_name(os.path.realpath(place))
            file = stack.enter_context(_open_to_append(place, compressed=kind is not None))
        else:
            kind, file = None, FileIO(place, "wb", closefd=False)
        widen_pipe(file.fileno(), _PIPE_BYTES)
        if kind is not None and file.readable():
            frames = existing = CompressedFile(file, kind, name)
        elif kind is not None:
            frames = FrameWriter(file, kind, name)
        else:
            existing = stack.enter_context(existing_in(file.fileno(), place, delimiter))
        force = partial(_force, file.fileno(), place, durable=durable)
        if durable:
            force(name_too=True)
        sync = force if durable else None
        options = {"name": name, "existing": existing, "sync": sync}
        yield writer_to(frames or file, terminator, delimiter, **options)
        if frames is not None:
            frames.finish()
        if durable or (isinstance(place, str) and is_regular(file.fileno())):
            force(name_too=True)


def writer_to(
    file: RawOutput, terminator: bytes, delimiter: bytes | None, **options: Any
) -> LineWriter:
    """Return a writer of lines or, with a delimiter, of rows."""
    if delimiter is None:
        return LineWriter(file, terminator, **options)
    from mmbloom.logs.rows import RowWriter  # noqa: PLC0415  only for CSV

    return RowWriter(file, delimiter, **options)


def begin(sink: object, head: bytes, name: str) -> None:
    """Write the header of an input to an output of rows, unless the output has it."""
    from mmbloom.logs.rows import RowWriter  # noqa: PLC0415  only for CSV

    if isinstance(sink, RowWriter):
        try:
            sink.begin(head)
        except ColumnError as error:
            raise InputError(f"{name}: {error}") from None


def _open_to_append(path: str, *, compressed: bool) -> FileIO:
    """Open an output for reading as well, as its end decides what is appended; a pipe has none."""
    if not is_special(path):
        try:
            return FileIO(path, "ab+", opener=open_file)
        except PermissionError:  # perhaps only reading is refused
            if compressed:
                raise
    return FileIO(path, "ab", opener=open_file)


def _force(fd: int, place: Place, *, durable: bool, name_too: bool = False) -> None:
    """Force an output to the disk."""
    try:
        disk.sync(fd)
        if name_too:
            _force_name(fd, place)
    except OSError as error:
        # Whatever it says next time: the system reports such an error once.
        marked = (
            "the lines of the last write are not marked: run again, with an output on a sound disk"
            if durable
            else "lines that are marked in the filter may be missing from it: add this output to a "
            "new filter, created with like= (create --like), and run again with that filter"
        )
        reason = f"{error.strerror}: it could not be forced to the disk; {marked}"
        raise OSError(error.errno, reason, shown(place)) from error


def _force_name(fd: int, place: Place) -> None:
    """Force the name of an open file in its folder to the disk."""
    try:
        real = os.path.realpath(place if isinstance(place, str) else path_of(fd))
        there = os.path.samestat(os.stat(real), os.fstat(fd))
    except OSError:
        there = False
    force_names(os.path.dirname(real) if there else None)


def force_names(folder: str | None) -> None:
    """Force the names in a folder to the disk; if it is unknown or unreadable, all file systems.

    The latter takes longer, and is rare.
    """
    try:
        if folder is not None:
            sync_folder(folder)
            return
    except (FileNotFoundError, PermissionError):
        pass
    os.sync()


def is_regular(file: str | int) -> bool:
    """Return whether a path or descriptor is a regular file, not a pipe or device."""
    return stat.S_ISREG(os.stat(file).st_mode)


def is_special(place: Place) -> bool:
    """Return whether a path exists and is not a regular file, such as a pipe."""
    with suppress(FileNotFoundError):
        return not is_regular(place)
    return False


def is_appended_to(fd: int) -> bool:
    """Return whether each write goes to the end of the file."""
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)


@contextmanager
def existing_in(fd: int, place: Place, delimiter: bytes | None) -> Iterator[PlainFile | None]:
    """Open a regular file to check how it ends; None for other files.

    The check is made before each write, under the filter's lock: another run that appends to the
    same file can be killed at any time, and a new line must not be joined to its half line. With a
    delimiter, the target of a shell's `>` is not checked, whatever others write there.

    Raises
    ------
    InputError
        If the file has rows that cannot be read, as they may include the header.

    Warns
    -----
    MmbloomWarning
        If the file has lines that cannot be read.
    """
    if not is_regular(fd) or (delimiter is not None and not is_appended_to(fd)):
        yield None
        return
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
        yield PlainFile(fd)
        return
    try:
        again = reopen(fd, os.O_RDONLY)
    except (FileNotFoundError, PermissionError) as error:
        why, remedy = "its path is not known", "give its path"
        # A path was opened for reading as well at first, and that was refused.
        if isinstance(place, str) or isinstance(error, PermissionError):
            why, remedy = "Permission denied", "make it readable"
        _require_empty(fd, f"{shown(place)}: cannot be read ({why})", remedy, delimiter)
        yield None
        return
    try:
        yield PlainFile(again)
    finally:
        os.close(again)


def _require_empty(fd: int, problem: str, remedy: str, delimiter: bytes | None) -> None:
    """Refuse to append rows to what cannot be read; warn before lines are appended to it."""
    if not os.fstat(fd).st_size:
        return
    if delimiter is not None:
        raise InputError(f"{problem}, so its header is unknown: {remedy}, or use another file")
    warn(
        f"{problem}, so if a killed run left half a line, the next line is joined to it: {remedy}",
        MmbloomWarning,
    )


def refuse_overlap(output: Place, inputs: Sequence[Place], filter_path: str) -> None:
    """Refuse an output that is also an input, the filter, or a part of a filter.

    Raises
    ------
    ValueError
        The message has both names.
    """
    own = os.path.realpath(filter_path)
    for name in inputs:
        if isinstance(name, str) and os.path.realpath(name) == own:
            raise ValueError(f"{name}: is the filter itself, not an input: give other inputs")
    if isinstance(output, str):
        if os.path.realpath(output) == own:
            raise ValueError(f"{output}: is the filter itself: write to another file")
        _refuse_files_of_a_filter(os.path.realpath(output), output, own)
    for name in [*inputs, filter_path]:
        if _is_same_file(output, name):
            said = f"is the same file as {shown(name)}: write to another file"
            raise ValueError(f"{shown(output)}: {said}")


def require_apart(outputs: Sequence[Place], others: Sequence[Place]) -> None:
    """Refuse to write new lines and repeated lines to the same file.

    Raises
    ------
    ValueError
        The message has the name.
    """
    for other in others:
        if any(_is_same_file(output, other) for output in outputs):
            raise ValueError(
                f"{shown(other)}: is the output, so it cannot also get the lines that are not "
                "printed: write them to another file"
            )


def _is_same_file(one: Place, other: Place) -> bool:
    """Check whether two places are one regular file, or will be, as neither is there yet."""
    with suppress(OSError):  # one is not there
        status = os.stat(one)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.stat(other))
    if isinstance(one, int) or isinstance(other, int):
        return False
    return os.path.realpath(one) == os.path.realpath(other)


def shown(place: Place) -> str:
    """Return the name of a place for messages."""
    names = {0: "stdin", 1: "stdout"}
    return names.get(place, "the open file") if isinstance(place, int) else place


def _refuse_files_of_a_filter(real: str, output: str, filter_path: str) -> None:
    if real == exclusions_path(filter_path):
        raise ValueError(f"{output}: is the filter's file of exclusions: write to another file")
    folder, own = os.path.dirname(real), filter_path
    if os.path.commonpath([folder, own]) == own or _is_filter(folder):
        raise ValueError(f"{output}: is in the folder of a filter: write to another folder")


def _is_filter(folder: str) -> bool:
    # Its name is that of `format.folder`, which takes 4 ms to import.
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        return False
    from mmbloom._storage.folder import folder_kind  # noqa: PLC0415  so here, not above

    try:
        folder_kind(folder)
    except (FormatError, OSError):
        return False
    return True
