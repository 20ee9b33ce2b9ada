"""Errors of the command line: the exit code of each kind, one line that says what to do."""

import argparse
import errno
import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import has
import pytest
from checks import contents
from cli_runner import (
    COMMAND,
    EXACT,
    FULL_DISK,
    Ended,
    answers,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    refused,
    running,
    started,
)
from workers import PATIENCE

from mmbloom import BloomFilter, GrowingFilter, export_guava


def newer(path: Path) -> None:
    raw = bytearray(exact_filter(path).read_bytes())
    struct.pack_into("<I", raw, 8, 2)
    struct.pack_into("<I", raw, 508, zlib.crc32(raw[:508]))
    path.write_bytes(raw)


NO_FILTERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (str, "no such filter"),
    "empty": (lambda path: path.touch(), "0 bytes"),
    "text": (lambda path: path.write_text("a line\n" * 1000), "is not a filter"),
    "short text": (
        lambda path: path.write_text("a line\n"),
        "is not a filter: it begins with b'a line",
    ),
    "folder": (lambda path: path.mkdir(), "folder"),
    "fifo": (os.mkfifo, "regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "expected "),
    "truncated": (lambda path: os.truncate(exact_filter(path), 5000), "5000"),
    "extended": (lambda path: os.truncate(exact_filter(path), 5_000_000), "5000000"),
    "only a header": (lambda path: os.truncate(exact_filter(path), 4096), "4096"),
    "newer": (newer, "newer"),
}


# Commands that read the filter "bad"; beside it are a filter and a file of lines.
READING = [
    "add bad in",
    "check bad in",
    "compare bad seen",
    "compare seen bad",
    "copy bad new",
    "create new --like bad",
    "dedup bad in",
    "exclude bad --list",
    "export --guava bad new",
    "grow bad",
    "info bad",
    "intersect new seen bad",
    "merge new bad seen",
    "merge new seen bad",
    "remove bad in",
    "verify bad",
]


@pytest.mark.parametrize(("make", "reason"), NO_FILTERS.values(), ids=NO_FILTERS)
@pytest.mark.parametrize("command", READING)
def test_not_a_usable_filter(
    here: Path, command: str, make: Callable[[Path], object], reason: str
) -> None:
    Path("in").write_bytes(b"a\n")
    exact_filter("seen")
    make(Path("bad"))
    before = contents(here)
    assert refused(inside(*command.split()), 3, "bad", reason)
    assert contents(here) == before


INPUTS = {
    "missing": ("nowhere", "No such file"),
    "missing, zipped": ("nowhere.gz", "No such file"),
    "below a file": ("file/below", "Not a directory"),
    "folder": ("folder", "irectory"),
    **({"that cannot be read": ("/proc/self/mem", os.strerror(errno.EIO))} if has.PROC else {}),
}


@pytest.mark.parametrize(("name", "reason"), INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("command", ["dedup", "add", "check"])
def test_inputs_that_cannot_be_read(tmp_path: Path, command: str, name: str, reason: str) -> None:
    (tmp_path / "file").write_bytes(b"a\n")
    (tmp_path / "folder").mkdir()
    seen = exact_filter(tmp_path / "seen")
    assert refused(inside(command, seen, tmp_path / name), 5, str(tmp_path / name), reason)


@pytest.mark.parametrize("name", ["nowhere/out", "file/out", "folder"])
def test_outputs_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"a\n")
    (tmp_path / "folder").mkdir()
    argv = ("dedup", tmp_path / "seen", tmp_path / "file", *EXACT)
    done = inside(*argv, "-o", tmp_path / name)
    assert refused(done, 5, str(tmp_path / name))
    if name == "nowhere/out":
        assert done.err == f"mmbloom: {tmp_path / name}: No such file or directory\n"
        assert not (tmp_path / "seen").exists()
    assert inside(*argv).out == b"a\n"


# Commands that make a filter, or a file of another program, of the filter "seen".
MAKING = [
    "add {} in -n 10",
    "copy seen {}",
    "create {} -n 10",
    "create {} -n 10 --counting",
    "create {} -n 10 --growing",
    "create {} -n 10 --reserve=zeros",
    "create {} -n 10 --rotate",
    "create {} --like seen",
    "dedup {} in -n 10",
    "export --guava seen {}",
    "import --guava theirs {}",
    "intersect {} seen seen",
    "merge {} seen seen",
    "repair seen {}",
]


