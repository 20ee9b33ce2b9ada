"""Open an input, decompress it, and cut it into lines with the rule that finds their keys.

A file's kind is detected from its first bytes. A file that has no lines is refused, and the message
names the command that prints lines from it.
"""

import os
import re
import select
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO, RawIOBase
from operator import methodcaller
from typing import Any

from mmbloom._system.descriptors import open_file
from mmbloom._system.extras import Compression, compression
from mmbloom.errors import ColumnError, InputError, OpenQuoteError
from mmbloom.logs import compressed
from mmbloom.logs.lines import (
    Chunk,
    Empty,
    Found,
    KeyRule,
    LineKeys,
    NoLinesError,
    RawInput,
    read_chunks,
    read_some,
)

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
_PADDING_READ = {"gz": 1, "xz": 4}


Progress = Callable[[int], object]
"""Called with the number of bytes read, as they are read."""


def untold(_: int) -> None:
    """Do nothing: the default when progress is not reported."""


def require_lines(name: str, head: bytes, within: str | None = None) -> None:
    """Refuse data that begins like a file without lines, also `within` compressed data."""
    what, opener = _without_lines(head, within)
    if what:
        file = "FILE" if name == "stdin" else shlex.quote(name)
        packed = f", compressed by {within}" if within else ""
        to_do = f"pipe its contents in: {opener.format(file)} | mmbloom ..."
        if not opener:
            to_do = "read its columns in Python, and add those (docs/dataframes.md)"
        raise NoLinesError(f"{name}: is {what}{packed}, not a file of lines; {to_do}")


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
    starts = (*compressed.BEGINNINGS, *_NO_LINES, b"ORC\0")
    return any(len(head) < len(start) and start.startswith(head) for start in starts)


def load_library(kind: str, name: str) -> Compression:
    """Import what decompresses an input; raise `MissingLibraryError` if it is missing."""
    return compression(kind, f"{name}: reading compressed files")


class Raw(FileIO):
    """A raw file that fills its buffer with the data available, and reports its progress.

    A pipe returns up to 64 KiB at a time. More is read if it is there already, but not waited for,
    so that each line is printed as soon as it arrives (tail -f).
    """

    def __init__(self, file: str | int, progress: Progress, name: str) -> None:
        super().__init__(file, "rb", closefd=not isinstance(file, int), opener=open_file)
        self._name = name
        self._progress = progress
        self._ended = False  # at a terminal the end is typed, and not to be asked for twice
        self._error: InputError | None = None  # that of a connection comes once
        self._readable = select.poll()  # which takes any descriptor, where select takes 1,024
        self._readable.register(self, select.POLLIN)

    def fill(self, buffer: memoryview, filled: int) -> int:
        """Fill a buffer, waiting only if it is empty; return the index up to which it is filled.

        Bytes that come before an error are returned first.
        """
        count = filled
        while count < len(buffer) and not self._ended and (not count or self._readable.poll(0)):
            try:
                more = self.readinto(buffer[count:])
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
        self._progress(count - filled)
        return count


class Looked(RawIOBase):
    """A raw file whose kind is detected from its beginning, and which is read from its beginning.

    It waits only for as many bytes as the detection needs: a line that has arrived does not wait
    for the next. A program that writes a tar archive writes its first header at once.
    """

    def __init__(self, raw: "Raw | Given", head: bytes = b"") -> None:
        self._raw, self.head, room = raw, head, bytearray(HEAD)
        while _undecided(self.head):
            count = raw.fill(memoryview(room)[: HEAD - len(self.head)], 0)
            if not count:
                break
            self.head += room[:count]
        self.kind = compressed.kind_of(self.head)

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes into a buffer and return how many; return 0 at the end."""
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

    padding = _PADDING_READ.get(kind, 0)
    try:
        for block, _ in compressed.decompress(read, kind, library.decompressor, padding=padding):
            yield block
    except (compressed.DamagedError, EOFError) as error:
        raise InputError(f"{name}: damaged or cut off: {error}") from error


class Given:
    """A file opened by the caller, read like `Raw`; it is not closed."""

    def __init__(self, file: RawInput, progress: Progress) -> None:
        self._file, self._progress = file, progress

    def fill(self, buffer: memoryview, filled: int) -> int:
        """Fill a buffer unless it has bytes; return the index up to which it is filled."""
        count = filled or read_some(self._file, buffer)
        self._progress(count - filled)
        return count


@contextmanager
def open_input(
    file: str | int | RawInput, name: str, progress: Progress = untold, head: bytes = b""
) -> Iterator[RawInput]:
    """Open an input for reading, and decompress it.

    Parameters
    ----------
    file : str, int or RawInput
        A path, a descriptor, or an open binary file. The latter two stay open.
    name : str
        The name used in error messages.
    progress : callable
        Called with the number of bytes read, as they are read.
    head : bytes
        Bytes that have already been read from the input.
    """
    with ExitStack() as stack:
        raw: Raw | Given
        if isinstance(file, str | int):
            raw = stack.enter_context(Raw(file, progress, name))
        else:
            raw = Given(file, progress)
        looked = Looked(raw, head)
        require_lines(name, looked.head)
        # A file whose name promises compressed lines is not read as plain ones.
        kind = looked.kind or compressed.kind_by_name(name)
        if kind is None:
            yield looked
            return
        inner = compressed.Blocks(_decompressed(looked, kind, load_library(kind, name), name))
        require_lines(name, inner.head(HEAD), kind)
        yield inner


_NO_ESCAPE = (
    r"""has \" within quotes: CSV has "" there, so if Spark or MySQL wrote the file, rows are """
    r"""joined and dropped; convert it with sed 's/\\"/""/g'"""
)
_FEW = 50  # first lines of a pipe that show too little, as it may bring them one by one
_OF_CSV = (b",", b";")  # separators of files in which quotes have a meaning


