"""Rows of CSV and their keys: the engines against each other, and against Python's csv."""

import csv
import io
from typing import Any

import hypothesis
import numpy as np
import pytest
from forms import bytes_of, chunk_of, octets_of
from hypothesis import strategies as st
from kernels import COMPILED, NUMPY, Engine, each_engine, needs_compiled

from mmbloom._engine import INSIDE, WHOLE_LINE, fields_of
from mmbloom._keys.coerce import joined

PIECES = [b'"', b'""', b",", b";", b"\n", b"\r\n", b"\r", b"a", b"Bc", b" ", b"\0", b"\xff"]
PIECES += [b"x" * 40]
TEXT = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
DELIMITER = st.sampled_from([b",", b";", b"\0", b"]", b"^", b"\xff"])
FIELD = st.lists(st.sampled_from(PIECES), max_size=5).map(b"".join)
ROW = st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join)
COLUMN = st.integers(1, 4) | st.sampled_from([2**31, 2**63, 2**70])
OPTIONS = st.fixed_dictionaries(
    {"columns": st.lists(COLUMN, max_size=3)},
    optional={
        "empty_is_key": st.booleans(),
        "skip_fields": st.integers(0, 2),
        "skip_chars": st.integers(0, 3) | st.just(2**64),
        "compare_at_most": st.none() | st.integers(0, 5) | st.just(2**64),
        "ignore_case": st.booleans(),
    },
)


def rows_of_csv(text: bytes, delimiter: str = ",") -> list[list[bytes]]:
    lines = io.StringIO(text.decode("latin-1"), newline="")
    rows = csv.reader(lines, delimiter=delimiter)
    return [[value.encode("latin-1") for value in row] for row in rows]


def rows_found(engine: Engine, text: bytes, delimiter: bytes = b",") -> tuple[list[bytes], int]:
    """The rows that end within a text, and the state behind them."""
    octets = octets_of(text)
    starts, ends, state = engine.find_rows(
        octets, 0, 0, len(text), state=0, delimiter=delimiter[0], limit=99
    )
    return [text[start:end] for start, end in zip(starts, ends, strict=True)], state


@each_engine
@hypothesis.given(TEXT)
@hypothesis.example(b'a,"\nb\n')
def test_rows_and_fields_are_those_of_csv(engine: Engine, text: bytes) -> None:
    """Quotes, doubled quotes, newlines within them, and what RFC 4180 forbids."""
    text = text.replace(b"\r", b"")  # a lone one is an error of csv's; of others see below
    rows, state = rows_found(engine, text)
    done = sum(len(row) + 1 for row in rows)
    assert [fields_of(row, ord(",")) for row in rows] == rows_of_csv(text[:done])
    # What is open swallows a row that follows.
    beyond = rows_of_csv(text[done:] + b"\n\nX")
    assert (state == INSIDE) == (beyond[-1] != [b"X"])


@each_engine
@hypothesis.given(st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=6), st.booleans())
def test_rows_that_csv_has_written(engine: Engine, rows: list[list[bytes]], unix: bool) -> None:
    """Whatever the values, and with both ends of lines: they are read as they were written."""
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n" if unix else "\r\n")
    # Python quotes no carriage return that stands alone, and takes it for the end of a row.
    rows = [[value.replace(b"\r", b"") for value in row] for row in rows]
    writer.writerows([[value.decode("latin-1") for value in row] for row in rows])
    text = written.getvalue().encode("latin-1")
    found, state = rows_found(engine, text)
    assert [fields_of(row, ord(",")) for row in found] == rows
    assert state != INSIDE


