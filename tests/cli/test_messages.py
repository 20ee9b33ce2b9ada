"""What is wrong with a command line, in words that say what would be right."""

import json
import os
from pathlib import Path

import pytest
from cli_runner import exact_filter, inside, is_one_line, mmbloom, refused


@pytest.fixture
def here(here: Path) -> Path:
    Path("access.log").write_bytes(b"10.0.0.0 - - GET /\n" * 1000)
    Path("short.log").write_bytes(b"10.0.0.0 - - GET /\n")
    exact_filter("seen")
    return here


@pytest.mark.parametrize("command", ["dedup", "add"])
def test_a_number_in_the_place_of_an_input(here: Path, command: str) -> None:
    """A number of keys without its -n is taken for an input, and the message says how to give it.

    Where -n is there it is only an input that is missing.
    """
    done = inside(command, "seen", "1e6", "in")
    assert done.code == 5
    assert is_one_line(done.err, "1e6: No such file", "(give the number of keys with -n 1e6)")
    done = inside(command, "seen", "1e6", "in", "-n", "10")
    assert "give the number" not in done.err


MAKE_NONE = [
    "check nosuch in",
    "verify nosuch",
    "compare nosuch seen",
    "create f --like nosuch",
    "info nosuch",
    "copy nosuch f",
    "repair nosuch f",
]


@pytest.mark.parametrize("command", MAKE_NONE)
def test_a_filter_that_is_missing(here: Path, command: str) -> None:
    Path("in").write_bytes(b"a\n")
    done = inside(*command.split())
    assert (done.code, done.err) == (3, "mmbloom: nosuch: no such filter\n")
    for makes in ("dedup", "add"):
        done = inside(makes, "nosuch", "in")
        assert (done.code, done.err) == (
            3,
            "mmbloom: nosuch: no such filter; give -n N to create it\n",
        )


@pytest.mark.parametrize("log", ["access.log", "short.log"])
@pytest.mark.parametrize("command", ["dedup", "add", "check"])
def test_the_filter_forgotten(here: Path, command: str, log: str) -> None:
    """Where a log stands for the filter, the line to type is in the message."""
    done = inside(command, log)
    assert refused(done, 3, f"the filter comes first: mmbloom {command} FILTER {log}\n")
    assert "comes first" not in inside("info", log).err


def test_a_filter_that_is_damaged(here: Path) -> None:
    """One that was cut off is no log in its place; of a bad header there is a way on."""
    whole = Path("seen").read_bytes()
    Path("seen").write_bytes(whole[:3000])
    for command in ("dedup seen", "check seen access.log", "info seen"):
        said = inside(*command.split()).err
        assert is_one_line(said, "length is 3000 bytes", "it was cut off; go back to a copy")
        assert "comes first" not in said
    Path("seen").write_bytes(whole[:100] + b"\xff\xff" + whole[102:])
    said = inside("info", "seen").err
    assert is_one_line(said, "header checksum", "mmbloom repair makes a sound filter of it")
    said = inside("repair", "seen", "sound").err
    assert is_one_line(said, "to rebuild it give the parameters")


@pytest.mark.parametrize("command", ["dedup", "add"])
def test_a_filter_of_other_sizes(here: Path, command: str) -> None:
    """What to leave out is said in options, not in calls of Python."""
    done = inside(command, "seen", "-n", "7", "-p", "1e-9", "access.log")
    assert done.code == 3
    assert is_one_line(done.err, "asked for 7: leave out -n, and what goes with it, to use it")


def test_folders_that_are_no_filters(here: Path) -> None:
    """A folder is named as what it is, to read from and to make a file in its place."""
    Path("folder").mkdir()
    for command in ("dedup folder -n 10 access.log", "check folder access.log", "info folder"):
        done = inside(*command.split())
        assert refused(done, 3, "folder: is a folder, but no growing or rotating filter")
    for command in ("create folder -n 10", "copy seen folder"):
        done = inside(*command.split())
        assert refused(done, 5, "a folder is there already; name a file to be made in it")
    assert os.listdir("folder") == []


def test_where_nothing_can_be_made(here: Path) -> None:
    for command in ("create", "dedup", "add"):
        argv = [command, "/proc/nosuch", "-n", "10"] + ["access.log"] * (command != "create")
        said = inside(*argv).err
        assert is_one_line(said, "/proc/nosuch: cannot be made there")


def test_a_terminal_to_read_from(here: Path) -> None:
    """Who forgot an input, and waits, is told what for."""
    hint = "reading lines from the terminal, up to Ctrl-D: inputs come after the filter"
    assert hint not in mmbloom("dedup", "seen", stdin=b"b\n").err
    assert hint in reading_from_a_terminal("dedup", "seen")
    hint = "reading keys, one a line, from the terminal, up to Ctrl-D: keys come after the filter"
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


def test_names_in_other_encodings(here: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    exact_filter(name)
    assert rb"caf\xe9" + b"\n" in mmbloom("info", name).out
    assert is_one_line(mmbloom("info", name + "s").err, r"caf\xe9s: no such filter")


def test_nothing_to_repair(here: Path) -> None:
    done = inside("repair", "seen", "mended")
    assert is_one_line(done.err, "mended: nothing was wrong with it; 0 bits set")
    with Path("seen").open("r+b") as file:
        file.truncate(4096 + 64)
    assert "nothing was wrong" not in inside("repair", "seen", "again").err


@pytest.mark.parametrize("command", ["info", "verify"])
def test_several_filters(here: Path, command: str) -> None:
    exact_filter("other")
    alone = [inside(command, name).out for name in ("seen", "other")]
    assert inside(command, "seen", "other") == (0, b"\n".join(alone), "")
    done = inside(command, "seen", "access.log", "nosuch", "other")
    assert (done.code, done.out.split()) == (3, b"".join(alone).split())
    assert [line.split(": ")[1] for line in done.err.splitlines()] == [
        str(here / "access.log"),
        "nosuch",
    ]
    assert inside(command, "seen", "access.log").code == 3
    lines = inside(command, "seen", "other", "--json").out.splitlines()
    paths = [json.loads(line)["path"] for line in lines]
    assert paths == [str(here / "seen"), str(here / "other")]


def test_keys_for_several_filters(here: Path) -> None:
    exact_filter("other")
    assert mmbloom("add", "seen", "access.log").code == 0
    assert mmbloom("add", "other", "access.log").code == 0
    done = mmbloom("verify", "seen", "other", "--keys", "access.log")
    assert done.code == 0
    assert done.out.count(b"1,000 looked up, 0 missing") == 2
