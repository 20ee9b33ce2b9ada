"""The commands on growing and on rotating filters: what grows, and time that passes."""

import json
import time
from pathlib import Path

import pytest
from chains import files_of
from cli_runner import Ended, inside, is_one_line, mmbloom, running
from workers import PATIENCE

from mmbloom import GrowingFilter, RotatingFilter

LINES = b"".join(b"%d\n" % number for number in range(5000))
SIZES = ("--growing", "-n", "300", "-p", "1e-9", "--seed", "5")


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_bytes(LINES)
    assert inside("create", tmp_path / "seen", *SIZES) == Ended(0, b"", "")
    return tmp_path / "seen"


def test_lines_go_through_change_overs(growing: Path) -> None:
    lines = growing.parent / "lines"
    assert inside("dedup", growing, lines, lines) == Ended(0, LINES, "")
    assert inside("dedup", growing, lines) == Ended(0, b"", "")
    assert inside("check", growing, lines) == Ended(0, LINES, "")
    assert inside("check", growing, "-v", lines) == Ended(1, b"", "")
    info = json.loads(inside("info", growing, "--json").out)
    assert info["kind"] == "growing"
    assert [file["capacity"] for file in info["files"]] == [300, 600, 1200, 2400, 4800]
    assert info["keys_added"] == 5000
    text = inside("info", growing).out.decode()
    assert "growing: the first file is for 300 keys" in text
    assert "0000000004.bloom about 5" in text
    assert {len(row) - len(row[16:].lstrip()) for row in text.splitlines()} == {17}
    found = inside("verify", growing, "--keys", lines)
    assert (found.code, b"5,000 looked up, 0 missing" in found.out) == (0, True)


def test_two_processes_share_it(growing: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / "1", tmp_path / "2"]
    with (
        running("dedup", growing, tmp_path / "lines", "-o", outputs[0]) as one,
        running("dedup", growing, tmp_path / "lines", "-o", outputs[1]) as two,
    ):
        assert [one.wait(PATIENCE), two.wait(PATIENCE)] == [0, 0]
    lines = b"".join(output.read_bytes() for output in outputs).splitlines()
    assert sorted(lines) == sorted(LINES.splitlines())
    (tmp_path / "more").write_bytes(LINES.replace(b"\n", b"x\n"))
    (tmp_path / "same").write_bytes(LINES.replace(b"\n", b"x\n"))
    jobs = ("-j", "2", "--output-dir", tmp_path / "out", tmp_path / "more", tmp_path / "same")
    assert mmbloom("dedup", growing, *jobs).code == 0
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert sorted(written.splitlines()) == sorted(b"%dx" % number for number in range(5000))


def test_copy_damage_and_repair(growing: Path, tmp_path: Path) -> None:
    lines = growing.parent / "lines"
    assert inside("add", growing, lines) == Ended(0, b"", "")
    kept = tmp_path / "kept"
    assert inside("copy", growing, kept, "--seal") == Ended(0, b"", "")
    assert inside("check", kept, "-c", lines).out == b"5000\n"
    sealed = inside("add", kept, lines)
    assert (sealed.code, "it is sealed" in sealed.err) == (3, True)
    (kept / "0000000001.bloom").unlink()
    for command in (("check", kept, lines), ("info", kept), ("copy", kept, tmp_path / "no")):
        ended = inside(*command)
        assert (ended.code, ended.out) == (3, b"")
        assert ended.err.startswith(f"mmbloom: {kept}/0000000001.bloom: file is missing")
    found = inside("verify", kept)
    assert (found.code, b"0000000001.bloom: is missing" in found.out) == (1, True)
    mended = inside("repair", kept, tmp_path / "mended")
    assert mended.code == 1
    assert "BITS MAY BE MISSING: 0000000001.bloom: is missing" in mended.err
    again = inside("dedup", tmp_path / "mended", lines)  # the lost ones are new again
    assert again.out.splitlines() == LINES.splitlines()[300:900]


