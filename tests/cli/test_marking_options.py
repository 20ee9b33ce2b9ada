"""Options of mmbloom dedup: what is compared, what is printed, and where to."""

import gzip
import json
import os
import shutil
from pathlib import Path

import has
import pytest
from cli_runner import (
    EXACT,
    FULL_DISK,
    STDOUT,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    refused,
    started,
)

from mmbloom import BloomFilter, columns


def dedup(folder: Path, data: bytes, *options: str | Path) -> tuple[int, bytes, str]:
    """Run dedup on an input of these bytes, with the filter of this folder."""
    (folder / "in").write_bytes(data)
    return inside("dedup", folder / "seen", folder / "in", *EXACT, *options)


COMPARED: dict[str, tuple[list[str], bytes, bytes]] = {
    "-i": (["-i"], b"a\nA\nb\n", b"a\nb\n"),
    "--ignore-case": (["--ignore-case"], b"a\nA\nb\n", b"a\nb\n"),
    "-f": (["-f", "1"], b"1 a\n2 a\n3 b\n", b"1 a\n3 b\n"),
    "--skip-fields": (["--skip-fields=1"], b"1 a\n2 a\n3 b\n", b"1 a\n3 b\n"),
    "-s": (["-s", "2"], b"1 a\n2 a\n3 b\n", b"1 a\n3 b\n"),
    "--skip-chars": (["--skip-chars=2"], b"1 a\n2 a\n3 b\n", b"1 a\n3 b\n"),
    "-w": (["-w1"], b"ab\nac\nb\n", b"ab\nb\n"),
    "--check-chars": (["--check-chars=1"], b"ab\nac\nb\n", b"ab\nb\n"),
    "-f -s -w -i": (["-f1", "-s1", "-w2", "-i"], b"1 abX\n2 ABY\n3 ac\n", b"1 abX\n3 ac\n"),
    "-k": (["-k", "2"], b"1  a x\n2\ta y\n3 b\n", b"1  a x\n3 b\n"),
    "--field": (["--field=2"], b"1  a x\n2\ta y\n3 b\n", b"1  a x\n3 b\n"),
    "-t -k": (["-t", ",", "-k2"], b"1,a,x\n2,a\n3\n3\n", b"1,a,x\n3\n"),
    "-t tab": (["-t", "\\t", "-k2"], b"1\ta b\n2\ta c\n3\ta b\n", b"1\ta b\n2\ta c\n"),
    "-t of two": (["--separator", "::", "-k2"], b"1::a:b\n2::a:b\n", b"1::a:b\n"),
    "-t of another script": (["-t", "é", "-k2"], "1éa\n2éa\n".encode(), "1éa\n".encode()),
    "--json-key": (
        ["--json-key", "a.b"],
        b'{"a":{"b":1}}\n{"x":0, "a":{"b": 1}}\n{}\n{}\nx\n',
        b'{"a":{"b":1}}\n{}\nx\n',
    ),
    "-z": (["-z"], b"a\nb\0c\0a\nb\0c\n\0c", b"a\nb\0c\0c\n\0"),
    "--zero-terminated": (["--zero-terminated"], b"a\0a\0b", b"a\0b"),
    "-d": (["-d"], b"a\nb\na\na\nb\n", b"a\na\nb\n"),
    "--repeated": (["--repeated"], b"a\nb\na", b"a"),
}


@pytest.mark.parametrize(("options", "data", "expected"), COMPARED.values(), ids=COMPARED)
def test_what_is_compared(tmp_path: Path, options: list[str], data: bytes, expected: bytes) -> None:
    assert dedup(tmp_path, data, *options) == (0, expected, "")


def test_second_run_with_d_prints_all(tmp_path: Path) -> None:
    dedup(tmp_path, b"a\nb\n")
    assert dedup(tmp_path, b"a\nb\nc\n", "-d") == (0, b"a\nb\n", "")


APPENDED: dict[str, tuple[bytes, list[str], list[tuple[bytes, bytes]]]] = {
    "to nothing": (b"", [], [(b"a\nb\n", b"a\nb\n"), (b"b\nc\n", b"a\nb\nc\n")]),
    "to what a killed run cut off": (
        b"old\ncut o",
        [],
        [(b"a\nb", b"old\ncut o\na\nb"), (b"b\nc\n", b"old\ncut o\na\nb\nc\n")],
    ),
    "to lines that end in NUL": (
        b"whole\0cut o",
        ["-z"],
        [(b"cut off\0", b"whole\0cut o\0cut off\0")],
    ),
    "nothing new": (b"cut o", [], [(b"known\n", b"cut o"), (b"", b"cut o")]),
}


