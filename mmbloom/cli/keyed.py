"""The lines of an input with what finds their keys: plain lines, or rows of CSV under a header."""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from mmbloom.cli.arguments import line_keys, terminator
from mmbloom.cli.inputs import FirstBytes, check_inputs, open_input, shown
from mmbloom.cli.process import InputError, say
from mmbloom.cli.report import NO_BAR, STDIN
from mmbloom.errors import ColumnError, OpenQuoteError
from mmbloom.lines import Chunk, Empty, Found, KeyRule, LineKeys, RawInput, read_chunks

_QUOTE = re.compile(b'"')
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
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

    def found(self, name: str) -> Iterator[tuple[Chunk, Found]]:
        """Give each chunk with its keys; in the end `warn_of_lacking`."""
        lines = lacking = 0
        for chunk in self.chunks:
            found = self.keys.find(chunk)
            lines, lacking = lines + len(chunk), lacking + found.lacking
            yield chunk, found
        warn_of_lacking(self.keys, name, lines, lacking)


@contextmanager
def open_lines(
    args: argparse.Namespace, name: str, progress: Any, size: int | None = None
) -> Iterator[Keyed]:
    """Open one input, or its first `size` bytes, decompressed."""
    with open_input(name, progress) as source:
        part = source if size is None else FirstBytes(source, size)
        keys = line_keys(args)
        if args.csv:
            yield _rows(args, part, name, keys)
            return
        chunks = read_chunks(part, terminator(args))
        if isinstance(keys, LineKeys) and keys.separator in _OF_CSV:
            chunks = _warning_of_quotes(chunks, args, name)
        yield Keyed(keys, b"", chunks)


def _rows(args: argparse.Namespace, source: RawInput, name: str, keys: KeyRule) -> Keyed:
    from mmbloom.rows import BOM, RowKeys, read_rows, split_head  # noqa: PLC0415  few runs read CSV

    assert isinstance(keys, RowKeys)  # noqa: S101  as the options say
    chunks = _named(read_rows(source, keys.delimiter), name)
    head, rows = split_head(chunks, header=not args.no_header)
    if head.startswith(_UTF_16):
        file = "FILE" if name == STDIN else shlex.quote(name)
        raise InputError(
            f"{shown(name)}: is UTF-16, of which rows are not read; give it as UTF-8: "
            f"iconv -f utf-16 -t utf-8 {file} | mmbloom ..."
        )
    if args.no_header or not head.removeprefix(BOM):
        return Keyed(keys, head, rows)
    try:
        return Keyed(keys.by_header(head), head, rows)
    except ColumnError as error:
        raise InputError(f"{shown(name)}: {error}") from None


def _named(chunks: Iterator[Chunk], name: str) -> Iterator[Chunk]:
    try:
        yield from chunks
    except OpenQuoteError as error:
        raise InputError(
            f"{shown(name)}: {error}; what comes before it is done: mend that row, or leave out "
            "--csv if the file is none"
        ) from None


def _warning_of_quotes(
    chunks: Iterator[Chunk], args: argparse.Namespace, name: str
) -> Iterator[Chunk]:
    """Warn of the first quote of a run: fields are taken without a look at quotes."""
    lines = 0
    for chunk in chunks:
        if not getattr(args, "quotes_seen", False):
            begin = int(chunk.starts[0])
            if found := _QUOTE.search(chunk.octets[begin : chunk.ends[-1]].data):
                args.quotes_seen = True
                number = lines + int((chunk.ends < begin + found.start()).sum()) + 1
                say(
                    f"warning: {shown(name)}: line {number} has quotes: fields are split within "
                    "them; --csv reads them"
                )
        lines += len(chunk)
        yield chunk


def check_lines(args: argparse.Namespace, names: list[str]) -> None:
    """Fail if inputs cannot be read as asked for, before anything is created or marked.

    Of a pipe that is found only when it is read.
    """
    check_inputs(names)
    if args.csv:
        for name in names:
            if name != STDIN and os.path.isfile(name):
                with open_lines(args, name, NO_BAR):
                    pass


def warn_of_lacking(keys: KeyRule, name: str, lines: int, lacking: int) -> None:
    """Say so if no line of an input has the field or member asked for: a wrong name, perhaps."""
    if not lines or lines != lacking:
        return
    say(f"warning: {shown(name)}: no line has the {keys.part} empty: {_DONE[keys.empty]}")


_DONE: dict[Empty, str] = {
    "whole": "each whole line was its own key",
    "skip": "each line was skipped",
    "key": "all lines were the same for it",
}
