"""mmbloom exclude: exclusions listed, added and removed; check and dedup go by them."""

import os
from pathlib import Path

import pytest
from checks import check_folder
from cli_runner import EXACT, exact_filter, inside, is_one_line, mmbloom, refused

from mmbloom import BloomFilter, CountingBloomFilter, copy


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


def test_check_and_dedup(seen: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    assert inside("exclude", seen, "--add", "b").code == 0
    assert inside("check", seen, source).out == b"a\n"
    assert inside("check", seen, source, "-v").out == b"b\nc\nb\n"
    assert inside("check", seen, source, "-c").out == b"1\n"
    assert inside("dedup", seen, source).out == b"b\nc\nb\n"
    assert inside("dedup", seen, source, "-d").out == b"a\nc\n"
    assert inside("exclude", seen, "--remove", "b").code == 0
    assert inside("dedup", seen, source).out == b""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_dedup_in_several_processes(seen: Path, tmp_path: Path, jobs: str) -> None:
    for name in "xy":
        (tmp_path / name).write_bytes(b"1 a\n2 b\n3 b\n")
    out = tmp_path / "out"
    assert mmbloom("exclude", seen, "--add", "b") == (0, b"", "")
    argv = ("--output-dir", out, "-j", jobs, "-k", "2", tmp_path / "x", tmp_path / "y")
    assert mmbloom("dedup", seen, *argv) == (0, b"", "")
    assert [(out / name).read_bytes() for name in "xy"] == [b"2 b\n3 b\n"] * 2


def test_info_verify_and_copy(seen: Path, tmp_path: Path) -> None:
    assert b"\nexclusions " not in inside("info", seen).out
    assert b"exclusions" not in inside("verify", seen).out
    inside("exclude", seen, "--add", "b", "x")
    assert b"\nexclusions      2 keys" in inside("info", seen).out
    assert b"2 keys are excluded" in inside("verify", seen).out
    for options in ([], ["--seal", "--permissions", "640"]):
        made = tmp_path / f"copy{len(options)}"
        assert inside("copy", seen, made, *options) == (0, b"", "")
        assert inside("check", made, tmp_path / "in").out == b"a\n"
        mode = os.stat(made).st_mode
        assert os.stat(f"{made}.exclusions").st_mode == mode


def test_damaged_file(seen: Path, tmp_path: Path) -> None:
    path = Path(f"{seen}.exclusions")
    path.write_bytes(b"fine\nwr\\ong\n")
    before = seen.read_bytes()
    commands: list[tuple[str | Path, ...]] = [
        ("check", seen, tmp_path / "in"),
        ("dedup", seen, tmp_path / "in"),
        ("add", seen, tmp_path / "in"),
        ("info", seen),
        ("copy", seen, tmp_path / "c"),
        ("exclude", seen, "--list"),
        ("exclude", seen, "--add", "x"),
    ]
    for command in commands:
        done = inside(*command)
        assert (done.code, done.out) == (3, b""), command
        assert is_one_line(
            done.err, str(path), "line 2", r"'\\o' is no escape", "correct that line"
        )
    done = inside("verify", seen)
    assert done.code == 1
    assert b"PROBLEM         exclusions cannot be read" in done.out
    assert str(path).encode() in done.out
    assert seen.read_bytes() == before
    assert path.read_bytes() == b"fine\nwr\\ong\n"
    check_folder(tmp_path, "in", "seen", "seen.exclusions")


def test_usage(seen: Path, tmp_path: Path) -> None:
    big = "k" * 2**20
    assert refused(mmbloom("exclude", seen, "--add", stdin=big.encode()), 2, "1048576 bytes")
    assert inside("exclude", tmp_path / "no", "--list").code == 3
    check_folder(tmp_path, "in", "seen")


def test_sealed(seen: Path, tmp_path: Path) -> None:
    inside("exclude", seen, "--add", "b")
    copy(seen, tmp_path / "sealed", seal=True)
    assert inside("exclude", tmp_path / "sealed", "--list") == (0, b"b\n", "")
    done = inside("exclude", tmp_path / "sealed", "--add", "c")
    assert refused(done, 3, "sealed", "cannot be written")


def test_exclusions_of_a_filter_that_is_gone(seen: Path, tmp_path: Path) -> None:
    """A new filter is not made beside them: it would deny keys that it holds."""
    inside("exclude", seen, "--add", "b")
    seen.rename(tmp_path / "elsewhere")
    commands: list[tuple[str | Path, ...]] = [
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


@pytest.mark.parametrize("made", ["--growing", "--rotate"])
def test_folder(tmp_path: Path, made: str) -> None:
    seen, source, kept = tmp_path / "seen", tmp_path / "in", tmp_path / "kept"
    source.write_bytes(b"a\nb\nc\nb\n")
    assert inside("create", seen, made, "-n", "1000", "-p", "1e-9") == (0, b"", "")
    assert inside("add", seen, source) == (0, b"", "")
    assert inside("exclude", seen, "--list") == (1, b"", "")
    assert inside("exclude", seen, "--add", "b", "x\n") == (0, b"", "")
    assert inside("exclude", f"{seen}/", "--list") == (0, b"b\nx\\n\n", "")
    assert (seen / "exclusions").read_bytes() == b"b\nx\\n\n"
    assert inside("check", seen, source).out == b"a\nc\n"
    assert inside("dedup", seen, source).out == b"b\nb\n"
    assert b"\nexclusions       2 keys" in inside("info", seen).out
    found = inside("verify", seen).out
    assert b"2 keys are excluded" in found
    assert b"none of the folder's files" not in found
    assert inside("copy", seen, kept, "--seal", "--permissions", "640") == (0, b"", "")
    assert inside("check", kept, source).out == b"a\nc\n"
    assert (kept / "exclusions").stat().st_mode & 0o777 == 0o640
    assert "sealed" in inside("exclude", kept, "--add", "c").err
    mended = inside("repair", seen, tmp_path / "mended")
    assert (mended.code, mended.out, "3 keys added" in mended.err) == (0, b"", True)
    assert inside("check", tmp_path / "mended", "-c", source).out == b"4\n"
    assert inside("exclude", seen, "--remove", "b", "x\n", "y") == (0, b"", "")
    assert inside("exclude", seen, "--remove", "b") == (1, b"", "")
    assert inside("check", seen, source).out == source.read_bytes()
    assert not (seen / "exclusions").exists()


@pytest.mark.parametrize("made", ["--growing", "--rotate"])
def test_damaged_file_of_a_folder(tmp_path: Path, made: str) -> None:
    seen, source = tmp_path / "seen", tmp_path / "in"
    source.write_bytes(b"a\n")
    assert inside("create", seen, made, "-n", "1000") == (0, b"", "")
    assert inside("add", seen, source) == (0, b"", "")
    (seen / "exclusions").write_bytes(b"fine\nwr\\ong\n")
    commands: list[tuple[str | Path, ...]] = [
        *(("check", seen, source), ("dedup", seen, source), ("add", seen, source)),
        *(("info", seen), ("copy", seen, tmp_path / "c"), ("exclude", seen, "--list")),
    ]
    for command in commands:
        done = inside(*command)
        assert (done.code, done.out) == (3, b""), command
        assert is_one_line(done.err, f"{seen}/exclusions", "line 2", "correct that line")
    done = inside("verify", seen)
    assert (done.code, b"PROBLEM         exclusions cannot be read" in done.out) == (1, True)
    check_folder(tmp_path, "in", "seen")
