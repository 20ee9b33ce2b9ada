"""Open an input: a path, a descriptor or a file that is open; what is compressed is decompressed.

By its first bytes a file is known for what it is. One that has no lines is refused, with the
command that prints those in it.
"""

import re
import select
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO, RawIOBase
from typing import Any, Protocol

from mmbloom._system.extras import Compression, compression
from mmbloom._system.forks import open_file
from mmbloom.errors import InputError
from mmbloom.logs.frames import BEGINNINGS, Blocks, DamagedError, decompress, kind_by_name, kind_of
from mmbloom.logs.lines import RawInput, read_some
from mmbloom.logs.text import NoLinesError

# How files begin that have no lines: what they are, and what prints the lines in them, if a command
# does. A word of text is followed by a control character there.
_ZIP, _LZ4 = ("a zip archive", "unzip -p {}"), ("compressed by lz4", "lz4 -dc {}")
_ORC = "an ORC file", ""
_NO_LINES = {
    b"PK\x03\x04": _ZIP,
    b"PK\x05\x06": _ZIP,  # with nothing in it
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x -so {}"),
    b"\x04\x22\x4d\x18": _LZ4,
    b"\x02\x21\x4c\x18": _LZ4,  # as of `lz4 -l`
    b"PAR1\x15": ("a Parquet file", 'duckdb -csv -c "FROM {}"'),
    b"ARROW1\0": ("an Arrow or Feather file", ""),
    b"FEA1\0": ("a Feather file", ""),
}
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_TAR = {
    None: "tar xOf {}",
    "gz": "tar xOzf {}",
    "bz2": "tar xOjf {}",
    "xz": "tar xOJf {}",
    "zst": "tar --zstd -xOf {}",
}
HEAD = 512  # bytes to know a file by: those of the first header of a tar archive
# Zeros that fill up a block of a tape: of gzip any number, which its command ignores, and of xz a
# multiple of four.
_PADDING = {"gz": 1, "xz": 4}


class Progress(Protocol):
    """What is told how many bytes were read."""

    def update(self, count: int, /) -> object:
        """Add some."""


class _Untold:
    def update(self, count: int, /) -> None:
        pass


UNTOLD = _Untold()


def require_lines(name: str, head: bytes, within: str | None = None) -> None:
    """Refuse what begins as a file without lines, perhaps `within` a compressed one."""
    what, opener = _without_lines(head, within)
    if what:
        file = "FILE" if name == "stdin" else shlex.quote(name)
        packed = f", compressed by {within}" if within else ""
        to_do = f"give what is in it: {opener.format(file)} | mmbloom ..."
        if not opener:
            to_do = "read its columns in Python, and add these (docs/dataframes.md)"
        raise NoLinesError(f"{name}: is {what}{packed}, and is not read as lines; {to_do}")


def _without_lines(head: bytes, within: str | None) -> tuple[str, str]:
    if head.startswith(b"ORC") and _CONTROL.search(head[:64]):  # as no text has
        return _ORC
    if b"\0" in head and len(head) >= HEAD and _is_tar(head):
        return "a tar archive", _TAR[within]
    found = (kind for start, kind in _NO_LINES.items() if head.startswith(start))
    return next(found, ("", ""))


def _is_tar(head: bytes) -> bool:
    import tarfile  # noqa: PLC0415  15 ms, and text has no NUL

    try:
        header = tarfile.TarInfo.frombuf(head[:HEAD], "utf-8", "surrogateescape")
    except tarfile.HeaderError:  # its checksum is wrong
        return False
    # Zeros and a few bytes above 127 have the checksum 0, as signed bytes: no archive has it.
    return bool(header.name and header.chksum)


def _undecided(head: bytes) -> bool:
    starts = (*BEGINNINGS, *_NO_LINES, b"ORC\0")
    return any(len(head) < len(start) and start.startswith(head) for start in starts)


def load_library(kind: str, name: str) -> Compression:
    """Import what decompresses an input; raises `MissingLibraryError` with its name."""
    return compression(kind, f"{name}: reading compressed files")


