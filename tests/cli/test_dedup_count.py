"""mmbloom dedup -c and -u: the number of lines that have a key; --dry-run marks nothing."""

import errno
import gzip
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli_runner import EXACT, inside, is_one_line, mmbloom, started

from mmbloom import BloomFilter
from mmbloom._system import proc
from mmbloom.logs import counts
from mmbloom.logs.dedup import Sink

Capture = pytest.CaptureFixture[bytes]
SEEN = ["-n", "1e4", "-p", "1e-9"]


def counted(lines: list[bytes]) -> bytes:
    """What is expected: in the order in which lines come first."""
    return b"".join(b"%7d %b\n" % (number, line) for line, number in Counter(lines).items())


def test_as_uniq(tmp_path: Path, capfdbinary: Capture) -> None:
    """Sorted, it is what sort and uniq give; over several inputs, compressed ones too."""
    lines = [b"%d" % (i * i % 97) for i in range(3000)]
    (tmp_path / "a").write_bytes(b"".join(line + b"\n" for line in lines[:2000]))
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.writelines(line + b"\n" for line in lines[2000:])
    inputs = [tmp_path / "a", tmp_path / "b.gz"]
    code, out, err = inside(capfdbinary, "dedup", tmp_path / "seen", *SEEN, "-c", *inputs)
    assert (code, out, err) == (0, counted(lines), "")
    (tmp_path / "all").write_bytes(b"".join(line + b"\n" for line in lines))
    uniq = subprocess.run(
        f"LC_ALL=C sort '{tmp_path}/all' | LC_ALL=C uniq -c | LC_ALL=C sort",
        shell=True,
        check=True,
        capture_output=True,
    )
    assert b"".join(sorted(out.splitlines(keepends=True))) == uniq.stdout
    assert inside(capfdbinary, "dedup", tmp_path / "seen", "-c", *inputs) == (0, b"", "")


def test_only_new_lines(tmp_path: Path, capfdbinary: Capture) -> None:
    """What an earlier run knew is not printed; the number is that of this run's inputs."""
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-9) as seen:
        seen.add("old")
    (tmp_path / "in").write_bytes(b"old\nnew\nold\nnew\nnew")
    code, out, _ = inside(capfdbinary, "dedup", tmp_path / "seen", "-c", tmp_path / "in")
    assert (code, out) == (0, b"      3 new\n")


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        (["-k1"], b"a 1\nb 2\na 3\n", b"      2 a 1\n      1 b 2\n"),
        (["-i"], b"a\nA\nb", b"      2 a\n      1 b"),
        (["-z"], b"a\nb\0a\nb\0c\0", b"      2 a\nb\0      1 c\0"),
        (["-u"], b"a\nb\na\nc", b"      1 b\n      1 c"),
        (["-u"], b"b\nc\na\na", b"      1 b\n      1 c\n"),
        (["--crlf"], b"a\r\na\n", b"      2 a\r\n"),
        (["--count"], b"", b""),
        (["--count"], b"\n\n", b"      2 \n"),
    ],
)
def test_options(
    tmp_path: Path, capfdbinary: Capture, options: list[str], data: bytes, expected: bytes
) -> None:
    """The key is what counts; the line is what is printed."""
    (tmp_path / "in").write_bytes(data)
    seen, path = tmp_path / "seen", tmp_path / "in"
    assert inside(capfdbinary, "dedup", seen, *EXACT, "-c", *options, path) == (0, expected, "")


@pytest.mark.parametrize("option", ["-c", "-u"])
def test_new_lines_like_other_text(tmp_path: Path, capfdbinary: Capture, option: str) -> None:
    """An input is checked as a whole; the few lines of it that are new may be like other text."""
    old, utf_16, old_mac = b"a line of a log\n" * 300, b"\0a\0b\0c\0d\0\n", b"1 %\r2 %\r3 %"
    number = b"      1 " if option == "-c" else b""
    (tmp_path / "in").write_bytes(old)
    assert inside(capfdbinary, "dedup", tmp_path / "seen", *EXACT, tmp_path / "in").code == 0
    for new in (utf_16, old_mac):
        (tmp_path / "in").write_bytes(old + new)
        found = inside(capfdbinary, "dedup", tmp_path / "seen", option, tmp_path / "in")
        assert found == (0, number + new, "")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["pipe", "file", "rest of a file"])
