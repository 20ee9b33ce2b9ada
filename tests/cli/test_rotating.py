"""The commands on a rotating filter: create --rotate, and time that passes."""

import json
import time
from pathlib import Path

import pytest
from chains import files_of
from cli_runner import Ended, inside, is_one_line, mmbloom

from mmbloom import RotatingFilter

DAY = 86_400
SIZES = ("--rotate", "-n", "1000", "-p", "1e-9", "--seed", "5")
LINES = b"a\nb\nc\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_bytes(LINES)
    return tmp_path / "lines"


@pytest.mark.parametrize(
    ("days_ago", "printed"), [(0, b""), (3, b""), (6.9, b""), (8.1, LINES), (1000, LINES)]
)
def test_lines_are_new_again_after_their_time(
    tmp_path: Path, lines: Path, days_ago: float, printed: bytes
) -> None:
    then = time.time() - days_ago * DAY
    with RotatingFilter.create(
        tmp_path / "seen", capacity_per_period=1000, error_rate=1e-9, seed=5, clock=lambda: then
    ) as seen:
        seen.update(LINES.splitlines())
    found = inside("check", tmp_path / "seen", lines)
    assert (found.code, found.out) == ((1, b"") if printed else (0, LINES))
    assert inside("dedup", tmp_path / "seen", lines) == Ended(0, printed, "")
    assert inside("dedup", tmp_path / "seen", lines) == Ended(0, b"", "")
    verified = inside("verify", tmp_path / "seen", "--keys", lines)
    assert (verified.code, b"3 looked up, 0 missing" in verified.out) == (0, True)


def test_create(tmp_path: Path, lines: Path) -> None:
    seen = tmp_path / "seen"
    times = ("--keep", "36h", "--every", "90m")
    assert inside("create", seen, *SIZES, *times) == Ended(0, b"", "")
    assert inside("add", seen, lines) == Ended(0, b"", "")
    settings = json.loads(inside("info", seen, "--json").out)["settings"]
    assert (settings["keep_seconds"], settings["every_seconds"]) == (36 * 3600, 90 * 60)
    text = inside("info", seen).out.decode()
    assert "rotating: keeps 36h, in periods of 90m for 1,000 keys" in text
    assert inside("create", tmp_path / "two", "--like", seen) == Ended(0, b"", "")
    assert json.loads(inside("info", tmp_path / "two", "--json").out)["settings"] == settings
    assert inside("check", tmp_path / "two", lines).code == 1
    assert inside("copy", seen, tmp_path / "three").code == 0
    assert inside("check", tmp_path / "three", lines).out == LINES
    assert inside("create", tmp_path / "week", *SIZES).code == 0
    with RotatingFilter.open(tmp_path / "week", "r") as week:
        assert week.info().settings["keep_seconds"] == 7 * DAY
        assert week.info().settings["every_seconds"] == DAY


def test_info_of_what_is_over(tmp_path: Path) -> None:
    """A file that nobody asks is on the disk all the same."""
    ago = time.time() - 9 * DAY
    with RotatingFilter.create(tmp_path / "seen", capacity_per_period=1000, clock=lambda: ago):
        pass
    text = inside("info", tmp_path / "seen").out.decode()
    assert "files           0, and 1 past their time, to go with the next period\n" in text
    (file,) = files_of(tmp_path / "seen")
    assert file.stat().st_size > 4096
    assert f"size            {file.stat().st_size:,} bytes\n" in text


@pytest.mark.parametrize(
    ("times", "warned"),
    [
        (["--keep", "1h", "--every", "1d"], True),
        (["--keep", "1h"], True),
        (["--every", "8d"], True),
        (["--every", "7d"], False),
        (["--keep", "1d"], False),
        ([], False),
    ],
    ids=str,
)
def test_periods_longer_than_what_is_kept(tmp_path: Path, times: list[str], warned: bool) -> None:
    done = mmbloom("create", tmp_path / "kept", "-n", "10", "--rotate", *times)
    assert done.code == 0
    assert is_one_line(done.err, "--every is longer than --keep") if warned else done.err == ""
