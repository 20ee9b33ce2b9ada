"""mmbloom dedup: every line comes out once, byte for byte, and in order."""

import os
import random
import signal
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest
from cli_runner import (
    EXACT,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    read_soon,
    running,
    started,
    wait_until,
)
from workers import PATIENCE

from mmbloom import BloomFilter, engine
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


@pytest.mark.parametrize("argv", [(), ("-",)])
def test_reads_stdin(tmp_path: Path, argv: tuple[str, ...]) -> None:
    seen = exact_filter(tmp_path / "seen")
    assert mmbloom("dedup", seen, *argv, stdin=b"b\na\r\nb\n\xff") == (0, b"b\na\r\n\xff", "")


def test_several_inputs_in_order(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"a\nb\n")
    (tmp_path / "2").write_bytes(b"c\na\nd\n")
    argv = ("dedup", tmp_path / "seen", tmp_path / "1", "-", tmp_path / "2", *EXACT)
    assert mmbloom(*argv, stdin=b"x\nb\nc\n").out == b"a\nb\nx\nc\nd\n"


def test_inputs_are_not_glued_together(tmp_path: Path) -> None:
    for name, data in {"1": b"a\nlast", "2": b"first\nb", "3": b"b\n", "4": b"last"}.items():
        (tmp_path / name).write_bytes(data)
    inputs = [tmp_path / name for name in "1234"]
    done = inside("dedup", tmp_path / "seen", *inputs, *EXACT)
    assert done.out == b"a\nlast\nfirst\nb"


def test_same_input_twice(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n")
    inputs = [tmp_path / "in", tmp_path / "in"]
    done = inside("dedup", tmp_path / "seen", *inputs, *EXACT)
    assert done.out == b"a\nb\n"


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
            process.stdin.write(given)
            process.stdin.flush()
            assert read_soon(process.stdout, len(printed)) == printed
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == b""


def test_a_closed_pipe_marks_nothing_unwritten(tmp_path: Path) -> None:
    """When the reader of stdout is gone from the start, every line comes again."""
    reading, writing = os.pipe()
    os.close(reading)
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    try:
        assert started("dedup", seen, stdin=lines, stdout=writing) == (141, b"", "")
    finally:
        os.close(writing)
    assert mmbloom("dedup", seen, stdin=lines).out == lines


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    with Path("/dev/full").open("wb") as full:
        done = started("dedup", seen, stdin=lines, stdout=full)
    assert done.code == 5
    assert is_one_line(done.err, "No space left")
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
        assert process.stdout
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert read_soon(process.stdout, 2) == b"a\n"
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
        assert is_one_line(err.decode(), "run it again to go on (with >> in place of >)")
        assert seen.contains_many([b"a", b"b"]).tolist() == [True, False]


def test_appending_to_stdout(tmp_path: Path) -> None:
    """`>> log` appends; a line that a killed run left cut off stays a line of its own."""
    log, seen = tmp_path / "log", exact_filter(tmp_path / "seen")
    log.write_bytes(b"old\ncut o")
    for data, expected in [(b"a\nb", b"old\ncut o\na\nb"), (b"b\nc\n", b"old\ncut o\na\nb\nc\n")]:
        with log.open("ab") as file:
            assert started("dedup", seen, stdin=data, stdout=file).code == 0
        assert log.read_bytes() == expected


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
