"""Inputs that end within a line: a fragment costs a fragment, and never the record."""

import csv
import io
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_runner import EXACT, mmbloom
from sinks import a_filter

from mmbloom import BloomFilter, OpenQuoteError, dedup_files
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import KeyRule, LineKeys, LineWriter, read_chunks
from mmbloom.logs.rows import RowKeys, read_rows

LOG = Path(__file__).parents[2] / "examples/access.log"


def log_lines() -> list[bytes]:
    """Lines of a real log, whose first fields differ at their ends."""
    return list(islice(dict.fromkeys(LOG.read_bytes().splitlines()), 40))


def as_json() -> list[bytes]:
    lines = (line.decode() for line in log_lines())
    return [json.dumps({"id": line.split()[0], "text": line}).encode() for line in lines]


def as_rows() -> list[bytes]:
    """The same as rows of CSV: with quotes, commas and newlines in them."""
    text, rows = io.StringIO(), list[bytes]()
    for line in log_lines():
        fields = line.decode().split('"')
        csv.writer(text, lineterminator="\n").writerow([line[:11].decode(), *fields[:2], "a\nb, c"])
        rows.append(text.getvalue().removesuffix("\n").encode())
        text.seek(0)
        text.truncate()
    return rows


class Form(NamedTuple):
    """A form of input, and which part of its records is compared."""

    keys: KeyRule
    records: Callable[[], list[bytes]]
    terminator: bytes = b"\n"


FORMS = {
    "whole": Form(LineKeys(), log_lines),
    "whole without case": Form(LineKeys(ignore_case=True), log_lines),
    "nul": Form(LineKeys(field=1), log_lines, b"\0"),
    "field": Form(LineKeys(field=1), log_lines),
    "fields": Form(LineKeys(field=(1, 7)), log_lines),
    "separated": Form(LineKeys(field=3, separator=b'"'), log_lines),
    "width": Form(LineKeys(compare_at_most=70), log_lines),
    "skipped": Form(LineKeys(skip_fields=2, skip_chars=3), log_lines),
    "member": Form(LineKeys(json_key="id"), as_json),
    "members": Form(LineKeys(json_key=("id", "text")), as_json),
    "column": Form(RowKeys((1,)), as_rows),
    "columns": Form(RowKeys((3, 4)), as_rows),
    "rows": Form(RowKeys(), as_rows),
    "empty skipped": Form(LineKeys(field=7, empty="skip"), log_lines),
    "empty alike": Form(LineKeys(field=7, empty="key"), log_lines),
}


def run(seen: BloomFilter, form: Form, data: bytes) -> list[bytes]:
    """Deduplicate an input; return the records that were written."""
    written, source = io.BytesIO(), io.BytesIO(data)
    rows = isinstance(form.keys, RowKeys)
    chunks = read_rows(source) if rows else read_chunks(source, form.terminator)
    try:
        dedup(seen, chunks, LineWriter(written, form.terminator), keys=form.keys)
    except OpenQuoteError:
        assert data.count(b'"') % 2  # it was cut within quotes, for which the command exits with 5
    written.seek(0)
    again = read_rows(written) if rows else read_chunks(written, form.terminator)
    return [line for chunk in again for line in chunk.lines]


@pytest.mark.parametrize("name", FORMS)
def test_cut_at_every_byte_of_the_last_three_records(tmp_path: Path, name: str) -> None:
    """Each record comes out whole once the input is complete, and only then nothing is new."""
    form = FORMS[name]
    records = form.records()
    data = form.terminator.join([*records, b""])
    with a_filter(tmp_path) as seen:
        due = run(seen, form, data)
    assert len(due) >= 3
    tail = sum(len(record) + 1 for record in records[-3:])
    for cut in range(len(data) - tail, len(data)):
        with a_filter(tmp_path) as seen:
            first = run(seen, form, data[:cut])
            assert run(seen, form, data[:cut]) == [], f"cut at {cut}: the same again is not new"
            second = run(seen, form, data)
            assert set(due) <= {*first, *second}, f"cut at {cut}"
            assert run(seen, form, data) == [], f"cut at {cut}: completed"


