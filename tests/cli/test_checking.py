"""mmbloom check and verify: which lines are in a filter, and whether it is sound."""

import gzip
import json
import os
from pathlib import Path

import pytest
from checks import contents, set_counters
from cli_runner import EXACT, Ended, exact_filter, inside, mmbloom, refused
from damages import MIB, clear_a_bit, filter_of, flip, sealed_of, untouched

from mmbloom import BloomFilter, verify

DATA = b"a\nx\r\nb\ny\na"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    (tmp_path / "known").write_bytes(b"a\nb\n")
    (tmp_path / "in").write_bytes(DATA)
    assert inside("add", tmp_path / "seen", tmp_path / "known", *EXACT).code == 0
    return tmp_path / "seen"


@pytest.mark.parametrize(
    ("options", "out", "code"),
    [
        ([], b"a\nb\na", 0),
        (["-v"], b"x\r\ny\n", 0),
        (["--invert-match"], b"x\r\ny\n", 0),
        (["-c"], b"3\n", 0),
        (["-c", "-v"], b"2\n", 0),
        (["--count"], b"3\n", 0),
        (["-q"], b"", 0),
        (["-qv"], b"", 0),
        (["--quiet"], b"", 0),
        (["-s", "1"], b"", 1),
        (["-s1", "-v"], DATA, 0),
        (["-s1", "-c"], b"0\n", 1),
        (["-s1", "-q"], b"", 1),
        (["-w", "1", "-v"], b"x\r\ny\n", 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_found_or_not(known: Path, options: list[str], out: bytes, code: int) -> None:
    source = known.parent / "in"
    done = inside("check", known, source, *options)
    assert (done.code, done.out) == (code, out)
    assert ("was filled with the key rule" in done.err) == (
        options[0][:2] in {"-s", "-w"} if options else False
    )


def test_exit_codes_of_a_process(known: Path) -> None:
    assert mmbloom("check", known, "-q", stdin=b"x\na\n") == (0, b"", "")
    assert mmbloom("check", known, "-q", stdin=b"x\n") == (1, b"", "")
    assert mmbloom("check", known, "-", stdin=b"") == (1, b"", "")


ASKING = [
    *("check seen in", "check seen in -v", "check seen in -c", "check seen in -q"),
    *("info seen", "info seen --json", "verify seen", "verify seen --keys in"),
    *("compare seen seen", "exclude seen --list"),
]


@pytest.mark.parametrize("command", ASKING)
def test_asking_changes_nothing(known: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """The filter keeps every byte and its times, and may be read-only."""
    monkeypatch.chdir(known.parent)
    known.chmod(0o400)
    before, status = contents(known.parent), known.stat()
    assert inside(*command.split()).code in (0, 1)
    assert contents(known.parent) == before
    assert known.stat().st_mtime_ns == status.st_mtime_ns


def test_inputs_are_not_glued_together(known: Path) -> None:
    source = known.parent / "in"
    assert inside("check", known, source, source).out == b"a\nb\na\na\nb\na"


def test_names_of_inputs(here: Path) -> None:
    """-H: before each line the input it is of, as grep does; with -c a number for each input."""
    seen = exact_filter("seen")
    assert mmbloom("add", seen, stdin=b"a\nb\n\n").code == 0
    for name, lines in {"one": b"a\nx\n\nb", "two": b"x\n", "three": b"b\n"}.items():
        Path(name).write_bytes(lines)
    done = mmbloom("check", "-H", seen, "one", "two", "three", "-", stdin=b"a\n")
    assert done == (0, b"one:a\none:\none:b\nthree:b\nstdin:a\n", "")
    done = mmbloom("check", "-Hv", seen, "one", "two")
    assert done == (0, b"one:x\ntwo:x\n", "")
    done = mmbloom("check", "-Hc", seen, "one", "two", "three")
    assert done == (0, b"one:3\ntwo:0\nthree:1\n", "")
    assert mmbloom("check", "-c", seen, "one", "two", "three").out == b"4\n"
    assert mmbloom("check", "-Hz", seen, "-", stdin=b"a\0b\0x\0").out == b"stdin:a\0stdin:b\0"
    many = b"".join(b"a\nx%d\n" % i for i in range(100_000))
    assert mmbloom("check", "-H", seen, "-", stdin=many).out == b"stdin:a\n" * 100_000


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
    assert f"{os.path.getsize(used):,} bytes, as the header says" in said
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
        ("-k 2 -t ,", b"x,%s,y\n"),
        ("-f 1 -s 1", b"x %s\n"),
        ("-s 2", b"xx%s\n"),
        ("-w 10 -s 1", b"x%s\n"),
        ("--json-key a", b'{"a": "%s"}\n'),
        ("-i", b"%s\n"),
        ("-z", b"%s\0"),
    ],
)
def test_which_part_of_a_line(used: str, tmp_path: Path, options: str, line: bytes) -> None:
    keys = [key.upper() for key in LINES] if options == "-i" else LINES
    (tmp_path / "keys").write_bytes(b"".join(line % key for key in keys))
    argv = ("verify", "--json", used, "--keys", tmp_path / "keys")
    assert looked_up(inside(*argv, *options.split()), 300, 0)
    assert inside(*argv).code == 1


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
