"""Inputs of the command line: compressed, damaged, slow; optional libraries missing."""

import bz2
import gzip
import json
import lzma
import os
import random
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runner import (
    EXACT,
    exact_filter,
    inside,
    is_one_line,
    mmbloom,
    read_soon,
    refused,
    running,
    started,
    without,
)
from compressors import zstd_library
from workers import PATIENCE

LINES = b"".join(b"line %d\r\n" % (i % 5000) for i in range(20_000)) + b"last"
UNIQUE = b"".join(b"line %d\r\n" % i for i in range(5000)) + b"last"


def whole_part(suffix: str, cut: bytes) -> bytes:
    """What can be decompressed of data that are cut off, at once and by other means."""
    made: dict[str, Callable[[], Any]] = {
        ".gz": lambda: zlib.decompressobj(31),
        ".bz2": bz2.BZ2Decompressor,
        ".xz": lzma.LZMADecompressor,
        ".zst": lambda: zstd_library().ZstdDecompressor(),
    }
    part: bytes = made[suffix]().decompress(cut)
    return part


def zstd(data: bytes) -> bytes:
    library = zstd_library()
    options = {library.CompressionParameter.checksum_flag: 1}
    compressed: bytes = library.compress(data, options=options)
    return compressed


ZSTD = ("backports.zstd", "compression.zstd")
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
    ".GZ": gzip.compress,
}
EACH_KIND = pytest.mark.parametrize(("suffix", "compress"), COMPRESS.items(), ids=COMPRESS)
Compress = Callable[[bytes], bytes]


@EACH_KIND
def test_compressed_inputs(tmp_path: Path, suffix: str, compress: Compress) -> None:
    path, seen = tmp_path / f"in{suffix}", tmp_path / "seen"
    path.write_bytes(compress(LINES))
    done = inside("dedup", seen, path, "--stats", *EXACT)
    assert (done.code, done.out) == (0, UNIQUE)
    assert json.loads(done.err)["bytes"] == len(LINES)
    assert inside("check", seen, path, "-v") == (1, b"", "")
    assert inside("add", seen, path) == (0, b"", "")


@EACH_KIND
def test_compressed_in_several_parts(tmp_path: Path, suffix: str, compress: Compress) -> None:
    """Files of several streams one after another (cat a.gz b.gz) are read to their end."""
    path = tmp_path / f"in{suffix}"
    path.write_bytes(compress(b"a\nb") + compress(b"c\na\n") + compress(b"d"))
    assert inside("dedup", tmp_path / "seen", path, *EXACT).out == b"a\nbc\nd"


