r"""CSV rows in bounded chunks, and the fields of each that are its key.

Code that reads lines treats a row as a line: a `mmbloom.logs.lines.Chunk` holds rows just as it
holds lines, and they are written byte for byte as they were read. Quotes, and newlines within them,
follow RFC 4180; input that it forbids is read as Python's ``csv`` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from typing import cast

import numpy as np

from mmbloom import _engine
from mmbloom._system.typing import Keys, Octets
from mmbloom.errors import ColumnError, OpenQuoteError
from mmbloom.logs.lines import (
    CHUNK_LINES,
    Check,
    Chunk,
    Empty,
    Existing,
    Found,
    KeyRule,
    LineWriter,
    Pieces,
    RawInput,
    RawOutput,
    cut,
    found_among,
    marked,
    no_newlines,
    require_empty,
    require_octets,
    separated_by,
)

BOM = b"\xef\xbb\xbf"  # which some programs write before the first row
# Of a row whose quote is still open. One that is never closed would else be looked for up to the
# end of a file, and all of that be kept in memory.
LONGEST_OPEN = 64 << 20
_NONE = np.empty(0, dtype=np.int64)


def read_rows(source: RawInput, delimiter: bytes = b",") -> Iterator[Chunk]:
    r"""Cut a stream into chunks of rows; memory is bounded by the block and the longest row.

    Parameters
    ----------
    source : RawInput
        The stream. It is read to its end, and is not closed.
    delimiter : bytes
        The single byte between fields.

    Yields
    ------
    Chunk
        The rows, in order, including the header, which `split_head` separates. An empty line is a
        row. A last row without a newline is a chunk of its own.

    Raises
    ------
    OpenQuoteError
        If a quote is not closed by the end of the stream, or within 64 MiB. All rows before it have
        been yielded.
    InputError
        If the stream is UTF-16 or UTF-32, or if its rows end in a carriage return only.
    OSError
        If the stream cannot be read.
    ValueError
        If the delimiter is not one byte, or is a quote, newline or carriage return.

    Examples
    --------
    >>> import io
    >>> [chunk.lines for chunk in read_rows(io.BytesIO(b'1,"a\nb"\n2,c\n'))]
    [[b'1,"a\nb"', b'2,c']]
    """
    check = partial(require_octets, terminator=b"\n")
    return _with_newlines(_Rows(_octet(delimiter), LONGEST_OPEN).read(source, check), delimiter)


def _with_newlines(chunks: Iterator[Chunk], delimiter: bytes) -> Iterator[Chunk]:
    """Refuse rows that end in a carriage return alone: the first one has it outside of quotes."""
    if (first := next(chunks, None)) is None:
        return
    row = first.first(1).lines[0].removeprefix(BOM).rstrip(b"\r")
    quoted = rb'(?<![^\r%b])"[^"]*(?:""[^"]*)*"?' % re.escape(delimiter)
    if b"\r" in row and b"\r" in re.sub(quoted, b"", row):
        raise no_newlines("rows")
    yield first
    yield from chunks


def _octet(delimiter: bytes) -> int:
    if len(delimiter) != 1 or delimiter in b'"\r\n':
        raise ValueError(
            f"delimiter is {delimiter!r}, expected one byte other than a quote or a line ending, "
            r"such as b',', b';' or b'\t'"
        )
    return delimiter[0]


class _Rows:
    """How far a stream is cut into rows."""

    def __init__(self, delimiter: int, longest: float, *, begun: bool = False) -> None:
        self._delimiter, self._longest = delimiter, longest
        # Bytes of a mark before the first row; None: not known.
        self._before: int | None = 0 if begun else None
        self._state = 0  # of the scan
        self._newlines = 0  # in the rows that were given

    def read(self, source: RawInput, check: Check | None = None) -> Iterator[Chunk]:
        for chunk in cut(source, self._find, check):
            if not chunk.terminated and self._state == _engine.INSIDE:
                raise self._open("by the end of the input")
            if chunk.num_bytes > (self._before or 0):  # more than a mark
                yield chunk

    def _find(self, block: Octets, start: int, searched: int, filled: int) -> Pieces:
        if self._before is None:
            head = block[: min(filled, len(BOM))].tobytes()
            if len(head) < len(BOM) and BOM.startswith(head):
                return _NONE, _NONE
            # A quote behind the mark begins a field.
            self._before, searched = len(BOM) if head == BOM else 0, 0
        begin = start + self._before
        starts, ends, self._state = _engine.find_rows(
            block,
            begin,
            max(begin, searched),
            filled,
            state=self._state,
            delimiter=self._delimiter,
            limit=CHUNK_LINES,
        )
        if len(starts):
            starts[0], self._before = start, 0
            self._newlines += int(np.count_nonzero(block[start : ends[-1] + 1] == ord("\n")))
        elif self._state == _engine.INSIDE and filled - start > self._longest:
            raise self._open(f"within {int(self._longest) >> 20} MiB")
        return starts, ends

    def _open(self, end: str) -> OpenQuoteError:
        return OpenQuoteError(self._newlines + 1, end)


def split_head(chunks: Iterator[Chunk], *, header: bool) -> tuple[bytes, Iterator[Chunk]]:
    r"""Separate what comes before the rows that have keys: a header, or a byte order mark.

    Parameters
    ----------
    chunks : iterator of Chunk
        The chunks that `read_rows` yields.
    header : bool
        Whether the first row is a header.

    Returns
    -------
    head : bytes
        The header as read, with its newline. Without ``header``, the byte order mark if there is
        one.
    rows : iterator of Chunk
        The remaining rows.

    Examples
    --------
    >>> import io
    >>> head, rows = split_head(read_rows(io.BytesIO(b"id,name\n1,Ann\n")), header=True)
    >>> head, [chunk.lines for chunk in rows]
    (b'id,name\n', [[b'1,Ann']])
    """
    first = next(chunks, None)
    if first is None:
        return b"", chunks
    begin, end = int(first.starts[0]), int(first.ends[0])
    if not header:
        head = first.octets[begin:end].tobytes()
        head = BOM if head.startswith(BOM) else b""
        starts = first.starts.copy()
        starts[0] += len(head)
        return head, chain([Chunk(first.octets, starts, first.ends, first.terminated)], chunks)
    head = first.octets[begin : end + first.terminated].tobytes()
    if len(first) == 1:
        return head, chunks
    rest = Chunk(first.octets, first.starts[1:], first.ends[1:], first.terminated)
    return head, chain([rest], chunks)


def names_in(head: bytes, delimiter: bytes = b",") -> list[bytes]:
    r"""Return the column names in a header.

    Parameters
    ----------
    head : bytes
        The header, as `split_head` returns it.
    delimiter : bytes
        The single byte between fields.

    Returns
    -------
    list of bytes

    Examples
    --------
    >>> names_in(b'id,"full name"\r\n')
    [b'id', b'full name']
    """
    row = head.removeprefix(BOM).removesuffix(b"\n")
    return _engine.fields_of(row, _octet(delimiter))


class RowWriter(LineWriter):
    r"""Write rows as `mmbloom.logs.lines.LineWriter` writes lines, and the header once per file.

    If the file ends in the middle of a row because a run was killed, that row is ended first, and
    its open quote closed. To find out whether a quote is open, the writer reads the file once, and
    later only what others have appended.

    Parameters
    ----------
    file, name, existing, sync
        As for `mmbloom.logs.lines.LineWriter`.
    delimiter : bytes
        The single byte between fields.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "unique.csv")
    >>> with path.open("wb", buffering=0) as file:
    ...     writer = RowWriter(file)
    ...     writer.begin(b"id,name\n")
    ...     writer.begin(b"id,name\n")
    ...     writer.write(np.frombuffer(b"1,Ann\n", np.uint8), terminated=True)
    >>> path.read_bytes()
    b'id,name\n1,Ann\n'
    """

    def __init__(
        self,
        file: RawOutput,
        delimiter: bytes = b",",
        *,
        name: str | None = None,
        existing: Existing | None = None,
        sync: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(file, name=name, existing=existing, sync=sync)
        self._delimiter, self._head = delimiter, b""
        self._whole_to = 0  # bytes of the file: whole rows

    def begin(self, head: bytes) -> None:
        """Write the header, unless the file already has it.

        Parameters
        ----------
        head : bytes
            The header, as `split_head` returns it.

        Raises
        ------
        ColumnError
            If the file has rows and begins with another header.
        OSError
            As for `mmbloom.logs.lines.LineWriter.write`.
        """
        with self.alone():
            if rest := self._missing_of(head):
                self._write(rest)
                self._mid_line = not head.endswith((b"\n", BOM))
                self._head = head
                return
            there = self._head or self._first_row()
        if head.removeprefix(BOM) and there:
            mine, other = (names_in(one, self._delimiter) for one in (head, there))
            if mine != other:
                raise ColumnError(
                    f"{self._name}: begins with {_shown(there)}, but these rows have the header "
                    f"{_shown(head)}: write them to another file"
                )

    def _missing_of(self, head: bytes) -> bytes:
        """Return the rest of the header that a file needs: empty, or begun by a killed run."""
        if self.existing is None:
            return b"" if self._head else head
        begun = self._beginning(len(head))
        return head[len(begun) :] if head.startswith(begun) else b""

    def _wrote(self, count: int) -> None:
        if self.existing is not None:
            self._whole_to = self.existing.size() - count * self._mid_line

    def _ending(self) -> bytes:
        if self.existing is None:
            return super()._ending()
        if self.existing.size() < self._whole_to:  # it was cut
            self._whole_to = 0
        try:
            for chunk in self._read_from(self._whole_to):
                if not chunk.terminated:
                    return b"\n"
                self._whole_to += chunk.num_bytes
        except OpenQuoteError:
            return b'"\n'
        return b""

    def _read_from(self, begin: int) -> Iterator[Chunk]:
        """Read rows of the file, however long one is with a quote that is open."""
        source = cast("Existing", self.existing).read_from(begin)
        return _Rows(_octet(self._delimiter), inf, begun=begin > 0).read(source)

    def _beginning(self, count: int) -> bytes:
        room = bytearray(count)
        return bytes(room[: cast("Existing", self.existing).read_from(0).readinto(room)])

    def _first_row(self) -> bytes:
        if self.existing is None:
            return b""
        try:
            first = next(self._read_from(0), None)
        except OpenQuoteError:
            return self._beginning(80)
        return b"" if first is None else first.first(1).lines[0] + b"\n"


def _shown(head: bytes) -> str:
    return repr(head.removeprefix(BOM).rstrip(b"\r\n").decode("utf-8", "backslashreplace"))


@dataclass(frozen=True, slots=True)
class RowKeys(KeyRule):
    r"""Turn rows into keys, as `mmbloom.logs.lines.LineKeys` does with lines.

    Fields are compared by value: with or without quotes, they are equal. If a chosen field of a row
    is missing or empty, the whole row is its key, unless ``empty`` says otherwise.

    Attributes
    ----------
    columns : tuple of int or str
        The columns, by number, counted from 1, or by name; `by_header` turns names into numbers.
        The key of several columns is the tuple of their values; with none, all columns are taken.
    delimiter : bytes
        The single byte between fields.
    skip_chars, compare_at_most, ignore_case, empty
        As for `mmbloom.logs.lines.LineKeys`, applied to each value.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b'name,town\n"Doe, Ann",Rome\n"Roe, Ann",Oslo\n')
    >>> head, (chunk,) = split_head(read_rows(text), header=True)
    >>> len(RowKeys(("name",)).by_header(head).find(chunk).keys)
    2
    """

    columns: tuple[int | str, ...] = ()
    delimiter: bytes = b","
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False
    empty: Empty = "whole"
    _places: tuple[int, ...] = field(default=(), repr=False)  # of columns, once all are numbers

    def __post_init__(self) -> None:
        _octet(self.delimiter)
        require_empty(self.empty)
        for column in self.columns:
            if not isinstance(column, int | str) or (isinstance(column, int) and column < 1):
                raise ValueError(f"column is {column!r}, expected a number from 1, or a name")

    def by_header(self, head: bytes) -> RowKeys:
        """Return these keys with column names turned into numbers.

        Parameters
        ----------
        head : bytes
            The header, as `split_head` returns it.

        Returns
        -------
        RowKeys
            The keys for the rows of that file.

        Raises
        ------
        ColumnError
            If the header does not have one of the names, or has it twice.
        """
        names, places = names_in(head, self.delimiter), list[int]()
        for column in self.columns:
            if isinstance(column, int):
                places.append(column)
                continue
            name = column.encode("utf-8", "surrogateescape")
            if names.count(name) != 1:
                number = "more than once" if name in names else "not"
                has = ", ".join(one.decode("utf-8", "backslashreplace") for one in names)
                raise ColumnError(f"the column {column!r} is {number} in the header ({has})")
            places.append(names.index(name) + 1)
        return replace(self, _places=tuple(places))

    @property
    def _chosen(self) -> tuple[str, tuple[int | str, ...]]:
        return "column", self.columns

    def _words(self) -> list[str]:
        """Return the columns as options.

        Examples
        --------
        >>> RowKeys(("user", 3), delimiter=b";").rule
        "--csv -k user,3 -t ';'"
        """
        words = ["-k", ",".join(map(_spelled, self.columns))] if self.columns else []
        return ["--csv", *words, *(separated_by(self.delimiter) if self.delimiter != b"," else [])]

    def _parts(self, chunk: Chunk) -> Found:
        columns = self._places or self.columns
        if unknown := [column for column in columns if isinstance(column, str)]:
            raise ColumnError(f"column {unknown[0]!r} was not looked up: call by_header(head)")
        select = partial(
            _engine.select_columns,
            chunk.octets,
            chunk.starts,
            chunk.ends,
            columns=cast("tuple[int, ...]", columns),
            several=len(columns) != 1,
            delimiter=_octet(self.delimiter),
            skip_chars=self.skip_chars,
            compare_at_most=self.compare_at_most,
            ignore_case=self.ignore_case,
        )
        keys = select()
        if not columns:
            return Found(cast("Keys", keys), 0, None)
        lacks = marked(keys)
        if self.empty == "key" and lacks.any():
            # Of several columns the others still count.
            again = select(empty_is_key=True)
            return Found(cast("Keys", again), int(np.count_nonzero(lacks)), None)
        return found_among(keys, lacks, self.empty)


def _spelled(column: int | str) -> str:
    """Spell a column as in the option, in quotes if its name looks like more or less than one."""
    text = str(column)
    plain = isinstance(column, int) or not (text.isdecimal() or any(c in text for c in '",'))
    return text if plain else '"' + text.replace('"', '""') + '"'