class NoPartError(InputError):
    """No line of an input has the chosen field or member."""


@dataclass(slots=True)
class Keyed:
    """The lines of one input.

    Attributes
    ----------
    keys : KeyRule
        Finds the keys of the lines; columns are resolved by this input's header.
    chunks : iterable of Chunk
        The lines.
    head : bytes
        The bytes before the lines, as read: a header or a byte order mark; b"" for plain lines.
    name : str
        The name of the input in error messages.
    warn : callable, optional
        Called with a sentence if no line has the chosen part.
    """

    keys: KeyRule
    chunks: Iterable[Chunk]
    head: bytes = b""
    name: str = "the input"
    warn: Callable[[str], None] | None = None

    def found(self) -> Iterator[tuple[Chunk, Found]]:
        """Yield each chunk with its keys."""
        number = lacking = 0
        for chunk in self.chunks:
            if not isinstance(chunk, Chunk):
                raise TypeError(
                    f"chunks yields {chunk!r:.80}, expected chunks of lines: pass "
                    "mmbloom.logs.lines.read_chunks(file), with the file opened in mode 'rb'"
                )
            found = self.keys.find(chunk)
            number, lacking = number + len(chunk), lacking + found.lacking
            yield chunk, found
        if self.warn is not None and number and number == lacking:
            self.warn(
                f"{self.name}: {self.keys.part} is missing or empty in every line: "
                f"{_DONE[self.keys.empty]}"
            )


_DONE: dict[Empty, str] = {
    "whole": "whole lines were compared",
    "skip": "all lines were skipped",
    "key": "all lines had the same key",
}


@dataclass(slots=True)
class Inputs:
    """How the inputs of a run are read.

    Attributes
    ----------
    keys : KeyRule
        Finds the keys of lines.
    terminator : bytes
        The byte that ends a line.
    header : bool
        Whether the first row of CSV is a header.
    proven : bool
        Whether some line had the chosen part, which shows that its name or number is right. True
        from the beginning if that need not be shown.
    warn : callable, optional
        Called with a sentence: once per run if fields are split within quotes or quotes are escaped
        with a backslash, and for each input in which no line has its key.
    progress : callable
        Called with the number of bytes read, as they are read.
    """

    keys: KeyRule
    terminator: bytes = b"\n"
    header: bool = True
    proven: bool = False
    warn: Callable[[str], None] | None = None
    progress: Progress = untold
    _warned: bool = False  # of quotes

    @property
    def delimiter(self) -> bytes | None:
        """The byte between the fields of rows; None for lines."""
        return getattr(self.keys, "delimiter", None)

    @contextmanager
    def open(
        self, file: str | int | RawInput, name: str, *, head: bytes = b"", size: int | None = None
    ) -> Iterator[Keyed]:
        """Open an input, or only its first `size` bytes, and cut it into lines or CSV rows.

        The other parameters are those of `open_input`.

        Raises
        ------
        InputError
            If the header does not have the column. While the input is read: if it is text without
            lines, if a quote is never closed, or if no line has its key. The latter is raised
            before the first line of a file is yielded; for other inputs after 50 lines, or at the
            end.
        """
        place = place_of(file)
        with open_input(file, name, self.progress, head) as source:
            first = source if size is None else _FirstBytes(source, size)
            # The first lines of an input that is there as a whole are no accident.
            enough = 1 if place is not None and os.path.isfile(place) else _FEW
            lines = Keyed(self.keys, (), b"", name, self.warn)
            if isinstance(self.keys, LineKeys):
                self._cut_lines(first, lines, enough)
            else:
                self._cut_rows(first, lines, enough)
            yield lines

    def _cut_lines(self, source: RawInput, lines: Keyed, enough: int) -> None:
        chunks = _named(read_chunks(source, self.terminator), lines.name)
        if isinstance(self.keys, LineKeys) and self.keys.separator in _OF_CSV:
            said = "has quotes, and fields are split within them: read the file as CSV (--csv)"
            chunks = self._warning_of(
                methodcaller("find", b'"'), said, chunks, f"{lines.name}: line"
            )
        lines.chunks = self._with_part(chunks, lines, enough)

    def _cut_rows(self, source: RawInput, lines: Keyed, enough: int) -> None:
        from mmbloom.logs.rows import BOM, RowKeys, names_in, read_rows, split_head  # noqa: PLC0415  for CSV only

        keys = lines.keys
        assert isinstance(keys, RowKeys)  # noqa: S101  there are these two
        rows = _named(read_rows(source, keys.delimiter), lines.name)
        first = partial(_first_escape, delimiter=keys.delimiter)
        rows = self._warning_of(first, _NO_ESCAPE, rows, f"{lines.name}: row")
        lines.head, lines.chunks = head, rows = split_head(rows, header=self.header)
        if self.header and head.removeprefix(BOM):
            try:
                lines.keys = keys = keys.by_header(head)
            except ColumnError as error:
                raise InputError(f"{lines.name}: {error}") from None
            columns = len(names_in(head, keys.delimiter))
            if all(isinstance(one, str) or one <= columns for one in keys.columns):
                return  # a column of the header may be empty in each row
        lines.chunks = self._with_part(rows, lines, enough)

    def _with_part(self, chunks: Iterator[Chunk], lines: Keyed, enough: int) -> Iterator[Chunk]:
        """Refuse an input of which no line has its key, at once if `enough` lines come first.

        A line without its end may be half a line, and shows nothing.
        """
        given = 0
        for chunk in chunks:
            if chunk.terminated and not self.proven:
                parts = (chunk.first(_FEW), chunk)
                self.proven = any(lines.keys.find(part).lacking < len(part) for part in parts)
                if not (self.proven or given) and len(chunk) >= enough:
                    raise _no_part(lines)
                given += len(chunk)
            yield chunk
        if given and not self.proven:
            raise _no_part(lines)

    def _warning_of(
        self, first: Callable[[bytes], int], said: str, chunks: Iterator[Chunk], place: str
    ) -> Iterator[Chunk]:
        """Warn of the line of an input in which something is found first, once a run."""
        before = 0
        for chunk in chunks:
            if self.warn is not None and not self._warned:
                begins = int(chunk.starts[0])
                at = first(chunk.octets[begins : chunk.ends[-1] + chunk.terminated].tobytes())
                if at >= 0:
                    self._warned = True
                    number = before + int((chunk.ends < begins + at).sum()) + 1
                    self.warn(f"{place} {number} {said}")
            before += len(chunk)
            yield chunk


