"""dedup_files: what the command does, as one function, with the same guarantees."""

import bz2
import gzip
import io
import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli_runner import mmbloom

from mmbloom import BloomFilter, FilterFullError, InputError, dedup_files
from mmbloom.logs.dedup import Tally

LINES, SEMICOLONS = b"a 1\nb 2\na 3\nb 2\n", b"a;b\n1;2\n"


@pytest.fixture
def seen(tmp_path: Path) -> Any:
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-9, seed=1) as filter_:
        yield filter_


def test_inputs_of_all_kinds(tmp_path: Path, seen: Any) -> None:
    names = [tmp_path / name for name in ("plain", "renamed", "b.bz2")]
    names[0].write_bytes(LINES)
    names[1].write_bytes(gzip.compress(b"c\na 1\n"))
    names[2].write_bytes(bz2.compress(b"d"))
    out = tmp_path / "out"
    with names[0].open("rb") as opened:
        sources: list[Any] = [str(names[0]), names[1], names[2], opened, io.BytesIO(b"e\ne\n")]
        tally = dedup_files(seen, sources, out)
        assert not opened.closed
    assert out.read_bytes() == b"a 1\nb 2\na 3\nc\nd\ne\n"
    assert (tally.lines, tally.unique, tally.repeated) == (13, 6, 7)
    assert dedup_files(seen, names[1], str(out)) == Tally(2, 0, 2, 6, 0)
    assert dedup_files(seen, io.BytesIO(b"f\n"), None).unique == 1
    assert out.read_bytes() == b"a 1\nb 2\na 3\nc\nd\ne\n"


@pytest.mark.parametrize(
    ("options", "command", "data"),
    [
        ({}, [], LINES),
        ({"key": 1}, ["-k1"], LINES),
        ({"key": (2, 1)}, ["-k2,1"], LINES),
        ({"key": 2, "separator": b","}, ["-k2", "-t,"], b"a,1\nb,1\n,\n"),
        ({"csv": True, "key": "b"}, ["--csv", "-kb"], b'a,b\n1,"x\ny"\n2,"x\ny"\n3,\n'),
        ({"csv": True, "header": False}, ["--csv", "--no-header"], b'a,"b"\na,b\n'),
        ({"csv": True, "key": ("b", 1), "separator": b";"}, ["--csv", "-kb,1", "-t;"], SEMICOLONS),
        ({"key": 2, "empty": "skip"}, ["-k2", "--empty", "skip"], b"a\nb 1\n"),
        ({"json_key": "id", "empty": "key"}, ["--json-key", "id", "--empty", "key"], b"{}\n{}\n"),
        ({"json_key": ("a", "b")}, ["--json-key", "a", "--json-key", "b"], b'{"a":1,"b":2}\n' * 2),
    ],
)
def test_it_is_what_the_command_does(
    tmp_path: Path, seen: Any, options: dict[str, Any], command: list[str], data: bytes
) -> None:
    (tmp_path / "in").write_bytes(data)
    new, old = tmp_path / "new", tmp_path / "old"
    tally = dedup_files(seen, tmp_path / "in", new, repeats_to=old, durable=True, **options)
    more = ["--repeats-to", str(tmp_path / "old2"), "-o", str(tmp_path / "new2"), "--seed", "1"]
    made = ["-n", "1000", "-p", "1e-9", "--stats", *more]
    done = mmbloom("dedup", tmp_path / "seen2", tmp_path / "in", *command, *made)
    assert done.code == 0
    assert new.read_bytes() == (tmp_path / "new2").read_bytes()
    assert old.read_bytes() == (tmp_path / "old2").read_bytes()
    figures = json.loads(done.err.splitlines()[-1])
    names = ("lines", "unique", "repeated", "bytes", "lacking")
    assert [getattr(tally, name) for name in names] == [figures[name] for name in names]
    with BloomFilter.open(tmp_path / "seen2") as other:
        assert other.key_rule == seen.key_rule
        assert other.info().positions_set == seen.info().positions_set