@needs_compiled
@hypothesis.given(TEXT, DELIMITER, st.integers(1, 12), st.integers(1, 4))
@hypothesis.example(b',"\n', b",", 1, 1)  # Python 3.11.4 and older closed such a quote
def test_rows_of_any_pieces(text: bytes, delimiter: bytes, piece: int, limit: int) -> None:
    """However many bytes come at a time, and rows are taken at a time."""
    whole, whole_state = rows_found(NUMPY, text, delimiter)
    octets, rows = octets_of(text), list[bytes]()
    start = searched = state = 0
    for filled in [*range(piece, len(text), piece), len(text)]:
        while True:
            starts, ends, state = COMPILED.find_rows(
                octets, start, searched, filled, state=state, delimiter=delimiter[0], limit=limit
            )
            rows += [text[one:end] for one, end in zip(starts, ends, strict=True)]
            if not len(ends):
                break
            start = searched = int(ends[-1]) + 1
        searched = filled
    assert rows == whole
    assert (state == INSIDE) == (whole_state == INSIDE)


@needs_compiled
@hypothesis.given(st.lists(ROW, max_size=8), DELIMITER, OPTIONS, st.booleans())
def test_keys_of_rows(
    rows: list[bytes], delimiter: bytes, options: dict[str, Any], several: bool
) -> None:
    several = several or len(options["columns"]) != 1
    chunk = chunk_of(rows, before=b"xyz")
    arguments = (chunk.octets, chunk.starts, chunk.ends)
    more = {**options, "several": several, "delimiter": delimiter[0]}
    ours, theirs = (one.select_columns(*arguments, **more) for one in (COMPILED, NUMPY))
    assert bytes_of(ours) == bytes_of(theirs)


@each_engine
def test_an_empty_row_of_an_empty_block(engine: Engine) -> None:
    """Even of nothing a copy has an address, which .ci/sanitize checks."""
    nothing, place = np.empty(0, np.uint8), np.zeros(1, np.int64)
    keys = engine.select_columns(
        nothing, place, place, columns=[1], several=False, delimiter=ord(",")
    )
    assert bytes_of(keys) == [WHOLE_LINE]


@each_engine
@pytest.mark.parametrize(
    ("row", "columns", "key"),
    [
        (b'1,"a ""b"""', [2], b'a "b"'),
        (b'1,"a', [2], b"a"),
        (b'1,"a"b"c', [2], b'ab"c'),
        (b'1,a"b"', [2], b'a"b"'),
        (b"1,a\r", [2], b"a"),
        (b'1,"a\r"', [2], b"a\r"),
        (b'1,""', [2], WHOLE_LINE + b'1,""'),
        (b"1,\r", [2], WHOLE_LINE + b"1,"),
        (b"1,2", [3], WHOLE_LINE + b"1,2"),
        (b"a,b,c", [3, 1], joined([b"c", b"a"])),
        (b'"a",b', [], joined([b"a", b"b"])),
        (b"", [], joined([])),
        (b'""', [], joined([b""])),
        (b",", [], joined([b"", b""])),
        # Only quotes can bring a field to begin as whole rows do; it is no key of its own then.
        (b'"\xff\n\0x",b', [1], WHOLE_LINE + b'"\xff\n\0x",b'),
        (b'"\xff\n\0x",b', [1, 2], joined([b"\xff\n\0x", b"b"])),
    ],
)
def test_examples(engine: Engine, row: bytes, columns: list[int], key: bytes) -> None:
    """Values as they are meant; a row that lacks one is its own key."""
    chunk = chunk_of([row])
    options = {"columns": columns, "several": len(columns) != 1, "delimiter": ord(",")}
    found = engine.select_columns(chunk.octets, chunk.starts, chunk.ends, **options)
    assert bytes_of(found) == [key]


@needs_compiled
def test_bad_spans_are_refused() -> None:
    octets, far = octets_of(b"a,b\n"), np.array([9], dtype=np.int64)
    with pytest.raises(ValueError, match="bytes 0 to 9"):
        COMPILED.find_rows(octets, 0, 0, 9, state=0, delimiter=44, limit=9)
    with pytest.raises(ValueError, match="of a buffer of 4"):
        COMPILED.select_columns(
            octets, far - 9, far, columns=[1], several=False, delimiter=ord(",")
        )
