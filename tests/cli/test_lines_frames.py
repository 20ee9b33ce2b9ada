"""Compressed inputs frame by frame: several, padded, cut off, damaged, by each decompressor."""

import gzip
import json
import random
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, repeat
from pathlib import Path

import pytest
from cli_runner import EXACT, FULL_DISK, exact_filter, inside, is_one_line, mmbloom
from hypothesis import given
from hypothesis import strategies as st

from mmbloom import BloomFilter
from mmbloom._system import extras as _extras
from mmbloom.errors import InputError
from mmbloom.logs.inputs import HEAD, open_input, require_lines
from mmbloom.logs.lines import NoLinesError

LIBRARIES = ("zlib_ng.zlib_ng", "zlib")
FLAGS = {"checksum": 2, "extra": 4, "name": 8, "comment": 16}
EACH_LIBRARY = pytest.mark.parametrize("library", LIBRARIES)


def leave(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let zlib-ng be there, or be missing as on machines that it is not made for."""
    if library == "zlib":
        monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    else:
        pytest.importorskip(library, reason="not made for this machine")


def lines_of(number: int, start: int = 0) -> bytes:
    """Lines that cannot be compressed far, and differ."""
    return b"".join(b"%x\n" % (i * i * 0x9E3779B97F4A7C15) for i in range(start, start + number))


@pytest.mark.parametrize("command", ["dedup", "dedup -o out", "dedup --output-dir out", "add"])
def test_figures_of_what_was_done(here: Path, command: str) -> None:
    Path("good").write_bytes(b"a\nb\na\n")
    Path("bad.gz").write_bytes(gzip.compress(lines_of(3000))[:-8])
    name, *options = command.split()
    done = mmbloom(name, "seen", "good", "bad.gz", *options, "--stats", *EXACT)
    assert done.code == 5
    figures, said = done.err.splitlines()
    assert said.startswith("mmbloom: bad.gz: damaged or cut off")
    of_all = json.loads(figures)
    assert (of_all["unique"], of_all["repeated"]) == (of_all["lines"] - 1, 1)
    with BloomFilter.open("seen", "r") as seen:
        assert of_all["unique"] == seen.info().keys_added
    assert of_all["lines"] > 2900


@FULL_DISK
def test_figures_at_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\nb\n")
    done = inside("dedup", tmp_path / "seen", tmp_path / "in", "-o/dev/full", "--stats", *EXACT)
    figures, said = done.err.splitlines()
    assert (done.code, json.loads(figures)["lines"]) == (5, 0)
    assert is_one_line(f"{said}\n", "mmbloom: /dev/full: No space left")


@EACH_LIBRARY
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, -8, -1])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, kept: float, piped: bool
) -> None:
    leave(library, monkeypatch)
    whole = gzip.compress(lines_of(3000)) + gzip.compress(lines_of(9000, 3000))
    cut = whole[: int(len(whole) * kept) if kept > 0 else int(kept)]
    path, seen = tmp_path / "in.gz", exact_filter(tmp_path / "seen")
    path.write_bytes(cut)
    first = zlib.decompressobj(31)
    there = first.decompress(cut)
    there += zlib.decompressobj(31).decompress(first.unused_data)
    read = partial(mmbloom, stdin=cut) if piped else inside
    done = read("dedup", seen, *([] if piped else [path]))
    assert done.code == 5
    assert is_one_line(done.err, f"{'stdin' if piped else path}: damaged or cut off: it ends")
    assert lines_of(12_000).startswith(done.out)
    assert done.out == there[: there.rindex(b"\n") + 1]


@EACH_LIBRARY
def test_cut_off_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Nothing is left within the decompressor, though a few bits give many lines."""
    leave(library, monkeypatch)
    lines = b"a\n" * 40_000
    whole, path = gzip.compress(lines, mtime=0), tmp_path / "in.gz"
    for size in range(18, len(whole)):  # with some of the lines
        path.write_bytes(whole[:size])
        found, said = read_whole(path, 1000)
        assert said
        assert found == zlib.decompressobj(31).decompress(whole[:size])
    assert found == lines


@st.composite
def gzip_headers(draw: st.DrawFn) -> bytes:
    """A header of RFC 1952, with any of the parts that it may have."""
    parts = draw(st.sets(st.sampled_from(list(FLAGS))))
    length = draw(st.sampled_from([1, 8, 300]))  # 300: in pieces where several are read at once
    header = b"\x1f\x8b\x08" + bytes([sum(FLAGS[part] for part in parts)]) + b"\1\2\3\4\0\3"
    if "extra" in parts:
        header += length.to_bytes(2, "little") + b"x" * length
    for part in ("name", "comment"):
        if part in parts:
            header += b"n" * length + b"\0"
    if "checksum" in parts:
        header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    return header


@st.composite
def gzip_files(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Streams one after another, with zeros behind them, and perhaps a damage; is there one?"""
    data = b""
    for _ in range(draw(st.integers(0, 3))):
        plain = lines_of(draw(st.sampled_from([0, 1, 50, 2000])), draw(st.integers(0, 99)))
        stream = gzip.compress(plain, draw(st.sampled_from([0, 1, 6])), mtime=0)
        data += draw(gzip_headers()) + stream[10:]  # what compress makes has no further part
        data += bytes(draw(st.sampled_from([0, 0, 1, 600, 40_000])))
    whole = data
    match draw(st.sampled_from(["none", "cut", "flipped", "more", "in front"])):
        case "cut":
            data = data[: draw(st.integers(0, len(data)))]
        case "flipped" if data:
            at = draw(st.integers(0, len(data) - 1))
            data = data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
        case "more":
            data += draw(st.binary(min_size=1, max_size=30))
        case "in front":
            data = draw(st.binary(min_size=1, max_size=3)) + data
    return data, data != whole


@pytest.mark.parametrize(
    ("data", "printed", "said"),
    [
        (
            b"plain\nlines\n",
            b"",
            r"it begins with b'plain\nline', expected .gz data; if it has plain lines, rename it",
        ),
        (b"\0\0\0", b"", r"it begins with b'\x00\x00\x00', expected .gz data"),
        (b"", b"", "it is empty"),
        (
            gzip.compress(b"a\n") + b"more",
            b"a\n",
            "a whole frame is followed by b'more', expected another .gz frame or the end",
        ),
        (gzip.compress(b"a\n") + b"\x1f", b"a\n", "it ends before its end-of-stream marker"),
        (gzip.compress(b"a\n")[:1], b"", "it ends before its end-of-stream marker"),
    ],
    ids=["plain", "zeros", "nothing", "more behind", "half a stream behind", "half a stream"],
)
def test_no_stream(tmp_path: Path, data: bytes, printed: bytes, said: str) -> None:
    path = tmp_path / "in.gz"
    path.write_bytes(data)
    done = inside("dedup", exact_filter(tmp_path / "seen"), path)
    assert (done.code, done.out) == (5, printed)
    assert is_one_line(done.err, f"{path}: damaged or cut off: {said}")


def read_whole(path: Path, at_a_time: int = 1 << 16) -> tuple[bytes, str]:
    """What a file gives in the buffers of a reader, and the error at its end, if there is one."""
    found, buffer = [], bytearray(at_a_time)
    with open_input(str(path), str(path)) as source:
        try:
            while count := source.readinto(buffer):
                found.append(bytes(buffer[:count]))
        except InputError as error:
            return b"".join(found), str(error)
    return b"".join(found), ""


def read_by_python(path: Path) -> tuple[bytes, bool]:
    """What a .gz gives by Python's own gzip, and whether it ends well."""
    broken = (EOFError, OSError, zlib.error)
    with gzip.open(path) as source, suppress(*broken):
        return source.read(), True

    def pieces(sizes: Iterable[int]) -> list[bytes]:
        found = []
        with gzip.open(path) as source, suppress(*broken):
            for size in sizes:
                found.append(source.read1(size))
                if not found[-1]:
                    break
        return found

    # A byte at a time before the error, which else would take some along.
    whole = map(len, pieces(repeat(1000)))
    return b"".join(pieces(chain(whole, repeat(1)))), False


@EACH_LIBRARY
def test_as_python_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Whatever the file: what Python's gzip takes gives the same bytes, and all else an error."""
    leave(library, monkeypatch)
    path = tmp_path / "in.gz"

    @given(made=gzip_files(), at_a_time=st.sampled_from([1000, 1 << 16, 1 << 20]))
    def compare(made: tuple[bytes, bool], at_a_time: int) -> None:
        data, damaged = made
        path.write_bytes(data)
        expected, ends_well = read_by_python(path)
        if has_no_lines(data) or has_no_lines(expected):  # FEA1, a zero: told before all else
            with pytest.raises(NoLinesError):
                read_whole(path, at_a_time)
            return
        found, said = read_whole(path, at_a_time)
        well = not said
        # Python passes over a damage of the header and an empty file, as no command of gzip does.
        strict = not data or (damaged and refused_header(data))
        assert well == ends_well or (ends_well and strict)
        assert well or damaged or not data
        if well:
            assert found == expected
        # What a damaged stream gave before the damage showed may be cut at 64 KiB.
        assert expected.startswith(found) or found.startswith(expected)

    compare()


def has_no_lines(head: bytes) -> bool:
    """Tell whether a file that begins so is another kind's; test_lines_text.py tests which are."""
    try:
        require_lines("in", head[:HEAD])
    except NoLinesError:
        return True
    return False


def refused_header(data: bytes) -> bool:
    """Tell whether some stream of a file may have a header that Python does not check.

    That is one with a checksum, or with a flag that RFC 1952 reserves.
    """
    starts = [at for at in range(len(data)) if data.startswith(b"\x1f\x8b\x08", at)]
    return any(data[at + 3] & 0xE2 for at in starts if at + 3 < len(data))


KINDS = ("gz", "bz2", "xz", "zst")
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
LINES = b"".join(b"%d of many\n" % (i * i) for i in range(120))
FRAMES = [LINES[:130], LINES[130:700], LINES[700:]]  # of which each begins within a line


def compressed(kind: str) -> list[bytes]:
    """Frames as an output of several runs has them."""
    library = _extras.compression(kind, "a test")
    return [library.compress(lines) for lines in FRAMES]


def flips(frames: list[bytes], chosen: random.Random) -> Iterator[bytes]:
    """Files with one bit flipped: each of where frames begin, and some of all the others."""
    whole = b"".join(frames)
    places = {8 * start + bit for start in accumulate(map(len, frames[:-1])) for bit in range(96)}
    places |= {chosen.randrange(8 * len(whole)) for _ in range(300)}
    for place in sorted(places):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        yield bytes(flipped)


@EACH_KIND
def test_a_flipped_bit(tmp_path: Path, kind: str, seed: int) -> None:
    """Where a kind checks nothing, such as the time in a header of gzip, no line is another."""
    for data in flips(compressed(kind), random.Random(seed)):
        (tmp_path / f"in.{kind}").write_bytes(data)
        found, said = read_whole(tmp_path / f"in.{kind}")
        assert said or found == LINES


@EACH_KIND
def test_cut_off_at_every_byte(tmp_path: Path, kind: str) -> None:
    """Of a file that ends between two frames nobody can say that it is cut off."""
    frames = compressed(kind)
    ends = dict(zip(accumulate(map(len, frames)), accumulate(FRAMES), strict=True))
    whole = b"".join(frames)
    for size in range(len(whole)):
        (tmp_path / f"in.{kind}").write_bytes(whole[:size])
        found, said = read_whole(tmp_path / f"in.{kind}")
        if size in ends:
            assert (found, said) == (ends[size], "")
        else:
            assert "damaged or cut off: it " in said
            assert LINES.startswith(found)


@EACH_KIND
@pytest.mark.parametrize("zeros", [1, 2, 4, 6, 8, 60_000])
@pytest.mark.parametrize("at_end", [False, True], ids=["between", "at the end"])
def test_zeros(tmp_path: Path, kind: str, zeros: int, at_end: bool) -> None:
    """Of gzip and xz they fill up a block, of xz by fours; of all others they are a damage."""
    frames = compressed(kind)
    frames.insert(len(frames) if at_end else 1, bytes(zeros))
    (tmp_path / f"in.{kind}").write_bytes(b"".join(frames))
    found, said = read_whole(tmp_path / f"in.{kind}")
    if kind == "gz" or (kind == "xz" and zeros % 4 == 0):
        assert (found, said) == (LINES, "")
    else:
        assert "damaged or cut off: " in said
        assert found == (LINES if at_end else FRAMES[0])


@EACH_KIND
@pytest.mark.parametrize("garbage", [b"\1", b"some other bytes", b"\0\0\0\0more", b"BZh9", b"PK"])
def test_something_else_behind(tmp_path: Path, kind: str, garbage: bytes) -> None:
    path = tmp_path / f"in.{kind}"
    path.write_bytes(b"".join(compressed(kind)) + garbage)
    done = inside("dedup", exact_filter(tmp_path / "seen"), path)
    assert (done.code, done.out) == (5, LINES)
    assert is_one_line(done.err, f"{path}: damaged or cut off: ")


@pytest.mark.parametrize("command", ["dedup", "add", "check"])
@pytest.mark.parametrize("options", ["", "--csv", "--csv --no-header", "--csv -k 1"])
def test_the_name_comes_once(tmp_path: Path, command: str, options: str) -> None:
    """Rows of CSV are read from an input whose errors have its name already."""
    path = tmp_path / "in.csv.gz"
    path.write_bytes(b"".join(compressed("gz"))[:-9])
    seen = exact_filter(tmp_path / "seen")
    done = inside(command, seen, path, *options.split())
    assert done.code == 5
    assert is_one_line(done.err, "damaged or cut off: it ends before its end-of-stream marker")
    assert done.err.count(str(path)) == 1
