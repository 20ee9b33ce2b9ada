"""Lines before marks (law 6): with --durable, after a kill, and where the disk is full."""

import errno
import mmap
import os
import pickle
import random
import re
import resource
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import has
import pytest
from cli_runner import (
    EXACT,
    FULL_DISK,
    STDOUT,
    exact_filter,
    forked,
    inside,
    is_one_line,
    kill_at_random,
    mmbloom,
    read_soon,
    refused,
    started,
)
from faults import mount_tmpfs
from frames import held_by
from tally import Count
from workers import in_child

from mmbloom import BloomFilter, GrowingFilter, verify
from mmbloom import open as open_filter
from mmbloom._system import disk
from mmbloom._system.descriptors import path_of
from mmbloom.cli.marking import FileJob
from mmbloom.filters.claim import Claim
from mmbloom.logs.dedup import Tally

TO = {"-o": ("-o", "out"), "--output-dir": ("--output-dir", "new/out")}


class Disk:
    """What was forced to the disk, and whether that was before the marks that need it."""

    def __init__(self, durable: bool, outputs: Sequence[Path]) -> None:
        self.durable, self.outputs = durable, outputs
        self.on_disk: dict[Path, int] = {}  # bytes of a file; 0 for the names in a folder
        self.lines: dict[Path, int] = {}  # of each output, on the disk
        self.marks = self.flushes = self.marked = 0
        self.fsync = disk.sync

    def sync(self, fd: int) -> None:
        self.fsync(fd)
        there = Path(os.path.realpath(path_of(fd)))
        of_file = stat.S_ISREG(os.fstat(fd).st_mode)
        self.on_disk[there] = os.fstat(fd).st_size if of_file else 0
        if there in self.outputs:  # only what was there when it was forced
            self.lines[there] = there.read_bytes()[: self.on_disk[there]].count(b"\n")

    def mark(self, lines: int) -> None:
        self.marks += 1
        self.marked += lines
        if self.durable and self.outputs:
            assert self.marked <= sum(self.lines.values()), "a mark is before its line"
            for output in self.lines:
                assert output.parent in self.on_disk, "the name of the output may be lost"

    def flush(self) -> None:
        self.flushes += 1
        self.check(self.outputs)

    def check(self, outputs: Any) -> None:
        for output in outputs:
            assert self.on_disk[output] == output.stat().st_size
            assert output.parent in self.on_disk, "the name of the output may be lost"


