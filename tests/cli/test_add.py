"""mmbloom add: lines are marked, and nothing is printed."""

import io
import json
import os
import sys
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from cli_runner import EXACT, exact_filter, inside, is_one_line, mmbloom
from workers import PATIENCE

from mmbloom import BloomFilter
from mmbloom import open as open_filter
from mmbloom.cli.process import say

Capture = pytest.CaptureFixture[bytes]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks for locks in /proc")


def test_marks_lines(tmp_path: Path) -> None:
    """Every line of stdin or of the inputs is in the filter afterwards, and on the disk."""
    (tmp_path / "in").write_bytes(b"c\r\nd")
    seen = tmp_path / "seen"
    assert mmbloom("add", seen, *EXACT, stdin=b"a\nb\n") == (0, b"", "")
    assert mmbloom("add", seen, tmp_path / "in", "-", stdin=b"e") == (0, b"", "")
    with BloomFilter.open(seen, "r") as made:
        found = made.contains_many([b"a", b"b", b"c\r", b"d", b"e", b"c", b""])
        assert found.tolist() == [True] * 5 + [False] * 2
        assert made.info().flushed_ns > 0


def test_dedup_drops_what_was_added(tmp_path: Path, capfdbinary: Capture) -> None:
    """Lines that were added are not printed by dedup."""
    (tmp_path / "known").write_bytes(b"a\nb")
    (tmp_path / "in").write_bytes(b"b\nc\na\n")
    inside(capfdbinary, "add", tmp_path / "seen", tmp_path / "known", *EXACT)
    assert inside(capfdbinary, "dedup", tmp_path / "seen", tmp_path / "in").out == b"c\n"


def test_key_options(tmp_path: Path, capfdbinary: Capture) -> None:
    """The options that choose a key are those of dedup."""
    (tmp_path / "in").write_bytes(b"1,A\n2,b\n")
    argv = ("add", tmp_path / "seen", tmp_path / "in", "-t,", "-k2", "-i", *EXACT)
    assert inside(capfdbinary, *argv).code == 0
    with BloomFilter.open(tmp_path / "seen", "r") as made:
        assert made.contains_many(["a", "b", "A", "1,A"]).tolist() == [True, True, False, False]


def test_stats(tmp_path: Path, capfdbinary: Capture) -> None:
    """--stats counts lines, new ones and bytes."""
    (tmp_path / "in").write_bytes(b"a\nb\na")
    argv = ("add", tmp_path / "seen", tmp_path / "in", tmp_path / "in", "--stats", *EXACT)
    done = inside(capfdbinary, *argv)
    figures = json.loads(done.err)
    del figures["seconds"]
    assert (done.code, done.out) == (0, b"")
    assert (figures.pop("capacity"), figures.pop("approx_count")) == (100_000, 2)
    assert 0 < figures.pop("current_error_rate") < 1e-9
    assert figures.pop("past_plan") is False
    each = {"input": str(tmp_path / "in"), "lines": 3, "bytes": 5, "lacking": 0}
    assert figures.pop("inputs") == [
        {**each, "unique": 2, "repeated": 1},
        {**each, "unique": 0, "repeated": 3},
    ]
    assert figures == {"lines": 6, "unique": 2, "repeated": 4, "bytes": 10, "lacking": 0}


