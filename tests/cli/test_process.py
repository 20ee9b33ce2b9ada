"""A command that is asked to end, or that nobody reads, unwinds with the usual exit code."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from unittest import mock

import has
import pytest
from checks import check_folder, in_thread
from cli_runner import (
    COMMAND,
    FULL_DISK,
    answers,
    code_of,
    exact_filter,
    is_one_line,
    mmbloom,
    refused,
    running,
    started,
    wait_until,
)
from workers import PATIENCE, Child, ChildFailedError, end

from mmbloom import BloomFilter
from mmbloom.cli.main import main
from mmbloom.cli.process import unwinding

# Whoever runs the tests under nohup, or in the background, has signals ignored that children
# inherit.
HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""
# A command whose forcing of the new file to the disk takes as long as stdin is open.
SLOW = """
import os, sys
from mmbloom._system import disk
from mmbloom.cli.main import main
fsync = disk.sync
def slow(fd):
    print("forcing", flush=True)
    os.read(0, 1)
    fsync(fd)
disk.sync = slow
sys.exit(main(sys.argv[1:]))
"""
COMMANDS = {
    "create": ("create", "made", "-n", "1000"),
    "copy": ("copy", "seen", "made"),
    "merge": ("merge", "made", "seen"),
    "repair": ("repair", "seen", "made"),
}


def start(folder: Path, *argv: str, under: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
    """Start a command, and wait until it forces its file to the disk."""
    child = subprocess.Popen(
        [*under, sys.executable, "-P", "-c", SLOW if under else HEARING + SLOW, *argv],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout
    assert child.stdout.readline() == b"forcing\n"
    return child


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    BloomFilter.create(tmp_path / "seen", 1000).close()
    return tmp_path


SENT = pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)


@pytest.mark.parametrize("command", COMMANDS)
@SENT
def test_no_half_made_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, sent: signal.Signals, code: int
) -> None:
    """Law 8: a command that is asked to end takes its temporary file with it."""
    monkeypatch.chdir(folder)

    def run() -> int:
        exec(HEARING)
        with mock.patch("mmbloom._system.disk.sync", forcing):
            return code_of(COMMANDS[command])

    def forcing(fd: int) -> None:
        (folder / "forcing").touch()
        while True:  # a signal that comes right before a sleep is answered after it
            time.sleep(0.01)

    child = Child(run)
    try:
        wait_until((folder / "forcing").exists, "the file to be forced to the disk")
        assert [*folder.glob(".mmbloom-*")]
        os.kill(child.pid, sent)
        assert child.result() == code
    finally:
        end(child)
    (folder / "forcing").unlink()
    check_folder(folder, "seen")


@SENT
def test_no_half_made_file_of_a_process(folder: Path, sent: signal.Signals, code: int) -> None:
    with start(folder, *COMMANDS["create"]) as child:
        assert [name for name in os.listdir(folder) if name.startswith(".mmbloom-")]
        child.send_signal(sent)
        _, err = child.communicate(timeout=PATIENCE)
        said = b"mmbloom: interrupted; no incomplete file is left\n" if code == 130 else b""
        assert (child.returncode, err) == (code, said)
    check_folder(folder, "seen")


@pytest.mark.parametrize("command", ["dedup", "add", "remove"])
def test_interrupted_amid_lines(folder: Path, command: str) -> None:
    kind = ["--counting"] if command == "remove" else []
    assert mmbloom("create", folder / "lines", "-n", "1000", *kind).code == 0
    with running(command, folder / "lines") as process:
        # More than a pipe holds: when all is written, the command has read most of it.
        assert answers(process, (b"a" * 999 + b"\n") * 4000, b"")
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE)[1].decode()
        assert process.returncode == 130, said
        assert is_one_line(said, "interrupted; ", "run the same command again to continue")


def test_interrupted_dry_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    with running("dedup", folder / "lines", "-n", "9", "--dry-run") as process:
        assert process.stderr
        assert answers(process, b"a\n", b"a\n")
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"mmbloom: interrupted\n"
        assert process.wait(PATIENCE) == 130
    assert not os.listdir(folder / "tmp")
    assert not (folder / "lines").exists()


class Finalized:
    """What is interrupted by a signal while it is finalized, where exceptions are ignored."""

    def __init__(self, sent: signal.Signals) -> None:
        self.sent = sent

    def __del__(self) -> None:
        os.kill(os.getpid(), self.sent)


@SENT
def test_interrupted_in_a_finalizer(
    sent: signal.Signals, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    def run() -> int:
        exec(HEARING)
        with unwinding():
            Finalized(sent)
            for _ in range(1000):  # as above
                time.sleep(0.01)
        return 0

    child = Child(run)
    try:
        with pytest.raises(ChildFailedError, match=r"KeyboardInterrupt|SystemExit") as caught:
            child.result()
    finally:
        end(child)
    assert code == 130 or f"SystemExit: {code}" in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("where", ["argparse", "numpy.linalg", "mmbloom.logs.dedup"])
def test_interrupted_amid_imports(folder: Path, where: str) -> None:
    """Nothing is done yet: the process ends at once, without a traceback, as by the signal."""
    verbose = [sys.executable, "-P", "-X", "importtime", "-m", "mmbloom"]
    codes = list[int]()
    for _ in range(5):
        with running("dedup", folder / "seen", command=verbose) as process:
            assert process.stderr
            for line in process.stderr:  # each import when it is done
                if line.split()[-1].decode() == where:
                    process.send_signal(signal.SIGINT)
                    break
            left = process.stderr.read().decode()
            code = process.wait(PATIENCE)
        assert "Traceback" not in left
        assert code in (-signal.SIGINT, 130)
        begun = where == "mmbloom.logs.dedup" or "mmbloom.logs.dedup\n" in left  # it came late
        assert code == -signal.SIGINT or begun
        codes.append(code)
    assert where == "mmbloom.logs.dedup" or -signal.SIGINT in codes  # not late each time


def test_ignored_interrupt_stays_ignored(folder: Path) -> None:
    """What a shell without job control starts in the background goes on after Ctrl-C."""
    quiet = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-P", "-m", "mmbloom"]
    with running("dedup", folder / "seen", command=quiet) as process:
        assert process.stdin
        assert answers(process, b"a\n", b"a\n")
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_ignored_hangup_stays_ignored(folder: Path) -> None:
    """Under nohup a command goes on when its terminal is closed."""
    with start(folder, "copy", "seen", "made", under=("nohup",)) as started:
        started.send_signal(signal.SIGHUP)
        assert started.stdin
        started.stdin.write(b"on\n")  # as many as there are calls
        started.stdin.close()
        assert started.wait(PATIENCE) == 0
    check_folder(folder, "made", "seen")


def test_handlers_of_a_caller_come_back(capfd: pytest.CaptureFixture[str]) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    theirs = [signal.getsignal(number) for number in numbers]
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what main answers in its own way
        before = [signal.getsignal(number) for number in numbers]
        assert main(["plan", "-n", "100"]) == 0
        assert [signal.getsignal(number) for number in numbers] == before
    finally:
        for number, handler in zip(numbers, theirs, strict=True):
            signal.signal(number, handler)


def test_command_in_a_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """Where no handler can be set, in a thread that is not the main one, a command works."""
    assert in_thread(lambda: main(["plan", "-n", "100"])) == 0
    assert "100" in capfd.readouterr().out


# Interrupts the process when it starts a thread, the one whose number is in the environment. That
# thread begins when the interpreter has ended, or late.
LATE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static void *(*run)(void *), *given;
static atomic_int number, waiting, ended;

static void *run_late(void *nothing)
{
    for (int ms = 0; ms < 300 && !ended; ms++)
        usleep(1000);
    waiting = 0;
    return run(given);
}

int pthread_create(pthread_t *made, const pthread_attr_t *how, void *(*its)(void *), void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    if (++number != atoi(getenv("INTERRUPTED_THREAD")))
        return create(made, how, its, argument);
    run = its, given = argument, waiting = 1;
    int refused = create(made, how, run_late, NULL);
    kill(getpid(), SIGINT);
    usleep(20000); /* for another thread to receive it, and to ask for Python's lock */
    return refused;
}

__attribute__((destructor)) static void end(void)
{
    int left = waiting;
    ended = 1;
    if (left)
        usleep(200000); /* it runs, or crashes */
}
"""


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compile LATE; return an environment in which it is preloaded, and freed memory is filled."""
    if has.MACOS or not (compiler := shutil.which("cc")):
        pytest.skip("this system has no C compiler, or preloads nothing")
    folder = tmp_path_factory.mktemp("late")
    (folder / "late.c").write_text(LATE)
    command = [compiler, "-shared", "-fPIC", "-o", "late.so", "late.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    preloaded = f"{os.environ.get('LD_PRELOAD', '')} {folder / 'late.so'}".strip()
    return {"LD_PRELOAD": preloaded, "MALLOC_PERTURB_": "165", "OPENBLAS_NUM_THREADS": "1"}


RUN = f"{HEARING}\nimport sys\nfrom mmbloom.cli import main, report\n"
WITH_BAR = f"{RUN}\nreport._bar_wanted = lambda *_, **options: True\n"
CALLED = "sys.exit(main(sys.argv[1:]))"
THREADS = {
    "dedup": ("dedup made -n 1000", RUN),
    "check": ("check seen", RUN),
    "add": ("add seen --progress", RUN),
    **({"create": ("create made -n 1000", WITH_BAR)} if has.TRANSFERRED else {}),
}


@pytest.mark.parametrize(("command", "script"), THREADS.values(), ids=THREADS)
def test_interrupted_before_a_thread_begins(
    folder: Path, late: dict[str, str], command: str, script: str
) -> None:
    """The interpreter does not end before the thread has begun, as CPython 3.11.2 would crash."""
    env, ran = {**late, "INTERRUPTED_THREAD": "1"}, [sys.executable, "-P", "-c", script + CALLED]
    done = started(*command.split(), stdin=b"a\n", cwd=folder, env=env, command=ran)
    assert done.code == 130, done.err
    assert "Traceback" not in done.err


# A thread that begins when the main one waits for it, which a signal then interrupts as it is
# about to take a lock back.
WAITED_FOR = """
import os, threading
from queue import SimpleQueue
waits, bootstrap = SimpleQueue(), threading.Thread._bootstrap
def begin(thread):
    waits.get()
    bootstrap(thread)