def watch(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell of every fsync, mark and flush; jobs are run one by one, in this process."""

    class Map(mmap.mmap):
        def flush(self, *args: int) -> None:
            disk.flush()
            super().flush(*args)

    end = Claim._end

    def ended(claim: Claim, kind: type[BaseException] | None) -> None:
        if kind is None:
            disk.mark(int(claim._claimed.new.sum()))
        end(claim, kind)

    def run_jobs(
        jobs: Sequence[FileJob], _: int, tallies: Sequence[Tally], _done: Callable[..., None]
    ) -> None:
        for job, tally in zip(jobs, tallies, strict=True):
            pickle.loads(pickle.dumps(job)).run(tally)

    monkeypatch.setattr("mmbloom._system.disk.sync", disk.sync)
    monkeypatch.setattr(mmap, "mmap", Map)
    monkeypatch.setattr(Claim, "_end", ended)
    monkeypatch.setattr("mmbloom.cli.workers.run_jobs", run_jobs)


@pytest.mark.laws("T17")
@pytest.mark.parametrize("durable", [True, False], ids=["--durable", "without"])
@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("kind", ["file", "growing"])
def test_outputs_before_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, kind: str, *, durable: bool
) -> None:
    """Law 6: no flush before all outputs are on the disk, and with --durable no mark either."""
    inputs = [tmp_path / name for name in ("a", "b")]
    for path in inputs:
        path.write_bytes(b"".join(b"%s %d\n" % (path.name.encode(), i) for i in range(20_000)))
    outputs = [tmp_path / "out"] if to == "-o" else [tmp_path / "new/out" / p.name for p in inputs]
    if kind == "file":
        exact_filter(tmp_path / "seen")
    else:
        GrowingFilter.create(tmp_path / "seen", 1000, 1e-9).close()
    disk = Disk(durable, outputs)
    watch(disk, monkeypatch)
    options = [
        str(tmp_path / word) if "out" in word and word[0] != "-" else word for word in TO[to]
    ]
    argv = ["dedup", tmp_path / "seen", *inputs, *options, *["--durable"] * durable]
    assert inside(*argv) == (0, b"", "")
    assert sum(output.stat().st_size for output in outputs) == sum(
        path.stat().st_size for path in inputs
    )
    files = 1 if kind == "file" else len([*(tmp_path / "seen").glob("*.bloom")])
    assert (disk.marks >= 4, disk.flushes) == (True, files)
    made = [tmp_path, *({tmp_path / "new", outputs[0].parent} if to == "--output-dir" else ())]
    assert {*made} <= disk.on_disk.keys()


@pytest.mark.laws("T17")
@pytest.mark.parametrize("known", [True, False], ids=["", "removed meanwhile"])
def test_stdout_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Law 6: with --durable stdout is forced to the disk as well; without, nothing is flushed.

    A file that has no name any more has none to force.
    """
    seen, out, synced = exact_filter(tmp_path / "seen"), tmp_path / "out", tmp_path / "synced"
    (tmp_path / "in").write_bytes(b"a\nb\n")
    argv = ("dedup", seen, tmp_path / "in")
    with out.open("ab") as stdout:
        assert started(*argv, stdout=stdout).code == 0
        with open_filter(seen, "r") as filter_file:
            assert filter_file.info().flushed_ns == 0
    exact_filter(tmp_path / "again")
    with out.open("wb") as stdout, open(os.devnull, "r+b") as null:
        disk = Disk(durable=True, outputs=[out] if known else [])
        watch(disk, monkeypatch)
        monkeypatch.setattr(os, "sync", synced.touch)
        if not known:
            out.unlink()
        streams = [null.fileno(), stdout.fileno(), null.fileno()]
        fresh = ("dedup", tmp_path / "again", tmp_path / "in", "--durable")
        with forked(*fresh, streams=streams) as process:
            assert process.result() == 0
        assert os.fstat(stdout.fileno()).st_size == 4
    with open_filter(tmp_path / "again", "r") as filter_file:
        assert filter_file.info().flushed_ns > 0
    assert synced.exists() == (not known)


@pytest.mark.laws("T17")
@pytest.mark.parametrize(
    "options",
    [["-o", "fifo"], pytest.param(["-o", "/dev/stdout"], marks=STDOUT), ["--output-dir", "."]],
)
def test_pipe_that_is_named(here: Path, options: list[str]) -> None:
    """Law 6: marks of lines that are in a pipe are left to the system, as of stdout."""
    exact_filter(Path("seen"))
    Path("logs").mkdir()
    Path("logs/fifo").write_bytes(b"a\nb\n")
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = mmbloom("dedup", "seen", "logs/fifo", *options)
        assert (done.code, done.err) == (0, "")
        assert done.out or os.read(reader, 100) == b"a\nb\n"
    finally:
        os.close(reader)
    with open_filter("seen", "r") as filter_file:
        assert filter_file.info().flushed_ns == 0


REFUSED = {
    "a pipe": ([], "stdout"),
    "a device": (["-o", "/dev/null"], "/dev/null"),
    "a pipe by name": (["-o", "fifo"], "fifo"),
    "one of several": (["--output-dir", "out"], "out/in"),
}


@pytest.mark.parametrize(("options", "name"), REFUSED.values(), ids=REFUSED)
def test_outputs_that_cannot_be_forced(here: Path, options: list[str], name: str) -> None:
    Path("in").write_bytes(b"a\n")
    Path("out").mkdir()
    Path("out/in").symlink_to("/dev/null")
    os.mkfifo("fifo")
    done = mmbloom("dedup", "seen", "in", "--durable", *options, *EXACT)
    assert refused(done, 2, name, "--durable", "-o OUTPUT")
    assert not Path("seen").exists()


@pytest.mark.laws("T17")
@pytest.mark.parametrize("to", ["-o", "--output-dir"])
@pytest.mark.parametrize("durable", [True, False], ids=["--durable", "without"])
def test_output_that_cannot_be_forced_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, *, durable: bool
) -> None:
    """Laws 6, 11: a disk that fails is exit 5; nothing is flushed, and --durable marks nothing."""
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    (tmp_path / "in").write_bytes(lines)
    output = tmp_path / ("out" if to == "-o" else "out/in")
    disk = Disk(durable, [])
    watch(disk, monkeypatch)
    forced = disk.fsync

    def fail(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size == len(lines):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        forced(fd)

    monkeypatch.setattr("mmbloom._system.disk.sync", fail)
    argv = ["dedup", seen, tmp_path / "in", to, tmp_path / "out", *["--durable"] * durable]
    done = inside(*argv)
    assert (done.code, done.out, disk.flushes) == (5, b"", 0)
    what_to_do = "are not marked: run again" if durable else "add this output to a new filter"
    assert is_one_line(done.err, f"{output}: {os.strerror(errno.EIO)}:", what_to_do)
    monkeypatch.undo()
    again = inside("dedup", seen, tmp_path / "in").out
    assert again == (lines if durable else b"")


def test_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where names cannot be forced to the disk by themselves, everything is; it is no error."""
    seen, synced = exact_filter(tmp_path / "seen"), []
    (tmp_path / "in").write_bytes(b"a\n")

    def refuse(folder: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", folder)

    monkeypatch.setattr("mmbloom.logs.outputs.sync_folder", refuse)
    monkeypatch.setattr(os, "sync", lambda: synced.append(1))
    assert inside("dedup", seen, tmp_path / "in", "-o", tmp_path / "out").code == 0
    assert synced


MORE = ("-n", "2M", "-p", "1e-9", "--seed", "11")
KILLS = 2
ATTEMPTS = 20  # rounds, until a kill hits a running process


def make_input(path: Path, rng: random.Random, count: int) -> set[bytes]:
    """Write so many short lines, a third of them repeats; return the distinct ones."""
    lines = [b"%d" % rng.randrange(count) for _ in range(count)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return set(lines)


def check_nothing_lost(outputs: list[Path], distinct: set[bytes], kills: int) -> None:
    """Check that each distinct line is there whole; what else is there are cut-off starts."""
    printed = b"".join(path.read_bytes() for path in outputs)
    assert printed.endswith(b"\n")
    lines = printed.split(b"\n")[:-1]
    missing = distinct.difference(lines)
    assert not missing, f"{len(missing)} lines lost, {sorted(missing)[:5]}"
    foreign = [line for line in lines if line not in distinct]
    assert len(foreign) <= kills * len(outputs)
    for start in foreign:  # never two lines glued together
        assert any(line.startswith(start) for line in distinct), start


def killed_round(folder: Path, rng: random.Random, to: str, tally: Count) -> bool:
    """Kill a run over and over, let the last one end, and check; was a running one hit?"""
    seen, inputs = folder / "seen", [folder / "in1", folder / "in2"]
    distinct = set.union(*(make_input(path, rng, 200_000) for path in inputs))
    argv = ["dedup", seen, *inputs]
    outputs = [folder / "out"]
    if to == "-o":
        argv += ["-o", outputs[0]]
    elif to == "--output-dir":
        argv += ["--output-dir", folder / "out", "-j", "2"]
        (folder / "out").mkdir()
        outputs = [folder / "out" / path.name for path in inputs]
    assert inside("create", seen, *MORE).code == 0
    hits = 0
    # A run that ends before it is killed has written all: nothing is left to be killed in.
    while hits < KILLS and kill_at_random(argv, rng, outputs):
        hits += 1
        with BloomFilter.open(seen) as filter_file:
            assert 0 <= filter_file.info().unfinished_batches <= 2 * hits
    with outputs[0].open("ab") as stdout:
        assert started(*argv, stdout=stdout if to == ">>" else DEVNULL).code == 0
    tally(kills=hits, distinct_lines=len(distinct))
    check_nothing_lost(outputs, distinct, hits)
    assert verify(seen, keys=distinct).ok
    assert inside("check", seen, *inputs, "-v", "-c") == (1, b"0\n", "")
    assert inside("dedup", seen, *inputs) == (0, b"", "")
    return hits > 0


def until_hit(run: Callable[[Path], bool], folder: Path, times: int) -> None:
    """Run rounds in a folder each until so many have hit a running process."""
    hit = 0
    for number in range(ATTEMPTS * times):
        place = folder / str(number)
        place.mkdir()
        hit += run(place)
        shutil.rmtree(place)
        if hit == times:
            return
    raise AssertionError(f"kills hit a running process in {hit} rounds only")


@pytest.mark.stress
@pytest.mark.laws("T15")
@pytest.mark.parametrize("to", ["-o", ">>", "--output-dir"])
def test_killed_at_random_and_run_again(
    tmp_path: Path, seed: int, stress: int, to: str, tally: Count
) -> None:
    """Law 6: after any number of kills, a run that ends has every distinct line in the output."""
    until_hit(partial(killed_round, rng=random.Random(seed), to=to, tally=tally), tmp_path, stress)


def kill_while_it_writes(argv: Sequence[object], rng: random.Random, output: Path) -> bool:
    """Append to `output` through a pipe, and kill -9 the run while it waits for the pipe."""
    if output.exists() and not output.read_bytes().endswith(b"\n"):
        with output.open("ab") as file:
            file.write(b"\n")  # through a pipe a run cannot see how its output ends
    reading, writing = os.pipe()
    with (
        output.open("ab") as file,
        open(reading, "rb", buffering=0) as ours,
        open(writing, "wb", buffering=0) as theirs,
        open(os.devnull, "r+b") as null,
        forked(*argv, streams=(null.fileno(), writing, null.fileno())) as process,
    ):
        theirs.close()
        file.write(read_soon(ours, rng.randrange(1, 30_000)))
        time.sleep(0.02)  # until the pipe is full again
        hit = process.alive()
        process.kill()
        file.write(ours.read())
    return hit


def cut_off_round(folder: Path, rng: random.Random, tally: Count) -> bool:
    """Kill runs within a write, let the last one end, and check; was a line cut off?"""
    seen, output = folder / "seen", folder / "out"
    distinct = make_input(folder / "in", rng, 200_000)
    argv = ["dedup", seen, folder / "in"]
    assert inside("create", seen, *MORE).code == 0
    hits = cut_off = 0
    for _ in range(4):
        hits += kill_while_it_writes(argv, rng, output)
        cut_off += not output.read_bytes().endswith(b"\n")
        hits += kill_at_random([*argv, "-o", output], rng, [output], 0.02)
    assert mmbloom(*argv, "-o", output).code == 0
    tally(kills=hits, cut_off=cut_off, distinct_lines=len(distinct))
    check_nothing_lost([output], distinct, hits)
    assert verify(seen, keys=distinct).ok
    assert inside(*argv) == (0, b"", "")
    return hits > 0 and cut_off > 0


@pytest.mark.stress
@pytest.mark.laws("T15")
def test_killed_within_a_write(
    tmp_path: Path, seed: int, stress: int, tally: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 6: a kill that cuts the output off amid a chunk loses no line of that chunk."""
    # A page: each write waits for a reader, amid some line.
    monkeypatch.setattr("mmbloom.logs.outputs._PIPE_BYTES", 4096)
    until_hit(partial(cut_off_round, rng=random.Random(seed), tally=tally), tmp_path, stress)


GO_ON = "nothing is lost: run the same command again to continue"
GO_ON_AT_STDOUT = f"{GO_ON} (with >> instead of >)\n"
LINES = [b"line %06d" % number for number in range(30_000)]
# Before a command is started: no file may get longer.
SMALL_FILES = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))


