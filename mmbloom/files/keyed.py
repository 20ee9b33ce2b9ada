"""The lines of an input with what finds their keys: plain lines, or rows of CSV under a header."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from mmbloom._text import NoLinesError
from mmbloom._typing import Bools
from mmbloom.dedup import Sink, Tally, dedup
from mmbloom.errors import ColumnError, InputError, OpenQuoteError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.lines import Chunk, KeyRule, LineKeys, RawInput, read_chunks

_QUOTE = re.compile(b'"')
_OF_CSV = (b",", b";")  # separators of files in which quotes have a meaning


class Keyed(NamedTuple):
    """The lines of one input.

    Attributes
    ----------
    keys : KeyRule
        What finds their keys, by the header of this input.
    head : bytes
        What comes before them, as it came: a header, a byte order mark; b"" of plain lines.
    chunks : iterator of Chunk
        The lines.
    """

    keys: KeyRule
    head: bytes
    chunks: Iterator[Chunk]


def lines_of(
    source: RawInput,
    name: str,
    keys: KeyRule,
    *,
    terminator: bytes = b"\n",
    header: bool = True,
    warn: Callable[[str], None] | None = None,
) -> Keyed:
    """Cut an input into lines, or rows where the keys are of rows.

    Parameters
    ----------
    source : RawInput
        The input.
    name : str
        What errors call it.
    keys : KeyRule
        What finds keys.
    terminator : bytes
        What ends a line.
    header : bool
        Whether the first row is one.
    warn : callable, optional
        Called once, with a sentence, where fields are split within quotes.

    Raises
    ------
    InputError
        If the header has no such column; while it is read, if it is text that has no lines, or if
        a quote is never closed.
    """
    if isinstance(keys, LineKeys):
        chunks = _named(read_chunks(source, terminator), name)
        if warn is not None and keys.separator in _OF_CSV:
            chunks = _warning_of_quotes(chunks, name, warn)
        return Keyed(keys, b"", chunks)
    from mmbloom.rows import BOM, RowKeys, read_rows, split_head  # noqa: PLC0415  for CSV only

    assert isinstance(keys, RowKeys)  # noqa: S101  there are these two
    head, rows = split_head(_named(read_rows(source, keys.delimiter), name), header=header)
    if not header or not head.removeprefix(BOM):
        return Keyed(keys, head, rows)
    try:
        return Keyed(keys.by_header(head), head, rows)
    except ColumnError as error:
        raise InputError(f"{name}: {error}") from None


def begin(sink: Sink | None, head: bytes, name: str) -> None:
    """Write the header of an input to an output, unless that has it; nothing where none is kept."""
    from mmbloom.rows import RowWriter  # noqa: PLC0415  for CSV only

    if isinstance(sink, RowWriter):
        try:
            sink.begin(head)
        except ColumnError as error:
            raise InputError(f"{name}: {error}") from None


def dedup_lines(
    seen: Filter,
    lines: Keyed,
    name: str,
    sink: Sink,
    *,
    repeats: bool = False,
    repeats_to: Sink | None = None,
    locked: Callable[[], AbstractContextManager[object]] | None = None,
    enter: Callable[[Claim], AbstractContextManager[Bools]] | None = None,
    tally: Tally,
) -> None:
    """Deduplicate one input: its header first, then its lines; see `mmbloom.dedup.dedup`.

    Parameters
    ----------
    locked : callable, optional
        Takes the write lock, as `enter` does for a claim.
    """
    if lines.head:
        # Under the lock, so that of all runs that append to a file one writes it.
        with (locked or seen.locked)():
            for one in (sink, repeats_to):
                begin(one, lines.head, name)
    dedup(
        seen,
        lines.chunks,
        sink,
        keys=lines.keys,
        repeats=repeats,
        repeats_to=repeats_to,
        enter=enter,
        tally=tally,
    )


def _named(chunks: Iterator[Chunk], name: str) -> Iterator[Chunk]:
    try:
        yield from chunks
    except OpenQuoteError as error:
        raise InputError(
            f"{name}: {error}: correct that row, or read the file as lines if it is not CSV"
        ) from None
    except NoLinesError as error:
        raise NoLinesError(f"{name}: {error}") from None


def _warning_of_quotes(
    chunks: Iterator[Chunk], name: str, warn: Callable[[str], None]
) -> Iterator[Chunk]:
    """Warn of the first quote of an input: fields are taken without a look at quotes."""
    lines, looks = 0, True
    for chunk in chunks:
        if looks:
            begins = int(chunk.starts[0])
            if found := _QUOTE.search(chunk.octets[begins : chunk.ends[-1]].data):
                looks = False
                number = lines + int((chunk.ends < begins + found.start()).sum()) + 1
                warn(
                    f"{name}: line {number} has quotes: fields are split within them; read it "
                    "as CSV (--csv)"
                )
        lines += len(chunk)
        yield chunk
