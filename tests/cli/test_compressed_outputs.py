"""Outputs whose names promise compressed lines: whole frames, each written before it is marked."""

import bz2
import csv
import errno
import fcntl
import gzip
import io
import lzma
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import xopen
from cli_runner import EXACT, inside, is_one_line, kill_at_random, mmbloom
from faults import mount_tmpfs
from tally import Count
from workers import in_child

from mmbloom import _extras
from mmbloom.files import compressed

Capture = pytest.CaptureFixture[bytes]
zstd: Any = vars(xopen)["zstd"]  # of Python, or of backports.zstd
COMPRESS: dict[str, Any] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
}
DECOMPRESS: dict[str, Any] = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
    "zst": zstd.decompress,
}
EACH_KIND = pytest.mark.parametrize("kind", COMPRESS)


def held_by(path: Path) -> bytes:
    """What the readers of Python find in a file, which refuse one with half a frame."""
    held: bytes = DECOMPRESS[path.suffix[1:]](path.read_bytes())
    return held


@EACH_KIND
def test_lines_of_several_runs(tmp_path: Path, kind: str) -> None:
    """A line without its end is ended first, as in a plain file; the other output is compressed."""
    seen, out, rest = tmp_path / "seen", tmp_path / f"out.{kind}", tmp_path / "rest.GZ"
    for lines in (b"a\nb\na\nc", b"", b"c\nd\n", b"d"):
        options: list[str | Path] = ["-o", out, "--repeats-to", rest, *EXACT]
        done = mmbloom("dedup", seen, *options, stdin=lines)
        assert (done.code, done.err) == (0, "")
    assert held_by(out) == b"a\nb\nc\nd\n"
    assert gzip.decompress(rest.read_bytes()) == b"a\nc\nd"
    assert mmbloom("check", seen, "-vc", out).out == b"0\n"


@EACH_KIND
@pytest.mark.parametrize("there", ["whole", "padded", "empty"])
def test_what_others_have_written(tmp_path: Path, kind: str, there: str) -> None:
    """Files of the usual tools are appended to; zeros that fill up a block are no frame."""
    out, held = tmp_path / f"out.{kind}", b"x" * 100_000
    out.write_bytes(b"" if there == "empty" else COMPRESS[kind](held) + COMPRESS[kind](b""))
    with out.open("ab") as file:
        file.write(bytes(512) if there == "padded" else b"")
    assert mmbloom("dedup", tmp_path / "seen", "-o", out, *EXACT, stdin=b"a\n").code == 0
    assert held_by(out) == (b"a\n" if there == "empty" else held + b"\na\n")


@EACH_KIND
def test_half_a_frame_is_cut_off(tmp_path: Path, kind: str, capfdbinary: Capture) -> None:
    """Wherever a killed run has left off: what is whole stays, and the next frame can be read."""
    out = tmp_path / f"out.{kind}"
    first, second = COMPRESS[kind](b"a\nb\n"), COMPRESS[kind](b"c\nd\n")
    (tmp_path / "in").write_bytes(b"c\nd\n")
    for end in range(len(first) + len(second)):
        out.write_bytes((first + second)[:end])
        argv = ("dedup", tmp_path / str(end), tmp_path / "in", "-o", out, "-n10")
        assert inside(capfdbinary, *argv) == (0, b"", "")
        assert held_by(out) == (b"a\nb\n" if end >= len(first) else b"") + b"c\nd\n"


@EACH_KIND
def test_what_cannot_be_appended_to(tmp_path: Path, kind: str) -> None:
    """Plain lines under such a name, and a damaged file, stay as they are; nothing is marked."""
    seen, out = tmp_path / "seen", tmp_path / f"out.{kind}"
    damaged = COMPRESS[kind](b"a\n") + b"no frame, but some other bytes"
    for there, said in [
        (b"plain lines\n" * 9, f"{out}: is no .{kind} file ("),
        (damaged, f"{out}: cannot be read from byte {len(COMPRESS[kind](b'a' + bytes([10])))} on"),
    ]:
        out.write_bytes(there)
        done = mmbloom("dedup", seen, "-o", out, *EXACT, stdin=b"a\n")
        assert (done.code, out.read_bytes()) == (5, there)
        assert is_one_line(done.err, said, "nothing is appended to it; write to another file")
        assert mmbloom("check", seen, "-c", stdin=b"a\n").out == b"0\n"