class Raw(FileIO):
    """A raw file that fills its buffer with what is there, and reports its progress.

    A pipe gives 64 KiB at a time. What else is there is taken, and not waited for, so that each
    line is printed as soon as it arrives (tail -f).
    """

    def __init__(self, file: str | int, progress: Progress, name: str) -> None:
        super().__init__(file, "rb", closefd=not isinstance(file, int), opener=open_file)
        self._name = name
        self._progress = progress
        self._ended = False  # at a terminal the end is typed, and not to be asked for twice
        self._error: InputError | None = None  # that of a connection comes once
        self._readable = select.poll()  # which takes any descriptor, where select takes 1,024
        self._readable.register(self, select.POLLIN)

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes; 0 at the end."""
        return self.fill(memoryview(buffer).cast("B"), 0)

    def fill(self, buffer: memoryview, filled: int) -> int:
        """Fill a buffer up, waiting if nothing is in it yet; gives up to where it is filled.

        What comes before an error is given first.
        """
        count = filled
        while count < len(buffer) and not self._ended and (not count or self._readable.poll(0)):
            try:
                more = super().readinto(buffer[count:])
            except OSError as error:
                self._ended = True
                self._error = InputError(f"{self._name}: cannot be read: {error.strerror}")
                self._error.__cause__ = error
                break
            if more is None and count:  # another reader of the pipe was faster
                break
            if more is None:  # an empty non-blocking pipe
                self._readable.poll()
            else:
                self._ended = not more
                count += more
        if self._error is not None and not count:
            raise self._error
        self._progress.update(count - filled)
        return count


class Looked(RawIOBase):
    """A raw file whose beginning was looked at, from its beginning.

    No more is waited for than it takes to tell: a line that has come is not kept waiting for the
    next. What writes a tar archive writes its first header at once.
    """

    def __init__(self, raw: "Raw | Given", head: bytes = b"") -> None:
        self._raw, self.head, room = raw, head, bytearray(HEAD)
        while _undecided(self.head):
            count = raw.readinto(memoryview(room)[: HEAD - len(self.head)])
            if not count:
                break
            self.head += room[:count]
        self.kind = kind_of(self.head)

    def readable(self) -> bool:
        """Say so, as decompressors ask."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes; 0 at the end."""
        view = memoryview(buffer).cast("B")
        count = min(len(self.head), len(view))
        view[:count], self.head = self.head[:count], self.head[count:]
        return self._raw.fill(view, count)


def _decompressed(raw: Looked, kind: str, library: Compression, name: str) -> Iterator[bytes]:
    """Decompress an input up to a damage, which is an `InputError`.

    If it is cut off, all that can be decompressed comes before that; if it is damaged, all but the
    last 64 KiB, which may be damaged too.
    """

    def read(size: int, _begin: int) -> bytes:
        return raw.read(size) or b""

    padding = _PADDING.get(kind, 0)
    try:
        for block, _ in decompress(read, kind, library.decompressor, padding=padding):
            yield block
    except (DamagedError, EOFError) as error:
        raise InputError(f"{name}: damaged or cut off: {error}") from error


class Given:
    """A file that the caller has opened, read as `Raw` is; it is not closed."""

    def __init__(self, file: RawInput, progress: Progress) -> None:
        self._file, self._progress = file, progress

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes; 0 at the end."""
        return self.fill(memoryview(buffer).cast("B"), 0)

    def fill(self, buffer: memoryview, filled: int) -> int:
        """Fill a buffer up, unless something is in it; gives up to where it is filled."""
        count = filled or read_some(self._file, buffer)
        self._progress.update(count - filled)
        return count


@contextmanager
def open_input(
    file: str | int | RawInput, name: str, progress: Progress = UNTOLD, head: bytes = b""
) -> Iterator[RawInput]:
    """Open one input for reading, decompressed.

    Parameters
    ----------
    file : str, int or RawInput
        A path, a descriptor, or a binary file that is open; the latter two stay open.
    name : str
        What errors call it.
    progress
        Is told how many bytes were read, as they come.
    head : bytes
        What was read of it already.
    """
    with ExitStack() as stack:
        raw: Raw | Given
        if isinstance(file, str | int):
            raw = stack.enter_context(Raw(file, progress, name))
        else:
            raw = Given(file, progress)
        looked = Looked(raw, head)
        require_lines(name, looked.head)
        # A name that promises compressed lines is not taken for plain ones.
        kind = looked.kind or kind_by_name(name)
        if kind is None:
            yield looked
            return
        inner = Blocks(_decompressed(looked, kind, load_library(kind, name), name))
        require_lines(name, inner.head(HEAD), kind)
        yield inner
