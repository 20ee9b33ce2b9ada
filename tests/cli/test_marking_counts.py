"""mmbloom dedup -c, -u, --repeats-to and --dry-run: lines counted, set apart, or only shown."""

import csv
import errno
import gzip
import io
import json
import os
import random
import subprocess
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from checks import contents
from cli_runner import (
    EXACT,
    FULL_DISK,
    inside,
    is_one_line,
    kill_at_random,
    mmbloom,
    refused,
    started,
)
from frames import held_by
from tally import Count

from mmbloom import BloomFilter
from mmbloom._system import disk
from mmbloom.logs import counts
from mmbloom.logs.dedup import Sink

SEEN = ["-n", "1e4", "-p", "1e-9"]


def counted(lines: list[bytes]) -> bytes:
    """What is expected: in the order in which lines come first."""
    return b"".join(b"%7d %b\n" % (number, line) for line, number in Counter(lines).items())


def test_as_uniq(here: Path) -> None:
    lines = [b"%d" % (i * i % 97) for i in range(3000)]
    data = [line + b"\n" for line in lines]
    Path("a").write_bytes(b"".join(data[:2000]))
    Path("b.gz").write_bytes(gzip.compress(b"".join(data[2000:])))
    done = inside("dedup", "seen", *SEEN, "-c", "a", "b.gz")
    assert done == (0, counted(lines), "")
    Path("all").write_bytes(b"".join(data))
    piped = "LC_ALL=C sort all | LC_ALL=C uniq -c | LC_ALL=C sort"
    uniq = subprocess.run(piped, shell=True, check=True, capture_output=True)
    assert b"".join(sorted(done.out.splitlines(keepends=True))) == uniq.stdout
    assert inside("dedup", "seen", "-c", "a", "b.gz") == (0, b"", "")


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        ([], b"old\nnew\nold\nnew\nnew", b"      3 new\n"),
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
def test_options(tmp_path: Path, options: list[str], data: bytes, expected: bytes) -> None:
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-9) as seen:
        seen.add("old")
    (tmp_path / "in").write_bytes(data)
    done = inside("dedup", tmp_path / "seen", "-c", *options, tmp_path / "in")
    assert done == (0, expected, "")


@pytest.mark.parametrize("option", ["-c", "-u"])
def test_new_lines_like_other_text(tmp_path: Path, option: str) -> None:
    """An input is checked as a whole; the few lines of it that are new may be like other text."""
    old, utf_16, old_mac = b"a line of a log\n" * 300, b"\0a\0b\0c\0d\0\n", b"1 %\r2 %\r3 %"
    number = b"      1 " if option == "-c" else b""
    (tmp_path / "in").write_bytes(old)
    assert inside("dedup", tmp_path / "seen", *EXACT, tmp_path / "in").code == 0
    for new in (utf_16, old_mac):
        (tmp_path / "in").write_bytes(old + new)
        found = inside("dedup", tmp_path / "seen", option, tmp_path / "in")
        assert found == (0, number + new, "")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("before", [None, b"", b"x\ny\n"], ids=["pipe", "file", "rest of a file"])
def test_stdin(here: Path, before: bytes | None, packed: bool) -> None:
    """It is read twice, whatever it is, from where it stands."""
    data = b"a\nb\na\n" * 50_000
    data = gzip.compress(data, 1) if packed else data
    Path("in").write_bytes((before or b"") + data)
    with Path("in").open("rb", buffering=0) as file:
        file.seek(len(before or b""))
        stdin = data if before is None else file
        found = mmbloom("dedup", "seen", *EXACT, "-c", "-", stdin=stdin)
    assert found == (0, b" 100000 a\n  50000 b\n", "")


def test_a_pipe_that_was_looked_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing decompresses, a pipe's first bytes are taken to see what they are."""
    monkeypatch.setattr("mmbloom._system.extras.has_zstd", lambda: False)
    found = mmbloom("dedup", "seen", *EXACT, "-c", stdin=b"ab\nab\nc\n")
    assert found == (0, b"      2 ab\n      1 c\n", "")