def test_rows_have_one_header(tmp_path: Path) -> None:
    """CSV in several frames, of which the last was cut in its header, or ends amid a quote."""
    out, rows = tmp_path / "out.csv.gz", b'id,a\n1,"x\ny"\n'
    options: list[str | Path] = ["--csv", "-ka", "-o", out, *EXACT]
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=rows).code == 0
    more = b'id,a\n2,"x\ny"\n3,z'
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=more).code == 0
    assert held_by(out) == rows + b"3,z"
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=b"id,a\n4,w\n").code == 0
    assert held_by(out) == rows + b"3,z\n4,w\n"
    with out.open("ab") as file:
        file.write(gzip.compress(b'5,"open'))
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=b"id,a\n6,v\n").code == 0
    assert held_by(out) == rows + b'3,z\n4,w\n5,"open"\n6,v\n'
    done = mmbloom("dedup", tmp_path / "seen", *options, stdin=b"id,a,b\n6,v,w\n")
    assert is_one_line(done.err, f"{out}: begins with 'id,a', and these rows have the header")


def test_two_runs_and_one_file(tmp_path: Path) -> None:
    """With a filter each, no lock but that of the file keeps their frames apart."""
    out = tmp_path / "out.zst"
    lines = [[b"%d %d" % (who, number) for number in range(100_000)] for who in range(2)]
    runs = []
    for who in range(2):
        (tmp_path / f"in{who}").write_bytes(b"\n".join([*lines[who], b""]))
        argv: list[str | Path] = [
            "dedup",
            tmp_path / f"seen{who}",
            tmp_path / f"in{who}",
            "-o",
            out,
            "-n1e6",
        ]
        runs.append(subprocess.Popen([sys.executable, "-m", "mmbloom", *argv, "-p1e-9"]))
    assert [run.wait() for run in runs] == [0, 0]
    assert sorted(held_by(out).splitlines()) == sorted(lines[0] + lines[1])


def test_a_frame_that_another_run_writes(tmp_path: Path) -> None:
    """Half of it is there as we come: it is waited for, not cut off."""
    out, theirs = tmp_path / "out.gz", gzip.compress(b"theirs\n")
    argv: list[str | Path] = [sys.executable, "-m", "mmbloom", "dedup", tmp_path / "seen", *EXACT]
    argv += ["-o", out]
    with out.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(theirs[:9])
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as run:
            assert run.stdin is not None
            run.stdin.write(b"ours\n")
            run.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(0.6)
            file.write(theirs[9:])
            fcntl.flock(file, fcntl.LOCK_UN)
            assert run.wait() == 0
    assert held_by(out) == b"theirs\nours\n"


def test_a_pipe(tmp_path: Path) -> None:
    """What has such a name and is no file gets whole frames, and is not looked at."""
    pipe = tmp_path / "pipe.gz"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as cat:
        assert mmbloom("dedup", tmp_path / "seen", "-o", pipe, *EXACT, stdin=b"a\na\nb").code == 0
        assert gzip.decompress(cat.communicate()[0]) == b"a\nb"


def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Capture
) -> None:
    """What Python has itself needs no extra; for zstd the error says what to install."""
    monkeypatch.setitem(sys.modules, "xopen", None)
    (tmp_path / "in").write_bytes(b"a\n")
    for kind in ("gz", "bz2", "xz"):
        out = tmp_path / f"out.{kind}"
        argv = ("dedup", tmp_path / kind, tmp_path / "in", "-o", out, *EXACT)
        assert inside(capfdbinary, *argv) == (0, b"", "")
        assert held_by(out) == b"a\n"
    argv = ("dedup", tmp_path / "seen", tmp_path / "in", "-o", tmp_path / "out.zst", *EXACT)
    done = inside(capfdbinary, *argv)
    assert is_one_line(done.err, "writing compressed files needs xopen", "mmbloom[cli]")