def release(condition, release=threading.Condition._release_save):
    waits.put(None)
    return release(condition)
def take_back(condition, state, take_back=threading.Condition._acquire_restore):
    if threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)
    take_back(condition, state)
threading.Thread._bootstrap = begin
threading.Condition._release_save, threading.Condition._acquire_restore = release, take_back
"""


@pytest.mark.parametrize(("command", "script"), THREADS.values(), ids=THREADS)
def test_interrupted_while_a_thread_begins(folder: Path, command: str, script: str) -> None:
    """The interrupt comes out of the start as itself, not as an error of a lock."""
    ran = [sys.executable, "-P", "-c", script + WAITED_FOR + CALLED]
    done = started(*command.split(), stdin=b"a\n", cwd=folder, command=ran)
    assert done.code == 130, done.err
    assert "Traceback" not in done.err


# Its own thread receives the interrupt, which the main one has blocked. As that thread also wants
# Python's lock, the main one answers the interrupt before it waits for the new thread.
PROGRAM = """
import io, sys, threading, numpy as np, mmbloom
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import LineWriter, read_chunks
def work():
    while True:
        pass
threading.Thread(target=work, daemon=True).start()
try:
    with mmbloom.open("seen", threads=2) as seen:
        {}
except (KeyboardInterrupt, RuntimeError):  # the latter is of a lock in Thread.start
    sys.exit(130)
