"""mmbloom dedup: lines are on the disk before their marks are; with --durable at every moment."""

import errno
import mmap
import os
import pickle
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_runner import EXACT, exact_filter, forked, inside, is_one_line, mmbloom, refused, started

from mmbloom import GrowingFilter
from mmbloom import open as open_filter
from mmbloom.cli.marking import FileJob
from mmbloom.filters.claim import Claim
from mmbloom.logs.dedup import Tally

TO = {
    "-o": ("-o", "out"),
    "--output-dir": ("--output-dir", "new/out"),
}


class Disk:
    """What was forced to the disk, and whether that was before the marks that need it."""

    def __init__(self, durable: bool, outputs: Sequence[Path]) -> None:
        self.durable, self.outputs = durable, outputs
        self.on_disk: dict[Path, int] = {}  # bytes of a file; 0 for the names in a folder
        self.lines: dict[Path, int] = {}  # of each output, on the disk
        self.marks = self.flushes = self.marked = 0
        self.fsync = os.fsync

    def sync(self, fd: int) -> None:
        self.fsync(fd)
        there = Path(os.path.realpath(f"/dev/fd/{fd}"))
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

    monkeypatch.setattr(os, "fsync", disk.sync)
    monkeypatch.setattr(mmap, "mmap", Map)
    monkeypatch.setattr(Claim, "_end", ended)
    monkeypatch.setattr("mmbloom.cli.workers.run_jobs", run_jobs)


@pytest.mark.laws("T17")
@pytest.mark.parametrize("durable", [True, False], ids=["--durable", "without"])
@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("kind", ["file", "growing"])
def test_outputs_before_marks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    to: str,
    kind: str,
    *,
    durable: bool,
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
    argv: list[str | Path] = [
        "dedup",
        tmp_path / "seen",
        *inputs,
        *options,
        *["--durable"] * durable,
    ]
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
@pytest.mark.parametrize("options", [["-o", "fifo"], ["-o", "/dev/stdout"], ["--output-dir", "."]])
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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    to: str,
    *,
    durable: bool,
) -> None:
    """Laws 6, 11: a disk that fails is exit 5; nothing is flushed, and --durable marks nothing."""
    seen, lines = exact_filter(tmp_path / "seen"), b"a\nb\n"
    (tmp_path / "in").write_bytes(lines)
    output = tmp_path / ("out" if to == "-o" else "out/in")
    disk = Disk(durable, [])
    watch(disk, monkeypatch)
    forced = os.fsync

    def fail(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_size == len(lines):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        forced(fd)

    monkeypatch.setattr(os, "fsync", fail)
    argv: list[str | Path] = [
        "dedup",
        seen,
        tmp_path / "in",
        to,
        tmp_path / "out",
        *["--durable"] * durable,
    ]
    done = inside(*argv)
    assert (done.code, done.out, disk.flushes) == (5, b"", 0)
    what_to_do = "are not marked: run again" if durable else "add it to a new filter"
    assert is_one_line(done.err, f"{output}: Input/output error:", what_to_do)
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


def test_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb")
    (tmp_path / "out").write_bytes(b"cut o")
    for _ in range(2):
        options = ("--durable", "-o", tmp_path / "out")
        done = mmbloom("dedup", tmp_path / "seen", tmp_path / "in", *options, *EXACT)
        assert done == (0, b"", "")
        assert (tmp_path / "out").read_bytes() == b"cut o\na\nb"