@pytest.mark.parametrize("command", ["add", "dedup"])
def test_lock_timeout(tmp_path: Path, command: str) -> None:
    """With --lock-timeout another writer is waited for so long: exit 4, one line, no mark."""
    path = exact_filter(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        with seen.locked():
            done = mmbloom(command, path, "--lock-timeout", "0.3", stdin=b"a\n")
        assert (done.code, done.out) == (4, b"")
        assert is_one_line(done.err, str(path), "0.3")
        assert b"a" not in seen


@pytest.mark.parametrize("command", ["add", "dedup"])
def test_lock_timeout_is_the_whole_wait(
    tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """After some seconds a line says what is waited for; these count, and the wait is no longer."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    for module in ("mmbloom._storage.lock", "mmbloom.cli.lines"):
        monkeypatch.setattr(f"{module}.time", clock)
    path = exact_filter(tmp_path / "seen")
    (tmp_path / "in").write_bytes(b"a\n")
    with BloomFilter.open(path) as seen, seen.locked():
        done = inside(capfdbinary, command, path, tmp_path / "in", "--lock-timeout", "5.1")
    assert (done.code, done.out) == (4, b"")
    first, second = done.err.splitlines(keepends=True)
    assert is_one_line(first, str(path), " is writing to this filter; waiting")
    assert is_one_line(second, str(path), "held by others for 5.1 s")
    assert sum(slept) == pytest.approx(5.1)


@pytest.mark.parametrize("options", [(), ("--lock-timeout", "60")], ids=["for ever", "long"])
def test_waiting_is_said_and_goes_on(
    tmp_path: Path,
    capfdbinary: Capture,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    """A command that waits for some seconds says so once, and works when the lock is free."""
    monkeypatch.setattr("mmbloom.cli.lines.SILENT_SECONDS", 0.05)
    path = exact_filter(tmp_path / "seen")
    (tmp_path / "in").write_bytes(b"a\n")
    locked, ended = Event(), Event()

    def say_and_end(message: str) -> None:
        say(message)
        ended.set()

    monkeypatch.setattr("mmbloom.cli.lines.say", say_and_end)

    def hold() -> None:
        with BloomFilter.open(path) as seen, seen.locked():
            locked.set()
            ended.wait(PATIENCE)

    holder = Thread(target=hold)
    holder.start()
    assert locked.wait(PATIENCE)
    done = inside(capfdbinary, "dedup", path, tmp_path / "in", *options)
    ended.set()
    holder.join(PATIENCE)
    assert (done.code, done.out) == (0, b"a\n")
    assert is_one_line(done.err, str(path), " is writing to this filter; waiting")


KINDS = pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]], ids=str)


@LINUX
@KINDS
def test_the_holder_is_named(tmp_path: Path, kind: list[str]) -> None:
    """Who is blocked learns which process has the lock, in the wait and when it gives up."""
    path = tmp_path / "seen"
    assert mmbloom("create", path, "-n", "1000", *kind).code == 0
    with open_filter(path) as seen, seen.claim([b"a"]):
        named = f"process {os.getpid()} ({Path('/proc/self/cmdline').read_text()[:20]}"
        named = named.replace("\0", " ")
        said = mmbloom("add", path, "--lock-timeout", "0.1", stdin=b"b\n")
        assert said.code == 4
        assert is_one_line(said.err, named, " has it now")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mmbloom.cli.lines.SILENT_SECONDS", 0.05)
            waited = mmbloom("add", path, "--lock-timeout", "0.2", stdin=b"b\n").err
        assert is_one_line(waited.splitlines(keepends=True)[0], named, " is writing to this filter")


@pytest.mark.parametrize("table", [None, "", "1: POSIX  ADVISORY  WRITE 1 fe:00:1 0 EOF\n"])
def test_a_holder_that_cannot_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str | None
) -> None:
    """Where the system does not say who it is, the message says that."""
    path = exact_filter(tmp_path / "seen")

    def read(name: str, *_: str, **__: str) -> io.StringIO:
        if table is None:
            raise FileNotFoundError(name)
        return io.StringIO(table)

    monkeypatch.setattr("mmbloom._system.proc.open", read, raising=False)
    monkeypatch.setattr("mmbloom.cli.lines.SILENT_SECONDS", 0.05)
    with BloomFilter.open(path) as seen, seen.locked():
        said = mmbloom("add", path, "--lock-timeout", "0.1", stdin=b"a\n").err
    first, second = said.splitlines(keepends=True)
    assert is_one_line(first, "another process, which the system does not name, is writing")
    assert is_one_line(second, "allow a longer lock timeout\n")


def test_lock_timeout_that_is_none(tmp_path: Path, capfdbinary: Capture) -> None:
    """A time that is no time is refused."""
    path = exact_filter(tmp_path / "seen")
    for text in ("-1", "soon", "nan", "inf"):
        assert inside(capfdbinary, "add", path, "--lock-timeout", text).code == 2
