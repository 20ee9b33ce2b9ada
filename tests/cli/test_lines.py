"""Inputs of the command line: compressed, damaged, slow; lines without the field asked for."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_runner import (
    EXACT,
    answers,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    refused,
    running,
    started,
    without,
)
from frames import COMPRESS, zstd
from workers import PATIENCE

from mmbloom import BloomFilter, InputError, dedup_files

LINES = b"".join(b"line %d\r\n" % (i % 5000) for i in range(20_000)) + b"last"
UNIQUE = b"".join(b"line %d\r\n" % i for i in range(5000)) + b"last"


ZSTD = ("backports.zstd", "compression.zstd")
DECOMPRESSOR: dict[str, Callable[[], Any]] = {
    "gz": partial(zlib.decompressobj, 31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zst": zstd.ZstdDecompressor,
}
EACH_KIND = pytest.mark.parametrize("kind", COMPRESS)


@pytest.mark.parametrize("kind", [*COMPRESS, "GZ"])
def test_compressed_inputs(tmp_path: Path, kind: str) -> None:
    path, seen = tmp_path / f"in.{kind}", tmp_path / "seen"
    path.write_bytes(COMPRESS[kind.lower()](LINES))
    done = inside("dedup", seen, path, "--stats", *EXACT)
    assert (done.code, done.out) == (0, UNIQUE)
    assert json.loads(done.err)["bytes"] == len(LINES)
    assert inside("check", seen, path, "-v") == (1, b"", "")
    assert inside("add", seen, path) == (0, b"", "")


@EACH_KIND
@pytest.mark.parametrize("name", ["in", "in.log", "in.gz", "in.zst", None])
def test_the_first_bytes_tell(tmp_path: Path, kind: str, name: str | None) -> None:
    seen, raw = exact_filter(tmp_path / "seen"), COMPRESS[kind](LINES)
    if name:
        (tmp_path / name).write_bytes(raw)
        assert mmbloom("dedup", seen, tmp_path / name).out == UNIQUE
        assert mmbloom("check", seen, tmp_path / name, "-c", "-v").out == b"0\n"
        return
    assert mmbloom("dedup", seen, stdin=raw).out == UNIQUE
    assert mmbloom("check", seen, "-", "-c", "-v", stdin=raw).out == b"0\n"
    (tmp_path / "in").write_bytes(b"plain\n" + raw)
    with (tmp_path / "in").open("rb") as file:
        file.seek(len(b"plain\n"))
        assert mmbloom("check", seen, "-v", "-c", stdin=file).out == b"0\n"


BEGINNINGS = [
    *(b"", b"B", b"BZ", b"BZh", b"BZh9", b"BZh91AY&S", b"BZh0", b"BZhang\n", b"BZh9\n", b"(", b"("),
    *(b"\x1f", b"\x1f\x8b", b"\x1f\x8b\n", b"\xfd7zXZ", b"\xfd7zXZ\n", b"\x28\xb5\x2f", b"\n"),
    *(b"(\xb5\n", b"\x1f\n\x8b\x08", b"PK\x03\n"),
]


@pytest.mark.parametrize("line", BEGINNINGS)
def test_lines_that_begin_almost_so(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "in").write_bytes(line)
    assert mmbloom("dedup", exact_filter(tmp_path / "file"), tmp_path / "in").out == line
    assert mmbloom("dedup", exact_filter(tmp_path / "pipe"), stdin=line).out == line
    slow = exact_filter(tmp_path / "slow")
    assert mmbloom("dedup", slow, stdin=line, pause=0.005) == (0, line, "")


def test_a_line_is_not_kept_waiting(tmp_path: Path) -> None:
    """Of the first line it is known at once that it is plain; it is printed before the next."""
    with running("dedup", exact_filter(tmp_path / "seen")) as process:
        for line in (b"B\n", b"\n", b"BZh\n"):
            assert answers(process, line, line)


def random_lines(number: int) -> bytes:
    """Lines that cannot be compressed far."""
    chosen = random.Random(1)
    return b"".join(b"%032x\n" % chosen.getrandbits(128) for _ in range(number))


@EACH_KIND
def test_what_comes_before_the_end_is_printed(here: Path, kind: str) -> None:
    """And when the input is whole, or is one at all, a run prints the rest."""
    lines, path = random_lines(60_000), Path(f"in.{kind}")
    whole = COMPRESS[kind](lines)
    cut = whole[: len(whole) * 3 // 4]
    there = DECOMPRESSOR[kind]().decompress(cut)
    assert len(there) > len(lines) // 3  # bzip2 gives a block of 900 kB or nothing of it
    first = there[: there.rindex(b"\n") + 1]
    exact_filter("seen")
    for data, printed in [(lines, b""), (cut, first)]:
        path.write_bytes(data)
        done = inside("dedup", "seen", path)
        assert (done.code, done.out) == (5, printed)
        assert is_one_line(done.err, f"{path}: damaged or cut off: ")
    path.write_bytes(whole)
    assert inside("dedup", "seen", path) == (0, lines.removeprefix(first), "")


def test_without_zstd(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All inputs are looked at before anything is made; a pipe loses no byte by that."""
    packed, fresh = COMPRESS["zst"](b"b\n"), ("dedup", "seen", *EXACT)
    Path("in").write_bytes(b"of a file\n")
    for name in ("in.zst", "packed"):
        Path(name).write_bytes(packed)
    done = started(*fresh, "in", "in.zst", command=without(*ZSTD))
    assert refused(done, 2, "in.zst", "pip install 'mmbloom[cli]'")
    for library in ZSTD:
        monkeypatch.setitem(sys.modules, library, None)
    refusals: list[tuple[tuple[str, ...], str]] = [
        ((*fresh, "in", "in.zst"), "in.zst"),
        ((*fresh, "in", "packed"), "packed"),
        (fresh, "stdin"),
        ((*fresh, "in", "-"), "stdin"),
        (("add", *fresh[1:]), "stdin"),
    ]
    for argv, name in refusals:
        assert refused(mmbloom(*argv, stdin=packed), 2, name, "pip install 'mmbloom[cli]'")
        assert not Path("seen").exists()
    with Path("packed").open("rb") as redirected:
        assert refused(mmbloom(*fresh, stdin=redirected), 2, "stdin", "pip install 'mmbloom[cli]'")
    assert not Path("seen").exists()
    for kind in ("gz", "bz2", "xz"):
        Path(f"in.{kind}").write_bytes(COMPRESS[kind](b"b\na\n"))
    assert mmbloom(*fresh, "in.gz", "in.bz2", "in.xz") == (0, b"b\na\n", "")
    assert mmbloom(*fresh, stdin=gzip.compress(b"packed\n")) == (0, b"packed\n", "")
    for line in (b"", b"BZh91AY&", b"BZh91AY&SX\n", b"c\n"):
        assert mmbloom(*fresh, stdin=line) == (0, line, "")
    assert mmbloom(*fresh, "in", "-", stdin=b"BZh\n").out == b"of a file\nBZh\n"