def whole_lines(path: Path) -> set[bytes]:
    """The lines of an output, without what a write that broke has left."""
    return {line for line in held_by(path).split(b"\n") if re.fullmatch(rb"line \d{6}", line)}


def dedup_on_small_disk(folder: Path, to: str) -> str:
    """In a child: fill a disk with an output, make room, and run the same command again."""
    if not mount_tmpfs(folder, 1 << 20):
        return "not allowed"
    out = folder / ("out.gz" if to == "-o .gz" else "out")
    (folder / "ballast").write_bytes(bytes(1_000_000 if to == "-o .gz" else 900_000))

    def run() -> tuple[int, str]:
        argv = ("dedup", folder.parent / "seen", folder.parent / "in", *EXACT)
        with out.open("ab") as stdout:
            done = started(*argv, *[] if to == "stdout" else ["-o", out], stdout=stdout)
        return done.code, done.err

    code, err = run()
    assert code == 5
    shown, left = (str(out), f"{GO_ON}\n") if to != "stdout" else ("stdout", GO_ON_AT_STDOUT)
    assert is_one_line(err, f"{shown}: No space left on device; {left}")
    assert 0 < len(whole_lines(out)) < len(LINES)
    (folder / "ballast").unlink()
    assert run() == (0, "")
    assert whole_lines(out) == {*LINES}
    return "done"


