"""mmbloom info for people: the bar, both error rates, and when the capacity will be passed."""

import re
import struct
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from checks import change_header, seal
from cli_runner import inside, started
from unions import make

from mmbloom.cli.showing import WIDTH, bar

CREATED, CAPACITY = 64, 48  # offsets in the header
NOW = datetime(2031, 5, 17, 12, tzinfo=UTC)
DAY = 86_400
SECOND = 10**9


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> int:
    """Stop the clock that info looks at; gives what it shows, in nanoseconds."""
    stopped = int(NOW.timestamp()) * SECOND
    monkeypatch.setattr(time, "time_ns", lambda: stopped)
    return stopped


def rows(path: str) -> dict[str, str]:
    """What info prints, by the name of the row."""
    done = inside("info", path)
    assert (done.code, done.err) == (0, "")
    return {line[:15].strip(): line[16:] for line in done.out.decode().splitlines()}


def aged(path: str, now: int, seconds: float) -> str | None:
    """What info says of the capacity of a filter that was made so long ago."""
    change_header(path, CREATED, "<Q", now - int(seconds * SECOND))
    return rows(path).get("capacity")


@pytest.mark.parametrize(("keys", "days"), [(500, 10.0), (250, 30.0), (100, 90.0), (10, 990.0)])
def test_date(tmp_path: Path, now: int, keys: int, days: float) -> None:
    path = make(tmp_path / "a", range(keys), capacity=1000, error_rate=1e-6)
    said = aged(path, now, 10 * DAY)
    assert said
    found = re.fullmatch(r"will be passed about (\S+), at the pace since it was made", said)
    assert found
    then = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    assert abs(then - NOW - timedelta(days=days)) < timedelta(days=1 + 0.03 * days)


def test_soon(tmp_path: Path, now: int) -> None:
    path = make(tmp_path / "a", range(500), capacity=1000, error_rate=1e-9)
    said = aged(path, now, 3600)
    assert said
    found = re.fullmatch(r"will be passed about (.*) UTC, at the pace since it was made", said)
    assert found
    then = datetime.strptime(found[1], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert abs(then - NOW - timedelta(hours=1)) < timedelta(minutes=3)


@pytest.mark.parametrize("seconds", [-DAY, 0, 59.9])
def test_too_young(tmp_path: Path, now: int, seconds: float) -> None:
    path = make(tmp_path / "a", range(100))
    assert aged(path, now, seconds) is None
    assert aged(path, now, 60) is not None


def test_nothing_to_go_by(tmp_path: Path, now: int) -> None:
    """Without a key there is no pace; a sealed filter gets no more keys, and says so."""
    assert aged(make(tmp_path / "a"), now, 10 * DAY) is None
    path = make(tmp_path / "b", range(100))
    seal(path)
    assert aged(path, now, 10 * DAY) is None
    assert rows(path)["sealed"] == "read-only for ever"
    assert "sealed" not in rows(str(tmp_path / "a"))


def test_passed(tmp_path: Path, now: int) -> None:
    path = make(tmp_path / "a", range(800), capacity=1000)
    change_header(path, CAPACITY, "<Q", 500)
    passed = "is passed: about 0.4 % of new lines are now taken for seen"
    assert aged(path, now, 0) == passed
    seal(path)
    assert aged(path, now, 10 * DAY) == passed


@pytest.mark.parametrize("created", [0, 1, 2**63, 2**64 - 1])
def test_any_time(tmp_path: Path, now: int, created: int) -> None:
    path = make(tmp_path / "a", range(1), capacity=100)
    change_header(path, CREATED, "<Q", created)
    change_header(path, CAPACITY, "<Q", 2**64 - 1)
    said = rows(path).get("capacity")
    never = "not passed in a thousand years, at the pace since it was made"
    assert said == (never if created < 2 else None)


def test_error_rates(tmp_path: Path) -> None:
    path = make(tmp_path / "a", range(1000), capacity=1000, error_rate=0.05)
    found = re.fullmatch(r"(\S+), planned 0.05", rows(path)["error rate now"])
    assert found
    assert float(found[1]) == pytest.approx(0.05, rel=0.25)


@pytest.mark.parametrize(
    ("encoding", "full", "empty"),
    [("utf-8", "█", "░"), ("ascii", "#", "-"), ("latin-1", "#", "-"), ("cp437", "█", "░")],
)
def test_bar_fits_the_encoding(tmp_path: Path, encoding: str, full: str, empty: str) -> None:
    """The bar is drawn with what stdout's encoding has, and never escaped."""
    path = make(tmp_path / "a", range(1000), capacity=1000)
    done = started("info", path, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert (done.code, done.err) == (0, "")
    found = re.search(
        rf"^fill ratio +(0\.\d+) \[?({full}+)({empty}+)\]?$",
        done.out.decode(encoding),
        re.MULTILINE,
    )
    assert found
    assert len(found[2]) + len(found[3]) == WIDTH
    assert len(found[2]) == round(WIDTH * float(found[1]))


def test_bar_is_full_and_empty_only_if_that_is_so() -> None:
    """A bar is always as wide; one key shows, and so does one clear bit."""
    for share, filled in ((0, 0), (1e-12, 1), (0.5, 20), (1 - 1e-12, 39), (1, 40)):
        assert bar(share, "ascii") == "[" + "#" * filled + "-" * (40 - filled) + "]"
        assert len(bar(share, "utf-8")) == WIDTH
    assert bar(0.5, "no-such-encoding").startswith("[#")


def test_times_are_read_from_the_header(tmp_path: Path) -> None:
    """The offset that these tests forge is the time of creation, by the format's text."""
    before = time.time_ns()
    path = make(tmp_path / "a")
    (created,) = struct.unpack_from("<Q", Path(path).read_bytes(), CREATED)
    assert before <= created <= time.time_ns()
