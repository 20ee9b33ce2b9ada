"""A command that is asked to end unwinds: it leaves no half-made file, and the usual exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from checks import check_folder, in_thread

from mmbloom import BloomFilter
from mmbloom.cli.main import main

# Whoever runs the tests under nohup, or in the background, has signals ignored that children
# inherit.
HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""
# A command whose forcing of the new file to the disk takes as long as stdin is open.
SLOW = """
import os, sys
from mmbloom.cli.main import main
fsync = os.fsync
def slow(fd):
    print("forcing", flush=True)
    os.read(0, 1)
    fsync(fd)
os.fsync = slow
sys.exit(main(sys.argv[1:]))
"""
COMMANDS = {
    "create": ("create", "made", "-n", "1000"),
    "copy": ("copy", "seen", "made"),
    "merge": ("merge", "made", "seen"),
    "repair": ("repair", "seen", "made"),
}


def start(folder: Path, *argv: str, under: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
    """Start a command, and wait until it forces its file to the disk."""
    child = subprocess.Popen(
        [*under, sys.executable, "-P", "-c", SLOW if under else HEARING + SLOW, *argv],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout
    assert child.stdout.readline() == b"forcing\n"
    return child


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    BloomFilter.create(tmp_path / "seen", 1000).close()
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_no_half_made_file(folder: Path, command: str, sent: signal.Signals, code: int) -> None:
    """Law 8: a command that is asked to end takes its temporary file with it."""
    with start(folder, *COMMANDS[command]) as child:
        assert [name for name in os.listdir(folder) if name.startswith(".mmbloom-")]
        child.send_signal(sent)
        _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (code, b"")
    check_folder(folder, "seen")


def test_ignored_hangup_stays_ignored(folder: Path) -> None:
    """Under nohup a command goes on when its terminal is closed."""
    with start(folder, "copy", "seen", "made", under=("nohup",)) as started:
        started.send_signal(signal.SIGHUP)
        assert started.stdin
        started.stdin.write(b"on\n")  # as many as there are calls
        started.stdin.close()
        assert started.wait(60) == 0
    check_folder(folder, "made", "seen")


def test_handlers_of_a_caller_come_back(capfd: pytest.CaptureFixture[str]) -> None:
    """A program that calls `main` has its own handlers again when it returns."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    theirs = [signal.getsignal(number) for number in numbers]
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what main answers in its own way
        before = [signal.getsignal(number) for number in numbers]
        assert main(["plan", "-n", "100"]) == 0
        assert [signal.getsignal(number) for number in numbers] == before
    finally:
        for number, handler in zip(numbers, theirs, strict=True):
            signal.signal(number, handler)


def test_command_in_a_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """Where no handler can be set, in a thread that is not the main one, a command works."""
    assert in_thread(lambda: main(["plan", "-n", "100"])) == 0
    assert "100" in capfd.readouterr().out
