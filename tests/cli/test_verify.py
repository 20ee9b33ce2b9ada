"""mmbloom verify: exit code, words and JSON; keys from files, pipes and fields."""

import gzip
import json
import os
from pathlib import Path

import pytest
from checks import set_counters
from cli_runner import Ended, inside, mmbloom, refused
from damages import MIB, clear_a_bit, filter_of, flip, sealed_of, untouched

from mmbloom import BloomFilter, verify

LINES = [b"line %d" % number for number in range(300)]


@pytest.fixture
def used(path: str) -> str:
    filter_of(path, 64 * 1024, keys=range(0))
    with BloomFilter.open(path) as seen:
        seen.add_many(LINES)
    return path


def test_sound(used: str) -> None:
    with untouched(used):
        done = mmbloom("verify", used)
    assert (done.code, done.err) == (0, "")
    said = done.out.decode()
    assert used in said
    assert f"{os.path.getsize(used):,} bytes, as the header asks for" in said
    assert "none to compare" in said
    assert "PROBLEM" not in said
    assert said.splitlines()[-1].split() == ["verdict", "sound"]


def test_not_sound(used: str) -> None:
    set_counters(used, batches_begun=7)
    done = inside("verify", used)
    assert (done.code, done.err) == (0, "")
    assert b"note            6 batches begun" in done.out
    clear_a_bit(used)
    flip(used, 600)
    done = inside("verify", used)
    assert (done.code, done.err) == (1, "")
    assert done.out.count(b"\nPROBLEM ") == 2
    assert done.lines[-1].split() == [b"verdict", b"not", b"sound"]


def test_sealed(tmp_path: Path) -> None:
    path = sealed_of(tmp_path / "a", 2 * MIB)
    done = inside("verify", path)
    assert (done.code, b"2 MiB compared" in done.out) == (0, True)
    flip(path, 4096 + MIB, 3)
    done = inside("verify", path)
    assert (done.code, b"PROBLEM         MiB 1 of the array" in done.out) == (1, True)


def test_json(used: str) -> None:
    for code in (0, 1):
        done = inside("verify", "--json", used)
        assert (done.code, done.err, done.out.count(b"\n")) == (code, "", 1)
        assert json.loads(done.out) == json.loads(json.dumps(verify(used).as_dict()))
        assert json.loads(done.out)["ok"] is (code == 0)
        clear_a_bit(used)


def looked_up(done: Ended, checked: int, missing: int) -> bool:
    found = json.loads(done.out)
    assert (found["keys_checked"], found["keys_missing"]) == (checked, missing)
    problem = f"{missing} of {checked} keys are not found"
    assert found["problems"] == ([problem] if missing else [])
    return (done.code, done.err) == (1 if missing else 0, "")


@pytest.mark.parametrize(
    ("kind", "missing"),
    [("plain", 0), ("plain", 7), ("gz", 7), ("stdin", 7), ("two", 7), ("no newline at the end", 7)],
)
def test_keys(used: str, tmp_path: Path, kind: str, missing: int) -> None:
    text = b"".join(line + b"\n" for line in [*LINES, *(b"no %d" % n for n in range(missing))])
    text = text[:-1] if kind.startswith("no") else text
    plain, packed = tmp_path / "keys", tmp_path / "keys.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    inputs: dict[str, list[str | Path]] = {"gz": [packed], "stdin": ["-"], "two": [plain, packed]}
    named = inputs.get(kind, [plain])
    argv, times = [word for name in named for word in ("--keys", name)], len(named)
    done = mmbloom("verify", "--json", used, *argv, stdin=text)
    assert looked_up(done, times * (300 + missing), times * missing)


def test_keys_in_words(used: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\n".join([*LINES, b"no"]))
    done = inside("verify", used, "--keys", tmp_path / "keys")
    assert (done.code, b"301 looked up, 1 missing" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["-k", "2", "-t", ","], b"x,%s,y"),
        (["-f", "1", "-s", "1"], b"x %s"),
        (["-s", "2"], b"xx%s"),
        (["-w", "10", "-s", "1"], b"x%s"),
        (["--json-key", "a"], b'{"a": "%s"}'),
        (["-i"], b"%s"),
    ],
)
def test_which_part_of_a_line(used: str, tmp_path: Path, options: list[str], line: bytes) -> None:
    keys = [key.upper() for key in LINES] if options == ["-i"] else LINES
    (tmp_path / "keys").write_bytes(b"".join(line % key + b"\n" for key in keys))
    argv = ("verify", "--json", used, "--keys", tmp_path / "keys")
    assert looked_up(inside(*argv, *options), 300, 0)
    assert inside(*argv).code == 1


def test_nul_terminated(used: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\0".join([*LINES, b"with\nnewline"]))
    argv = ("verify", "-z", "--json", used, "--keys", tmp_path / "keys")
    assert looked_up(inside(*argv), 301, 1)


def test_wrong_inputs_come_first(used: str, tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    os.unlink(used)  # whoever reads it first complains of that
    for code, *argv in (
        (5, "--keys", tmp_path / "nothing"),
        (5, "--keys", tmp_path),
        (2, "--keys", used),
    ):
        Path(used).write_bytes(b"no filter") if argv[1] == used else None
        assert refused(inside("verify", used, *argv), code)


def test_keys_that_cannot_be_read_to_their_end(used: str, tmp_path: Path) -> None:
    (tmp_path / "keys.gz").write_bytes(gzip.compress(b"\n".join(LINES))[:-9])
    assert refused(mmbloom("verify", used, "--keys", tmp_path / "keys.gz"), 5, "keys.gz")