@pytest.mark.parametrize("to", ["-o", "--output", "--durable -o", "--output-dir", ">>"])
@pytest.mark.parametrize(("there", "options", "runs"), APPENDED.values(), ids=APPENDED)
def test_output_is_appended_to(
    here: Path, there: bytes, options: list[str], runs: list[tuple[bytes, bytes]], to: str
) -> None:
    """A line that was cut off stays a line of its own; without a new line nothing changes."""
    out = Path("out", "in") if to == "--output-dir" else Path("out")
    out.parent.mkdir(exist_ok=True)
    out.write_bytes(there)
    assert mmbloom("add", "seen", *EXACT, stdin=b"known\n").code == 0
    argv = ["dedup", "seen", "in", *options]
    for lines, expected in runs:
        Path("in").write_bytes(lines)
        if to == ">>":
            with out.open("ab") as stdout:
                assert started(*argv, stdout=stdout) == (0, b"", "")
        else:
            assert inside(*argv, *to.split(), "out") == (0, b"", "")
        assert out.read_bytes() == expected


@pytest.mark.parametrize("how", ["dedup -o", "dedup", "check"])
@pytest.mark.parametrize(
    ("reads", "output"),
    [(reads, "in") for reads in ("input", "stdin")]
    + [("input", other) for other in ("hard", "soft", "seen", "to_seen")],
)
def test_output_must_be_another_file(tmp_path: Path, how: str, reads: str, output: str) -> None:
    seen, source = exact_filter(tmp_path / "seen"), tmp_path / "in"
    source.write_bytes(b"a\na\n")
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "soft").symlink_to("in")
    (tmp_path / "to_seen").symlink_to("seen")
    before = seen.read_bytes()
    command, *option = how.split()
    argv = [command, seen, *[source] * (reads == "input")]
    argv += [*option, tmp_path / output] if option else []
    with source.open("rb") as stdin, (tmp_path / output).open("ab") as stdout:
        done = mmbloom(*argv, stdin=stdin, stdout=None if option else stdout)
    assert refused(done, 2, str(tmp_path / output) if option else "stdout")
    assert seen.read_bytes() == before
    assert source.read_bytes() == b"a\na\n"


@pytest.mark.parametrize("name", ["new", "folder/../new", "link"])
def test_output_must_not_be_the_filter_to_be_made(tmp_path: Path, name: str) -> None:
    """A filter that -n would make is no output either: no filter is made, no line lost."""
    (tmp_path / "in").write_bytes(b"a\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("new")
    argv = ("dedup", tmp_path / "new", tmp_path / "in", "-o", tmp_path / name, *EXACT)
    assert refused(inside(*argv), 2, str(tmp_path / name))
    assert not (tmp_path / "new").exists()


def test_stats(tmp_path: Path) -> None:
    code, out, err = dedup(tmp_path, b"a\r\nb\na\r\nb", "--stats")
    assert (code, out) == (0, b"a\r\nb\n")
    figures = json.loads(err)
    assert 0 <= figures.pop("seconds") < 60
    assert 0 < figures.pop("current_error_rate") < 1e-20
    of_input = {"lines": 4, "unique": 2, "repeated": 2, "bytes": 9, "lacking": 0}
    assert figures == {
        **of_input,
        "inputs": [{"input": str(tmp_path / "in"), **of_input}],
        "capacity": 100_000,
        "approx_count": 2,
        "past_plan": False,
    }


@pytest.mark.parametrize("jobs", [["-o", "out"], ["--output-dir", "out", "-j", "2"]])
def test_stats_to(here: Path, jobs: list[str]) -> None:
    names = [f"in-{number}" for number in range(5)]
    for number, name in enumerate(names):
        Path(name).write_bytes(b"".join(b"%s %d\n" % (name.encode(), i) for i in range(number)))
    Path("figures").write_bytes(b"of a run before" * 1000)
    argv = ("dedup", "seen", *names, *jobs, *EXACT, "--stats", "--stats-to", "figures")
    Path("more").symlink_to("/dev/stdout" if has.DEV_FD else "again")
    done = mmbloom(*argv, "--stats-to", "more")
    more = done.out if has.DEV_FD else Path("again").read_bytes()
    assert (done.code, more, done.err) == (0, Path("figures").read_bytes(), more.decode())
    figures = json.loads(more)
    assert figures["lines"] == figures["unique"] == 10
    found = [(one["input"], one["lines"], one["unique"]) for one in figures["inputs"]]
    assert found == [(name, number, number) for number, name in enumerate(names)]
    done = mmbloom(*argv[:-3], "-k", "1", "--stats-to", "figures")
    assert "warning" in done.err
    assert json.loads(Path("figures").read_bytes())["repeated"] == 6


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("in", 2),  # an input
        ("seen", 2),
        ("seen.exclusions", 2),
        ("out", 2),
        ("rest", 2),
        pytest.param("/dev/stdout", 2, marks=STDOUT),  # which is a file
        ("", 2),
        ("nowhere/figures", 5),
        pytest.param("/dev/full", 5, marks=FULL_DISK),
        (".", 5),
    ],
)
def test_stats_to_what_cannot_be(here: Path, place: str, code: int) -> None:
    for name in ("in", "rest"):
        Path(name).write_bytes(b"a\n")
    argv = ["dedup", "seen", "in", "--repeats-to", "rest", *EXACT, "--stats-to", place]
    with Path("out").open("ab") as out:
        done = mmbloom(*argv, stdout=out)
    assert (done.code, is_one_line(done.err, place or "stats to")) == (code, True)
    begun = place in {"/dev/full", "."}
    assert Path("seen").exists() == begun
    assert Path("in").read_bytes() == Path("rest").read_bytes() == b"a\n"
    assert Path("out").read_bytes() == b"a\n" * begun