@pytest.mark.skipif(not has.PROC, reason="this system has no file systems for one process")
@pytest.mark.parametrize("to", ["-o", "-o .gz", "stdout"])
def test_an_output(tmp_path: Path, to: str) -> None:
    (tmp_path / "in").write_bytes(b"\n".join([*LINES, b""]))
    (tmp_path / "disk").mkdir()
    outcome = in_child(partial(dedup_on_small_disk, tmp_path / "disk", to))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"


def test_a_limit_of_the_shell(here: Path) -> None:
    Path("in").write_bytes(b"\n".join([*LINES, b""]))
    argv = ("dedup", "seen", "in", "-o", "out", *EXACT)
    assert mmbloom("dedup", "seen", *EXACT).code == 0
    done = started(*argv, preexec_fn=SMALL_FILES)
    assert refused(done, 5, f"out: File too large; {GO_ON}\n")
    assert mmbloom(*argv).code == 0
    assert whole_lines(Path("out")) == {*LINES}


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("create new -n 1e6", "no incomplete file is left"),
        ("copy seen new", "no incomplete file is left"),
        ("dedup new in -n 1e6", GO_ON_AT_STDOUT),
        ("add new in -n 1e6", GO_ON),
    ],
)
def test_a_filter_that_does_not_fit(here: Path, command: str, left: str) -> None:
    Path("in").write_bytes(b"a\n")
    assert mmbloom("create", "seen", *EXACT).code == 0
    done = started(*command.split(), preexec_fn=SMALL_FILES)
    assert refused(done, 5, "new: cannot reserve", f"File too large; {left}")
    assert sorted(os.listdir()) == ["in", "seen"]