def check_first_lines(inputs: Iterable[AbstractContextManager[Keyed]]) -> None:
    """Read the first lines of inputs; fail if one has none, or no line of any has its key."""
    failed, proven = None, False
    for one in inputs:
        try:
            with one as lines:
                first = next(iter(lines.chunks), None)
            proven = proven or (first is not None and first.terminated)
        except NoPartError as error:
            failed = failed or error
    if failed is not None and not proven:
        raise failed


def place_of(file: Any) -> str | int | None:
    """Return the path or the descriptor of a file, or None if it has neither."""
    if isinstance(file, str | int | os.PathLike):
        return file if isinstance(file, int) else os.fspath(file)
    try:
        number: int = file.fileno()
    except (AttributeError, OSError):  # as of io.BytesIO
        return None
    return number


class _FirstBytes:
    """An input up to a byte, so that what is read twice is the same, though more was appended."""

    def __init__(self, source: RawInput, size: int) -> None:
        self._source, self._left = source, size

    def readinto(self, buffer: Any, /) -> int | None:
        """Read some bytes; 0 at the last one."""
        count = self._source.readinto(memoryview(buffer)[: self._left]) if self._left else 0
        self._left -= count or 0
        return count


def _named(chunks: Iterator[Chunk], name: str) -> Iterator[Chunk]:
    try:
        yield from chunks
    except OpenQuoteError as error:
        raise InputError(
            f"{name}: {error}: correct that row, or read the file as lines if it is not CSV"
        ) from None
    except NoLinesError as error:
        raise NoLinesError(f"{name}: {error}") from None


def _no_part(lines: Keyed) -> NoPartError:
    return NoPartError(
        f"{lines.name}: {lines.keys.part} is missing or empty in every line: choose another one, "
        'or say how to treat such lines, for example with empty="whole" (--empty whole)'
    )


def _first_escape(data: bytes, delimiter: bytes) -> int:
    r"""Return where a quote follows a backslash that RFC 4180 has not there; -1 if none does.

    A field of RFC 4180 may end in a backslash, or have one before a quote of its own, which is
    doubled: so has JSON within CSV. There a delimiter, a quote or the end of the row follows. If
    it is a quote, and after that the field seems to end, the next quote tells: a newline comes
    before it, or what follows it is neither another quote nor the end of a field.
    """
    if b"\\" not in data:  # which takes a tenth of the time
        return -1
    ends = re.escape(delimiter) + rb"\r\n"
    found = re.search(rb'\\"(?:[^"%b]|"[%b][^"\n]*(?:\n|"[^"%b]))' % (ends, ends, ends), data)
    return found.start() if found else -1
