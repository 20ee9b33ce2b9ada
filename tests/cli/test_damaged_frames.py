"""Files of several frames that are damaged: exit 5, or all lines; never fewer without a word."""

import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from cli_runner import exact_filter, inside, is_one_line

from mmbloom._system import extras as _extras
from mmbloom.errors import InputError
from mmbloom.logs.inputs import open_input

KINDS = ("gz", "bz2", "xz", "zst")
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
FRAMES = [b"".join(b"%d of frame %d\n" % (i * i, n) for i in range(9 + 30 * n)) for n in range(3)]


def compressed(kind: str) -> list[bytes]:
    """Frames as an output of several runs has them."""
    library = _extras.compression(kind, "a test")
    return [library.compress(lines) for lines in FRAMES]


def read_all(path: Path, data: bytes) -> tuple[bytes, str]:
    """Everything that a file gives, and the error at its end, if there is one."""
    path.write_bytes(data)
    found, block = bytearray(), bytearray(1 << 16)
    with open_input(str(path), str(path)) as source:
        try:
            while count := source.readinto(block):
                found += block[:count]
        except InputError as error:
            return bytes(found), str(error)
    return bytes(found), ""


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
        found, said = read_all(tmp_path / f"in.{kind}", data)
        assert said or found == b"".join(FRAMES)


@EACH_KIND
def test_cut_off(tmp_path: Path, kind: str) -> None:
    """Of a file that ends between two frames nobody can say that it is cut off."""
    frames = compressed(kind)
    ends = dict(zip(accumulate(map(len, frames)), accumulate(FRAMES), strict=True))
    whole = b"".join(frames)
    for size in range(len(whole)):
        found, said = read_all(tmp_path / f"in.{kind}", whole[:size])
        if size in ends:
            assert (found, said) == (ends[size], "")
        else:
            assert "damaged or cut off: it " in said
            assert b"".join(FRAMES).startswith(found)


@EACH_KIND
@pytest.mark.parametrize("zeros", [1, 2, 4, 6, 8, 60_000])
@pytest.mark.parametrize("at_end", [False, True], ids=["between", "at the end"])
def test_zeros(tmp_path: Path, kind: str, zeros: int, at_end: bool) -> None:
    """Of gzip and xz they fill up a block, of xz by fours; of all others they are a damage."""
    frames = compressed(kind)
    frames.insert(len(frames) if at_end else 1, bytes(zeros))
    found, said = read_all(tmp_path / f"in.{kind}", b"".join(frames))
    if kind == "gz" or (kind == "xz" and zeros % 4 == 0):
        assert (found, said) == (b"".join(FRAMES), "")
    else:
        assert "damaged or cut off: " in said
        assert found == (b"".join(FRAMES) if at_end else FRAMES[0])


@EACH_KIND
@pytest.mark.parametrize("garbage", [b"\1", b"some other bytes", b"\0\0\0\0more", b"BZh9", b"PK"])
def test_something_else_behind(tmp_path: Path, kind: str, garbage: bytes) -> None:
    path = tmp_path / f"in.{kind}"
    path.write_bytes(b"".join(compressed(kind)) + garbage)
    done = inside("dedup", exact_filter(tmp_path / "seen"), path)
    assert (done.code, done.out) == (5, b"".join(FRAMES))
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