"""
CALLS = {
    "dedup": "dedup(seen, read_chunks(io.BytesIO(b'a')), LineWriter(open('out', 'wb', 0)))",
    "batch": "seen.contains_many(np.arange(10**6))",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_program_with_threads_of_its_own(folder: Path, late: dict[str, str], call: str) -> None:
    """A program that uses the library does not end before a thread has begun, either."""
    ran = [sys.executable, "-P", "-c", HEARING + PROGRAM.format(call)]
    done = started(cwd=folder, env={**late, "INTERRUPTED_THREAD": "2"}, command=ran)
    assert done.code == 130, done.err


@contextmanager
def unread() -> Iterator[IO[bytes]]:
    """A pipe that nobody reads, to write to."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb", buffering=0) as pipe:
        yield pipe


@pytest.fixture
def here(here: Path) -> Path:
    """A folder to run commands in, with a filter and a file of its lines."""
    with BloomFilter.open(exact_filter("seen")) as seen:
        seen.add_many(["a", "b"])
        seen.exclusions.add("c")
    Path("in").write_bytes(b"a\nb\n")
    return here


PRINTS = pytest.mark.parametrize(
    "command",
    [
        "check seen in",
        "check seen in -c",
        "compare seen seen",
        "dedup --help",
        "dedup fresh in -n 1000",
        "dedup seen in -d",
        "exclude seen --list",
        "info seen",
        "info seen seen",
        "plan -n 1e6",
        "verify seen",
    ],
)


