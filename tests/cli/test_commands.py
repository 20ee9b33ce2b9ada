"""The table of docs/which-one.md that says which command takes what, held to what they do."""

import re
from pathlib import Path

import pytest
from checks import contents
from cli_runner import Ended, inside, is_one_line
from pages import DOCS, section

from mmbloom.cli.commands import COMMANDS

EXPORTED = ["--layout", "standard", "--hash", "murmur3", "--seed", "0"]  # as export --guava has it
MAKE = {
    "file": EXPORTED,
    "counting": ["--counting"],
    "growing": ["--growing", *EXPORTED],
    "rotating": ["--rotate"],
}
# What follows a command; FILE is the filter.
ARGUMENTS = {
    "create --like": "FILE made",
    "add": "FILE lines",
    "dedup": "FILE lines",
    "check": "FILE lines",
    "remove": "FILE lines",
    "exclude": "FILE --add b",
    "grow": "FILE",
    "info": "FILE",
    "verify": "FILE --keys lines",
    "copy": "FILE made",
    "repair": "FILE made",
    "merge": "made FILE FILE",
    "intersect": "made FILE FILE",
    "compare": "FILE FILE",
    "export --guava": "FILE made",
}
NO_FILTER = {"plan", "import", "help", "completion", "manual"}
HEAD, _, *ROWS = [
    re.split(r" *\| *", row)[1:-1]
    for row in section(DOCS / "which-one.md", "Commands by kind of filter").splitlines()
    if row.startswith("|")
]
CELLS = [(row[0].strip("`"), *cell) for row in ROWS for cell in zip(MAKE, row[1:5], strict=True)]


@pytest.fixture
def where(here: Path) -> Path:
    (here / "lines").write_bytes(b"a\nb\n")
    return here


@pytest.mark.parametrize(("command", "kind", "cell"), CELLS)
def test_which_command_takes_what(where: Path, command: str, kind: str, cell: str) -> None:
    """Each cell of the table is what the command does; a refusal is one line, and nothing else."""
    make = ["create", "FILE", "-n", "1000", *MAKE[kind]]
    if command == "create":
        assert (inside(*make), cell) == (Ended(0, b"", ""), "yes")
        return
    assert inside(*make).code == 0
    assert inside("add", "FILE", "lines").code == 0
    before = contents(where)
    ended = inside(*command.split(), *ARGUMENTS[command].split())
    if cell == "yes":
        assert ended.code == 0
    else:
        assert cell == "no"
        assert (ended.code, ended.out) in ((2, b""), (3, b""))
        assert is_one_line(ended.err, str(where / "FILE"))
        assert contents(where) == before


def test_every_command_is_in_the_table() -> None:
    """But for those that take no filter; and each kind has a column."""
    assert HEAD[1:5] == [*MAKE]
    assert {row[0].strip("`").split()[0] for row in ROWS} == {*COMMANDS} - NO_FILTER
    assert len(CELLS) == 4 * len(ROWS) == 4 * (1 + len(ARGUMENTS))


@pytest.mark.parametrize("command", ["remove", "intersect", "compare", "export --guava"])
@pytest.mark.parametrize("kind", ["growing", "rotating"])
def test_refusals_say_what_the_table_says(where: Path, command: str, kind: str) -> None:
    """Why a folder is refused, and what to do instead, in the same words."""
    assert inside("create", "FILE", "-n", "9", *MAKE[kind]).code == 0
    ended = inside(*command.split(), *ARGUMENTS[command].split())
    (reason,) = (row[5].replace("`", "") for row in ROWS if row[0] == f"`{command}`")
    said = f"mmbloom: {where}/FILE: file is a folder, expected a single file: {reason}\n"
    assert ended == Ended(3, b"", said)


def test_each_file_of_a_folder_can_be_exported(where: Path) -> None:
    assert inside("create", "FILE", "-n", "9", *MAKE["growing"]).code == 0
    argv = ("export", "--guava", "FILE/0000000000.bloom", "made")
    assert inside(*argv) == Ended(0, b"", "")