@FULL_DISK
def test_no_space_for_a_pipe(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = partial(Path("/dev/full").open, "r+b", buffering=0)
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    done = mmbloom("dedup", "seen", *EXACT, "-c", stdin=b"a\n")
    assert refused(
        done, 5, f"{tempfile.gettempdir()}: No space left on device: stdin is copied to this folder"
    )


# An input, what is in its place when one has been counted, what is printed, and by the next run.
CHANGES: list[tuple[bytes, bytes, bytes | None, bytes]] = [
    # What is appended after the count is left to the next run, and so is the rest of a line.
    (
        b"a\nb\na\nhal",
        b"a\nb\na\nhalf\na\nc\n",
        b"      2 a\n      1 b\n      1 hal",
        b"      1 half\n      1 c\n",
    ),
    # A line that was not counted ends the run; it is not marked.
    (b"a\nb\n", b"a\nx\n", None, b"      1 a\n      1 x\n"),
]


@pytest.mark.parametrize(("data", "changed", "printed", "later"), CHANGES, ids=["grows", "changes"])
def test_an_input_that_changes(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    changed: bytes,
    printed: bytes | None,
    later: bytes,
) -> None:
    """It does so when its lines are counted, before one is printed."""
    Path("in").write_bytes(data)
    real = counts.CountedWriter

    def change(sink: Sink, number: counts.LineCounts, end: bytes) -> counts.CountedWriter:
        Path("in").write_bytes(changed)
        return real(sink, number, end)

    with monkeypatch.context() as patch:
        patch.setattr(counts, "CountedWriter", change)
        done = inside("dedup", "seen", *EXACT, "-c", "in")
    if printed is None:
        assert refused(done, 5, "changed between counting and printing")
    else:
        assert done == (0, printed, "")
    assert inside("dedup", "seen", "-c", "in")[:2] == (0, later)


def test_appended_and_forced(here: Path) -> None:
    Path("in").write_bytes(b"a\nb\na\n")
    done = inside("dedup", "seen", *EXACT, "-c", "--durable", "--stats", "-o", "out", "in")
    assert (done.code, done.out) == (0, b"")
    assert '"lines": 3, "unique": 2' in done.err
    assert Path("out").read_bytes() == b"      2 a\n      1 b\n"


def test_lines_that_come_once(here: Path) -> None:
    """As of uniq -u; those that come again are marked too, and so are new to no later run."""
    lines = [b"%d" % (i * i % 97) for i in range(60)]
    Path("in").write_bytes(b"\n".join(lines) + b"\n")
    Path("later").write_bytes(b"\n".join([*lines, b"x"]) + b"\n")
    once = b"".join(line + b"\n" for line, number in Counter(lines).items() if number == 1)
    assert once
    assert inside("dedup", "seen", *EXACT, "-u", "in") == (0, once, "")
    assert inside("dedup", "seen", *EXACT, "-u", "later") == (0, b"x\n", "")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, beside that in which commands run."""
    for name in ("tmp", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "tmp"


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]])
def test_dry_run(temporary: Path, kind: list[str]) -> None:
    for lines, expected in ((b"a\nb\na\n", b"a\nb\n"), (b"b\nc\nc\n", b"c\n")):
        Path("in").write_bytes(lines)
        before = contents(".")
        assert inside("dedup", "seen", *EXACT, *kind, "--dry-run", "in") == (0, expected, "")
        assert contents(".") == before
        assert inside("dedup", "seen", *EXACT, *kind, "in") == (0, expected, "")
    assert not os.listdir(temporary)


def test_dry_run_tells_figures(here: Path) -> None:
    Path("in").write_bytes(b"a\nb\na\n")
    done = inside("dedup", "seen", *EXACT, "--dry-run", "--stats", "in")
    assert (done.code, done.out) == (0, b"a\nb\n")
    assert json.loads(done.err)["unique"] == 2
    Path("other").write_bytes(b"a\n")
    assert refused(inside("dedup", "in", "--dry-run", "other"), 3, "in: ")


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]])
def test_dry_run_names_the_filter(here: Path, kind: list[str]) -> None:
    """No message has the path of the copy, and none says that something is marked."""
    Path("in").write_bytes(b"a\nb\nc\n")
    sizes = ("-n", "2", "-p", "1e-9", *kind)
    for path in (Path("seen"), here / "seen"):
        code, out, err = inside("dedup", path, *sizes, "--dry-run", "in")
        if kind == ["--growing"]:
            assert (code, out, err) == (0, b"a\nb\nc\n", "")
            continue
        assert (code, out) == (6, b"a\nb\n")
        said = "mmbloom: dry run, nothing is marked; a real run would end with: "
        assert err.startswith(f"{said}{here / 'seen'}: is full: it holds about 2 keys")
        assert is_one_line(err, "stopped in in: only the printed lines are marked; ")
        assert kind or f"make room with mmbloom grow {here / 'seen'}, then run the same" in err
        assert tempfile.gettempdir() not in err.replace(str(here), "")
    assert os.listdir(here) == ["in"]


def test_dry_run_finds_what_a_run_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a run would refuse, in the same words and order."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_bytes(b"a\n")
    inside("create", "one", "-n", "100")
    inside("create", "many", "-n", "100", "--growing")
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
        dry, wet = (inside("dedup", *words.split(), *option) for option in (["--dry-run"], []))
        assert dry.code > 0
        assert (dry.code, dry.out) == (wet.code, wet.out), words
        # Some words name a filter as it was given, and some by its whole path.
        assert dry.err.replace(f"{tmp_path}/", "") == wet.err.replace(f"{tmp_path}/", ""), words
    assert sorted(os.listdir()) == ["in", "many", "one"]
    monkeypatch.chdir("many")
    for name in (".", "../many/", "../one"):
        assert inside("dedup", name, "--dry-run", "../in") == (0, b"a\n", "")


@pytest.mark.parametrize("kind", [[], ["--growing"]])
def test_dry_run_blames_the_temporary_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, kind: list[str]
) -> None:
    """A disk that is full under the copy is not the filter's; nor is a network's."""
    Path("in").write_bytes(b"a\n")
    sizes = ["-n", "1M", *kind]
    assert inside("dedup", "seen", *sizes, "in").code == 0

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(disk, "allocate", refuse)
        for name in ("seen", "new"):
            done = inside("dedup", name, *sizes, "--dry-run", "in")
            said = ("No space left on device", "set TMPDIR to another folder")
            assert refused(done, 5, f"mmbloom: {temporary}: ", *said)
    monkeypatch.setattr(
        disk, "file_system_type", lambda path: "nfs4" if "tmp/mmbloom-" in str(path) else "ext4"
    )
    done = inside("dedup", "seen", *sizes, "--dry-run", "in")
    assert refused(done, 5, f"mmbloom: {temporary}: is on a network file system: a dry run")
    assert not os.listdir(temporary)


def test_temporary_folder_given_relatively(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", ".")
    (here / "in").write_bytes(b"a\nb\n")
    done = started("dedup", "seen", "-n", "1", "-p", "1e-9", "--dry-run", "in")
    assert (done.code, done.out) == (6, b"a\n")
    seen = here / "seen"
    assert is_one_line(done.err, f"with: {seen}: is full", f"make room with mmbloom grow {seen}")


LINES = b"a\nb\na\nc\nb\na\n"


def test_each_line_is_in_one_of_the_two(here: Path) -> None:
    Path("one").write_bytes(LINES)
    Path("two").write_bytes(b"c\nd\nd")
    options = ["-o", "out", "--repeats-to", "rest", "--stats", *EXACT]
    done = mmbloom("dedup", "seen", "one", "two", *options)
    assert (done.code, done.out) == (0, b"")
    assert Path("out").read_bytes() == b"a\nb\nc\nd\n"
    assert Path("rest").read_bytes() == b"a\nb\na\nc\nd"
    figures = json.loads(done.err)
    assert (figures["unique"], figures["repeated"]) == (4, 5)
    assert mmbloom("dedup", "seen", "two", *options).code == 0
    assert Path("out").read_bytes() == b"a\nb\nc\nd\n"
    assert Path("rest").read_bytes() == b"a\nb\na\nc\nd\nc\nd\nd"


@pytest.mark.parametrize(
    ("options", "lines", "code", "new", "old"),
    [
        ("", LINES, 0, b"a\nb\nc\n", b"a\nb\na\n"),
        # A line that is skipped is printed nowhere else.
        ("-t, -k2 --empty skip", b"1,a\n2,\n3,a\n", 0, b"1,a\n", b"2,\n3,a\n"),
        (
            "--csv -ka",
            b'id,a\n1,"x\n"\n2,"x\n"\n',
            0,
            b'id,a\n1,"x\n"\n',
            b'id,a\n2,"x\n"\n',
        ),
        # Only lines up to the first that does not fit are in one of the two.
        ("-n2", b"a\na\nb\nb\nc\nc\n", 6, b"a\nb\n", b"a\nb\n"),
    ],
    ids=["lines", "without a key", "rows have a header in both", "full"],
)
def test_to_stdout_and_a_file(
    here: Path, options: str, lines: bytes, code: int, new: bytes, old: bytes
) -> None:
    argv = ("dedup", "seen", "--repeats-to", "rest", *EXACT, *options.split())
    done = mmbloom(*argv, stdin=lines)
    assert (done.code, done.out, Path("rest").read_bytes()) == (code, new, old)
    if not options:
        more = ["-o", "out", "--repeats-to", "rest", "--durable"]
        assert mmbloom("dedup", "seen", *more, stdin=b"d\nd\n").code == 0
        assert (Path("out").read_bytes(), Path("rest").read_bytes()) == (b"d\n", old + b"d\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_folders(here: Path, jobs: str) -> None:
    Path("one").write_bytes(b"a\na\n")
    Path("two").write_bytes(b"b\nb\nb\n")
    folders = ["--output-dir", "new", "--repeats-to", "old/deep"]
    done = mmbloom("dedup", "seen", "one", "two", *folders, "-j", jobs, *EXACT)
    assert (done.code, done.err) == (0, "")
    assert Path("new/one").read_bytes() == b"a\n"
    assert Path("old/deep/two").read_bytes() == b"b\nb\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o out --repeats-to seen", "is the filter"),
        ("-o out --repeats-to in", "is the same file"),
        ("-o out --repeats-to out", "is the output"),
        ("--dry-run --repeats-to out", "--dry-run"),
    ],
)
def test_files_that_are_in_use(here: Path, options: str, said: str) -> None:
    Path("in").write_bytes(LINES)
    done = mmbloom("dedup", "seen", "in", *options.split(), *EXACT)
    assert (done.code, said in done.err) == (2, True)


@FULL_DISK
def test_a_second_file_that_cannot_be_written(here: Path) -> None:
    """Nothing of the chunk is marked then: the lines come again."""
    done = mmbloom("dedup", "seen", "--repeats-to", "/dev/full", *EXACT, stdin=LINES)
    assert done.code != 0
    assert is_one_line(done.err, "/dev/full: No space left on device")
    assert mmbloom("check", "seen", "-c", stdin=LINES).out == b"0\n"


@pytest.mark.stress
@pytest.mark.laws("T15")
@pytest.mark.parametrize("endings", [(".new", ".old"), (".zst", ".gz")])
def test_killed_at_random(
    tmp_path: Path, seed: int, stress: int, tally: Count, endings: tuple[str, str]
) -> None:
    """After kills amid a run, and a run that ends: each row is in one of the two files, or both."""
    rng, hits = random.Random(seed), 0
    text = io.StringIO(newline="")
    values = [f'{rng.randrange(20_000)}, "\nof many' for _ in range(60_000)]
    csv.writer(text).writerows([("id", "value"), *enumerate(values)])
    (tmp_path / "in.csv").write_bytes(text.getvalue().encode())
    for number in range(20 * stress):
        seen, out, rest = (tmp_path / f"{number}{ending}" for ending in (".seen", *endings))
        argv = ["dedup", seen, tmp_path / "in.csv", "--csv", "-k", "value", *EXACT]
        argv += ["-o", out, "--repeats-to", rest]
        kills = sum(kill_at_random(argv, rng, [out, rest], 0.02) for _ in range(2))
        assert mmbloom(*argv).code == 0
        texts = [io.StringIO(held_by(path).decode(), newline="") for path in (out, rest)]
        found = [list(csv.reader(text)) for text in texts]
        assert [rows[0] for rows in found] == [["id", "value"]] * 2
        rows = [{tuple(row) for row in some[1:]} for some in found]
        whole = {(str(place), value) for place, value in enumerate(values)}
        assert whole <= rows[0] | rows[1]
        assert {value for _, value in rows[0] & whole} == {*values}
        cut_off = len((rows[0] | rows[1]) - whole)
        assert cut_off <= (2 * kills if endings[0] == ".new" else 0)  # none, where frames are whole
        tally(kills=kills, rows=len(whole), cut_off=cut_off)
        hits += kills > 0
        if hits == stress:
            break
    assert hits == stress