def test_a_write_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half frame is taken back at once, so that others read the file as it is."""
    with (
        (tmp_path / "out.gz").open("ab", buffering=0) as file,
        file.__class__(tmp_path / "out.gz", "rb") as again,
    ):
        output = compressed.CompressedFile(file, again.fileno(), "gz", "out.gz")
        assert output.write(memoryview(b"a\n")) == 2

        def broken(data: memoryview) -> None:
            os.write(file.fileno(), data[:9])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(output, "_file", Broken(file.fileno(), broken))
        with pytest.raises(OSError, match="No space"):
            output.write(memoryview(b"b\n"))
        assert held_by(tmp_path / "out.gz") == b"a\n"


class Broken:
    """A file of which a write breaks."""

    def __init__(self, fd: int, write: Any) -> None:
        self.fileno, self.write = (lambda: fd), write


def dedup_on_small_disk(folder: Path, lines: list[bytes]) -> str:
    """In a child: fill a disk with an output, make room, and run the same command again."""
    if not mount_tmpfs(folder, 1 << 20):
        return "not allowed"
    (folder / "ballast").write_bytes(bytes(900_000))
    argv = ("dedup", folder.parent / "seen", folder.parent / "in", *EXACT, "-o", folder / "out.gz")
    done = mmbloom(*argv)
    assert done.code == 5
    assert is_one_line(done.err, "out.gz: No space left on device; nothing is lost")
    assert 0 < len(held_by(folder / "out.gz").splitlines()) < len(lines)
    (folder / "ballast").unlink()
    assert mmbloom(*argv).code == 0
    assert held_by(folder / "out.gz").splitlines() == lines
    return "done"


def test_a_full_disk(tmp_path: Path, seed: int) -> None:
    """With room again the same command goes on, and each line is there once."""
    rng = random.Random(seed)
    lines = [b"%016x" % rng.getrandbits(64) for _ in range(30_000)]
    (tmp_path / "in").write_bytes(b"\n".join([*lines, b""]))
    (tmp_path / "disk").mkdir()
    outcome = in_child(partial(dedup_on_small_disk, tmp_path / "disk", lines))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"


@pytest.mark.stress
@pytest.mark.laws("T15")
def test_killed_at_random(tmp_path: Path, seed: int, stress: int, tally: Count) -> None:
    """After kills amid a run, and a run that ends: each row is in one of the two files, or both."""
    rng, hits = random.Random(seed), 0
    text = io.StringIO(newline="")
    values = [f'{rng.randrange(20_000)}, "\nof many' for _ in range(60_000)]
    csv.writer(text).writerows([("id", "value"), *enumerate(values)])
    (tmp_path / "in.csv").write_bytes(text.getvalue().encode())
    whole = {(str(place), value) for place, value in enumerate(values)}
    for number in range(20 * stress):
        seen, out, rest = (tmp_path / f"{number}{name}" for name in (".bloom", ".zst", ".gz"))
        argv: list[str | Path] = ["dedup", seen, tmp_path / "in.csv", "--csv", "-kvalue", *EXACT]
        argv += ["-o", out, "--repeats-to", rest]
        kills = sum(kill_at_random(argv, rng, [out, rest], 0.05) for _ in range(2))
        assert mmbloom(*argv).code == 0
        found = [
            list(csv.reader(io.StringIO(held_by(path).decode(), newline="")))
            for path in (out, rest)
        ]
        assert [rows[0] for rows in found] == [["id", "value"]] * 2
        rows = [{tuple(row) for row in some[1:]} for some in found]
        assert rows[0] | rows[1] == whole  # a half frame leaves no half row
        assert {value for _, value in rows[0]} == {*values}
        tally(kills=kills, rows=len(whole))
        hits += kills > 0
        if hits == stress:
            break
    assert hits == stress


@EACH_KIND
def test_compressors_are_those_of_readers(kind: str) -> None:
    """Of each kind a frame is one, and its decompressor knows where it ends."""
    library = _extras.compression(kind, "a test")
    frame = library.compress(b"a" * 1000)
    stream = library.decompressor()
    assert DECOMPRESS[kind](frame) == stream.decompress(frame + b"more") == b"a" * 1000
    assert (stream.eof, stream.unused_data) == (True, b"more")
