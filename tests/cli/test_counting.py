"""The commands on a counting filter: those that take it, and the others' one clear line."""

import json
from pathlib import Path

import pytest
from cli_runner import EXACT, inside, is_one_line, mmbloom, refused

from mmbloom import BloomFilter, CountingBloomFilter


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    path, lines = tmp_path / "seen", tmp_path / "lines"
    lines.write_bytes(b"a\nb\nb\n")
    assert inside("create", path, "--counting", *EXACT) == (0, b"", "")
    assert inside("add", path, lines) == (0, b"", "")
    return path


def test_remove(counting: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    some.write_bytes(b"b\nc\n")
    with CountingBloomFilter.open(counting, "r") as seen:
        flushed_ns = seen.info().flushed_ns
    for code in (0, 0, 1):
        assert inside("remove", counting, some) == (code, b"", "")
    with CountingBloomFilter.open(counting, "r") as seen:
        assert seen.contains_many([b"a", b"b", b"c"]).tolist() == [True, False, False]
        assert seen.info().flushed_ns > flushed_ns
    done = mmbloom("remove", counting, "-t,", "-k2", stdin=b"x,a\n")
    assert (done.code, done.out) == (0, b"")
    assert is_one_line(done.err, 'was filled by "whole lines"')
    assert CountingBloomFilter.open(counting, "r").info().positions_set == 0


def test_check_info_verify_copy(counting: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"c\nb\n")
    assert inside("check", counting, lines) == (0, b"b\n", "")
    assert json.loads(inside("info", counting, "--json").out)["kind"] == "counters"
    assert b" counters\n" in inside("info", counting, "--recount").out
    assert inside("verify", counting, "--keys", lines).code == 1
    done = inside("verify", counting)
    assert (done.code, b"counters set" in done.out) == (0, True)
    copied = tmp_path / "copied"
    assert inside("copy", counting, copied, "--seal").code == 0
    assert inside("check", copied, lines).out == b"b\n"
    done = inside("remove", copied, lines)
    assert done.code == 3
    assert is_one_line(done.err, str(copied), "sealed")
    like = tmp_path / "like"
    assert inside("create", like, "--like", counting).code == 0
    BloomFilter.open(like).close()


OTHERS = {
    "dedup": ("{file}", "{lines}"),
    "dedup -n": ("{file}", "{lines}", *EXACT),
    "add -n": ("{file}", "{lines}", *EXACT),
    "merge": ("{new}", "{file}"),
    "intersect": ("{new}", "{file}"),
    "compare": ("{file}", "{file}"),
    "repair": ("{file}", "{new}"),
    "export": ("--guava", "{file}", "{new}"),
}


@pytest.mark.parametrize("command", OTHERS)
def test_others_refuse_counters(counting: Path, tmp_path: Path, command: str) -> None:
    names = {"file": counting, "lines": tmp_path / "lines", "new": tmp_path / "new"}
    before = counting.read_bytes()
    argv = [word.format(**names) for word in OTHERS[command]]
    done = inside(command.split(maxsplit=1)[0], *argv)
    assert refused(done, 3, str(counting), "is a counting filter", "copy --plain")
    assert counting.read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_remove_from_a_plain_filter(tmp_path: Path) -> None:
    plain, lines = tmp_path / "plain", tmp_path / "lines"
    lines.write_bytes(b"a\n")
    inside("add", plain, lines, *EXACT)
    done = inside("remove", plain, lines)
    assert refused(done, 3, str(plain), "plain filter", "create --counting")


def test_a_plain_copy(counting: Path, tmp_path: Path) -> None:
    """What counting filters are refused for, the plain one that is made of it is taken for."""
    plain, lines = tmp_path / "plain", tmp_path / "lines"
    assert inside("copy", "--plain", counting, plain) == (0, b"", "")
    for each in (counting, plain):
        assert inside("check", each, lines).out == lines.read_bytes()
    assert plain.stat().st_mode & 0o777 == 0o600
    assert inside("dedup", plain, lines) == (0, b"", "")
    done = inside("copy", "--plain", plain, tmp_path / "again")
    assert done.code == 3
    assert is_one_line(done.err, str(plain), "plain filter")
