"""A full disk under a command: what it says is lost, what it says to do, and that both are true."""

import errno
import os
import re
import resource
from functools import partial
from pathlib import Path

import pytest
from cli_runner import EXACT, inside, is_one_line, mmbloom, refused, started
from faults import mount_tmpfs
from frames import held_by
from workers import in_child

from mmbloom import GrowingFilter

GO_ON = "nothing is lost: run it again to go on"
GO_ON_AT_STDOUT = f"{GO_ON} (with >> in place of >)\n"
LINES = [b"line %06d" % number for number in range(30_000)]


def whole_lines(path: Path) -> set[bytes]:
    """The lines of an output, without what a write that broke has left."""
    return {line for line in held_by(path).split(b"\n") if re.fullmatch(rb"line \d{6}", line)}


def dedup_on_small_disk(folder: Path, to: str) -> str:
    """In a child: fill a disk with an output, make room, and run the same command again."""
    if not mount_tmpfs(folder, 1 << 20):
        return "not allowed"
    out = folder / ("out.gz" if to == "-o .gz" else "out")
    (folder / "ballast").write_bytes(bytes(1_000_000 if to == "-o .gz" else 900_000))

    def run() -> tuple[int, str]:
        argv = ("dedup", folder.parent / "seen", folder.parent / "in", *EXACT)
        if to != "stdout":
            done = started(*argv, "-o", out)
            return done.code, done.err
        with out.open("ab") as stdout:
            done = started(*argv, stdout=stdout)
        return done.code, done.err

    code, err = run()
    assert code == 5
    shown, left = (str(out), f"{GO_ON}\n") if to != "stdout" else ("stdout", GO_ON_AT_STDOUT)
    assert is_one_line(err, f"{shown}: No space left on device; {left}")
    assert 0 < len(whole_lines(out)) < len(LINES)
    (folder / "ballast").unlink()
    assert run() == (0, "")
    assert whole_lines(out) == {*LINES}
    return "done"


@pytest.mark.parametrize("to", ["-o", "-o .gz", "stdout"])
def test_an_output(tmp_path: Path, to: str) -> None:
    (tmp_path / "in").write_bytes(b"\n".join([*LINES, b""]))
    (tmp_path / "disk").mkdir()
    outcome = in_child(partial(dedup_on_small_disk, tmp_path / "disk", to))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"


def test_a_limit_of_the_shell(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\n".join([*LINES, b""]))
    argv = ("dedup", tmp_path / "seen", tmp_path / "in", "-o", tmp_path / "out", *EXACT)
    assert mmbloom("dedup", tmp_path / "seen", *EXACT).code == 0
    keep = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    done = started(*argv, preexec_fn=keep)
    assert done.code == 5
    assert is_one_line(done.err, f"{tmp_path / 'out'}: File too large; {GO_ON}\n")
    assert mmbloom(*argv).code == 0
    assert whole_lines(tmp_path / "out") == {*LINES}


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("create new -n 1e6", "no half-made file is left"),
        ("copy seen new", "no half-made file is left"),
        ("dedup new in -n 1e6", GO_ON_AT_STDOUT),
        ("add new in -n 1e6", GO_ON),
    ],
)
def test_a_filter_that_does_not_fit(here: Path, command: str, left: str) -> None:
    Path("in").write_bytes(b"a\n")
    assert mmbloom("create", "seen", *EXACT).code == 0
    keep = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    done = started(*command.split(), preexec_fn=keep)
    assert refused(done, 5, "new: cannot reserve", f"File too large; {left}")
    assert sorted(os.listdir()) == ["in", "seen"]


@pytest.mark.parametrize("command", ["dedup", "add"])
def test_a_folder_that_cannot_grow(here: Path, command: str) -> None:
    """Where the next file does not fit, what was done stays done, and the rest comes next time."""
    Path("in").write_bytes(b"\n".join([*LINES, b""]))
    GrowingFilter.create("seen", 10_000, 1e-9, seed=7).close()
    keep = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    done = started(command, "seen", "in", preexec_fn=keep)
    assert done.code == 5
    assert is_one_line(done.err, "cannot reserve", "nothing is lost: run it again to go on")
    again = mmbloom(command, "seen", "in")
    assert again.code == 0
    if command == "dedup":
        assert {*done.lines} | {*again.lines} == {*LINES}
    with GrowingFilter.open("seen") as seen:
        assert seen.contains_many(LINES).all()


def test_what_may_be_lost_is_not_said_to_be_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where lines are marked and the system then fails to force them to the disk."""
    (tmp_path / "in").write_bytes(b"a\n")
    assert inside("create", tmp_path / "seen", *EXACT).code == 0

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = inside("dedup", tmp_path / "seen", tmp_path / "in", "-o", tmp_path / "out")
    assert done.code == 5
    assert is_one_line(done.err, "No space left on device", "may be missing")
    assert "nothing is lost" not in done.err


def test_a_dry_run_goes_on_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n")
    with Path("/dev/full").open("wb") as full:
        argv = ("dedup", tmp_path / "seen", tmp_path / "in", "--dry-run", *EXACT)
        done = mmbloom(*argv, stdout=full)
    assert done.code == 5
    assert is_one_line(done.err, "stdout: No space left on device\n")
