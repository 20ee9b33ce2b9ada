"""The reader of the output goes away: the command ends with 141, as what SIGPIPE ends."""

import fcntl
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from cli_runner import COMMAND, exact_filter, mmbloom, refused, running, started
from workers import PATIENCE

from mmbloom import BloomFilter


def test_a_closed_pipe_marks_what_it_took(tmp_path: Path) -> None:
    """`| head`: all that the pipe did not take comes again, in order."""
    seen, size = tmp_path / "seen", 0
    lines = [b"line %d\n" % i for i in range(400_000)]  # more than the largest pipe takes
    BloomFilter.create(seen, len(lines), 1e-9).close()
    (tmp_path / "in").write_bytes(b"".join(lines))
    with running("dedup", seen, tmp_path / "in") as process:
        assert process.stdout
        size = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
        read = process.stdout.read(200_000)
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
    again = mmbloom("dedup", seen, tmp_path / "in").out
    assert b"".join(lines).endswith(again)
    marked = sum(map(len, lines)) - len(again)
    assert 0 < marked <= len(read) + size + (1 << 20)  # what Python has read ahead


@contextmanager
def unread() -> Iterator[IO[bytes]]:
    """A pipe that nobody reads, to write to."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as pipe:
        yield pipe


@pytest.fixture
def here(here: Path) -> Path:
    """A folder to run commands in, with a filter and a file of its lines."""
    with BloomFilter.open(exact_filter("seen")) as seen:
        seen.add_many(["a", "b"])
        seen.exclusions.add("c")
    Path("in").write_bytes(b"a\nb\n")
    return here


PRINTS = pytest.mark.parametrize(
    "command",
    [
        "check seen in",
        "check seen in -c",
        "compare seen seen",
        "dedup --help",
        "dedup fresh in -n 1000",
        "dedup seen in -d",
        "exclude seen --list",
        "info seen",
        "info seen seen",
        "plan -n 1e6",
        "verify seen",
    ],
)


@PRINTS
def test_whatever_is_not_read(here: Path, command: str) -> None:
    """Every command that prints, to a pipe that nobody reads: 141, and nothing on stderr."""
    with unread() as pipe:
        assert mmbloom(*command.split(), stdout=pipe) == (141, b"", "")


@PRINTS
def test_whatever_does_not_fit(here: Path, command: str) -> None:
    """And to a disk that is full: 5, and one line, also where it fails at the very end."""
    with Path("/dev/full").open("wb") as full:
        assert refused(mmbloom(*command.split(), stdout=full), 5, "stdout: No space left")


@pytest.mark.parametrize("command", ["check", "dedup"])
def test_a_closed_pipe_ends_quietly(tmp_path: Path, command: str) -> None:
    """`| head -1` ends it as it ends other tools."""
    lines = [b"line %d\n" % i for i in range(400_000)]  # more than a pipe holds
    (tmp_path / "in").write_bytes(b"".join(lines))
    BloomFilter.create(tmp_path / "seen", len(lines), 1e-9).close()
    if command == "check":
        assert mmbloom("add", tmp_path / "seen", tmp_path / "in").code == 0
    with running(command, tmp_path / "seen", tmp_path / "in") as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"line 0\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""


def test_processes_that_are_not_read(tmp_path: Path) -> None:
    with unread() as pipe:
        assert started("dedup", "--help", stdout=pipe) == (141, b"", "")
        assert started("info", exact_filter(tmp_path / "seen"), stdout=pipe) == (141, b"", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_pipeline_fails_with_it(tmp_path: Path) -> None:
    """With pipefail a script sees that the lines were not all printed; seq ends the same way.

    They are more than a pipe holds: else all are printed before `head` has ended, if that is slow.
    """
    (tmp_path / "in").write_bytes(b"".join(b"line %040d\n" % i for i in range(90_000)))  # 4 MB
    command = [*COMMAND, "dedup", str(exact_filter(tmp_path / "seen")), str(tmp_path / "in")]
    for one in (shlex.join(command), "seq 1000000"):
        ended = subprocess.run(
            ["bash", "-c", f"{one} | head -n 1; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            check=True,
        )
        assert ended.stdout.splitlines()[1:] == [b"141"]
        assert ended.stderr == b""