@pytest.mark.parametrize("command", ["dedup", "add"])
def test_a_folder_that_cannot_grow(here: Path, command: str) -> None:
    """Where the next file does not fit, what was done stays done, and the rest comes next time."""
    Path("in").write_bytes(b"\n".join([*LINES, b""]))
    GrowingFilter.create("seen", 10_000, 1e-9, seed=7).close()
    done = started(command, "seen", "in", preexec_fn=SMALL_FILES)
    assert done.code == 5
    assert is_one_line(
        done.err, "cannot reserve", "nothing is lost: run the same command again to continue"
    )
    again = mmbloom(command, "seen", "in")
    assert again.code == 0
    if command == "dedup":
        assert {*done.lines} | {*again.lines} == {*LINES}
    with GrowingFilter.open("seen") as seen:
        assert seen.contains_many(LINES).all()


def test_what_may_be_lost_is_not_said_to_be_safe(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where lines are marked and the system then fails to force them to the disk."""
    Path("in").write_bytes(b"a\n")
    assert inside("create", "seen", *EXACT).code == 0

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "sync", full)
    done = inside("dedup", "seen", "in", "-o", "out")
    assert refused(done, 5, "No space left on device", "may be missing")
    assert "nothing is lost" not in done.err


@FULL_DISK
def test_a_dry_run_goes_on_with_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n")
    with Path("/dev/full").open("wb") as full:
        argv = ("dedup", tmp_path / "seen", tmp_path / "in", "--dry-run", *EXACT)
        done = mmbloom(*argv, stdout=full)
    assert refused(done, 5, "stdout: No space left on device\n")
