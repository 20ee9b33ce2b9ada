"""Run the command line: as a process of its own, or within this one where that is the same."""

import io
import os
import pty
import random
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import has
import pytest
from workers import PATIENCE, Child, end

from mmbloom import BloomFilter
from mmbloom.cli.commands import COMMANDS, function_of
from mmbloom.cli.main import main
from mmbloom.logs.dedup import Tally

# -P: the package that is installed, not the folder of that name where the tests are run.
COMMAND = [sys.executable, "-P", "-m", "mmbloom"]
# A command's own file is imported when it runs: here once, not by each fork of this process.
for command in COMMANDS:
    function_of(command)
# Far fewer false positives than tests have lines, and the same ones in every run.
EXACT = ("-n", "100000", "-p", "1e-9", "--seed", "7")
FULL_DISK = pytest.mark.skipif(not has.DEV_FULL, reason="this system has no /dev/full")
STDOUT = pytest.mark.skipif(not has.DEV_FD, reason="this system has no /dev/stdout")


def environment() -> dict[str, str]:
    """The environment for a command: this one, without PYTHONUNBUFFERED.

    With it nothing is left in a buffer when a disk is full, and what copes with that would go
    untested. A command that crashes prints where.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**kept, "PYTHONFAULTHANDLER": "1"}


class Ended(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        return self.out.splitlines() if b"\r" not in self.out else self.out.split(b"\n")


def mmbloom(
    *argv: object,
    stdin: bytes | IO[bytes] = b"",
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    pause: float = 0,
) -> Ended:
    """Run a command in a fork of this process, with pipes as its streams, or the files given.

    With a pause, in seconds, bytes are written to its stdin one at a time. What depends on how
    Python starts or ends is run by `started`.
    """
    reading, to_stdin = os.pipe()
    outputs = [os.pipe(), os.pipe()]
    theirs = [reading, *(writing for _, writing in outputs)]
    ours = [to_stdin, *(output for output, _ in outputs)]
    streams = [*theirs]
    if not isinstance(stdin, bytes):
        streams[0], stdin = stdin.fileno(), b""
    if stdout is not None:
        streams[1] = stdout.fileno()
    if stderr is not None:
        streams[2] = stderr.fileno()
    with forked(*argv, streams=streams, without=[*ours, *theirs]) as process:
        for fd in theirs:
            os.close(fd)
        out, err = exchange(stdin, *ours, pause=pause)
        return Ended(process.result(PATIENCE), out, err.decode())


def exchange(stdin: bytes, to_stdin: int, *outputs: int, pause: float) -> list[bytes]:
    """Write one pipe and read others, until those end; all are closed. Fails after PATIENCE."""
    os.set_blocking(to_stdin, False)
    found = dict.fromkeys(outputs, b"")
    left, writing, deadline = memoryview(stdin), [to_stdin], time.monotonic() + PATIENCE
    reading = list(outputs)
    try:
        while reading:
            assert time.monotonic() < deadline, "hung"
            readable, writable, _ = select.select(reading, writing, [], 1)
            for fd in readable:
                piece = os.read(fd, 1 << 20)
                found[fd] += piece
                if not piece:
                    reading.remove(fd)
            for fd in writable:
                try:
                    left = left[os.write(fd, left[:1] if pause else left) :] if left else left
                except BrokenPipeError:  # it has stopped reading
                    left = left[:0]
                time.sleep(pause)
                if not left:
                    writing.remove(fd)
                    os.close(fd)
    finally:
        for fd in (*writing, *outputs):
            os.close(fd)
    return list(found.values())


def started(
    *argv: object,
    stdin: bytes | None = b"",
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
    **options: Any,
) -> Ended:
    """Start a command as a shell does; further options are those of Popen."""
    options |= {"stdin": None if stdin is None else subprocess.PIPE}
    options |= {"env": {**environment(), **(env or {})}}
    with running(*argv, command=command, **options) as process:
        try:
            out, err = process.communicate(stdin, PATIENCE)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # shows the stacks
            time.sleep(0.5)
            process.kill()
            raise AssertionError(f"hung: {process.communicate()[1].decode()}") from None
    return Ended(process.returncode, out or b"", (err or b"").decode())


def code_of(argv: Sequence[str]) -> int:
    """Run a command within this process; return its exit code."""
    try:
        return main(argv)
    except SystemExit as end:  # argparse's own: --help, usage errors
        return int(end.code or 0)


def inside(*argv: object) -> Ended:
    """Run a command within this process, which is faster; stdin is not to be used."""
    with captured("stdout") as out, captured("stderr") as err:
        code = code_of([str(argument) for argument in argv])
        printed, said = (os.pread(file.fileno(), file.tell(), 0) for file in (out, err))
        return Ended(code, printed, said.decode())


@contextmanager
def captured(name: str) -> Iterator[IO[bytes]]:
    """Have what is printed to a stream of this process in a file; Python's, and the system's."""
    stream, fd = getattr(sys, name), ("stdin", "stdout", "stderr").index(name)
    before = os.dup(fd)
    with tempfile.TemporaryFile(buffering=0) as file:
        os.dup2(file.fileno(), fd)
        try:
            with io.TextIOWrapper(file, "utf-8", newline="", write_through=True) as text:
                setattr(sys, name, text)
                yield file
        finally:
            setattr(sys, name, stream)
            os.dup2(before, fd)
            os.close(before)


@contextmanager
def running(
    *argv: object, command: Sequence[str] = COMMAND, **options: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command with all streams piped (unless options say else); never leave it behind."""
    for stream in ("stdin", "stdout", "stderr"):
        options.setdefault(stream, subprocess.PIPE)
    options.setdefault("env", environment())
    process = subprocess.Popen([*command, *map(str, argv)], **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:  # what a killed process did not read
                    continue


@contextmanager
def forked(
    *argv: object, streams: Sequence[int], without: Sequence[int] = ()
) -> Iterator["Child[int]"]:
    """Start a command in a fork of this process; gone after the block.

    It has a process group of its own, and three descriptors as its streams; those of `without`
    are closed in it. A fork has imported everything already, which is most of what a short
    command costs.
    """

    def run() -> int:
        os.setsid()
        for fd, stream in enumerate(streams):
            os.dup2(stream, fd)
        for fd in {*streams, *without}:
            os.close(fd)
        # Not those of the tests, which capture them. Of stderr Python writes each line at once.
        sys.stdin, sys.stdout = (os.fdopen(fd, mode, closefd=False) for fd, mode in enumerate("rw"))
        sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        try:
            return code_of([str(argument) for argument in argv])
        finally:  # as Python ends: what cannot be written then would be its exit code 120
            sys.stdout.flush()
            sys.stderr.flush()

    process = Child(run)
    try:
        yield process
    finally:
        end(process)


def without(*libraries: str) -> list[str]:
    """Run the command in an interpreter that does not have some libraries."""
    hide = f"import sys; sys.modules |= dict.fromkeys({libraries})"
    return [sys.executable, "-P", "-c", f"{hide}; import mmbloom.cli as m; sys.exit(m.main())"]


def on_a_terminal(
    *argv: object, stdout_too: bool = False, columns: int = 80, **options: Any
) -> tuple[bytes, str]:
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (24, columns))
        if stdout_too:
            options["stdout"] = slave
        with running(*argv, stderr=slave, **options) as process:
            out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        os.write(slave, b"|END|")
        shown = b""
        while not shown.endswith(b"|END|"):
            shown += os.read(master, 65536)
    finally:
        os.close(master)
        os.close(slave)
    return out or b"", shown.decode()


