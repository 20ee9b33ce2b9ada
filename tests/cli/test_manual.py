"""The manual page: made from the parser, so that it has every command, option and example."""

import re
import shutil
import subprocess

import pytest
from cli_runner import inside

from mmbloom.cli.commands import COMMANDS
from mmbloom.cli.parser import parser_of
from mmbloom.cli.process import EXIT_CODES


@pytest.fixture
def page() -> str:
    done = inside("manual")
    assert (done.code, done.err) == (0, "")
    return done.out.decode()


def plain(roff: str) -> str:
    """The words of the page, without what sets their type, in one line."""
    bare = re.sub(r"\\f[BIR]|\\,|\\/", "", roff).replace(r"\-", "-").replace(r"\e", "\\")
    return " ".join(bare.split())


def part_of(page: str, name: str) -> str:
    """What the page has of one command."""
    _, _, rest = page.partition(f"\n.SS \\fBmmbloom {name}\\fR\n")
    return plain(re.split(r"\n\.S[SH] ", rest)[0])


@pytest.mark.parametrize("name", COMMANDS)
def test_it_has_every_option(page: str, name: str) -> None:
    part = part_of(page, name)
    assert part.startswith(f"{COMMANDS[name].summary} usage: mmbloom {name} ")
    for action in parser_of(name)._actions:
        if "--help" in action.option_strings:  # the same everywhere, and in the usage
            continue
        assert " ".join((action.help or "?").split()) in part
        for option in action.option_strings:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", part.partition("options:")[2]), option


def test_it_has_every_example_and_exit_code(page: str) -> None:
    _, _, rest = page.partition("\n.SH EXAMPLES\n")
    lines = [line.replace(r"\-", "-").replace(r"\e", "\\") for line in rest.split("\n")]
    for name in COMMANDS:
        for example in COMMANDS[name].examples:
            for line in example.split("\n"):
                assert line in lines
    assert EXIT_CODES.removeprefix("exit codes: ") in plain(page.partition(".SH EXIT STATUS")[2])


def test_one_page_at_all_widths(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the terminal is, the page is the same, and no text of it is a request."""
    for width in range(20, 140, 9):
        monkeypatch.setenv("COLUMNS", str(width))
        assert inside("manual").out.decode() == page, width
    for line in page.splitlines():
        assert re.match(r"\.(TH|SH|SS|TP|RS|RE|B|nf|fi)\b|[^.']|$", line), line


def test_man_reads_it(page: str) -> None:
    if not (groff := shutil.which("groff")):
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-ww", "-b", "-z", "-Tutf8"],
        input=page,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
