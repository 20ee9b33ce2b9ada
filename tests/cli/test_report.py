"""What commands say on stderr of their work: a bar while it goes on, one line in the end."""

import json
import re
import sys
from pathlib import Path

import has
import pytest
from cli_runner import (
    COMMAND,
    EXACT,
    exact_filter,
    mmbloom,
    on_a_terminal,
    refused,
    started,
    without,
)

from mmbloom import BloomFilter

# As without tqdm no bar is drawn, what a terminal shows is the line alone.
PLAIN = without("tqdm")
SECONDS = r"; \d+\.\d s\r\n\|END\|"
# A command whose bars are drawn at once, and which has time to draw them: each call of the system
# that reads or writes a file takes a while.
AT_ONCE = """
import os, sys, time
from mmbloom.cli import main, report
report.SILENT_SECONDS, report._PAUSE = 0.0, 0.001
def slowly(name, call):
    def slow(*args):
        time.sleep(0.05)
        return call(*args)
    setattr(os, name, slow)
for name in ("pread", "pwrite"):
    slowly(name, getattr(os, name))
sys.exit(main())
"""
WATCHED = [sys.executable, "-P", "-c", AT_ONCE]


def test_without_tqdm(tmp_path: Path) -> None:
    seen = exact_filter(tmp_path / "seen")
    done = started("dedup", seen, "--progress", stdin=b"a\n", command=without("tqdm"))
    assert refused(done, 2, "pip install 'mmbloom[cli]'")
    assert started("dedup", seen, stdin=b"a\n", command=without("tqdm")) == (0, b"a\n", "")


@pytest.mark.parametrize("jobs", [[], ["--output-dir", "out", "-j2"]], ids=["stdout", "folder"])
def test_progress_goes_to_stderr(tmp_path: Path, jobs: list[str]) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    argv = [*jobs[:1], *(str(tmp_path / name) for name in jobs[1:2]), *jobs[2:]]
    done = mmbloom("dedup", tmp_path / "seen", tmp_path / "in", "--progress", *argv, *EXACT)
    assert (done.code, done.out) == (0, b"" if jobs else b"a\nb\n")
    assert "B/s" in done.err


@pytest.fixture
def seen(here: Path) -> str:
    Path("in").write_bytes(b"a\nb\na\n")
    exact_filter("seen")
    assert mmbloom("create", "counts", "-n", "1000", "--counting").code == 0
    return "seen"


@pytest.mark.parametrize(
    ("command", "bar"),
    [
        ("dedup seen in -o out", True),
        ("dedup seen in --output-dir out", True),
        ("dedup seen in", False),
        ("add seen in", True),
        ("remove counts in", True),
        ("check -c seen in", True),
        ("check -v seen in", False),
        ("verify seen --keys in", True),
        ("dedup seen in -o out -q", False),
        ("add seen in --no-progress", False),
    ],
)
def test_bar_on_a_terminal(seen: str, command: str, bar: bool) -> None:
    """Both streams are a terminal's: a bar unasked, but where lines are printed there."""
    words = [COMMAND[0], "-P", "-c", "import sys, mmbloom.cli as m; m.main(); sys.exit(0)"]
    _, shown = on_a_terminal(*command.split(), stdout_too=True, command=words)
    assert ("B/s" in shown) == bar
    # Nothing is joined to what is left of a bar: it is wiped first.
    assert not re.search(r"B/s\]*[^\r]*[A-Za-z0-9]\r?\n", shown)


def test_bar_where_lines_go_elsewhere(seen: str) -> None:
    """Lines that are printed to a pipe are not torn by it."""
    out, shown = on_a_terminal("dedup", seen, "in")
    assert out == b"a\nb\n"
    assert "B/s" in shown


@pytest.mark.skipif(not has.TRANSFERRED, reason="this system does not count what is written")
@pytest.mark.parametrize(
    "command",
    ["create made -n 1e6", "create made --like seen", "copy seen made", "merge made seen seen",
     "intersect made seen seen", "verify seen"],
)  # fmt: skip
def test_bar_of_what_is_written_or_read(seen: str, command: str) -> None:
    """What takes long shows how much of its bytes is done; not if refused."""
    _, shown = on_a_terminal(*command.split(), stdout_too=True, command=WATCHED)
    assert "B/s" in shown
    percents = [int(share) for share in re.findall(r"(\d+)%\|", shown)]
    assert percents
    assert percents == sorted(percents)
    assert percents[-1] <= 100
    if command != "verify seen":
        Path("made").unlink()
        assert "B/s" not in on_a_terminal(*command.split(), "-q", command=WATCHED)[1]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("dedup seen in", "3 lines, 2 new, 1 seen; seen is less than 0.1 % full"),
        ("dedup seen --dry-run in", "3 lines, 2 new, 1 seen; seen would be less than 0.1 % full"),
        ("dedup seen in -o out", "3 lines, 2 new, 1 seen; seen is less than 0.1 % full"),
        ("dedup seen in --output-dir out", "3 lines, 2 new, 1 seen; seen is less than 0.1 % full"),
        ("add counts in", "3 lines, 2 new, 1 seen; counts is 0.2 % full"),
        ("create made -n 1000", r"created made: \d+.\d kB, for 1,000 keys, empty"),
        ("create made -n 1000 --growing", r"created made: \d+.\d kB, for 1,000 keys, empty"),
        ("create made -n 1000 --rotate", r"created made: \d+.\d kB, for 1,000 keys, empty"),
        ("create made --like seen", r"created made: \d+.\d kB, for 100,000 keys, empty"),
        ("copy seen made", r"created made: \d+.\d kB, for 100,000 keys, empty"),
        ("merge made seen seen", r"created made: \d+.\d kB, for 100,000 keys, empty"),
        ("intersect made seen seen", r"created made: \d+.\d kB, for 100,000 keys, empty"),
    ],
)
def test_one_line_in_the_end(seen: str, command: str, line: str) -> None:
    out, shown = on_a_terminal(*command.split(), command=PLAIN)
    assert re.fullmatch(f"mmbloom: {line}{SECONDS}", shown)
    assert out == (b"a\nb\n" if re.fullmatch("dedup seen( --dry-run)? in", command) else b"")


def test_silence(seen: str) -> None:
    assert on_a_terminal("dedup", seen, "in", "-q") == (b"a\nb\n", "|END|")
    assert on_a_terminal("create", "made", "-n", "9", "--quiet") == (b"", "|END|")
    assert mmbloom("add", seen, "in") == (0, b"", "")
    assert mmbloom("copy", seen, "copied") == (0, b"", "")
    _, shown = on_a_terminal("add", seen, "in", "--stats", command=PLAIN)
    assert json.loads(shown.removesuffix("|END|"))["lines"] == 3


def test_a_full_filter(seen: str) -> None:
    BloomFilter.create("small", 10, seed=1).close()
    Path("many").write_bytes(b"".join(b"%d\n" % i for i in range(100)))
    ends_with_6 = ["bash", "-c", '"$@"; [ $? = 6 ]', "bash", *PLAIN]
    out, shown = on_a_terminal("dedup", "small", "many", command=ends_with_6)
    done, said, _ = shown.split("\r\n")
    new = out.count(b"\n")
    assert 5 < new < 15
    assert re.fullmatch(rf"mmbloom: \d+ lines, {new} new, \d seen; small is \d+ % full; .* s", done)
    assert "/small: is full" in said