def test_stdin(tmp_path: Path, kind: str, packed: bool) -> None:
    """It is read twice, whatever it is, from where it stands."""
    data = b"a\nb\na\n" * 50_000
    data = gzip.compress(data, 1) if packed else data
    expected = b" 100000 a\n  50000 b\n"
    arguments = ("dedup", tmp_path / "seen", *EXACT, "-c", "-")
    if kind == "pipe":
        found = mmbloom(*arguments, stdin=data)
    else:
        before = b"x\ny\n" if kind == "rest of a file" else b""
        (tmp_path / "in").write_bytes(before + data)
        with (tmp_path / "in").open("rb", buffering=0) as file:
            os.lseek(file.fileno(), len(before), os.SEEK_SET)
            found = mmbloom(*arguments, stdin=file)
    assert found == (0, expected, "")


def test_a_pipe_that_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing decompresses, a pipe's first bytes are taken to see what they are."""
    monkeypatch.setattr("mmbloom._system.extras.has_zstd", lambda: False)
    found = mmbloom("dedup", tmp_path / "seen", *EXACT, "-c", stdin=b"ab\nab\nc\n")
    assert found == (0, b"      2 ab\n      1 c\n", "")


def test_no_space_for_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where a pipe is kept, and why."""
    monkeypatch.setattr(
        "tempfile.TemporaryFile", partial(Path("/dev/full").open, "r+b", buffering=0)
    )
    code, out, err = mmbloom("dedup", tmp_path / "seen", *EXACT, "-c", stdin=b"a\n")
    assert (code, out) == (5, b"")
    assert is_one_line(err)
    assert f"{tempfile.gettempdir()}: No space left on device: stdin is kept here" in err


def counted_then_changed(
    capture: Capture, monkeypatch: pytest.MonkeyPatch, path: Path, change: Callable[[], object]
) -> tuple[int, bytes, str]:
    """Run on an input that changes when its lines are counted, before one is printed."""

    real = counts.CountedWriter

    def changed(sink: Sink, number: counts.LineCounts, end: bytes) -> counts.CountedWriter:
        change()
        return real(sink, number, end)

    with monkeypatch.context() as patch:
        patch.setattr(counts, "CountedWriter", changed)
        return inside(capture, "dedup", path.with_name("seen"), *EXACT, "-c", path)


def test_an_input_that_grows(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended after the count is left to the next run, and so is the rest of a line."""
    path = tmp_path / "in"
    path.write_bytes(b"a\nb\na\nhal")

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"f\na\nc\n")

    found = counted_then_changed(capfdbinary, monkeypatch, path, grow)
    assert found == (0, b"      2 a\n      1 b\n      1 hal", "")
    code, out, _ = inside(capfdbinary, "dedup", tmp_path / "seen", "-c", path)
    assert (code, out) == (0, b"      1 half\n      1 c\n")


