"""Rows of CSV in and out: every byte of every input, whatever the pieces it arrives in."""

import io
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from forms import bytes_of, chunk_of, octets_of
from hypothesis import strategies as st
from sinks import Dripping

from mmbloom import ColumnError, OpenQuoteError
from mmbloom.logs import rows
from mmbloom.logs.lines import BLOCK_BYTES, Chunk, PlainFile
from mmbloom.logs.rows import BOM, RowKeys, RowWriter, names_in, read_rows, split_head

PIECES = [b'"', b'""', b",", b"\n", b"\r\n", b"a", b"bcd", b"\xef", BOM]
TEXT = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)


def bytes_in(chunks: list[Chunk]) -> bytes:
    """The rows as they came."""
    return b"".join(
        chunk.octets[chunk.starts[0] : chunk.ends[-1] + chunk.terminated].tobytes()
        for chunk in chunks
    )


@hypothesis.given(TEXT, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans())
def test_every_byte_comes_through(text: bytes, sizes: list[int], header: bool) -> None:
    """In whatever pieces: the head and the rows are the input, up to a row that never ends."""
    chunks, open_at = list[Chunk](), None
    head = b""
    try:
        head, others = split_head(read_rows(Dripping(text, sizes)), header=header)
        for chunk in others:
            chunks.append(chunk)
    except OpenQuoteError as error:
        open_at = error.line
    whole = head + bytes_in(chunks)
    if open_at is None:
        assert whole == text or (whole == b"" and text == BOM)  # a mark is no row
    else:
        assert text.startswith(whole)
        assert open_at == whole.count(b"\n") + 1
    if not header:
        assert head in (b"", BOM)


def test_a_quote_that_is_never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST_OPEN", 1000)
    text = io.BytesIO(b'a,b\n"' + b"x\n" * (4 * BLOCK_BYTES))
    chunks = read_rows(text)
    assert next(chunks).lines == [b"a,b"]
    with pytest.raises(OpenQuoteError, match=r"line 2: .* not closed within 0 MiB") as caught:
        next(chunks)
    assert caught.value.line == 2
    assert text.tell() <= 2 * BLOCK_BYTES


@pytest.mark.parametrize("delimiter", [b"", b"::", b'"', b"\n", b"\r"])
def test_delimiters_that_are_none(delimiter: bytes) -> None:
    for use in (
        lambda: read_rows(io.BytesIO(b""), delimiter),
        lambda: RowKeys(delimiter=delimiter),
    ):
        with pytest.raises(ValueError, match="expected one byte other than a quote"):
            use()


@pytest.mark.parametrize("column", [0, -1, 1.5, None])
def test_columns_that_are_none(column: Any) -> None:
    with pytest.raises(ValueError, match="expected a number from 1, or a name"):
        RowKeys((column,))
    assert RowKeys(("3",)).rule != RowKeys((3,)).rule


def test_names() -> None:
    """They are values like others; a name is looked up before it is used."""
    head = BOM + b'id,"full, name"\r\n'
    assert names_in(head) == [b"id", b"full, name"]
    keys = RowKeys(("full, name", 1))
    chunk = chunk_of([b'7,"a"'])
    assert len(bytes_of(keys.by_header(head).find(chunk).keys)) == 1
    assert keys.by_header(head).rule == keys.rule == """--csv -k '"full, name",1'"""
    with pytest.raises(ColumnError, match=r"call by_header\(head\)"):
        keys.find(chunk)
    with pytest.raises(ColumnError, match="'no' is not in the header \\(id, full, name"):
        RowKeys(("no",)).by_header(head)


RULES = {
    "--csv": RowKeys(),
    "--csv -k 2": RowKeys((2,)),
    "--csv -k user,2 -t ';'": RowKeys(("user", 2), b";"),
    "--csv -k a -s 1 -w 2 -i --empty skip": RowKeys(("a",), b",", 1, 2, True, "skip"),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    """All that decides which bytes are the key, as options; what lacks nothing has no `empty`."""
    assert RULES[rule].rule == rule
    assert RowKeys(empty="key").rule == "--csv"


def test_writer_and_others(tmp_path: Path) -> None:
    """Rows that others append are looked at too; a row that they have left open is ended."""
    out = tmp_path / "out.csv"
    with out.open("ab", buffering=0) as file, out.open("rb") as again, out.open("ab") as other:
        writer = RowWriter(file, existing=PlainFile(again.fileno()))
        writer.begin(b"a,b\n")
        for theirs, row in [(b"", b"1,x\n"), (b'2,"y\n', b"3,z\n"), (b"4,w\n", b"5,v\n")]:
            other.write(theirs)
            other.flush()
            writer.write(octets_of(row), terminated=True)
        writer.begin(b'"a",b\r\n')  # the same names
        with pytest.raises(ColumnError, match="begins with 'a,b', but these rows have the header"):
            writer.begin(b"b,a\n")
    assert out.read_bytes() == b'a,b\n1,x\n2,"y\n"\n3,z\n4,w\n5,v\n'


def test_writer_beside_one_that_writes_marks(tmp_path: Path) -> None:
    """What looks like a byte order mark is one at the beginning of a file only."""
    out = tmp_path / "out.csv"
    out.write_bytes(b"a,b\n")
    with out.open("ab", buffering=0) as file, out.open("rb") as again:
        writer = RowWriter(file, existing=PlainFile(again.fileno()))
        for theirs, row in [(b"\xff\xfe,w\n", b"1,x\n"), (b'\xef\xbb\xbf"q\n', b"2,y\n")]:
            file.write(theirs)
            writer.write(octets_of(row), terminated=True)
    assert out.read_bytes() == b'a,b\n\xff\xfe,w\n1,x\n\xef\xbb\xbf"q\n2,y\n'


def test_writer_to_a_pipe(tmp_path: Path) -> None:
    """Where nothing can be looked at, what this object wrote counts."""
    out = tmp_path / "out.csv"
    with out.open("wb", buffering=0) as file:
        writer = RowWriter(file)
        for head in (b"a,b", b"a,b\n"):
            writer.begin(head)
        writer.write(octets_of(b"1,x"), terminated=False)
        writer.write(octets_of(b"2,y\n"), terminated=True)
    assert out.read_bytes() == b"a,b\n1,x\n2,y\n"