@PRINTS
def test_whatever_is_not_read(here: Path, command: str) -> None:
    """Every command that prints, to a pipe that nobody reads: 141, and nothing on stderr."""
    with unread() as pipe:
        assert mmbloom(*command.split(), stdout=pipe) == (141, b"", "")


@FULL_DISK
@PRINTS
def test_whatever_does_not_fit(here: Path, command: str) -> None:
    """And to a disk that is full: 5, and one line, also where it fails at the very end."""
    with Path("/dev/full").open("wb") as full:
        assert refused(mmbloom(*command.split(), stdout=full), 5, "stdout: No space left")


@pytest.mark.parametrize("command", ["check", "dedup"])
def test_a_closed_pipe_ends_quietly(tmp_path: Path, command: str) -> None:
    """`| head` ends it as it ends other tools; all that the pipe did not take comes again."""
    seen, lines = tmp_path / "seen", [b"line %d\n" % i for i in range(400_000)]  # for any pipe
    (tmp_path / "in").write_bytes(b"".join(lines))
    BloomFilter.create(seen, len(lines), 1e-9).close()
    if command == "check":
        assert mmbloom("add", seen, tmp_path / "in").code == 0
    with running(command, seen, tmp_path / "in") as process:
        assert process.stdout
        assert process.stderr
        read = process.stdout.read(200_000)
        assert read.startswith(b"line 0\n")
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
        assert process.stderr.read() == b""
    if command == "dedup":
        again = mmbloom("dedup", seen, tmp_path / "in").out
        assert b"".join(lines).endswith(again)
        marked = sum(map(len, lines)) - len(again)
        in_pipe = (1 << 20) if has.PIPE_SIZES else (1 << 16)
        assert 0 < marked <= len(read) + in_pipe + (1 << 20)  # what Python has read ahead


def test_processes_that_are_not_read(tmp_path: Path) -> None:
    with unread() as pipe:
        assert started("dedup", "--help", stdout=pipe) == (141, b"", "")
        assert started("info", exact_filter(tmp_path / "seen"), stdout=pipe) == (141, b"", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_pipeline_fails_with_it(tmp_path: Path) -> None:
    """With pipefail a script sees that the lines were not all printed; seq ends the same way.

    They are more than a pipe holds: else all are printed before `head` has ended, if that is slow.
    """
    (tmp_path / "in").write_bytes(b"".join(b"line %040d\n" % i for i in range(90_000)))  # 4 MB
    command = [*COMMAND, "dedup", str(exact_filter(tmp_path / "seen")), str(tmp_path / "in")]
    for one in (shlex.join(command), "seq 1000000"):
        ended = subprocess.run(
            ["bash", "-c", f"{one} | head -n 1; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            check=True,
        )
        assert ended.stdout.splitlines()[1:] == [b"141"]
        assert ended.stderr == b""
