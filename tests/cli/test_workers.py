"""mmbloom dedup --output-dir: an output per input, by several processes, none left behind."""

import errno
import gzip
import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from subprocess import Popen

import has
import pytest
from cli_runner import (
    EXACT,
    FULL_DISK,
    DiesAfterwards,
    DiesAtWork,
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

from mmbloom.cli.workers import run_jobs
from mmbloom.errors import InputError
from mmbloom.logs.dedup import Tally

JOBS = pytest.mark.parametrize("jobs", ["1", "2"])


def is_subsequence(part: list[bytes], whole: list[bytes]) -> bool:
    left = iter(whole)
    return all(line in left for line in part)


@JOBS
def test_each_line_once_over_all_outputs(tmp_path: Path, jobs: str, seed: int) -> None:
    rng, inputs = random.Random(seed), {}
    for name in ("a.log", "b.log", "c"):
        inputs[name] = [b"%d\r" % rng.randrange(12_000) for _ in range(12_000)]
        (tmp_path / name).write_bytes(b"\n".join([*inputs[name], b""]))
    (tmp_path / "zipped.log.gz").write_bytes(gzip.compress(b"1\r\nzipped\n"))
    inputs["zipped.log"] = [b"1\r", b"zipped"]
    out = tmp_path / "made" / "out"
    files = [tmp_path / name for name in ("a.log", "b.log", "c", "zipped.log.gz")]
    argv = [*files, "--output-dir", out, "-j", jobs]
    done = mmbloom("dedup", tmp_path / "seen", *argv, "--stats", *EXACT)
    assert (done.code, done.out) == (0, b"")
    assert sorted(os.listdir(out)) == ["a.log", "b.log", "c", "zipped.log"]
    printed = {name: (out / name).read_bytes().split(b"\n")[:-1] for name in inputs}
    everything = [line for lines in printed.values() for line in lines]
    assert sorted(everything) == sorted({line for lines in inputs.values() for line in lines})
    for name, lines in printed.items():
        assert is_subsequence(lines, inputs[name])
    figures = json.loads(done.err)
    assert figures["lines"] == 36_002
    assert figures["unique"] == len(everything)
    assert figures["bytes"] == sum(len(line) + 1 for lines in inputs.values() for line in lines)
    assert mmbloom("dedup", tmp_path / "seen", *argv).code == 0
    assert [(out / name).read_bytes().split(b"\n")[:-1] for name in inputs] == list(
        printed.values()
    )


@pytest.mark.skipif(not has.DEV_FD, reason="this system has no /dev/stdin")
@JOBS
def test_stdin_named_as_a_file(here: Path, jobs: str) -> None:
    """A worker reads the lines that are piped into the command, and a file that it has there."""
    Path("file").write_bytes(b"c\n")
    argv = ["/dev/stdin", "file", "--output-dir", "out", "-j", jobs, *EXACT]
    assert started("dedup", "seen", *argv, stdin=b"a\nb\n").code == 0
    assert Path("out", "stdin").read_bytes() == b"a\nb\n"
    Path("lines").write_bytes(b"d\ne\n")
    with Path("lines").open("rb") as file, running("dedup", "seen", *argv, stdin=file) as process:
        assert process.wait(PATIENCE) == 0
    assert Path("out", "stdin").read_bytes() == b"a\nb\nd\ne\n"


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_folder_that_cannot_be_made(here: Path, name: str) -> None:
    Path("file").write_bytes(b"a\n")
    done = inside("dedup", exact_filter("seen"), "file", "--output-dir", name)
    assert refused(done, 5, "file")


@JOBS
def test_an_error_in_a_worker(here: Path, jobs: str) -> None:
    Path("good").write_bytes(b"a\n")
    Path("bad.gz").write_bytes(b"no gzip at all")
    done = mmbloom("dedup", "seen", "good", "bad.gz", "--output-dir", "out", "-j", jobs, *EXACT)
    assert refused(done, 5, "bad.gz")


@JOBS
def test_a_warning_in_a_worker_is_one_line(here: Path, jobs: str) -> None:
    """That the filter is past its plan is said once, in the end, however many workers there are."""
    Path("in").write_bytes(b"".join(b"%d\n" % i for i in range(5000)))
    sizes = ("-n100", "--seed=1", "--when-full=warn")
    done = mmbloom("dedup", "seen", "in", *sizes, "--output-dir", "out", "-j", jobs)
    assert done.code == 0
    assert is_one_line(done.err, "is past its capacity", "seen")


@FULL_DISK
def test_a_full_disk_in_a_worker_names_the_output(here: Path) -> None:
    Path("out").mkdir()
    Path("out/in").symlink_to("/dev/full")
    Path("in").write_bytes(b"a\n")
    done = mmbloom("dedup", "seen", "in", "--output-dir", "out", *EXACT)
    assert refused(done, 5, "No space left", "out/in")
    assert mmbloom("dedup", "seen", "in").out == b"a\n"


def test_a_worker_that_dies_between_jobs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker killed after its answer is not taken for a closed pipe (exit 141, no message)."""
    jobs, tallies = [DiesAfterwards(), DiesAfterwards()], [Tally(), Tally()]
    ours = list[Connection]()

    def pipe(*, duplex: bool = True) -> tuple[Connection, Connection]:
        ends = Pipe(duplex)
        if duplex:  # not that by which a worker knows that it is alone
            ours.append(ends[0])
        return ends

    monkeypatch.setattr("mmbloom.cli.workers.Pipe", pipe)
    with pytest.raises(InputError, match=r"a worker process died \(exit code -14\)"):
        run_jobs(jobs, 1, tallies, lambda _: wait(ours))  # until it is dead


def test_a_worker_that_dies_at_work_is_an_error() -> None:
    with pytest.raises(InputError, match=r"a worker process died \(exit code -9\)"):
        run_jobs([DiesAtWork()], 1, [Tally()], lambda _: None)


def test_a_worker_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork(*_: object, **_options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr("mmbloom.cli.workers.Popen", fork)
    limits = "ulimit -u" if has.MACOS else "ulimit -u, or pids.max of a cgroup"
    with pytest.raises(InputError, match=rf"no more processes \({limits}\): give a smaller -j"):
        run_jobs([DiesAtWork()], 1, [Tally()], lambda _: None)


def descendants(pid: int) -> set[int]:
    """Pids of the children of a process, and of theirs."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        children = {int(child) for child in listing.read_text().split()}
        found |= children.union(*map(descendants, children))
    return found


@contextmanager
def two_workers_at_work(folder: Path) -> Iterator["Popen[bytes]"]:
    """Start dedup on two pipes that never end; give it once its workers read.

    They have its stderr, which ends when all of them have ended.
    """
    seen, fifos = exact_filter(folder / "seen"), [folder / "one", folder / "two"]
    for fifo in fifos:
        os.mkfifo(fifo)
    argv = [seen, *fifos, "--output-dir", folder / "out", "-j", "2"]
    with ExitStack() as stack:
        process = stack.enter_context(running("dedup", *argv, start_new_session=True))
        stack.callback(end_group, process.pid)
        for fifo in fifos:
            # Opened for both, so that this does not wait and the worker never sees the end.
            stack.enter_context(os.fdopen(os.open(fifo, os.O_RDWR), "wb", 0)).write(b"a\nb\n")
        outputs = [folder / "out" / fifo.name for fifo in fifos]

        def both_read() -> bool:
            return sum(out.stat().st_size for out in outputs if out.exists()) == 4 and all(
                out.exists() for out in outputs
            )

        wait_until(both_read, "both workers to read")
        yield process


def end_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
@pytest.mark.parametrize("to", ["the command", "its whole group"])
def test_signals_end_all_workers(tmp_path: Path, sent: signal.Signals, code: int, to: str) -> None:
    with two_workers_at_work(tmp_path) as process:
        (os.kill if to == "the command" else os.killpg)(process.pid, sent)
        out, err = process.communicate(timeout=PATIENCE)  # until the workers have ended
    assert (process.returncode, out) == (code, b"")
    assert (
        err == b""
        if code == 143
        else is_one_line(err.decode(), "run the same command again to continue")
    )


@pytest.mark.skipif(not has.PROC, reason="this system has no /proc, to see what is blocked")
def test_no_worker_is_interrupted(tmp_path: Path) -> None:
    """Ctrl-C at a terminal reaches the whole group; no worker answers it, the first one neither."""
    with two_workers_at_work(tmp_path) as process:
        found = descendants(process.pid)
        started_with = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found}
        workers = [pid for pid, words in started_with.items() if b"cli.workers" in words]
        assert len(workers) == 2
        for pid in workers:
            status = Path(f"/proc/{pid}/status").read_text()
            blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
            assert blocked >> (signal.SIGINT - 1) & 1


def test_workers_end_when_the_command_is_killed(tmp_path: Path) -> None:
    with two_workers_at_work(tmp_path) as process:
        process.kill()
        process.communicate(timeout=PATIENCE)  # until the workers have ended


DIES_AT_ONCE = """
import os, signal, subprocess, sys
class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
subprocess.Popen = Popen
from mmbloom.cli import main
main()
"""


def test_a_worker_whose_command_was_killed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n")
    argv = ("dedup", tmp_path / "seen", tmp_path / "in", "--output-dir", tmp_path / "out", "-j2")
    done = started(*argv, *EXACT, command=[sys.executable, "-P", "-c", DIES_AT_ONCE])
    assert done == (-signal.SIGKILL, b"", "")
