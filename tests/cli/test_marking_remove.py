"""What is taken back: remove of counting filters, and exclude of any; what others do with both."""

import json
import os
import re
from pathlib import Path

import pytest
from checks import check_folder, contents
from cli_runner import EXACT, exact_filter, inside, is_one_line, mmbloom, refused

from mmbloom import BloomFilter, CountingBloomFilter


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    path, lines = tmp_path / "seen", tmp_path / "lines"
    lines.write_bytes(b"a\nb\nb\n")
    assert inside("create", path, "--counting", *EXACT) == (0, b"", "")
    assert inside("add", path, lines) == (0, b"", "")
    return path


def test_remove(counting: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    some.write_bytes(b"b\nc\n")
    with CountingBloomFilter.open(counting, "r") as seen:
        flushed_ns = seen.info().flushed_ns
    for code in (0, 0, 1):
        assert inside("remove", counting, some) == (code, b"", "")
    with CountingBloomFilter.open(counting, "r") as seen:
        assert seen.contains_many([b"a", b"b", b"c"]).tolist() == [True, False, False]
        assert seen.info().flushed_ns > flushed_ns
    done = mmbloom("remove", counting, "-t,", "-k2", stdin=b"x,a\n")
    assert (done.code, done.out) == (0, b"")
    assert is_one_line(done.err, 'was filled with the key rule "whole lines"')
    assert CountingBloomFilter.open(counting, "r").info().positions_set == 0


def test_check_info_verify_copy(counting: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"c\nb\n")
    assert inside("check", counting, lines) == (0, b"b\n", "")
    assert json.loads(inside("info", counting, "--json").out)["kind"] == "counters"
    assert b" counters\n" in inside("info", counting, "--recount").out
    assert inside("verify", counting, "--keys", lines).code == 1
    done = inside("verify", counting)
    assert (done.code, b"counters set" in done.out) == (0, True)
    copied = tmp_path / "copied"
    assert inside("copy", counting, copied, "--seal").code == 0
    assert inside("check", copied, lines).out == b"b\n"
    assert refused(inside("remove", copied, lines), 3, str(copied), "sealed")
    like = tmp_path / "like"
    assert inside("create", like, "--like", counting).code == 0
    BloomFilter.open(like).close()


OTHERS = {
    "dedup": ("{file}", "{lines}"),
    "dedup -n": ("{file}", "{lines}", *EXACT),
    "add -n": ("{file}", "{lines}", *EXACT),
    "merge": ("{new}", "{file}"),
    "intersect": ("{new}", "{file}"),
    "compare": ("{file}", "{file}"),
    "repair": ("{file}", "{new}"),
    "export": ("--guava", "{file}", "{new}"),
}


@pytest.mark.parametrize("command", OTHERS)
def test_others_refuse_counters(counting: Path, tmp_path: Path, command: str) -> None:
    names = {"file": counting, "lines": tmp_path / "lines", "new": tmp_path / "new"}
    before = counting.read_bytes()
    argv = [word.format(**names) for word in OTHERS[command]]
    done = inside(command.split(maxsplit=1)[0], *argv)
    assert refused(done, 3, str(counting), "is a counting filter", "copy --plain")
    assert counting.read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_remove_from_a_plain_filter(tmp_path: Path) -> None:
    plain, lines = tmp_path / "plain", tmp_path / "lines"
    lines.write_bytes(b"a\n")
    inside("add", plain, lines, *EXACT)
    done = inside("remove", plain, lines)
    assert refused(done, 3, str(plain), "plain filter", "create --counting")


def test_a_plain_copy(counting: Path, tmp_path: Path) -> None:
    """What counting filters are refused for, the plain one that is made of it is taken for."""
    plain, lines = tmp_path / "plain", tmp_path / "lines"
    assert inside("copy", "--plain", counting, plain) == (0, b"", "")
    for each in (counting, plain):
        assert inside("check", each, lines).out == lines.read_bytes()
    assert plain.stat().st_mode & 0o777 == 0o600
    assert inside("dedup", plain, lines) == (0, b"", "")
    done = inside("copy", "--plain", plain, tmp_path / "again")
    assert refused(done, 3, str(plain), "plain filter")


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    (tmp_path / "in").write_bytes(b"a\nb\nc\nb\n")
    path = exact_filter(tmp_path / "seen")
    with BloomFilter.open(path) as opened:
        opened.add_many(["a", "b"])
    return path


def test_add_list_remove(seen: Path) -> None:
    assert mmbloom("exclude", seen, "--list") == (1, b"", "")
    assert mmbloom("exclude", seen, "--add", "b", "C:\\new", "é\n") == (0, b"", "")
    assert mmbloom("exclude", seen, "--list").out.decode() == "b\nC:\\\\new\né\\n\n"
    assert Path(f"{seen}.exclusions").read_bytes() == mmbloom("exclude", seen, "--list").out
    assert mmbloom("exclude", seen, "--remove", "C:\\new", "other") == (0, b"", "")
    assert mmbloom("exclude", seen, "--remove", "other") == (1, b"", "")
    assert mmbloom("exclude", "--remove", seen, "b", "é\n") == (0, b"", "")
    check_folder(seen.parent, "in", "seen")


def test_lines_of_stdin(seen: Path) -> None:
    assert mmbloom("exclude", seen, "--add", stdin=b"b\n\n \xff\r\nlast") == (0, b"", "")
    with BloomFilter.open(seen) as opened:
        assert list(opened.exclusions) == [b"b", b"", b" \xff\r", b"last"]
    assert mmbloom("exclude", seen, "--remove", stdin=b"last\n\n") == (0, b"", "")
    assert mmbloom("exclude", seen, "--list").out == b"b\n\\x20\\xff\\r\n"


def test_keys_that_look_like_options(seen: Path) -> None:
    """After -- everything is a key, just as it stands; a number is one anyway."""
    assert inside("exclude", seen, "--add", "-5", "--", "-x", "--list", "./-y").code == 0
    assert inside("exclude", seen, "--list").out == b"-5\n-x\n--list\n./-y\n"
    assert inside("exclude", "--add", "--", seen, "-z").code == 0
    assert inside("exclude", seen, "--remove", "--", "--", "-x").code == 0
    assert inside("exclude", seen, "--list").out == b"-5\n--list\n./-y\n-z\n"


def test_keys_of_any_bytes(seen: Path) -> None:
    assert mmbloom("exclude", seen, "--add", os.fsdecode(b"\xff\xfe")).code == 0
    assert mmbloom("exclude", seen, "--list").out == b"\\xff\\xfe\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_dedup_in_several_processes(seen: Path, tmp_path: Path, jobs: str) -> None:
    for name in "xy":
        (tmp_path / name).write_bytes(b"1 a\n2 b\n3 b\n")
    out = tmp_path / "out"
    assert mmbloom("exclude", seen, "--add", "b") == (0, b"", "")
    argv = ("--output-dir", out, "-j", jobs, "-k", "2", tmp_path / "x", tmp_path / "y")
    assert mmbloom("dedup", seen, *argv) == (0, b"", "")
    assert [(out / name).read_bytes() for name in "xy"] == [b"2 b\n3 b\n"] * 2


def test_usage(seen: Path, tmp_path: Path) -> None:
    big = "k" * 2**20
    assert refused(mmbloom("exclude", seen, "--add", stdin=big.encode()), 2, "1048576 bytes")
    assert inside("exclude", tmp_path / "no", "--list").code == 3
    check_folder(tmp_path, "in", "seen")


def test_exclusions_of_a_filter_that_is_gone(seen: Path, tmp_path: Path) -> None:
    """A new filter is not made beside them: it would deny keys that it holds."""
    inside("exclude", seen, "--add", "b")
    seen.rename(tmp_path / "elsewhere")
    commands = [
        ("create", seen, "-n", "1000"),
        ("copy", tmp_path / "elsewhere", seen),
        ("dedup", seen, tmp_path / "in", *EXACT),
    ]
    for command in commands:
        assert refused(inside(*command), 5, f"{seen}.exclusions", "of a filter that is gone")
    check_folder(tmp_path, "elsewhere", "in", "seen.exclusions")


def test_filter_that_counts(tmp_path: Path) -> None:
    CountingBloomFilter.create(tmp_path / "counts", 1000).close()
    assert inside("exclude", tmp_path / "counts", "--add", "b").code == 0
    assert inside("exclude", tmp_path / "counts", "--list").out == b"b\n"


EACH_FORM = pytest.mark.parametrize("form", ["", "--growing", "--rotate"])


def made_of(form: str) -> Path:
    """A filter of one file or several that holds a and b; return the file of its exclusions."""
    Path("in").write_bytes(b"a\nb\nc\nb\n")
    sizes = ("-n", "1000", "-p", "1e-9", "--seed", "7")
    assert inside("create", "seen", *form.split(), *sizes) == (0, b"", "")
    assert mmbloom("add", "seen", stdin=b"a\nb\n") == (0, b"", "")
    return Path("seen", "exclusions") if form else Path("seen.exclusions")


@EACH_FORM
def test_every_command_goes_by_them(here: Path, form: str) -> None:
    listed = made_of(form)
    assert inside("exclude", "seen", "--list") == (1, b"", "")
    assert b"\nexclusions " not in inside("info", "seen").out
    assert b"exclusions" not in inside("verify", "seen").out
    assert inside("exclude", "seen", "--add", "b", "x\n") == (0, b"", "")
    assert inside("exclude", "seen/" if form else "seen", "--list") == (0, b"b\nx\\n\n", "")
    assert listed.read_bytes() == b"b\nx\\n\n"
    assert inside("check", "seen", "in").out == b"a\n"
    assert inside("check", "seen", "in", "-v").out == b"b\nc\nb\n"
    assert inside("check", "seen", "in", "-c").out == b"1\n"
    assert inside("dedup", "seen", "in").out == b"b\nc\nb\n"
    assert inside("dedup", "seen", "in", "-d").out == b"a\nc\n"
    assert re.search(rb"\nexclusions +2 keys", inside("info", "seen").out)
    found = inside("verify", "seen").out
    assert b"2 keys are excluded" in found
    assert b"not a file of this folder" not in found
    mended = inside("repair", "seen", "mended")
    assert (mended.code, mended.out, "3 keys added" in mended.err) == (0, b"", True)
    assert inside("check", "mended", "-c", "in").out == b"4\n"
    assert inside("exclude", "seen", "--remove", "b", "x\n", "y") == (0, b"", "")
    assert inside("exclude", "seen", "--remove", "b") == (1, b"", "")
    assert inside("check", "seen", "in").out == Path("in").read_bytes()
    assert inside("dedup", "seen", "in").out == b""
    assert not listed.exists()


@EACH_FORM
@pytest.mark.parametrize("options", ["", "--seal --permissions 640"])
def test_a_copy_has_them(here: Path, form: str, options: str) -> None:
    made_of(form)
    assert inside("exclude", "seen", "--add", "b") == (0, b"", "")
    assert inside("copy", "seen", "kept", *options.split()) == (0, b"", "")
    assert inside("check", "kept", "in").out == b"a\n"
    assert inside("exclude", "kept", "--list") == (0, b"b\n", "")
    listed = Path("kept", "exclusions") if form else Path("kept.exclusions")
    assert listed.stat().st_mode & 0o777 == (0o640 if options else 0o600)
    if options:
        assert refused(inside("exclude", "kept", "--add", "c"), 3, "sealed", "is read-only")


@EACH_FORM
def test_damaged_file(here: Path, form: str) -> None:
    listed = made_of(form)
    listed.write_bytes(b"fine\nwr\\ong\n")
    before = contents(here)
    for command in (
        *("check seen in", "dedup seen in", "add seen in", "info seen", "copy seen made"),
        *("exclude seen --list", "exclude seen --add x"),
    ):
        said = (str(here / listed), "line 2", r"'\\o' is not an escape", "correct that line")
        assert refused(inside(*command.split()), 3, *said)
    done = inside("verify", "seen")
    assert done.code == 1
    assert b"PROBLEM         exclusions cannot be read" in done.out
    assert str(here / listed).encode() in done.out
    assert contents(here) == before
