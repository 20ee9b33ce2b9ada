"""mmbloom check: which lines are in a filter; nothing is changed by asking."""

from pathlib import Path

import pytest
from checks import contents
from cli_runner import EXACT, exact_filter, inside, mmbloom

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
    assert ("was filled by" in done.err) == (options[0][:2] in {"-s", "-w"} if options else False)


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
