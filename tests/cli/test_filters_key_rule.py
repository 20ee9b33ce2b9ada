"""How lines became the keys of a filter is noted by the first command that adds, and compared."""

import json
import os
from pathlib import Path

import has
import pytest
from cli_runner import EXACT, inside, is_one_line, mmbloom, running, wait_until
from reference import parse_key_rule

import mmbloom as package
from mmbloom import BloomFilter, GrowingFilter, MmbloomWarning, RotatingFilter, merge
from mmbloom.logs.dedup import Discard, dedup
from mmbloom.logs.lines import LineKeys, read_chunks

LINES = b"a,1,x\nb,2,x\na,3,y\n"
FIRST = ("-k", "1", "-t", ",")
OTHERS: list[list[str]] = [["-k", "2", "-t", ","], ["-k", "1"], ["-i"], []]


def rule_of(path: str | Path) -> str | None:
    with package.open(path, "r") as seen:
        assert seen.info().key_rule == seen.key_rule
        return seen.key_rule


def warned(err: str, path: object, mine: str, there: str = "-k 1 -t ,") -> bool:
    return is_one_line(
        err, f'{path}: was filled with the key rule "{there}"', f'has "{mine}"', "the same line can"
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(LINES)
    return tmp_path / "log"


def filled(path: Path, *more: str) -> Path:
    """A filter of the first fields, made by dedup."""
    done = mmbloom("dedup", path, *EXACT, *FIRST, *more, stdin=LINES)
    assert (done.out, done.err) == (b"a,1,x\nb,2,x\n", "")
    assert rule_of(path) == "-k 1 -t ,"
    return path


@pytest.mark.parametrize("kind", [[], ["--growing"], ["--rotate"]], ids=["file", "growing", "week"])
def test_another_rule_is_told_once(tmp_path: Path, log: Path, kind: list[str]) -> None:
    seen = filled(tmp_path / "seen", *kind)
    for number, options in enumerate(OTHERS):
        copy = tmp_path / f"copy-{number}"
        assert mmbloom("copy", seen, copy).code == 0
        commands = [["check", seen], ["dedup", seen, "--dry-run"], ["dedup", copy]]
        for command in commands:
            done = mmbloom(*command, log, "-", *options, stdin=LINES)
            assert warned(done.err, command[1], " ".join(options) or "whole lines")
    assert rule_of(seen) == "-k 1 -t ,"
    for name in ("dedup", "check", "add"):
        assert mmbloom(name, seen, log, *FIRST).err == ""


def test_add_remove_and_verify(tmp_path: Path, log: Path) -> None:
    counts = tmp_path / "counts"
    assert mmbloom("create", counts, "-n", "1e3", "--counting").code == 0
    assert rule_of(counts) is None
    assert mmbloom("add", counts, log, "-k1").err == ""
    assert rule_of(counts) == "-k 1"
    commands = [["add", counts, log], ["remove", counts, log], ["verify", counts, "--keys", log]]
    for command in commands:
        assert warned(mmbloom(*command).err, counts, "whole lines", "-k 1")
    assert mmbloom("copy", "--plain", counts, tmp_path / "plain").code == 0
    assert rule_of(tmp_path / "plain") == "-k 1"


@pytest.mark.parametrize(("there", "mine"), [([], "skip"), (["--empty", "key"], "skip")])
@pytest.mark.parametrize("member", ["a", " --empty "])
def test_only_empty_differs(tmp_path: Path, there: list[str], mine: str, member: str) -> None:
    """Lines that have the member keep their key, and no warning says that they count as new."""
    lines = b"".join(b'{"%s": %d}\n' % (member.encode(), number) for number in range(100))
    options = ["--json-key", member, "-i"]
    assert mmbloom("dedup", tmp_path / "seen", *EXACT, *options, *there, stdin=lines).err == ""
    done = mmbloom("dedup", tmp_path / "seen", *options, "--empty", mine, stdin=lines)
    assert done.out == b""
    assert is_one_line(done.err, "differ only for lines whose field or member is missing")
    assert "new" not in done.err
    options[1] = f"{member}x"  # and with another member they have another key
    done = mmbloom("dedup", tmp_path / "seen", *options, "--empty", mine, stdin=lines)
    assert "can have another key, and then counts as new" in done.err


def test_whole_lines_are_a_rule(tmp_path: Path, log: Path) -> None:
    """Whole lines one day and a field the next: what to leave out is said."""
    assert mmbloom("dedup", tmp_path / "seen", *EXACT, log).err == ""
    done = mmbloom("dedup", tmp_path / "seen", log, *FIRST)
    assert warned(done.err, tmp_path / "seen", "-k 1 -t ,", "whole lines")
    assert "leave out -k 1 -t ," in done.err
    assert rule_of(tmp_path / "seen") == "whole lines"


def test_info_shows_it(tmp_path: Path) -> None:
    for name, kind in (("file", []), ("folder", ["--growing"])):
        seen = filled(tmp_path / name, *kind)
        assert b"\nkey rule" in inside("info", seen).out
        assert json.loads(inside("info", "--json", seen).out)["key_rule"] == "-k 1 -t ,"
    BloomFilter.create(tmp_path / "new", 100).close()
    assert b"key rule" not in inside("info", tmp_path / "new").out
    assert json.loads(inside("info", "--json", tmp_path / "new").out)["key_rule"] is None


def test_keys_of_python_have_no_rule(tmp_path: Path, log: Path) -> None:
    with BloomFilter.create(tmp_path / "seen", 1000) as seen:
        seen.update(["a", "b", "1"])
    for options in (*OTHERS, [*FIRST]):
        assert mmbloom("check", tmp_path / "seen", log, *options).err == ""
    assert rule_of(tmp_path / "seen") is None


def test_nothing_is_written(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "seen"
    with BloomFilter.create(path, 1000, 1e-9) as seen:
        seen.update(LINES.splitlines())
    before = path.read_bytes()
    commands = [["dedup", path, "--dry-run", *FIRST, log], ["check", path, log]]
    for command in commands:
        mmbloom(*command)
    assert mmbloom("dedup", path, *FIRST).out == b""
    assert path.read_bytes() == before
    assert mmbloom("dedup", path, log).out == b""
    assert parse_key_rule(path.read_bytes()) is None
    assert mmbloom("dedup", path, "--dry-run", log, *FIRST).out == b"a,1,x\nb,2,x\n"
    assert parse_key_rule(path.read_bytes()) is None


def test_several_processes(tmp_path: Path) -> None:
    """With -j one process of all notes it, and the warning is there once."""
    for name in ("one", "two", "three"):
        (tmp_path / name).write_bytes(LINES * 3)
    names = [tmp_path / name for name in ("one", "two", "three")]
    run = ["dedup", tmp_path / "seen", *EXACT, *names, "--output-dir", tmp_path / "out", "-j", "2"]
    assert mmbloom(*run, *FIRST).err == ""
    assert rule_of(tmp_path / "seen") == "-k 1 -t ,"
    assert warned(mmbloom(*run).err, tmp_path / "seen", "whole lines")


@pytest.mark.skipif(not has.PROC, reason="this system has no /proc, to see what is open")
def test_two_first_commands(tmp_path: Path) -> None:
    """Of two that begin on an empty filter one notes its rule, and the other says so at its end."""
    seen = tmp_path / "seen"
    BloomFilter.create(seen, 1000, 1e-9).close()
    with running("dedup", seen) as slow:
        assert slow.stdin is not None
        assert slow.stdout is not None
        wait_until(lambda: seen.name in open_files(slow.pid), "the filter to be open")
        filled_by = mmbloom("dedup", seen, *FIRST, stdin=LINES)
        assert filled_by.err == ""
        out, err = slow.communicate(LINES, 30)
    assert out == LINES
    assert warned(err.decode(), seen, "whole lines")


def open_files(pid: int) -> set[str]:
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(os.path.basename(os.readlink(fd)))
        except OSError:  # closed meanwhile
            continue
    return found


def test_it_outlives_files(tmp_path: Path) -> None:
    """A growing folder has it in each new file, and a rotating one when all others are dropped."""
    grown = filled(tmp_path / "grown", "--growing", "-n", "2")
    assert mmbloom("dedup", grown, *FIRST, stdin=b"".join(b"%d\n" % i for i in range(20))).code == 0
    files = sorted(grown.glob("*.bloom"))
    assert len(files) > 2
    assert {parse_key_rule(file.read_bytes()) for file in files} == {"-k 1 -t ,"}
    now = [0.0]
    week = tmp_path / "week"
    made = RotatingFilter.create(
        week, capacity_per_period=100, keep="2d", every="1d", clock=lambda: now[0]
    )
    with made as seen:
        seen.add("before")
        seen.note_key_rule("-k 1")
        for day in (1, 2, 3, 9):
            now[0] = day * 86_400.0
            assert seen.add(f"of day {day}")
            assert seen.key_rule == "-k 1"
        assert len(seen.info().files) == 1
        assert seen.info().key_rule == "-k 1"


def test_what_is_made_of_a_filter_keeps_it(tmp_path: Path, log: Path) -> None:
    seen, made = filled(tmp_path / "seen"), tmp_path / "made"
    commands = {
        "copied": ["copy", seen],
        "sealed": ["copy", "--seal", seen],
        "mended": ["repair", seen],
        "alike": ["create", "--like", seen],
    }
    for name, (command, *words) in commands.items():
        at = tmp_path / name
        places = [at, *words] if command == "create" else [*words, at]
        assert mmbloom(command, *places).code == 0, name
        assert rule_of(at) == "-k 1 -t ,", name
    assert mmbloom("merge", made, seen, tmp_path / "alike").err == ""
    assert rule_of(made) == "-k 1 -t ,"
    assert mmbloom("grow", made).code == 0
    assert rule_of(made) == "-k 1 -t ,"
    assert mmbloom("create", tmp_path / "folder", "--like", made).code == 0
    assert rule_of(tmp_path / "folder") == "-k 1 -t ,"
    # The header is damaged, and the rule is not.
    with (tmp_path / "copied").open("r+b") as file:
        file.seek(40)
        file.write(b"\xff" * 4)
    with BloomFilter.open(seen, "r") as one:
        package.repair(tmp_path / "copied", tmp_path / "rebuilt", params=one.params)
    assert rule_of(tmp_path / "rebuilt") == "-k 1 -t ,"


def test_two_rules_in_one_filter(tmp_path: Path) -> None:
    """A union of lines by two rules has the first, and warns; as do intersections."""
    one = filled(tmp_path / "one")
    with BloomFilter.open(one) as like:
        BloomFilter.create(tmp_path / "none", like=like).close()
        with BloomFilter.create(tmp_path / "two", like=like) as two:
            two.note_key_rule("-k 2")
    paths = [tmp_path / "none", one, tmp_path / "two"]
    done = mmbloom("merge", tmp_path / "all", *paths)
    assert is_one_line(done.err, "in different ways: -k 1 -t ,; -k 2;")
    assert rule_of(tmp_path / "all") == "-k 1 -t ,"
    done = mmbloom("intersect", tmp_path / "common", *paths)
    assert is_one_line(done.err, "in different ways")
    merge(tmp_path / "fine", paths[:2])
    with BloomFilter.open(tmp_path / "none") as seen:
        seen.union_update(one)
        assert seen.key_rule == "-k 1 -t ,"
        with pytest.warns(MmbloomWarning, match="in different ways"):
            seen.union_update(tmp_path / "two")
    for name, rule in (("a", "-k 1"), ("b", "-k 2")):
        with GrowingFilter.create(tmp_path / name, 100, seed=1) as folder:
            folder.note_key_rule(rule)
    with pytest.warns(MmbloomWarning, match="in different ways: -k 1; -k 2"):
        merge(tmp_path / "c", [tmp_path / "a", tmp_path / "b"])
    assert rule_of(tmp_path / "c") == "-k 1"


def test_keys_of_several_parts_are_not_excluded_by_typing(tmp_path: Path) -> None:
    """`exclude` says that no typed key is one of several fields, and what to do instead."""
    for options, warns in ((["-k", "1,2"], True), (["-k", "1"], False), ([], False)):
        path = tmp_path / "seen"
        assert mmbloom("dedup", path, *EXACT, *options, stdin=b"a b\n").code == 0
        done = mmbloom("exclude", path, "--add", "a")
        assert bool(done.err) == warns
        if warns:
            assert is_one_line(done.err, str(path), "cannot be typed", "on stdin, with -k 1,2")
            with package.open(path) as seen:
                assert ("a", "b") in seen
        path.unlink()
        os.unlink(f"{path}.exclusions")


def test_python_that_reads_lines_notes_it_too(tmp_path: Path, log: Path) -> None:
    """`mmbloom.logs.dedup.dedup` adds lines as commands do, and what it notes is compared."""
    with BloomFilter.create(tmp_path / "seen", 1000) as seen, log.open("rb", 0) as source:
        dedup(seen, read_chunks(source), Discard(), keys=LineKeys(field=1, separator=b","))
    assert mmbloom("check", tmp_path / "seen", log, *FIRST).err == ""
    assert warned(mmbloom("check", tmp_path / "seen", log).err, tmp_path / "seen", "whole lines")
