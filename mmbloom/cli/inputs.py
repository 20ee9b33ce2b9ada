"""The INPUT arguments: files, and stdin; what a command looks at before it reads them."""

import errno
import os
import stat
from contextlib import AbstractContextManager, suppress
from io import FileIO
from typing import Any

from mmbloom import _extras
from mmbloom.cli.process import STDIN_FD, UsageError, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.files import inputs
from mmbloom.files.frames import AT_A_TIME, kind_by_name, kind_of
from mmbloom.files.inputs import HEAD, Looked, Raw, load_library, require_lines
from mmbloom.lines import RawInput

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
