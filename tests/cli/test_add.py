"""mmbloom add: lines are marked, and nothing is printed."""

import io
import json
import os
import sys
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from cli_runner import EXACT, exact_filter, inside, is_one_line, mmbloom, refused
from workers import PATIENCE

from mmbloom import BloomFilter, CountingBloomFilter
from mmbloom import open as open_filter
from mmbloom.cli.process import say

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks for locks in /proc")


def test_marks_lines(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"c\r\nd")
    seen = tmp_path / "seen"
    assert mmbloom("add", seen, *EXACT, stdin=b"a\nb\n") == (0, b"", "")
    assert mmbloom("add", seen, tmp_path / "in", "-", stdin=b"e") == (0, b"", "")
    with BloomFilter.open(seen, "r") as made:
        found = made.contains_many([b"a", b"b", b"c\r", b"d", b"e", b"c", b""])
        assert found.tolist() == [True] * 5 + [False] * 2
        assert made.info().flushed_ns > 0


def test_dedup_drops_what_was_added(tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(b"a\nb")
    (tmp_path / "in").write_bytes(b"b\nc\na\n")
    inside("add", tmp_path / "seen", tmp_path / "known", *EXACT)
    assert inside("dedup", tmp_path / "seen", tmp_path / "in").out == b"c\n"


def test_key_options(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"1,A\n2,b\n")
    argv = ("add", tmp_path / "seen", tmp_path / "in", "-t,", "-k2", "-i", *EXACT)
    assert inside(*argv).code == 0
    with BloomFilter.open(tmp_path / "seen", "r") as made:
        assert made.contains_many(["a", "b", "A", "1,A"]).tolist() == [True, True, False, False]


def test_stats(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\na")
    argv = ("add", tmp_path / "seen", tmp_path / "in", tmp_path / "in", "--stats", *EXACT)
    done = inside(*argv)
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


@pytest.mark.parametrize("command", ["add", "dedup", "remove"])
def test_lock_timeout(tmp_path: Path, command: str) -> None:
    path, kind = tmp_path / "seen", CountingBloomFilter if command == "remove" else BloomFilter
    with kind.create(path, 1000, 1e-9) as seen:
        seen.add(b"b")
        with seen.locked():
            done = mmbloom(command, path, "--lock-timeout", "0.3", stdin=b"a\nb\n")
        assert refused(done, 4, str(path), "0.3")
        assert seen.contains_many([b"a", b"b"]).tolist() == [False, True]


@pytest.mark.parametrize("command", ["add", "dedup"])
def test_lock_timeout_is_the_whole_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """After 5 seconds a line says what is waited for; these count, and the wait is no longer."""
    slept, said = list[float](), list[float]()
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    for module in ("mmbloom._storage.lock", "mmbloom.cli.lines"):
        monkeypatch.setattr(f"{module}.time", clock)

    def say_when(message: str) -> None:
        said.append(sum(slept))
        say(message)

    monkeypatch.setattr("mmbloom.cli.lines.say", say_when)
    path = exact_filter(tmp_path / "seen")
    (tmp_path / "in").write_bytes(b"a\n")
    with BloomFilter.open(path) as seen, seen.locked():
        done = inside(command, path, tmp_path / "in", "--lock-timeout", "5.1")
    assert (done.code, done.out) == (4, b"")
    first, second = done.err.splitlines(keepends=True)
    assert is_one_line(first, str(path), " is writing to this filter; waiting")
    assert is_one_line(second, str(path), "held by others for 5.1 s")
    assert [*said, sum(slept)] == pytest.approx([5, 5.1])


@pytest.mark.parametrize("options", [(), ("--lock-timeout", "60")], ids=["for ever", "long"])
def test_waiting_is_said_and_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
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
    done = inside("dedup", path, tmp_path / "in", *options)
    ended.set()
    holder.join(PATIENCE)
    assert (done.code, done.out) == (0, b"a\n")
    assert is_one_line(done.err, str(path), " is writing to this filter; waiting")


KINDS = pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]], ids=str)


@LINUX
@KINDS
def test_the_holder_is_named(tmp_path: Path, kind: list[str]) -> None:
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
    path = exact_filter(tmp_path / "seen")

    def read(name: str, *_: str, **__: str) -> io.StringIO:
        if table is None:
            raise FileNotFoundError(name)
        return io.StringIO(table)

    monkeypatch.setattr("mmbloom._system.holders.open", read, raising=False)
    monkeypatch.setattr("mmbloom.cli.lines.SILENT_SECONDS", 0.05)
    with BloomFilter.open(path) as seen, seen.locked():
        said = mmbloom("add", path, "--lock-timeout", "0.1", stdin=b"a\n").err
    first, second = said.splitlines(keepends=True)
    assert is_one_line(first, "another process, which the system does not name, is writing")
    assert is_one_line(second, "allow a longer lock timeout\n")