def test_a_full_filter(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with BloomFilter.create(tmp_path / "small", 2, 1e-9, seed=1, on_full="raise") as small:
        with pytest.raises(FilterFullError):
            dedup_files(small, io.BytesIO(LINES), out)
        assert out.read_bytes() == b"a 1\nb 2\n"


@pytest.mark.parametrize(
    ("left", "options", "lines", "expected"),
    [
        (b"xx\nfoo", {}, b"x\n", b"xx\nfoo\nx\n"),
        (b'id,n\n9,"half', {"csv": True}, b"id,n\n1,a\n", b'id,n\n9,"half"\n1,a\n'),
        (b"", {"csv": True}, b"id,n\n1,a\n", b"id,n\n1,a\n"),
    ],
)
def test_what_a_killed_run_has_left(
    tmp_path: Path, seen: Any, left: bytes, options: dict[str, Any], lines: bytes, expected: bytes
) -> None:
    """A half line is ended before a new one, in a path and in a file that is open."""
    for name in ("path", "opened"):
        out = tmp_path / name
        out.write_bytes(left)
        with BloomFilter.create(f"{seen.path}.{name}", 1000, 1e-9) as other, ExitStack() as stack:
            to = out if name == "path" else stack.enter_context(out.open("ab", buffering=0))
            dedup_files(other, io.BytesIO(lines), to, **options)
        assert out.read_bytes() == expected


def test_an_input_that_does_not_block(tmp_path: Path, seen: Any) -> None:
    """What comes later is waited for: a pipe that is empty has not ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write_later() -> None:
        os.write(writing, b"c\n")
        os.close(writing)

    late = threading.Timer(0.2, write_later)
    os.write(writing, b"a\nb\n")
    late.start()
    with open(reading, "rb", buffering=0) as source:
        assert dedup_files(seen, source, tmp_path / "out") == Tally(3, 3, 0, 6, 0)
    late.join()


def test_what_is_refused(tmp_path: Path, seen: Any) -> None:
    lines = tmp_path / "in"
    lines.write_bytes(LINES)
    for output, rest in [(lines, None), (seen.path, None), (tmp_path / "o", tmp_path / "." / "o")]:
        with pytest.raises(ValueError, match=r"write (to|them to) another file"):
            dedup_files(seen, lines, output, repeats_to=rest)
    os.link(lines, tmp_path / "link")
    exclusions = f"{seen.path}.exclusions"
    with lines.open("rb") as opened, lines.open("ab", buffering=0) as appended:
        same: list[tuple[Any, Any]] = [(opened, lines), (lines, tmp_path / "link")]
        for source, output in [*same, (opened, appended)]:
            with pytest.raises(ValueError, match="is the same file as"):
                dedup_files(seen, source, None, repeats_to=output)
        with pytest.raises(ValueError, match="is the filter's file of exclusions"):
            dedup_files(seen, opened, exclusions)
    assert lines.read_bytes() == LINES
    contradictions: list[dict[str, Any]] = [
        {"key": 1, "json_key": "a"},
        {"csv": True, "json_key": "a"},
        {"key": "name"},
        {"separator": b","},
        {"empty": "skip"},
        {"empty": "keep", "key": 1},
        {"empty": "keep", "csv": True},
    ]
    for wrong in contradictions:
        with pytest.raises(ValueError, match=r"cannot be|csv=|with key|give key|expected one"):
            dedup_files(seen, lines, None, **wrong)
    for inputs in (b"in", [b"in"], 5, [None]):
        with pytest.raises(TypeError, match=r"expected a path or a|not iterable"):
            dedup_files(seen, inputs, None)  # type: ignore[arg-type]
    with (tmp_path / "raw").open("wb", buffering=0) as raw:
        with pytest.raises(ValueError, match="durable applies only to outputs given as paths"):
            dedup_files(seen, lines, raw, durable=True)
        dedup_files(seen, lines, raw)
    assert (tmp_path / "raw").read_bytes() == b"a 1\nb 2\na 3\n"
    for data, said in [(b"PK\x03\x04", "is a zip archive"), (b'a\n"b', "quote that is not closed")]:
        with pytest.raises(InputError, match=said):
            dedup_files(seen, io.BytesIO(data), None, csv=True)
    with pytest.raises(InputError, match="the column 'x' is not in the header \\(a 1"):
        dedup_files(seen, lines, None, csv=True, key="x")


def test_a_path_is_no_filter(tmp_path: Path) -> None:
    """The path of a filter where an open one belongs: the error names the call that opens one."""
    path: Any = tmp_path / "seen.bloom"
    with pytest.raises(TypeError, match=r"seen\.bloom'\), expected .* mmbloom\.open_or_create"):
        dedup_files(path, tmp_path / "in", tmp_path / "out")