def test_filter_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n")
    seen, argv = tmp_path / "seen", ["dedup", str(tmp_path / "seen"), str(tmp_path / "in")]
    options = ["-n", "1K", "-p", "0.1%", "--layout", "standard", "--seed", "5"]
    assert inside(*argv, *options) == (0, b"a\n", "")
    with BloomFilter.open(seen, "r") as made:
        params = made.params
    assert (params.capacity, params.error_rate) == (1000, 0.001)
    assert (params.layout, params.seed) == ("standard", 5)
    assert seen.stat().st_mode & 0o777 == 0o600
    again = ["-n", "1000", "-p", "0.001", "--layout", "standard"]
    assert inside(*argv, *again) == (0, b"", "")
    assert inside(*argv) == (0, b"", "")
    for wrong in (["-n", "1001", *again[2:]], [*again, "--seed", "6"]):
        assert refused(inside(*argv, *wrong), 3, str(seen), wrong[-1] if "6" in wrong else "1001")


def test_no_input_is_read_when_another_is_missing(tmp_path: Path) -> None:
    code, out, err = dedup(tmp_path, b"a\n", tmp_path / "nowhere")
    assert (code, out) == (5, b"")
    assert is_one_line(err, str(tmp_path / "nowhere"))
    assert os.listdir(tmp_path) == ["in"]


def test_a_copy_of_the_filter_knows_the_same(tmp_path: Path) -> None:
    dedup(tmp_path, b"a\n")
    assert sorted(os.listdir(tmp_path)) == ["in", "seen"]
    shutil.copy(tmp_path / "seen", tmp_path / "copy")
    assert inside("dedup", tmp_path / "copy", tmp_path / "in") == (0, b"", "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_relative_outputs(here: Path, jobs: str) -> None:
    inputs = ["north/access.log", "south/./deep/access.log.gz", str(here / "top.log")]
    for number, name in enumerate(inputs):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        line = b"%d\n" % number
        Path(name).write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    command = ["dedup", "seen", *EXACT, "--output-dir", "out", "-j", jobs, *inputs]
    assert mmbloom(*command, "--relative") == (0, b"", "")
    full = str(here / "top.log").lstrip("/")
    written = {
        name: Path("out", name) for name in ("north/access.log", "south/deep/access.log", full)
    }
    assert [path.read_bytes() for path in written.values()] == [b"0\n", b"1\n", b"2\n"]


def test_relative_outputs_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder above that of the outputs is written to; and the way out is named where it is."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("../up.log", "a/same.log", "b/same.log"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(b"a\n")
    into = ["dedup", "seen", *EXACT, "--output-dir", "out"]
    for name in ("../up.log", "a/../../up.log"):
        assert refused(mmbloom(*into, "--relative", name), 2, name, "give the full path")
    done = mmbloom(*into, "a/same.log", "b/same.log")
    assert refused(done, 2, "give --relative to keep their folders")
    for options in ([], ["--relative"]):  # which keeps apart no two of one folder
        done = mmbloom(*into, *options, "a/same.log", "./a/same.log.gz")
        assert refused(done, 2, "would both be written to", "another run, with another folder")
        assert "give --relative" not in done.err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "options", [[], ["-k2"], ["--json-key", "a", "--empty", "whole"], ["-i"]], ids=str
)
def test_lines_of_windows(tmp_path: Path, options: list[str]) -> None:
    lines = b'{"a":1} x\r\n{"a":1} y\r\n\r\n\n{"a":1} x\n{"a":1} x\r'
    first = b'{"a":1} x\r\n{"a":1} y\r\n\r\n'
    with_it = mmbloom("dedup", tmp_path / "one", *EXACT, *options, "--crlf", stdin=lines)
    assert (with_it.code, with_it.out) == (0, first)
    without_it = mmbloom("dedup", tmp_path / "two", *EXACT, stdin=lines)
    assert len(without_it.out) > len(first)
    assert mmbloom("check", tmp_path / "one", *options, "--crlf", "-c", stdin=lines).out == b"6\n"


