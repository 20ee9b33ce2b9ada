"""--repeats-to: what is not new goes to a second file, so that each line is in one of the two."""

import csv
import io
import json
import random
from pathlib import Path

import pytest
from cli_runner import EXACT, is_one_line, kill_at_random, mmbloom
from frames import held_by
from tally import Count

LINES = b"a\nb\na\nc\nb\na\n"


def test_each_line_is_in_one_of_the_two(tmp_path: Path) -> None:
    one, two, out, rest = (tmp_path / name for name in ("one", "two", "out", "rest"))
    one.write_bytes(LINES)
    two.write_bytes(b"c\nd\nd")
    options: list[str | Path] = ["-o", out, "--repeats-to", rest, "--stats", *EXACT]
    done = mmbloom("dedup", tmp_path / "seen", one, two, *options)
    assert (done.code, done.out) == (0, b"")
    assert out.read_bytes() == b"a\nb\nc\nd\n"
    assert rest.read_bytes() == b"a\nb\na\nc\nd"
    figures = json.loads(done.err)
    assert (figures["unique"], figures["repeated"]) == (4, 5)
    assert mmbloom("dedup", tmp_path / "seen", two, *options).code == 0
    assert out.read_bytes() == b"a\nb\nc\nd\n"
    assert rest.read_bytes() == b"a\nb\na\nc\nd\nc\nd\nd"


def test_to_stdout_and_a_file(tmp_path: Path) -> None:
    rest = tmp_path / "rest"
    done = mmbloom("dedup", tmp_path / "seen", "--repeats-to", rest, *EXACT, stdin=LINES)
    assert (done.out, rest.read_bytes()) == (b"a\nb\nc\n", b"a\nb\na\n")
    out = tmp_path / "out"
    options: list[str | Path] = ["-o", out, "--repeats-to", rest, "--durable"]
    assert mmbloom("dedup", tmp_path / "seen", *options, stdin=b"d\nd\n").code == 0
    assert (out.read_bytes(), rest.read_bytes()) == (b"d\n", b"a\nb\na\nd\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_folders(tmp_path: Path, jobs: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\na\n")
    two.write_bytes(b"b\nb\nb\n")
    old = tmp_path / "old" / "deep"
    folders: list[str | Path] = ["--output-dir", tmp_path / "new", "--repeats-to", old]
    done = mmbloom("dedup", tmp_path / "seen", one, two, *folders, "-j", jobs, *EXACT)
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "new" / "one").read_bytes() == b"a\n"
    assert (old / "two").read_bytes() == b"b\nb\n"


def test_lines_without_a_key_are_there(tmp_path: Path) -> None:
    """A line that is skipped is printed nowhere else."""
    rest, lines = tmp_path / "rest", b"1,a\n2,\n3,a\n"
    options: list[str | Path] = ["-t,", "-k2", "--empty", "skip", "--repeats-to", rest, *EXACT]
    done = mmbloom("dedup", tmp_path / "seen", *options, stdin=lines)
    assert (done.out, rest.read_bytes()) == (b"1,a\n", b"2,\n3,a\n")


def test_csv_has_a_header_in_both(tmp_path: Path) -> None:
    rest, rows = tmp_path / "rest", b'id,a\n1,"x\n"\n2,"x\n"\n'
    options: list[str | Path] = ["--csv", "-ka", "--repeats-to", rest, *EXACT]
    done = mmbloom("dedup", tmp_path / "seen", *options, stdin=rows)
    assert (done.out, rest.read_bytes()) == (b'id,a\n1,"x\n"\n', b'id,a\n2,"x\n"\n')


def test_a_full_filter(tmp_path: Path) -> None:
    """The lines up to the first that does not fit are in one of the two, and no other."""
    rest = tmp_path / "rest"
    lines = b"a\na\nb\nb\nc\nc\n"
    done = mmbloom("dedup", tmp_path / "seen", "-n2", "-p1e-9", "--repeats-to", rest, stdin=lines)
    assert (done.code, done.out, rest.read_bytes()) == (6, b"a\nb\n", b"a\nb\n")


def test_files_that_are_in_use(tmp_path: Path) -> None:
    seen, lines, out = tmp_path / "seen", tmp_path / "in", tmp_path / "out"
    lines.write_bytes(LINES)
    for name, said in [
        (seen, "is the filter"),
        (lines, "is the same file"),
        (out, "is the output"),
    ]:
        done = mmbloom("dedup", seen, lines, "-o", out, "--repeats-to", name, *EXACT)
        assert done.code == 2
        assert said in done.err
    done = mmbloom("dedup", seen, lines, "--dry-run", "--repeats-to", out, *EXACT)
    assert done.code == 2


def test_a_second_file_that_cannot_be_written(tmp_path: Path) -> None:
    """Nothing of the chunk is marked then: the lines come again."""
    done = mmbloom("dedup", tmp_path / "seen", "--repeats-to", "/dev/full", *EXACT, stdin=LINES)
    assert done.code != 0
    assert is_one_line(done.err, "/dev/full: No space left on device")
    assert mmbloom("check", tmp_path / "seen", "-c", stdin=LINES).out == b"0\n"


@pytest.mark.stress
@pytest.mark.laws("T15")
@pytest.mark.parametrize("endings", [(".new", ".old"), (".zst", ".gz")])
def test_killed_at_random(
    tmp_path: Path, seed: int, stress: int, tally: Count, endings: tuple[str, str]
) -> None:
    """After kills amid a run, and a run that ends: each row is in one of the two files, or both."""
    rng, hits = random.Random(seed), 0
    text = io.StringIO(newline="")
    values = [f'{rng.randrange(20_000)}, "\nof many' for _ in range(60_000)]
    csv.writer(text).writerows([("id", "value"), *enumerate(values)])
    (tmp_path / "in.csv").write_bytes(text.getvalue().encode())
    for number in range(20 * stress):
        seen, out, rest = (tmp_path / f"{number}{ending}" for ending in (".seen", *endings))
        argv: list[str | Path] = [
            "dedup",
            seen,
            tmp_path / "in.csv",
            "--csv",
            "-k",
            "value",
            *EXACT,
        ]
        argv += ["-o", out, "--repeats-to", rest]
        kills = sum(kill_at_random(argv, rng, [out, rest], 0.02) for _ in range(2))
        assert mmbloom(*argv).code == 0
        texts = [io.StringIO(held_by(path).decode(), newline="") for path in (out, rest)]
        found = [list(csv.reader(text)) for text in texts]
        assert [rows[0] for rows in found] == [["id", "value"]] * 2
        rows = [{tuple(row) for row in some[1:]} for some in found]
        whole = {(str(place), value) for place, value in enumerate(values)}
        assert whole <= rows[0] | rows[1]
        assert {value for _, value in rows[0] & whole} == {*values}
        cut_off = len((rows[0] | rows[1]) - whole)
        assert cut_off <= (2 * kills if endings[0] == ".new" else 0)  # none, where frames are whole
        tally(kills=kills, rows=len(whole), cut_off=cut_off)
        hits += kills > 0
        if hits == stress:
            break
    assert hits == stress