def test_an_input_that_changes(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that was not counted ends the run; it is not marked."""
    path = tmp_path / "in"
    path.write_bytes(b"a\nb\n")
    change = partial(path.write_bytes, b"a\nx\n")
    code, out, err = counted_then_changed(capfdbinary, monkeypatch, path, change)
    assert (code, out) == (5, b"")
    assert is_one_line(err)
    assert "has changed between counting and printing" in err
    code, out, _ = inside(capfdbinary, "dedup", tmp_path / "seen", "-c", path)
    assert (code, out) == (0, b"      1 a\n      1 x\n")


@pytest.mark.parametrize(
    "options",
    [
        ["-c", "-d"],
        ["-u", "-d"],
        ["-c", "--output-dir", "out"],
        ["-u", "--output-dir", "out"],
        ["--dry-run", "--output-dir", "out"],
        ["--dry-run", "-o", "out"],
    ],
)
def test_not_together(tmp_path: Path, capfdbinary: Capture, options: list[str]) -> None:
    """Refused before anything is made."""
    (tmp_path / "in").write_bytes(b"a\n")
    code, out, err = inside(
        capfdbinary, "dedup", tmp_path / "seen", *EXACT, *options, tmp_path / "in"
    )
    assert (code, out) == (2, b"")
    assert options[0] in err
    assert os.listdir(tmp_path) == ["in"]


def test_appended_and_forced(tmp_path: Path, capfdbinary: Capture) -> None:
    """With -o and --durable, and figures of what was printed."""
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    arguments = ("-c", "--durable", "--stats", "-o", tmp_path / "out", tmp_path / "in")
    code, out, err = inside(capfdbinary, "dedup", tmp_path / "seen", *EXACT, *arguments)
    assert (code, out) == (0, b"")
    assert '"lines": 3, "unique": 2' in err
    assert (tmp_path / "out").read_bytes() == b"      2 a\n      1 b\n"


def test_lines_that_come_once(tmp_path: Path, capfdbinary: Capture) -> None:
    """As of uniq -u; those that come again are marked too, and so are new to no later run."""
    lines = [b"%d" % (i * i % 97) for i in range(60)]
    (tmp_path / "in").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "later").write_bytes(b"\n".join([*lines, b"x"]) + b"\n")
    once = b"".join(line + b"\n" for line, number in Counter(lines).items() if number == 1)
    assert once
    arguments = ("dedup", tmp_path / "seen", *EXACT, "-u")
    assert inside(capfdbinary, *arguments, tmp_path / "in") == (0, once, "")
    assert inside(capfdbinary, *arguments, tmp_path / "later") == (0, b"x\n", "")


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]])
def test_dry_run(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, kind: list[str]
) -> None:
    """It prints what a run would print, and then the run prints it; nothing is left."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    (tmp_path / "more").write_bytes(b"b\nc\nc\n")
    arguments: list[str | Path] = ["dedup", tmp_path / "seen", *EXACT, *kind]
    for path, expected in ((tmp_path / "in", b"a\nb\n"), (tmp_path / "more", b"c\n")):
        before = state_of(tmp_path)
        assert inside(capfdbinary, *arguments, "--dry-run", path) == (0, expected, "")
        assert state_of(tmp_path) == before
        assert inside(capfdbinary, *arguments, path) == (0, expected, "")
    assert not [*(tmp_path / "tmp").iterdir()]


def test_dry_run_tells_figures(tmp_path: Path, capfdbinary: Capture) -> None:
    """Those that a run would give; and what is no filter is an error that names it."""
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    arguments = ("dedup", tmp_path / "seen", *EXACT, "--dry-run", "--stats", tmp_path / "in")
    code, out, err = inside(capfdbinary, *arguments)
    assert (code, out) == (0, b"a\nb\n")
    assert json.loads(err)["unique"] == 2
    (tmp_path / "other").write_bytes(b"a\n")
    code, out, err = inside(capfdbinary, "dedup", tmp_path / "in", "--dry-run", tmp_path / "other")
    assert (code, out) == (3, b"")
    assert is_one_line(err)
    assert str(tmp_path / "in") in err


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]])
def test_dry_run_names_the_filter(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, kind: list[str]
) -> None:
    """No message has the path of the copy, and none says that something is marked."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_bytes(b"a\nb\nc\n")
    sizes = ("-n", "2", "-p", "1e-9", *kind)
    for path in (Path("seen"), tmp_path / "seen"):
        code, out, err = inside(capfdbinary, "dedup", path, *sizes, "--dry-run", "in")
        if kind == ["--growing"]:
            assert (code, out, err) == (0, b"a\nb\nc\n", "")
            continue
        assert (code, out) == (6, b"a\nb\n")
        said = "mmbloom: nothing is marked, as this is a dry run; a run would end so: "
        assert err.startswith(f"{said}{tmp_path / 'seen'}: is full: it holds about 2 keys")
        assert is_one_line(err, "stopped in in: what is printed is marked, and nothing else; ")
        assert kind or f"mmbloom grow {tmp_path / 'seen'} makes room: then run the same" in err
        assert tempfile.gettempdir() not in err.replace(str(tmp_path), "")
    assert os.listdir(tmp_path) == ["in"]


def test_dry_run_finds_what_a_run_would(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a run would refuse, in the same words and order."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_bytes(b"a\n")
    inside(capfdbinary, "create", "one", "-n", "100")
    inside(capfdbinary, "create", "many", "-n", "100", "--growing")
    for words in (
        "one -n 100 -p 0.5 in",
        "many -n 7 in",
        "one one",
        "one no-input",
        "in in",
        "in one",
        "no-filter in",
        "./no-filter in",
        "no-filter no-input",
        "no-filter -c -d in",
        "no-filter -p 0.1 in",
        "no-filter --growing in",
        "no/filter in",
        "no/filter -n 7 in",
        f"{tmp_path}/no-filter in",
        f"{tmp_path}/no/filter -n 7 in",
    ):
        dry, wet = (
            inside(capfdbinary, "dedup", *words.split(), *option) for option in (["--dry-run"], [])
        )
        assert dry.code > 0
        assert (dry.code, dry.out) == (wet.code, wet.out), words
        # Some words name a filter as it was given, and some by its whole path.
        assert dry.err.replace(f"{tmp_path}/", "") == wet.err.replace(f"{tmp_path}/", ""), words
    assert sorted(os.listdir()) == ["in", "many", "one"]
    monkeypatch.chdir("many")
    for name in (".", "../many/", "../one"):
        assert inside(capfdbinary, "dedup", name, "--dry-run", "../in") == (0, b"a\n", "")


@pytest.mark.parametrize("kind", [[], ["--growing"]])
def test_dry_run_blames_the_temporary_folder(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, kind: list[str]
) -> None:
    """A disk that is full under the copy is not the filter's; nor is a network's."""
    (tmp_path / "in").write_bytes(b"a\n")
    arguments: list[str | Path] = ["dedup", tmp_path / "seen", "-n", "1M", *kind]
    assert inside(capfdbinary, *arguments, tmp_path / "in").code == 0
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", refuse)
        for path in (tmp_path / "seen", tmp_path / "new"):
            argv = [arguments[0], path, *arguments[2:], "--dry-run", tmp_path / "in"]
            code, out, err = inside(capfdbinary, *argv)
            assert (code, out) == (5, b"")
            assert is_one_line(err, f"mmbloom: {tmp_path / 'tmp'}: ", "No space left on device")
            assert "set TMPDIR to another folder" in err
    monkeypatch.setattr(
        proc, "file_system_type", lambda path: "nfs4" if "tmp/mmbloom-" in str(path) else "ext4"
    )
    code, out, err = inside(capfdbinary, *arguments, "--dry-run", tmp_path / "in")
    assert (code, out) == (5, b"")
    assert is_one_line(err, f"mmbloom: {tmp_path / 'tmp'}: is on a network file system: a dry run")
    assert not os.listdir(tmp_path / "tmp")


def test_temporary_folder_given_relatively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TMPDIR=. as well no message has the path of the copy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", ".")
    (tmp_path / "in").write_bytes(b"a\nb\n")
    done = started("dedup", "seen", "-n", "1", "-p", "1e-9", "--dry-run", "in")
    assert (done.code, done.out) == (6, b"a\n")
    seen = tmp_path / "seen"
    assert is_one_line(done.err, f"so: {seen}: is full", f"mmbloom grow {seen} makes room")