# What is known, an input that ends within a line, and what of it is new.
ENDS = [
    (b"b 1\n", b"a 1\nb 2", b"a 1\n"),  # the key of its part is known
    (b"b 1\n", b"a 1\nc 2", b"a 1\nc 2"),
    (b"a 1\nb 2", b"a 1\nb 2", b""),  # it is known itself
    (b"a 1\nb 2", b"b 2\n", b"b 2\n"),  # and its complete line is not
    (b"b 2", b"c 1\nb 3\n", b"c 1\nb 3\n"),
]


@pytest.mark.parametrize(("known", "text", "new"), ENDS)
def test_a_fragment_is_known_by_its_part_and_as_a_whole(
    tmp_path: Path, known: bytes, text: bytes, new: bytes
) -> None:
    out = tmp_path / "out"
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-9, seed=1) as seen:
        dedup_files(seen, io.BytesIO(known), None, key=1)
        dedup_files(seen, io.BytesIO(text), out, key=1)
    assert out.read_bytes() == new


def test_each_input_has_a_last_line_of_its_own(tmp_path: Path) -> None:
    """Of two inputs that both end within a line neither is joined with the next."""
    out = tmp_path / "out"
    inputs = [io.BytesIO(b"a 1\nb ha"), io.BytesIO(b"f 2\nb h"), io.BytesIO(b"b half 2\n")]
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-9, seed=1) as seen:
        dedup_files(seen, inputs, out, key=1)
    assert out.read_bytes() == b"a 1\nb ha\nf 2\nb h\nb half 2\n"


@pytest.mark.parametrize(
    ("options", "cut", "whole"),
    [
        (["-k1"], b"b hal", b"b half 2\n"),
        (["-w3"], b"b ha", b"b half 2\n"),
        (["--json-key", "id"], b'{"id": 1}', b'{"id": 1} \n'),
        (["--csv", "--no-header", "-k1"], b"b,ha", b"b,half,2\n"),
        (["-k1", "-z"], b"b hal", b"b half 2\0"),
    ],
)
def test_all_commands_go_by_the_rule(
    tmp_path: Path, options: list[str], cut: bytes, whole: bytes
) -> None:
    """What `add` marks of a fragment `check`, `remove` and `exclude` find, and nothing else."""
    seen = tmp_path / "seen"
    assert mmbloom("create", seen, *EXACT, "--counting").code == 0
    assert mmbloom("add", seen, *options, stdin=cut).code == 0
    assert mmbloom("check", seen, *options, stdin=cut).out == cut
    assert mmbloom("check", seen, *options, stdin=whole).code == 1
    assert mmbloom("remove", seen, *options, stdin=whole).code == 1
    assert mmbloom("remove", seen, *options, stdin=cut).code == 0
    assert mmbloom("check", seen, *options, stdin=cut).code == 1
    assert mmbloom("add", seen, *options, stdin=whole).code == 0
    assert mmbloom("check", seen, *options, stdin=cut).out == cut, "by the key of its part"
    assert mmbloom("exclude", seen, "--add", *options, stdin=cut).code == 0
    assert mmbloom("check", seen, *options, stdin=cut).code == 1
    assert mmbloom("check", seen, *options, stdin=whole).code == 1
    assert mmbloom("exclude", seen, "--remove", *options, stdin=cut).code == 0
    assert mmbloom("check", seen, *options, stdin=whole).out == whole


@pytest.mark.parametrize("count", ["-c", "-u"])
def test_a_fragment_counts_as_its_part(tmp_path: Path, count: str) -> None:
    """Lines are counted by the key of the part, as uniq counts them."""
    text = tmp_path / "text"
    text.write_bytes(b"a 1\nb 2\nb ha")
    done = mmbloom("dedup", tmp_path / "seen", *EXACT, "-w1", count, text)
    assert done.out == {"-c": b"      1 a 1\n      2 b 2\n", "-u": b"a 1\n"}[count]