def wait_until(true: Callable[[], object], what: str) -> None:
    """Wait for something to become true; fail after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited {PATIENCE} s for {what}"
        time.sleep(0.005)


def read_soon(pipe: Any, size: int) -> bytes:
    """Read `size` bytes from a pipe that stays open; fewer after PATIENCE or at its end."""
    found, deadline = b"", time.monotonic() + PATIENCE
    while len(found) < size and time.monotonic() < deadline:
        if select.select([pipe], [], [], 0.1)[0]:
            piece = os.read(pipe.fileno(), size - len(found))
            if not piece:
                break
            found += piece
    return found


def answers(process: "subprocess.Popen[bytes]", given: bytes, printed: bytes) -> bool:
    """Write to a command that goes on reading; check what it prints of that at once."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(given)
    process.stdin.flush()
    assert read_soon(process.stdout, len(printed)) == printed
    return True


def exact_filter(path: str | Path) -> Path:
    """Make a filter with next to no false positives; return its path."""
    BloomFilter.create(path, 100_000, 1e-9, seed=7).close()
    return Path(path)


def is_one_line(err: str, *names: str) -> bool:
    """Check the rule of errors: one line that says who, what, and no traceback."""
    assert err.endswith("\n"), err
    assert err.count("\n") == 1, err
    assert err.startswith("mmbloom: "), err
    for name in names:
        assert name in err, err
    return True


def refused(done: Ended, code: int, *names: str) -> bool:
    """Check that a command ended with a code, printed nothing, and said why in one line."""
    assert (done.code, done.out) == (code, b"")
    return is_one_line(done.err, *names)


class DiesAtWork:
    def run(self, _tally: Tally) -> None:
        """End as the system ends a process that takes too much memory."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is alive")


class DiesAfterwards:
    """A job whose worker process is killed right after the answer is out."""

    def run(self, _tally: Tally) -> None:
        """Answer, and be dead when the next job comes."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.2)


def size_of(outputs: list[Path]) -> int:
    return sum(output.stat().st_size for output in outputs if output.exists())


def kill_at_random(
    argv: Sequence[object], rng: random.Random, outputs: list[Path], longest: float = 0.08
) -> bool:
    """Start a run and kill -9 its whole group soon after it began to write; was it running?"""
    before = size_of(outputs)
    with (
        open(os.devnull, "r+b") as null,
        outputs[0].open("ab") as stdout,
        forked(*argv, streams=[file.fileno() for file in (null, stdout, null)]) as process,
    ):
        deadline = time.monotonic() + PATIENCE
        while process.alive() and size_of(outputs) == before:
            assert time.monotonic() < deadline
            time.sleep(0.0005)
        time.sleep(rng.random() ** 2 * longest)
        if not process.alive():
            return False
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait() == -signal.SIGKILL
