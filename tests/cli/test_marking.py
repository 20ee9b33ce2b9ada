"""mmbloom dedup and add: each line comes out once, byte for byte, in order, and is marked."""

import io
import json
import os
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from threading import Event, Thread
from types import SimpleNamespace

import has
import pytest
from cli_runner import (
    EXACT,
    FULL_DISK,
    answers,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    refused,
    running,
    started,
    wait_until,
)
from workers import PATIENCE

from mmbloom import BloomFilter, CountingBloomFilter, engine
from mmbloom import open as open_filter
from mmbloom.cli.process import say
from mmbloom.format.header import Header, decode

STREAMS = {
    "crlf": (b"a\r\nb\r\na\r\na\n", b"a\r\nb\r\na\n"),
    "lone cr": (b"a\rb\na\rb\n\r\n", b"a\rb\n\r\n"),
    "invalid utf-8": (b"\xfe\xfd\n\xc3\n\xfe\xfd\n\xc3(\n", b"\xfe\xfd\n\xc3\n\xc3(\n"),
    "nul": (b"a\0b\na\0c\na\0b\n\0\n", b"a\0b\na\0c\n\0\n"),
    "empty lines": (b"\n\n\na\n\n", b"\na\n"),
    "blanks": (b"a\n a\na \na\n", b"a\n a\na \n"),
    "no newline at the end": (b"a\nb", b"a\nb"),
    "known last line without newline": (b"a\nb\na", b"a\nb\n"),
    "only one line, unfinished": (b"a", b"a"),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize(("data", "expected"), STREAMS.values(), ids=STREAMS)
def test_byte_for_byte(tmp_path: Path, data: bytes, expected: bytes) -> None:
    (tmp_path / "in").write_bytes(data)
    argv = ("dedup", tmp_path / "seen", tmp_path / "in", *EXACT)
    assert inside(*argv) == (0, expected, "")
    assert inside(*argv) == (0, b"", "")


# Files, inputs as they are named, stdin, and what is printed.
INPUTS: dict[str, tuple[dict[str, bytes], str, bytes, bytes]] = {
    "stdin": ({}, "", b"b\na\r\nb\n\xff", b"b\na\r\n\xff"),
    "stdin by name": ({}, "-", b"b\na\r\nb\n\xff", b"b\na\r\n\xff"),
    "in the order given": (
        {"1": b"a\nb\n", "2": b"c\na\nd\n"},
        "1 - 2",
        b"x\nb\nc\n",
        b"a\nb\nx\nc\nd\n",
    ),
    "not glued together": (
        {"1": b"a\nlast", "2": b"first\nb", "3": b"b\n", "4": b"last"},
        "1 2 3 4",
        b"",
        b"a\nlast\nfirst\nb",
    ),
    "the same twice": ({"1": b"a\nb\n"}, "1 1", b"", b"a\nb\n"),
}


@pytest.mark.parametrize(("files", "named", "stdin", "out"), INPUTS.values(), ids=INPUTS)
def test_inputs(here: Path, files: dict[str, bytes], named: str, stdin: bytes, out: bytes) -> None:
    for name, data in files.items():
        Path(name).write_bytes(data)
    assert mmbloom("dedup", "seen", *named.split(), *EXACT, stdin=stdin) == (0, out, "")


def test_many_lines_like_a_dict(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [b"%x\r" % rng.randrange(60_000) for _ in range(200_000)]
    data, seen = b"\n".join(lines), tmp_path / "seen"
    expected = list(dict.fromkeys(lines))
    done = mmbloom("dedup", seen, *EXACT, stdin=data)
    assert done.code == 0
    assert done.out.removesuffix(b"\n").split(b"\n") == expected
    assert mmbloom("dedup", seen, stdin=data) == (0, b"", "")


def test_a_line_of_100_mb(tmp_path: Path) -> None:
    """A line of 100 MB comes out exactly as it went in, in 10 s of a processor, and only once."""
    piece = random.Random(1).randbytes(1 << 20).replace(b"\n", b"\r")
    data, path, out = piece * 100, tmp_path / "in", tmp_path / "out"
    path.write_bytes(b"first\n" + data + b"\nfirst\n" + data)
    # The numpy engine has SipHash of one long key at 4 MB a second only, as the README says.
    fast = ("--hash", "siphash" if engine == "compiled" else "murmur3")
    before = getrusage(RUSAGE_CHILDREN)
    with out.open("wb") as file:
        done = started("dedup", tmp_path / "seen", path, *EXACT, *fast, stdout=file)
    after = getrusage(RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10
    assert done.code == 0
    assert out.read_bytes() == b"first\n" + data + b"\n"


def test_a_line_is_printed_as_soon_as_it_is_read(tmp_path: Path) -> None:
    with running("dedup", exact_filter(tmp_path / "seen")) as process:
        assert process.stdin
        assert process.stdout
        steps = [(b"a\n", b"a\n"), (b"a\nb\nhalf", b"b\n"), (b" done\n", b"half done\n")]
        for given, printed in steps:
            assert answers(process, given, printed)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""


@pytest.mark.parametrize(
    "to", ["a pipe that nobody reads", pytest.param("a full disk", marks=FULL_DISK)]
)
def test_what_was_not_printed_comes_again(tmp_path: Path, to: str) -> None:
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe, ExitStack() as stack:
        full = stack.enter_context(open("/dev/full", "wb")) if "full" in to else pipe
        done = started("dedup", seen, stdin=lines, stdout=full)
    if "full" in to:
        assert refused(done, 5, "No space left")
    else:
        assert done == (141, b"", "")
    assert mmbloom("dedup", seen, stdin=lines).out == lines


def test_two_processes_print_each_line_once(tmp_path: Path, seed: int) -> None:
    lines = [b"%d\n" % i for i in range(60_000)]
    rng, path = random.Random(seed), exact_filter(tmp_path / "seen")
    outputs = [tmp_path / "out1", tmp_path / "out2"]
    for i in (1, 2):
        (tmp_path / f"in{i}").write_bytes(b"".join(rng.sample(lines, len(lines))))
    with (
        BloomFilter.open(path) as seen,
        running("dedup", path, tmp_path / "in1", "-o", outputs[0]) as one,
        running("dedup", path, tmp_path / "in2", "-o", outputs[1]) as two,
    ):
        with seen.locked():  # until both wait for it
            wait_until(lambda: all(output.exists() for output in outputs), "both to start")
            time.sleep(0.1)
        assert [one.wait(PATIENCE), two.wait(PATIENCE)] == [0, 0]
    printed = [output.read_bytes().splitlines(keepends=True) for output in outputs]
    assert sorted(printed[0] + printed[1]) == sorted(lines)


@pytest.mark.parametrize("where", ["reading", "waiting for the lock"])
def test_interrupted(tmp_path: Path, where: str) -> None:
    path = exact_filter(tmp_path / "seen")
    with BloomFilter.open(path) as seen, running("dedup", path) as process:
        assert process.stdin
        assert answers(process, b"a\n", b"a\n")
        wait_until(lambda: b"a" in seen, "the mark")
        if where == "reading":
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        else:
            with seen.locked():
                process.stdin.write(b"b\n")
                process.stdin.flush()
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (130, b"")
        assert is_one_line(
            err.decode(), "run the same command again to continue (with >> instead of >)"
        )
        assert seen.contains_many([b"a", b"b"]).tolist() == [True, False]


@pytest.mark.parametrize("command", ["dedup", "add", "check", "remove", "exclude"])
def test_proves_its_filter_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    kind = ("--counting",) if command == "remove" else ()
    assert inside("create", tmp_path / "seen", *EXACT, *kind).code == 0
    (tmp_path / "in").write_bytes(b"a\n")
    proved = []

    def decoded(raw: bytes, size: int, path: str) -> Header:
        proved.append(path)
        return decode(raw, size, path)

    monkeypatch.setattr("mmbloom._storage.opening.decode", decoded)
    words = ("--add", "a") if command == "exclude" else (tmp_path / "in",)
    assert inside(command, tmp_path / "seen", *words).code in (0, 1)
    assert proved == [str(tmp_path / "seen")]


def test_marks_lines(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"c\r\nd")
    seen = tmp_path / "seen"
    assert mmbloom("add", seen, *EXACT, stdin=b"a\nb\n") == (0, b"", "")
    assert mmbloom("add", seen, tmp_path / "in", "-", stdin=b"e") == (0, b"", "")
    with BloomFilter.open(seen, "r") as made:
        found = made.contains_many([b"a", b"b", b"c\r", b"d", b"e", b"c", b""])
        assert found.tolist() == [True] * 5 + [False] * 2
        assert made.info().flushed_ns > 0


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
        assert (b"a" in seen, b"b" in seen) == (False, True)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
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


@pytest.mark.skipif(not has.HOLDERS, reason="this system does not say who has a lock")
@KINDS
def test_the_holder_is_named(tmp_path: Path, kind: list[str]) -> None:
    path = tmp_path / "seen"
    assert mmbloom("create", path, "-n", "1000", *kind).code == 0
    with open_filter(path) as seen, seen.claim([b"a"]):
        named = f"process {os.getpid()} ({Path('/proc/self/cmdline').read_text()[:20]}"
        named = named.replace("\0", " ")
        done = mmbloom("add", path, "--lock-timeout", "0.1", stdin=b"b\n")
        assert refused(done, 4, named, " holds it now")
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

    monkeypatch.setattr("mmbloom._system.locks.open", read, raising=False)
    monkeypatch.setattr("mmbloom.cli.lines.SILENT_SECONDS", 0.05)
    with BloomFilter.open(path) as seen, seen.locked():
        said = mmbloom("add", path, "--lock-timeout", "0.1", stdin=b"a\n").err
    first, second = said.splitlines(keepends=True)
    if has.MACOS:
        shown = f"one of the processes that `lsof {path}` shows"
        assert is_one_line(first, f"{shown} is writing")
        assert is_one_line(second, f"allow a longer lock timeout; {shown} holds it now\n")
    else:
        assert is_one_line(first, "another process, which the system does not name, is writing")
        assert is_one_line(second, "allow a longer lock timeout\n")


@pytest.mark.parametrize(("kind", "option"), [([], ""), (["--growing"], "+d ")], ids=str)
def test_what_shows_the_holder_on_macos(
    here: Path, monkeypatch: pytest.MonkeyPatch, kind: list[str], option: str
) -> None:
    assert mmbloom("create", "one seen", "-n", "1000", *kind).code == 0
    monkeypatch.setattr("mmbloom._system.locks.holders", lambda _: [])
    monkeypatch.setattr("mmbloom._system.locks.sys", SimpleNamespace(platform="darwin"))
    with open_filter("one seen") as seen, seen.claim([b"a"]):
        done = mmbloom("add", "one seen", "--lock-timeout", "0", stdin=b"b\n")
    command = f"lsof {option}'{here}/one seen'"
    assert refused(done, 4, f"one of the processes that `{command}` shows holds it now\n")