def test_a_pipe_that_does_not_block(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        with running("dedup", exact_filter(tmp_path / "seen"), stdin=reading) as process:
            assert process.stdout
            time.sleep(0.8)  # until it reads
            assert process.poll() is None, "ended before its input did"
            os.write(writing, b"late\n")
            assert process.stdout.readline() == b"late\n"
            os.close(writing)
            writing = -1
            assert process.wait(PATIENCE) == 0
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def connection(sent: bytes) -> socket.socket:
    """Give the reader's end of a connection that was reset after something had come."""
    reader, writer = socket.socketpair()
    reader.send(b"never read")  # so that closing the other end is a reset, not an end
    writer.sendall(sent)
    writer.close()
    return reader


@pytest.mark.parametrize("option", [(), ("-c",)], ids=["once", "twice"])
def test_a_connection_that_is_reset(tmp_path: Path, option: tuple[str, ...]) -> None:
    """An error is told though it comes but once; a line that it cuts off is no line."""
    with connection(b"one\ntwo\nhalf of a li") as stdin:
        path = str(exact_filter(tmp_path / "f"))
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "mmbloom", "dedup", path, *option],
            stdin=stdin.fileno(),
            capture_output=True,
            check=False,
            env=os.environ | {"COLUMNS": "200"},
        )
    assert ended.returncode == 5
    assert ended.stdout == (b"" if option else b"one\ntwo\n")
    said = ended.stderr.decode()
    assert is_one_line(said, "stdin: cannot be read: Connection reset by peer")