@pytest.fixture
def home(here: Path) -> Path:
    """A folder to run commands in, with a filter, the same as Guava's, and a file of lines."""
    BloomFilter.create("seen", 1000, layout="standard", hash="murmur3", seed=0).close()
    export_guava("seen", "theirs")
    Path("in").write_bytes(b"a\n")
    return here


@pytest.mark.parametrize("folder", ["nowhere", "in", *["/sys"] * has.PROC])
@pytest.mark.parametrize("command", MAKING)
def test_filters_that_cannot_be_made(home: Path, command: str, folder: str) -> None:
    before = contents(home)
    done = inside(*command.format(f"{folder}/new").split())
    assert refused(done, 5, str(home / folder))
    assert ".mmbloom-" not in done.err
    if folder == "nowhere":
        assert done.err == f"mmbloom: {home}/nowhere: No such file or directory\n"
    assert contents(home) == before


@pytest.mark.parametrize("there", ["in", "seen", "link", "folder", "grown"])
@pytest.mark.parametrize("command", [one for one in MAKING if one[:3] not in {"add", "ded"}])
def test_what_is_there_stays(home: Path, command: str, there: str) -> None:
    Path("link").symlink_to("nowhere")
    Path("folder").mkdir()
    GrowingFilter.create("grown", 10).close()
    before = contents(home)
    assert refused(inside(*command.format(there).split()), 5, there, "there already")
    assert contents(home) == before
    assert sorted(os.listdir()) == ["folder", "grown", "in", "link", "seen", "theirs"]
    assert os.listdir("folder") == []


def test_each_exit_code_of_a_process(tmp_path: Path) -> None:
    seen = exact_filter(tmp_path / "seen")
    (tmp_path / "text").write_bytes(b"a\n")
    runs = [
        (0, ["add", seen, tmp_path / "text"]),
        (1, ["check", seen, "-"]),
        (2, ["dedup", seen, "-t,"]),
        (3, ["info", tmp_path / "text"]),
        (5, ["add", seen, tmp_path / "nowhere"]),
    ]
    for code, argv in runs:
        done = mmbloom(*argv)
        assert (done.code, done.out) == (code, b"")
        assert done.err == "" if code < 2 else is_one_line(done.err)


def test_a_name_with_a_newline_is_one_line(tmp_path: Path) -> None:
    done = inside("info", tmp_path / "a\nmmbloom: all is well")
    assert done.code == 3
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("stream", "source"), [("<&-", "-"), (">&-", "in")])
def test_closed_streams(here: Path, stream: str, source: str) -> None:
    exact_filter("seen")
    Path("in").write_bytes(b"a\n")
    shell = ["sh", "-c", f'"$@" {stream}', "sh", *COMMAND]
    done = started("dedup", "seen", source, command=shell)
    assert refused(done, done.code)
    assert done.code in (2, 5)
    assert mmbloom("dedup", "seen", "in").out == b"a\n"


def test_a_filter_replaced_meanwhile(tmp_path: Path) -> None:
    seen, other = exact_filter(tmp_path / "seen"), exact_filter(tmp_path / "other")
    before = other.read_bytes()
    with running("dedup", seen) as process:
        assert answers(process, b"a\n", b"a\n")
        other.rename(seen)
        out, err = process.communicate(b"b\n", timeout=PATIENCE)
    assert refused(Ended(process.returncode, out, err.decode()), 3, str(seen))
    assert seen.read_bytes() == before


def fill(path: Path) -> Path:
    path.write_bytes(b"".join(b"%d\n" % i for i in range(5000)))
    return path


ON_A_FULL_DISK = {
    "warns": (0, ["add", "new", "many", "-n", "100", "--seed", "1"]),
    "is full in a worker": (6, ["dedup", "new", "many", "-n", "100", "--output-dir", "out"]),
    "prints figures": (0, ["add", "seen", "many", "--stats"]),
    "draws a bar": (0, ["add", "seen", "many", "--progress"]),
    "refuses an option": (2, ["info", "--unknown"]),
    "refuses a value": (2, ["dedup", "seen", "-t,"]),
    "refuses a file": (3, ["info", "many"]),
    "waited in vain": (4, ["add", "locked", "many", "--lock-timeout", "0.01"]),
    "lacks an input": (5, ["add", "seen", "nowhere"]),
}


@FULL_DISK
@pytest.mark.parametrize(("code", "argv"), ON_A_FULL_DISK.values(), ids=ON_A_FULL_DISK)
def test_stderr_on_a_full_disk(here: Path, code: int, argv: list[str]) -> None:
    """What cannot be said changes no exit code, and leaves nothing to write at the end."""
    exact_filter(here / "seen")
    fill(here / "many")
    with (
        BloomFilter.open(exact_filter(here / "locked")) as locked,
        locked.locked(),
        Path("/dev/full").open("wb") as full,
    ):
        assert mmbloom(*argv, stderr=full) == (code, b"", "")