@EACH_KIND
@pytest.mark.parametrize("damage", ["cut off", "flipped", "other bytes"])
def test_damaged_compressed_inputs(
    tmp_path: Path, suffix: str, compress: Compress, damage: str
) -> None:
    path, raw = tmp_path / f"in{suffix}", bytearray(compress(LINES))
    if damage == "cut off":
        del raw[len(raw) * 2 // 3 :]
    elif damage == "flipped":
        raw[len(raw) // 2] ^= 0xFF
    else:
        raw[:] = b"these are plain lines\n" * 10
    path.write_bytes(raw)
    seen = exact_filter(tmp_path / "seen")
    done = inside("dedup", seen, path)
    assert done.code == 5
    assert is_one_line(done.err, str(path))
    path.write_bytes(compress(LINES))
    printed = done.out + b"\n" * (not done.out.endswith(b"\n")) * bool(done.out)
    again = printed + inside("dedup", seen, path).out
    assert set(again.split(b"\n")) >= set(UNIQUE.split(b"\n"))


@EACH_KIND
@pytest.mark.parametrize("name", ["in", "in.log", "in.gz", "in.zst", None])
def test_the_first_bytes_tell(
    tmp_path: Path, suffix: str, compress: Compress, name: str | None
) -> None:
    seen, raw = exact_filter(tmp_path / "seen"), compress(LINES)
    if name:
        (tmp_path / name).write_bytes(raw)
        assert mmbloom("dedup", seen, tmp_path / name).out == UNIQUE
        assert mmbloom("check", seen, tmp_path / name, "-c", "-v").out == b"0\n"
        return
    assert mmbloom("dedup", seen, stdin=raw).out == UNIQUE
    assert mmbloom("check", seen, "-", "-c", "-v", stdin=raw).out == b"0\n"
    (tmp_path / "in").write_bytes(b"plain\n" + raw)
    with (tmp_path / "in").open("rb") as file:
        file.seek(len(b"plain\n"))
        assert mmbloom("check", seen, "-v", "-c", stdin=file).out == b"0\n"


BEGINNINGS = [
    *(b"", b"B", b"BZ", b"BZh", b"BZh9", b"BZh91AY&S", b"BZh0", b"BZhang\n", b"BZh9\n", b"(", b"("),
    *(b"\x1f", b"\x1f\x8b", b"\x1f\x8b\n", b"\xfd7zXZ", b"\xfd7zXZ\n", b"\x28\xb5\x2f", b"\n"),
    *(b"(\xb5\n", b"\x1f\n\x8b\x08", b"PK\x03\n"),
]


@pytest.mark.parametrize("line", BEGINNINGS)
def test_lines_that_begin_almost_so(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "in").write_bytes(line)
    assert mmbloom("dedup", exact_filter(tmp_path / "file"), tmp_path / "in").out == line
    assert mmbloom("dedup", exact_filter(tmp_path / "pipe"), stdin=line).out == line
    slow = exact_filter(tmp_path / "slow")
    assert mmbloom("dedup", slow, stdin=line, pause=0.005) == (0, line, "")


def test_a_line_is_not_kept_waiting(tmp_path: Path) -> None:
    """Of the first line it is known at once that it is plain; it is printed before the next."""
    with running("dedup", exact_filter(tmp_path / "seen")) as process:
        assert process.stdin
        assert process.stdout
        for line in (b"B\n", b"\n", b"BZh\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert read_soon(process.stdout, len(line)) == line


def random_lines(number: int) -> bytes:
    """Lines that cannot be compressed far."""
    chosen = random.Random(1)
    return b"".join(b"%032x\n" % chosen.getrandbits(128) for _ in range(number))


@EACH_KIND
def test_what_comes_before_the_end_is_printed(
    tmp_path: Path, suffix: str, compress: Compress
) -> None:
    lines, path = random_lines(60_000), tmp_path / f"in{suffix}"
    whole = compress(lines)
    cut = whole[: len(whole) * 3 // 4]
    path.write_bytes(cut)
    there = whole_part(suffix.lower(), cut)
    assert len(there) > len(lines) // 3  # bzip2 gives a block of 900 kB or nothing of it
    done = inside("dedup", exact_filter(tmp_path / "seen"), path)
    assert done.code == 5
    assert done.out == there[: there.rindex(b"\n") + 1]


def test_without_zstd(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\na\n")
    (tmp_path / "in.zst").write_bytes(zstd(b"b\n"))
    argv, command = ("dedup", tmp_path / "seen", tmp_path / "in", *EXACT), without(*ZSTD)
    done = started(*argv, tmp_path / "in.zst", command=command)
    assert refused(done, 2, str(tmp_path / "in.zst"), "pip install 'mmbloom[cli]'")
    assert not (tmp_path / "seen").exists()
    (tmp_path / "in.zst").rename(tmp_path / "packed")
    done = started(*argv, tmp_path / "packed", command=command)
    assert is_one_line(done.err, str(tmp_path / "packed"), "pip install 'mmbloom[cli]'")
    with (tmp_path / "packed").open("rb") as packed:
        fresh = ("dedup", tmp_path / "seen", *EXACT)
        with running(*fresh, stdin=packed, command=command) as process:
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 2
            assert is_one_line(err.decode(), "stdin", "pip install 'mmbloom[cli]'")
    assert not (tmp_path / "seen").exists()
    names = [tmp_path / f"in{suffix}" for suffix in (".gz", ".bz2", ".xz")]
    for name in names:
        name.write_bytes(COMPRESS[name.suffix](b"b\na\n"))
    assert started(*argv, *names, command=command) == (0, b"a\nb\n", "")


def test_a_pipe_without_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe is looked at before anything is made; what is read loses no byte by that."""
    compressed = zstd(b"b\n")
    for library in ZSTD:
        monkeypatch.setitem(sys.modules, library, None)
    fresh = ("dedup", tmp_path / "seen", *EXACT)
    (tmp_path / "in").write_bytes(b"of a file\n")
    for argv in (fresh, (*fresh, tmp_path / "in", "-"), ("add", *fresh[1:])):
        assert refused(mmbloom(*argv, stdin=compressed), 2, "stdin", "pip install 'mmbloom[cli]'")
        assert os.listdir(tmp_path) == ["in"]
    assert mmbloom(*fresh, stdin=gzip.compress(b"packed\n")) == (0, b"packed\n", "")
    for line in (b"", b"BZh91AY&", b"BZh91AY&SX\n", b"a\n"):
        assert mmbloom(*fresh, stdin=line) == (0, line, "")
    assert mmbloom(*fresh, tmp_path / "in", "-", stdin=b"BZh\n").out == b"of a file\nBZh\n"


def test_a_pipe_that_does_not_block(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        with running("dedup", exact_filter(tmp_path / "seen"), stdin=reading) as process:
            assert process.stdout
            time.sleep(0.8)  # until it reads
            assert process.poll() is None, "ended before its input did"
            os.write(writing, b"late\n")
            assert process.stdout.readline() == b"late\n"
            os.close(writing)
            writing = -1
            assert process.wait(PATIENCE) == 0
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def connection(sent: bytes) -> socket.socket:
    """Give the reader's end of a connection that was reset after something had come."""
    reader, writer = socket.socketpair()
    reader.send(b"never read")  # so that closing the other end is a reset, not an end
    writer.sendall(sent)
    writer.close()
    return reader


@pytest.mark.parametrize("option", [(), ("-c",)], ids=["once", "twice"])
def test_a_connection_that_is_reset(tmp_path: Path, option: tuple[str, ...]) -> None:
    """An error is told though it comes but once; a line that it cuts off is no line."""
    with connection(b"one\ntwo\nhalf of a li") as stdin:
        path = str(exact_filter(tmp_path / "f"))
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "mmbloom", "dedup", path, *option],
            stdin=stdin.fileno(),
            capture_output=True,
            check=False,
            env=os.environ | {"COLUMNS": "200"},
        )
    assert ended.returncode == 5
    assert ended.stdout == (b"" if option else b"one\ntwo\n")
    said = ended.stderr.decode()
    assert is_one_line(said, "stdin: cannot be read: Connection reset by peer")


def test_more_files_open_than_select_knows(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\na\n")
    code = """
import os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
for _ in range(1100):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.executable, [sys.executable, "-P", "-m", "mmbloom", *sys.argv[1:]])
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, "dedup", exact_filter(tmp_path / "f"), tmp_path / "in"],
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"a\nb\n", b"")


def test_a_fifo_is_an_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with running("dedup", exact_filter(tmp_path / "seen"), tmp_path / "fifo") as process:
        (tmp_path / "fifo").write_bytes(b"a\nb\na\n")
        assert process.communicate(timeout=PATIENCE) == (b"a\nb\n", b"")
