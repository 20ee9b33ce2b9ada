"""The lines of an input with what finds their keys: plain lines, or rows of CSV under a header."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from mmbloom._text import NoLinesError
from mmbloom._typing import Bools
from mmbloom.dedup import Sink, Tally, dedup
from mmbloom.errors import ColumnError, InputError, OpenQuoteError
from mmbloom.filters.base import Filter
from mmbloom.filters.claim import Claim
from mmbloom.lines import Chunk, KeyRule, LineKeys, RawInput, alone, read_chunks

_NO_ESCAPE = (
    r"""has \" within quotes: if that is an escaped quote, as Spark and MySQL write it, rows are """
    r"""read as one, and dropped with it, as CSV doubles quotes: convert it with sed 's/\\"/""/g'"""
)
_FEW = 50  # first lines of a pipe that show too little, as it may bring them one by one
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


class NoPartError(InputError):
    """No line of an input has the field or member that is asked for."""


@dataclass
class Proof:
    """Whether a line of a run had the part that is its key: then its name or number is right.

    Attributes
    ----------
    found : bool
        True from the beginning if nobody asks for that proof.
    """

    found: bool


def lines_of(
    source: RawInput,
    name: str,
    keys: KeyRule,
    *,
    terminator: bytes = b"\n",
    header: bool = True,
    proof: Proof,
    is_file: bool,
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
    proof : Proof
        What is known of the run.
    is_file : bool
        Whether the input is there as a whole, so that its first lines are no accident.
    warn : callable, optional
        Called once, with a sentence, if fields are split within quotes, or quotes have a backslash
        before them.

    Raises
    ------
    InputError
        If the header has no such column; while it is read, if it is text that has no lines, or if
        a quote is never closed. If no line has its key, before the first line of a file is given,
        or 50 lines of another input, or at the end.
    """
    enough = 1 if is_file else _FEW
    if isinstance(keys, LineKeys):
        chunks = _named(read_chunks(source, terminator), name)
        if warn is not None and keys.separator in _OF_CSV:
            said = "has quotes: fields are split within them; read it as CSV (--csv)"
            chunks = _warning_of(_first_quote, said, chunks, f"{name}: line", warn)
        return Keyed(keys, b"", _with_part(chunks, keys, name, proof, enough))
    from mmbloom.rows import BOM, RowKeys, names_in, read_rows, split_head  # noqa: PLC0415  for CSV only

    assert isinstance(keys, RowKeys)  # noqa: S101  there are these two
    rows = _named(read_rows(source, keys.delimiter), name)
    if warn is not None:
        first = partial(_first_escape, delimiter=keys.delimiter)
        rows = _warning_of(first, _NO_ESCAPE, rows, f"{name}: row", warn)
    head, rows = split_head(rows, header=header)
    if header and head.removeprefix(BOM):
        try:
            keys = keys.by_header(head)
        except ColumnError as error:
            raise InputError(f"{name}: {error}") from None
        columns = len(names_in(head, keys.delimiter))
        if all(isinstance(one, str) or one <= columns for one in keys.columns):
            return Keyed(keys, head, rows)  # a column of the header may be empty in each row
    return Keyed(keys, head, _with_part(rows, keys, name, proof, enough))


def check_first_lines(inputs: Iterable[AbstractContextManager[Keyed]]) -> None:
    """Cut inputs up to their first lines; fail if one has none, or no line of any has its key."""
    failed, proven = None, False
    for one in inputs:
        try:
            with one as lines:
                first = next(lines.chunks, None)
            proven = proven or (first is not None and first.terminated)
        except NoPartError as error:
            failed = failed or error
    if failed is not None and not proven:
        raise failed


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
        with alone(sink, repeats_to), (locked or seen.locked)():
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


def _with_part(
    chunks: Iterator[Chunk], keys: KeyRule, name: str, proof: Proof, enough: int
) -> Iterator[Chunk]:
    """Refuse an input of which no line has its key, at once if `enough` lines come first.

    A line without its end may be half a line, and shows nothing.
    """
    given = 0
    for chunk in chunks:
        if not proof.found:
            parts = (chunk.first(_FEW), chunk)
            proof.found = any(keys.find(part).lacking < len(part) for part in parts)
            if not (proof.found or given) and chunk.terminated and len(chunk) >= enough:
                raise _no_part(keys, name)
            given += len(chunk) * chunk.terminated
        yield chunk
    if given and not proof.found:
        raise _no_part(keys, name)


def _no_part(keys: KeyRule, name: str) -> NoPartError:
    return NoPartError(
        f"{name}: no line has the {keys.part} empty: choose another one or, if it is right, say "
        'what to do with such lines: --empty whole, or in Python empty="whole"'
    )


def _first_quote(data: bytes) -> int:
    return data.find(b'"')


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


def _warning_of(
    first: Callable[[bytes], int],
    said: str,
    chunks: Iterator[Chunk],
    place: str,
    warn: Callable[[str], None],
) -> Iterator[Chunk]:
    """Warn of the line of an input in which something is found first."""
    lines, looks = 0, True
    for chunk in chunks:
        if looks:
            begins = int(chunk.starts[0])
            at = first(chunk.octets[begins : chunk.ends[-1] + chunk.terminated].tobytes())
            if at >= 0:
                looks = False
                number = lines + int((chunk.ends < begins + at).sum()) + 1
                warn(f"{place} {number} {said}")
        lines += len(chunk)
        yield chunk