COMPOSITE: list[tuple[list[str], bytes]] = [
    (["-t", ",", "-k", "1,3"], b"ann,x,mon\nann,y,mon\nann,x,tue\nan,x,nmon\n"),
    (["-k", "1,3"], b"ann x mon\nann y mon\nann x tue\nan x nmon\n"),
    (
        ["--json-key", "a.b", "--json-key", "c"],
        (
            b'{"a":{"b":"ann"},"c":"mon"}\n{"c":"mon","a":{"b":"ann"}}\n'
            b'{"a":{"b":"ann"},"c":"tue"}\n{"a":{"b":"an"},"c":"nmon"}\n'
        ),
    ),
]


@pytest.mark.parametrize(
    ("options", "head", "row"),
    [
        (["--json-key", "é"], "", '{"é": 1}\n'),
        (["--csv", "-k", "é,b"], "é,b\n", "1,2\n"),
        (["-t", "é", "-k", "2"], "", "1éa\n"),
    ],
    ids=["member", "columns", "separator"],
)
def test_names_in_any_locale(tmp_path: Path, options: list[str], head: str, row: str) -> None:
    """Where Python reads arguments as ASCII, they choose the same keys, by the same rule."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "in").write_text(head + row * 3, encoding="utf-8")
    run = ["dedup", tmp_path / "seen", *EXACT, *options, tmp_path / "in"]
    assert started(*run, env=ascii_only) == (0, (head + row).encode(), "")
    assert mmbloom(*run) == (0, head.encode(), "")
    done = started("exclude", tmp_path / "seen", "--add", "é", env=ascii_only)
    assert (done.code, "codec" in done.err) == (0, False)


@pytest.mark.parametrize(("options", "lines"), COMPOSITE, ids=["-t -k", "-k", "--json-key"])
def test_several_fields_are_a_tuple(tmp_path: Path, options: list[str], lines: bytes) -> None:
    each, seen = lines.splitlines(keepends=True), exact_filter(tmp_path / "seen")
    done = mmbloom("dedup", seen, *options, stdin=lines)
    assert (done.code, done.out) == (0, each[0] + each[2] + each[3])
    known = [("ann", "mon"), ("ann", "tue"), ("an", "nmon")]
    with BloomFilter.open(seen) as marked:
        assert marked.contains_many(known).all()
        assert ("mon", "ann") not in marked
        assert b"annmon" not in marked
    with BloomFilter.create(tmp_path / "python", 1000, 1e-9, seed=1) as marked:
        marked.add_many(columns(["ann", "ann"], ["mon", "tue"]))
    done = mmbloom("dedup", tmp_path / "python", *options, stdin=lines)
    assert (done.code, done.out) == (0, each[3])


def test_several_fields_that_no_line_has(tmp_path: Path) -> None:
    done = mmbloom("dedup", tmp_path / "seen", *EXACT, "-t,", "-k1,3", stdin=b"a,b\n")
    assert is_one_line(
        done.err, "one of fields 1, 3 is missing or empty in every line: choose another"
    )