def test_more_files_open_than_select_knows(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    code = """
import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
for _ in range(1100):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.executable, [sys.executable, "-P", "-m", "mmbloom", *sys.argv[1:]])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, "dedup", exact_filter(tmp_path / "f"), tmp_path / "in"],
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"a\nb\n", b"")


def test_a_fifo_is_an_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with running("dedup", exact_filter(tmp_path / "seen"), tmp_path / "fifo") as process:
        (tmp_path / "fifo").write_bytes(b"a\nb\na\n")
        assert process.communicate(timeout=PATIENCE) == (b"a\nb\n", b"")


FIELD = (["-k", "3", "-t", ","], b"a,b,c\n", b"a,b\n", "field 3")
MEMBER = (["--json-key", "a.b"], b'{"a": {"b": 1}}\n', b'{"a": 1}\n', "member 'a.b'")
BLANKS = (["-k", "2", "-i"], b"a b\n", b"\xff\n", "field 2")
# Processes started afresh cost a second; what they send back is the same for all.
JOBS = {FIELD[-1]: "2", MEMBER[-1]: "1", BLANKS[-1]: "1"}
EACH = pytest.mark.parametrize(
    ("options", "has", "lacks", "part"), [FIELD, MEMBER, BLANKS], ids=["-k -t", "--json-key", "-k"]
)


@EACH
def test_no_line_has_it(
    tmp_path: Path, options: list[str], has: bytes, lacks: bytes, part: str
) -> None:
    """If another input has it: one warning for each, with its name, and no change of exit codes."""
    (tmp_path / "with").write_bytes(has + lacks * 3)
    (tmp_path / "without").write_bytes(lacks * 2 + b"x")
    (tmp_path / "empty").touch()
    assert mmbloom("create", tmp_path / "counts", "-n", "1e3", "--counting").code == 0
    seen, names = exact_filter(tmp_path / "seen"), ["with", "without", "empty"]
    inputs = [tmp_path / name for name in names]
    commands: list[list[object]] = [
        ["dedup", seen, *inputs],
        ["add", seen, *inputs],
        ["check", seen, *inputs],
        ["check", seen, "-c", *inputs],
        ["add", tmp_path / "counts", *inputs],
        ["remove", tmp_path / "counts", *inputs],
        ["verify", seen, *(word for one in inputs for word in ("--keys", one))],
        ["dedup", seen, *inputs, "--output-dir", tmp_path / "out", "-j", JOBS[part]],
    ]
    for command in commands:
        done = mmbloom(*command, *options)
        assert done.code == 0
        said = f"warning: {tmp_path / 'without'}: {part} is missing or empty in every line:"
        assert is_one_line(done.err, said)
    swapped = mmbloom("dedup", tmp_path / "other", *inputs[::-1], *options, *EXACT)
    assert swapped.code == 0
    assert is_one_line(swapped.err, f"warning: {tmp_path / 'without'}: {part} is missing or empty")
    assert mmbloom("dedup", exact_filter(tmp_path / "whole"), stdin=lacks).err == ""


MEMBERS = ["--json-key", "id"]
WRONG: list[tuple[list[str], bytes]] = [
    (FIELD[0], FIELD[2]),
    (MEMBER[0], MEMBER[2]),
    ([*MEMBERS, *MEMBERS], b'{"x":1}\n'),
    (["--csv", "-k3"], b"id,a\n1,b\n"),
    (["--csv", "-k3", "--no-header"], b"1,b\n"),
]


@pytest.mark.parametrize(("options", "lines"), WRONG)
def test_no_line_of_a_run_has_it(tmp_path: Path, options: list[str], lines: bytes) -> None:
    """It is an error before anything is made, printed or marked; unless --empty is given."""
    (tmp_path / "in").write_bytes(lines)
    (tmp_path / "in.gz").write_bytes(gzip.compress(lines * 60))
    said = "is missing or empty in every line: "
    for names in (["in"], ["in.gz"], ["in", "in.gz"]):
        inputs = [tmp_path / name for name in names]
        done = mmbloom("dedup", tmp_path / "seen", *inputs, *options, *EXACT)
        assert refused(done, 5, f"{inputs[0]}: ", said, "--empty whole")
        assert not (tmp_path / "seen").exists()
    counts, seen = tmp_path / "counts", exact_filter(tmp_path / "seen")
    assert mmbloom("create", counts, "-n", "1e3", "--counting").code == 0
    commands = [
        ["dedup", seen],
        ["add", seen],
        ["check", seen],
        ["remove", counts],
        ["exclude", seen, "--add"],
        ["verify", seen, "--keys", "-"],
    ]
    header = lines[: lines.find(b"\n") + 1] if options == ["--csv", "-k3"] else b""
    for command in commands:
        done = mmbloom(*command, *options, stdin=header + lines[len(header) :] * 60)
        assert (done.code, done.out) == (5, header if command[0] in {"dedup", "check"} else b"")
        assert is_one_line(done.err, "stdin: ", said)
    with BloomFilter.open(seen) as opened:
        assert (opened.info().keys_added, len(opened.exclusions)) == (0, 0)
    for empty in ("whole", "skip", "key"):
        new = tmp_path / empty
        done = mmbloom("dedup", new, *options, "--empty", empty, tmp_path / "in", *EXACT)
        assert done.code == 0
        assert is_one_line(done.err, f"warning: {tmp_path / 'in'}: ", said)


def test_a_pipe_that_brings_few_lines(tmp_path: Path) -> None:
    """They are given as they come; if no line has it up to the end, that is an error then."""
    few, seen = b'{"x":1}\n{"x":2}\n', exact_filter(tmp_path / "seen")
    done = mmbloom("dedup", seen, *MEMBERS, stdin=few)
    assert (done.code, done.out) == (5, few)
    assert is_one_line(done.err, "stdin: member 'id' is missing or empty in every line")
    slowly = mmbloom("dedup", seen, *MEMBERS, stdin=few + b'{"id":1}\n', pause=0.0001)
    assert (slowly.code, slowly.out, slowly.err) == (0, b'{"id":1}\n', "")
    half = mmbloom("dedup", seen, *MEMBERS, stdin=b'{"id')
    assert half.code == 0
    assert is_one_line(half.err, "warning: stdin: member 'id' is missing")


def test_a_line_without_its_end(tmp_path: Path) -> None:
    """It shows nothing, in a pipe and in each of several files, in any order."""
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    done = mmbloom("dedup", seen, "-k2", stdin=lines + b"c d")
    assert (done.code, done.out) == (5, lines + b"c d")
    inputs = [tmp_path / "half", tmp_path / "in"]
    for path, data in zip(inputs, (b"c d", lines), strict=True):
        path.write_bytes(data)
    for names in (inputs, inputs[::-1]):
        done = mmbloom("dedup", tmp_path / "new", "-k2", *EXACT, *names)
        assert refused(done, 5, f"{tmp_path / 'in'}: field 2 is missing or empty")


def test_a_column_that_is_empty(tmp_path: Path) -> None:
    for column in ("name", "2"):
        done = mmbloom(
            "dedup", tmp_path / column, "--csv", "-k", column, *EXACT, stdin=b"id,name\n1,\n2,\n"
        )
        assert (done.code, done.out) == (0, b"id,name\n1,\n2,\n")
        assert is_one_line(done.err, "warning: stdin: column ", "is missing or empty in every")


def test_in_python(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("without", "with")]
    for path, lines in zip(paths, [b'{"x":1}\n', b'{"id":1}\n'], strict=True):
        path.write_bytes(lines)
    with BloomFilter.open(exact_filter(tmp_path / "seen")) as seen:
        for inputs in (paths[0], io.BytesIO(b'{"x":1}\n' * 60)):
            with pytest.raises(InputError, match="member 'id' is missing or empty"):
                dedup_files(seen, inputs, tmp_path / "out", json_key="id")
        assert (seen.info().keys_added, (tmp_path / "out").read_bytes()) == (0, b"")
        assert dedup_files(seen, paths, None, json_key="id").unique == 2
        assert dedup_files(seen, paths[0], None, json_key="id", empty="whole").repeated == 1


@EACH
def test_they_are_counted(
    tmp_path: Path, options: list[str], has: bytes, lacks: bytes, part: str
) -> None:
    (tmp_path / "one").write_bytes(has * 2 + lacks * 30_000)
    (tmp_path / "two").write_bytes(has + lacks)
    inputs = [tmp_path / "one", tmp_path / "two"]
    jobs = [[], ["--output-dir", tmp_path / "out", "-j", JOBS[part]]]
    for more in jobs:
        done = mmbloom("dedup", tmp_path / "seen", *inputs, *options, "--stats", *EXACT, *more)
        figures = json.loads(done.err)
        assert (figures["lines"], figures["lacking"]) == (30_004, 30_001)
    done = mmbloom("add", tmp_path / "seen", tmp_path / "two", *options, "--stats")
    assert json.loads(done.err)["lacking"] == 1


EMPTY = [
    (["-t,", "-k2"], b"1,,a\n2,,b\n", 2),
    (["-t,", "-k2", "--crlf"], b"1,\r\n2,\r\n", 2),
    (["-t,", "-k1,2"], b"1,,a\n1,,b\n,1,c\n,1,d\n", 4),
    (["--json-key", "id"], b'{"id":null,"x":1}\n{"id":null,"x":2}\n{"id":"","x":1}\n{"x":3}\n', 4),
    (["--json-key", "a.b"], b'{"a":null,"x":1}\n{"a":{"b":null}}\n{"a":{"b":""}}\n', 3),
    (["--json-key", "a", "--json-key", "b"], b'{"a":1,"b":null}\n{"a":1,"b":""}\n{"a":1}\n', 3),
    (["--json-key", "id"], b'{"id":0}\n{"id":false}\n{"id":[]}\n{"id":"null"}\n', 0),
    (["-t,", "-k2", "-s9"], b"1,a,x\n", 0),  # what is left of the field may be empty
]


@pytest.mark.parametrize(("options", "lines", "lacking"), EMPTY)
def test_null_and_empty_is_lacking(
    tmp_path: Path, options: list[str], lines: bytes, lacking: int
) -> None:
    """Lines that have nothing where their key should be are whole lines: none of them is lost."""
    options = [*options, "--empty", "whole"]
    done = mmbloom("dedup", tmp_path / "seen", *options, "--stats", *EXACT, stdin=lines * 2)
    assert done.out == lines
    figures = json.loads(done.err.splitlines()[-1])
    assert (figures["lacking"], figures["unique"]) == (2 * lacking, lines.count(b"\n"))


@pytest.mark.parametrize("line", [b"a b\r\n", b"a\vb c\n", b"a b\fc\n"])
def test_blanks_are_those_of_awk(tmp_path: Path, line: bytes) -> None:
    """Space and tab part fields; a carriage return belongs to the last one, without --crlf."""
    second = line.rstrip(b"\n").split(b" ")[1]
    mmbloom("dedup", tmp_path / "seen", "-k2", *EXACT, stdin=line)
    assert mmbloom("check", tmp_path / "seen", stdin=second + b"\n").out == second + b"\n"
    if b"\r" in line:
        mmbloom("dedup", tmp_path / "other", "-k2", "--crlf", *EXACT, stdin=line)
        assert mmbloom("check", tmp_path / "other", stdin=b"b\n").out == b"b\n"


def test_a_field_that_looks_like_a_mark(tmp_path: Path) -> None:
    """No field of any line is taken for a whole line, not even of lines that NUL ends."""
    lines = b"\xff\n\xffx,b\0\xff\n,b\0\xff,b\0,b\0"
    done = mmbloom("dedup", tmp_path / "seen", "-z", "-t,", "-k1", "--stats", *EXACT, stdin=lines)
    assert done.out == lines
    assert json.loads(done.err)["lacking"] == 1  # of the last line the field is empty
