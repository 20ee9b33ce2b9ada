"""Outputs that several runs append to."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from cli_runner import EXACT, exact_filter, mmbloom, refused
from forms import octets_of

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom.logs.outputs import open_output


def test_line_cut_off_by_another_run_meanwhile(tmp_path: Path) -> None:
    """Law 6: a line that another, killed run leaves cut off does not swallow the next one."""
    path = tmp_path / "out"
    with open_output(str(path), b"\n") as writer:
        writer.write(octets_of(b"a\n"), terminated=True)
        with path.open("ab") as other:
            other.write(b"cut o")
        writer.write(octets_of(b"precious\n"), terminated=True)
    assert path.read_bytes() == b"a\ncut o\nprecious\n"


def test_a_pipe_holds_more(tmp_path: Path) -> None:
    """Of 64 KiB, the system's default, writer and reader wait for each other too often."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as pipe:
        sizes = [fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)]
        ended = mmbloom("dedup", tmp_path / "seen", *EXACT, stdin=b"a\na\n", stdout=pipe)
        sizes.append(fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ))
        assert (ended.code, os.read(reading, 100)) == (0, b"a\n")
    assert sizes == [1 << 16, 1 << 20]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("place", ["seen", "seen/in/it", "link"])
def test_output_in_the_folder_of_the_filter(tmp_path: Path, place: str, *, exists: bool) -> None:
    """A folder of filters is for its own files: an input could have the name of one of them."""
    if exists:
        GrowingFilter.create(tmp_path / "seen", 1000).close()
    (tmp_path / "link").symlink_to("seen")
    (tmp_path / "manifest.json").write_bytes(b"a\n")
    before = {path.name: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    inputs = [tmp_path / "seen", tmp_path / "manifest.json"]
    made: tuple[str | Path, ...] = () if exists else EXACT
    choices: list[list[str | Path]] = [
        ["--output-dir", tmp_path / place],
        ["-o", tmp_path / place / "out"],
        ["-j", "2", "--output-dir", tmp_path / place],
    ]
    for options in choices:
        done = mmbloom("dedup", *inputs, *options, *made)
        assert refused(done, 2, "is in the folder of a filter", str(tmp_path / place))
    assert before == {path.name: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_output_in_the_folder_of_another_filter(tmp_path: Path) -> None:
    """The same of any folder with a manifest of ours; one of others' is a folder like any."""
    seen = exact_filter(tmp_path / "seen")
    RotatingFilter.create(tmp_path / "other", capacity_per_period=1000).close()
    ended = mmbloom("dedup", seen, "-o", tmp_path / "other" / "out", stdin=b"a\n")
    assert (ended.code, "is in the folder of a filter" in ended.err) == (2, True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "manifest.json").write_bytes(b"{}")
    ended = mmbloom("dedup", seen, "-o", tmp_path / "site" / "out", stdin=b"a\n")
    assert (ended.code, (tmp_path / "site" / "out").read_bytes()) == (0, b"a\n")


def test_output_in_place_of_the_exclusions(tmp_path: Path) -> None:
    """Lines that are written there would be keys that the filter denies."""
    seen = exact_filter(tmp_path / "seen")
    (tmp_path / "link").symlink_to("seen")
    done = mmbloom("dedup", tmp_path / "link", "-o", f"{seen}.exclusions", stdin=b"a\n")
    assert refused(done, 2, "lists the exclusions of the filter")
    assert not Path(f"{seen}.exclusions").exists()


@pytest.mark.parametrize("words", [["dedup", "f", "--%s"], ["info", "-%s", "f"], ["%s"]])
def test_control_characters_in_options(words: list[str]) -> None:
    """Such words are shown escaped where argparse refuses them, too."""
    done = mmbloom(*(word.replace("%s", "\x1b[31mx\n\r\u202e") for word in words))
    assert done.code == 2
    assert r"\x1b[31mx\n\r\u202e" in done.err
    assert done.err[:-1].isprintable()


@pytest.mark.parametrize("make", [BloomFilter.create, GrowingFilter.create], ids=["file", "folder"])
def test_control_characters_in_paths(tmp_path: Path, make: Any) -> None:
    """A name that would clear the screen, or make a line of its own, is shown escaped."""
    name = "a\x1b[2J\nverdict         not sound\r\x7f\u202e\udcff"
    make(tmp_path / name, 1000, seed=1).close()
    make(tmp_path / "other", 1000, seed=2).close()
    commands = [["info", name], ["verify", name]]
    if make == BloomFilter.create:
        commands += [
            ["compare", name, name],
            ["compare", name, "other"],
            ["compare", "other", name],
        ]
    for command, *paths in commands:
        done = mmbloom(command, *(tmp_path / path for path in paths))
        said = done.out.decode()
        assert r"a\x1b[2J\nverdict         not sound\r\x7f\u202e\xff" in said, said
        assert all(line.isprintable() for line in said.split("\n"))
        assert "verdict         not sound" not in said.split("\n")