@FULL_DISK
def test_an_argparse_that_raises_what_a_full_disk_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of Python 3.11.2 does: later ones suppress it."""

    def written(_: object, message: str, file: TextIO) -> None:
        file.write(message)

    monkeypatch.setattr(argparse.ArgumentParser, "_print_message", written)
    with Path("/dev/full").open("wb") as full:
        assert mmbloom("info", "--unknown", stderr=full) == (2, b"", "")


@FULL_DISK
@pytest.mark.parametrize("buffered", [True, False], ids=["", "unbuffered"])
@pytest.mark.parametrize("kind", ["draws a bar", "refuses a value"])
def test_processes_with_stderr_on_a_full_disk(tmp_path: Path, kind: str, *, buffered: bool) -> None:
    """Nor does it change the code when Python ends: of tqdm, and of what argparse has printed."""
    code, argv = ON_A_FULL_DISK[kind]
    exact_filter(tmp_path / "seen")
    fill(tmp_path / "many")
    env = {} if buffered else {"PYTHONUNBUFFERED": "1"}
    with Path("/dev/full").open("wb") as full:
        assert started(*argv, stderr=full, env=env, cwd=tmp_path) == (code, b"", "")


@FULL_DISK
@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["add", "--help"]], ids=" ".join)
def test_help_on_a_full_disk(argv: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = started(*argv, stdout=full) if argv == ["--help"] else mmbloom(*argv, stdout=full)
    assert refused(done, 5, "stdout: No space left")


@pytest.mark.parametrize("command", ["info", "dedup"])
def test_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    seen = exact_filter(tmp_path / "seen")
    monkeypatch.setattr("mmbloom._system.memory.mmap.mmap", refuse)
    assert refused(inside(command, seen), 5, "not enough memory")


@pytest.fixture
def where(here: Path) -> Path:
    Path("access.log").write_bytes(b"10.0.0.0 - - GET /\n" * 1000)
    Path("short.log").write_bytes(b"10.0.0.0 - - GET /\n")
    exact_filter("seen")
    return here


ADDING = ("dedup", "add")  # which make a filter, too
MAKE_NONE = [
    "check nosuch in",
    "verify nosuch",
    "compare nosuch seen",
    "create f --like nosuch",
    "info nosuch",
    "copy nosuch f",
    "repair nosuch f",
]
NO_FOLDER_OF_FILTERS = "folder: is a folder, but not a growing or rotating filter"
A_FOLDER = "a folder is there already; name a file inside it"
OTHER_SIZES = "expected 7: leave out -n and the options that go with it to use"
# A command line, the exit code, and what is said.
SAID: list[tuple[str, int, str]] = [
    *((f"{name} short.log/f", 5, "short.log") for name in ("dedup", "info")),
    # Without -n a number of keys is taken for an input; with it only an input is missing.
    *((f"{name} seen 1e6 in", 5, "(give the number of keys with -n 1e6)") for name in ADDING),
    *((f"{name} seen 1e6 in -n 10", 5, "1e6: No such file or directory\n") for name in ADDING),
    *((f"{name} nosuch in", 3, "no such filter; give -n N to create it\n") for name in ADDING),
    *((command, 3, "mmbloom: nosuch: no such filter\n") for command in MAKE_NONE),
    # Where a log stands for the filter, the line to type is in the message.
    *(
        (f"{name} {log}", 3, f"the filter comes first: mmbloom {name} FILTER {log}\n")
        for name in ("dedup", "add", "check")
        for log in ("access.log", "short.log")
    ),
    # What to leave out is said in options, not in calls of Python.
    *((f"{name} seen -n 7 -p 1e-9 access.log", 3, OTHER_SIZES) for name in ADDING),
    # A folder is named as what it is, to read from and to make a file in its place.
    ("dedup folder -n 10 access.log", 3, NO_FOLDER_OF_FILTERS),
    ("check folder access.log", 3, NO_FOLDER_OF_FILTERS),
    ("info folder", 3, NO_FOLDER_OF_FILTERS),
    ("create folder -n 10", 5, A_FOLDER),
    ("copy seen folder", 5, A_FOLDER),
    # A folder that is there, and in which nobody can make a file.
    ("create /proc/nosuch -n 10", 3, "/proc/nosuch: cannot be created there"),
    *((f"{name} /proc/nosuch -n 10 in", 3, "/proc/nosuch: cannot be created") for name in ADDING),
]
SAID = [case for case in SAID if has.PROC or "/proc" not in case[0]]


@pytest.mark.parametrize(("command", "code", "said"), SAID)
def test_what_is_said(where: Path, command: str, code: int, said: str) -> None:
    Path("in").write_bytes(b"a\n")
    Path("folder").mkdir()
    assert refused(inside(*command.split()), code, said)
    assert os.listdir("folder") == []


def test_a_filter_that_is_damaged(where: Path) -> None:
    """One that was cut off is no log in its place; of a bad header there is a way on."""
    whole = Path("seen").read_bytes()
    Path("seen").write_bytes(whole[:3000])
    for command in ("dedup seen", "check seen access.log", "info seen"):
        said = inside(*command.split()).err
        assert is_one_line(said, "length is 3000 bytes", "it was cut off; restore a copy")
        assert "comes first" not in said
    Path("seen").write_bytes(whole[:100] + b"\xff\xff" + whole[102:])
    said = inside("info", "seen").err
    assert is_one_line(said, "header checksum", "make a sound filter from it with mmbloom repair")
    said = inside("repair", "seen", "sound").err
    assert is_one_line(said, "to rebuild it, give the parameters")
    assert "comes first" not in inside("info", "access.log").err


@pytest.mark.parametrize("command", ["dedup", "add"])
def test_a_filter_of_other_sizes(where: Path, command: str) -> None:
    """What to leave out is said in options, not in calls of Python."""
    done = inside(command, "seen", "-n", "7", "-p", "1e-9", "access.log")
    assert refused(done, 3, "expected 7: leave out -n and the options that go with it to use")


def test_a_terminal_to_read_from(where: Path) -> None:
    """Who forgot an input, and waits, is told what for."""
    hint = "reading lines from the terminal until Ctrl-D; or give inputs after the filter"
    assert hint not in mmbloom("dedup", "seen", stdin=b"b\n").err
    assert hint in reading_from_a_terminal("dedup", "seen")
    hint = "reading keys, one per line, from the terminal until Ctrl-D; or give keys after the"
    assert hint not in mmbloom("exclude", "seen", "--add", stdin=b"b\n").err
    for action in ("--add", "--remove"):
        assert hint in reading_from_a_terminal("exclude", "seen", action)
        assert reading_from_a_terminal("exclude", "seen", action, "b") == ""


def reading_from_a_terminal(*argv: str) -> str:
    """Run a command whose stdin is a terminal at which nothing but the end is typed."""
    master, slave = os.openpty()
    try:
        os.write(master, b"\x04")
        with open(slave, "rb", closefd=False) as stdin:
            return mmbloom(*argv, stdin=stdin).err
    finally:
        os.close(master)
        os.close(slave)


def test_names_in_other_encodings(where: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    exact_filter(name)
    assert rb"caf\xe9" + b"\n" in mmbloom("info", name).out
    assert is_one_line(mmbloom("info", name + "s").err, r"caf\xe9s: no such filter")


def test_nothing_to_repair(where: Path) -> None:
    done = inside("repair", "seen", "mended")
    assert is_one_line(done.err, "mended: nothing was wrong with it; 0 bits set")
    with Path("seen").open("r+b") as file:
        file.truncate(4096 + 64)
    assert "nothing was wrong" not in inside("repair", "seen", "again").err


@pytest.mark.parametrize("command", ["info", "verify"])
def test_several_filters(where: Path, command: str) -> None:
    exact_filter("other")
    alone = [inside(command, name).out for name in ("seen", "other")]
    assert inside(command, "seen", "other") == (0, b"\n".join(alone), "")
    done = inside(command, "seen", "access.log", "nosuch", "other")
    assert (done.code, done.out.split()) == (3, b"".join(alone).split())
    named = [line.split(": ")[1] for line in done.err.splitlines()]
    assert named == [str(where / "access.log"), "nosuch"]
    assert inside(command, "seen", "access.log").code == 3
    lines = inside(command, "seen", "other", "--json").out.splitlines()
    paths = [json.loads(line)["path"] for line in lines]
    assert paths == [str(where / "seen"), str(where / "other")]


def test_keys_for_several_filters(where: Path) -> None:
    exact_filter("other")
    assert mmbloom("add", "seen", "access.log").code == 0
    assert mmbloom("add", "other", "access.log").code == 0
    done = mmbloom("verify", "seen", "other", "--keys", "access.log")
    assert done.code == 0
    assert done.out.count(b"1,000 looked up, 0 missing") == 2
