"""The script of docs/retries.md that runs a day again: killed at each step, then run once more."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import flock_is_free
from pages import DOCS, blocks

import mmbloom
from mmbloom import BloomFilter, RotatingFilter, grow

pytestmark = pytest.mark.slow

(SECTION,) = [block for block in blocks(DOCS / "retries.md", "sh") if "run-day" in block]
LINES = SECTION.partition("<<'SCRIPT'\n")[2].partition("SCRIPT\n")[0].splitlines()
STEPS = range(LINES.index("flock 9"), len(LINES))
KNOWN, DENIED = range(100), 7
DAYS = {"monday": range(30_000), "tuesday": range(20_000, 60_000)}
HELPERS = Path(__file__).parents[1] / "helpers"

# The command. DIE has `dedup` killed before the call of the system of that number, or the script
# killed while `dedup` goes on. `calls` says how many calls a whole run makes.
MMBLOOM = f"""#!/bin/sh
if [ "$1" = dedup ] && [ "$DIE" = parent ]; then
    kill -9 $PPID
    while [ ! -e go ]; do sleep 0.02; done
fi
if [ "$1" != dedup ] || [ -z "$DIE" ] || [ "$DIE" = parent ]; then
    exec '{sys.executable}' -P -m mmbloom "$@"
fi
exec '{sys.executable}' -P -c '
import sys
sys.path.insert(0, "{HELPERS}")
from faults import at_call, kill_self, os_calls
from mmbloom.cli import main
calls = []
die = at_call(int(sys.argv.pop(1)), kill_self)
def hook(name):
    calls.append(name)
    die(name)
with os_calls(before=hook):
    code = main()
open("calls", "w").write(str(len(calls)))
sys.exit(code)' "$DIE" "$@"
"""


def plain(path: Path) -> None:
    """Make a filter of one file."""
    BloomFilter.create(path, 100_000, 1e-9).close()


def grown(path: Path) -> None:
    """Make a folder that a file has grown to."""
    BloomFilter.create(path, 1000, 1e-9).close()
    grow(path)


def rotating(path: Path) -> None:
    """Make a rotating folder."""
    RotatingFilter.create(
        path, keep="365d", every="365d", capacity_per_period=100_000, error_rate=1e-9
    ).close()


def prepare(folder: Path, make: Callable[[Path], None]) -> Path:
    """Write the logs, the script and the command, and the filter that begins: it knows lines.

    It denies one of them, so that one is new each day.
    """
    for day, numbers in DAYS.items():
        (folder / f"{day}.log").write_text("".join(f"{number}\n" for number in numbers))
    (folder / "bin").mkdir()
    (folder / "start").mkdir()
    for path, text in (("bin/mmbloom", MMBLOOM), ("run-day", "\n".join(LINES))):
        (folder / path).write_text(text)
        (folder / path).chmod(0o700)
    make(folder / "start" / "seen")
    with mmbloom.open(folder / "start" / "seen") as seen:
        seen.add_many([str(number) for number in KNOWN])
        seen.exclusions.add(str(DENIED))
    return folder


def run(folder: Path, day: str, before: str, die: object = "", script: str = "run-day") -> int:
    """Run a day; return the exit code."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with (folder / "said").open("wb") as said:  # no pipe: a command may outlive its script
        done = subprocess.run(
            [folder / script, day, before],
            cwd=folder,
            env={**os.environ, "PATH": path, "DIE": str(die)},
            stdout=said,
            stderr=said,
            timeout=60,
            check=False,
        )
    assert done.returncode or not (folder / "said").stat().st_size, (folder / "said").read_text()
    return done.returncode


def check(folder: Path) -> None:
    """Each day has just the lines that were new on it, and its filter has just those until then."""
    known = {*KNOWN} - {DENIED}
    for day, numbers in DAYS.items():
        printed = (folder / day / "new.log").read_text().split()
        assert printed == [str(number) for number in numbers if number not in known]
        known = (known | {*numbers}) - {DENIED}
        with mmbloom.open(folder / day / "seen", "r") as seen:
            found = seen.contains_many([str(number) for number in range(100_000)])
        assert {*found.nonzero()[0].tolist()} == known


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two days that have run, the second of them with its calls counted."""
    folder = prepare(tmp_path_factory.mktemp("finished"), plain)
    assert run(folder, "monday", "start") == 0
    assert run(folder, "tuesday", "monday", die=10**6) == 0
    check(folder)
    return folder


@pytest.fixture
def days(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "days", copy_function=shutil.copy2)


@pytest.mark.parametrize("make", [grown, rotating])
def test_each_kind_of_filter(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A day that has been finished, or killed, is run again: it prints what it has printed."""
    folder = prepare(tmp_path, make)
    assert run(folder, "monday", "start") == 0
    for die, code in (("", 0), (60, 137), ("", 0)):
        assert run(folder, "tuesday", "monday", die=die) == code
        check(folder)


@pytest.mark.parametrize("number", STEPS, ids=lambda number: LINES[number].split()[0])
def test_killed_after_each_command(days: Path, number: int) -> None:
    """A day that was finished before is whole after the next run."""
    (days / "deadly").write_text("\n".join([*LINES[: number + 1], "kill -9 $$"]))
    (days / "deadly").chmod(0o700)
    assert run(days, "tuesday", "monday", script="deadly") == -9
    assert run(days, "tuesday", "monday") == 0
    check(days)


@pytest.mark.parametrize("share", [0, 0.5, 0.9, 1])
def test_killed_within_dedup(days: Path, share: float) -> None:
    """Killed at a call of the system, whatever it has written and marked by then."""
    calls = int((days / "calls").read_text())
    assert calls > 50
    assert run(days, "tuesday", "monday", die=round(share * (calls - 1))) == 137
    assert (days / "tuesday.part").is_dir()
    check(days)  # what the run before has made
    assert run(days, "tuesday", "monday") == 0
    assert not (days / "tuesday.part").exists()
    check(days)


def test_killed_and_its_command_goes_on(days: Path) -> None:
    """The command keeps the lock of the script that has started it: the next run waits for it."""
    try:
        assert run(days, "tuesday", "monday", die="parent") == -9
        assert not flock_is_free(days / "run-day.lock")
    finally:
        (days / "go").touch()
    assert run(days, "tuesday", "monday") == 0
    check(days)