def test_options_that_do_not_fit(growing: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for command in (("check", empty), ("info", empty), ("verify", empty), ("dedup", empty)):
        ended = inside(*command)
        assert (ended.code, "manifest.json is missing" in ended.err) == (3, True), ended


def test_nothing_can_be_removed(growing: Path) -> None:
    ended = inside("remove", growing, growing.parent / "lines")
    assert (ended.code, ended.out) == (3, b"")
    assert "no bit can be cleared; make a filter with create --counting" in ended.err
    assert "name one of its files" not in ended.err


def test_create_like(growing: Path, tmp_path: Path) -> None:
    assert inside("add", growing, tmp_path / "lines").code == 0
    assert inside("create", tmp_path / "two", "--like", growing) == Ended(0, b"", "")
    with GrowingFilter.open(growing) as one, GrowingFilter.open(tmp_path / "two") as two:
        assert one.info().settings == two.info().settings
        assert two.approx_count == 0


def rows(ended: Ended) -> dict[str, str]:
    """What `info` printed, by the names of its rows."""
    assert ended.code == 0
    width = len("0000000000.bloom")  # the longest name
    return {line[:width].rstrip(): line[width + 1 :] for line in ended.out.decode().splitlines()}


def test_info_says_what_stands_in_a_file_only(growing: Path, tmp_path: Path) -> None:
    """That the folder is sealed, and that batches were cut off: as `info` of a single file does."""
    assert inside("add", growing, tmp_path / "lines").code == 0
    assert inside("copy", growing, tmp_path / "kept", "--seal").code == 0
    live, kept = (rows(inside("info", folder)) for folder in (growing, tmp_path / "kept"))
    assert ("sealed" in live, kept["sealed"]) == (False, "permanently read-only")
    assert "note" not in live
    with GrowingFilter.open(growing) as seen:
        for member in seen._shelf.members[1:3]:
            done = member.storage.counters["batches_done"]
            member.storage.counters["batches_done"] = done - 1
    assert rows(inside("info", growing))["note"].startswith("2 batches begun but not finished")
    assert "note" not in rows(inside("info", "--recount", growing))


DAY = 86_400
WEEK = ("--rotate", "-n", "1000", "-p", "1e-9", "--seed", "5")
THREE = b"a\nb\nc\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    (tmp_path / "lines").write_bytes(THREE)
    return tmp_path / "lines"


@pytest.mark.parametrize(
    ("days_ago", "printed"), [(0, b""), (3, b""), (6.9, b""), (8.1, THREE), (1000, THREE)]
)
def test_lines_are_new_again_after_their_time(
    tmp_path: Path, lines: Path, days_ago: float, printed: bytes
) -> None:
    then = time.time() - days_ago * DAY
    with RotatingFilter.create(
        tmp_path / "seen", capacity_per_period=1000, error_rate=1e-9, seed=5, clock=lambda: then
    ) as seen:
        seen.update(THREE.splitlines())
    found = inside("check", tmp_path / "seen", lines)
    assert (found.code, found.out) == ((1, b"") if printed else (0, THREE))
    assert inside("dedup", tmp_path / "seen", lines) == Ended(0, printed, "")
    assert inside("dedup", tmp_path / "seen", lines) == Ended(0, b"", "")
    verified = inside("verify", tmp_path / "seen", "--keys", lines)
    assert (verified.code, b"3 looked up, 0 missing" in verified.out) == (0, True)


def test_create(tmp_path: Path, lines: Path) -> None:
    seen = tmp_path / "seen"
    times = ("--keep", "36h", "--every", "90m")
    assert inside("create", seen, *WEEK, *times) == Ended(0, b"", "")
    assert inside("add", seen, lines) == Ended(0, b"", "")
    settings = json.loads(inside("info", seen, "--json").out)["settings"]
    assert (settings["keep_seconds"], settings["every_seconds"]) == (36 * 3600, 90 * 60)
    text = inside("info", seen).out.decode()
    assert "rotating: keeps keys for 36h, in periods of 90m with 1,000 keys each" in text
    assert inside("create", tmp_path / "two", "--like", seen) == Ended(0, b"", "")
    assert json.loads(inside("info", tmp_path / "two", "--json").out)["settings"] == settings
    assert inside("check", tmp_path / "two", lines).code == 1
    assert inside("copy", seen, tmp_path / "three").code == 0
    assert inside("check", tmp_path / "three", lines).out == THREE
    assert inside("create", tmp_path / "week", *WEEK).code == 0
    with RotatingFilter.open(tmp_path / "week", "r") as week:
        assert week.info().settings["keep_seconds"] == 7 * DAY
        assert week.info().settings["every_seconds"] == DAY


def test_info_of_what_is_over(tmp_path: Path) -> None:
    """A file that nobody asks is on the disk all the same."""
    ago = time.time() - 9 * DAY
    with RotatingFilter.create(tmp_path / "seen", capacity_per_period=1000, clock=lambda: ago):
        pass
    text = inside("info", tmp_path / "seen").out.decode()
    assert "files           0, and 1 expired, which the next period removes\n" in text
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
