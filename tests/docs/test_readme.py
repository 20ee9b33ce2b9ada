"""The README's examples run as they stand, and the page of the installation has its command."""

import re
import tomllib
from pathlib import Path

import pytest
from pages import DOCS, README, ROOT, blocks, examples, run_python, run_shell, steps

from mmbloom.cli.commands import COMMANDS

DAYS = ("monday", "tuesday")


def test_the_page_pasted_from_top_to_bottom(tmp_path: Path) -> None:
    """Every block runs in the order of the page without an error, twice where it says so.

    But for those that make an environment and enter it: CI runs them in a fresh clone.
    """
    (tmp_path / "examples").symlink_to(README.parent / "examples")
    printed = []
    for kind, block, _ in steps(README):
        if kind == "sh" and not block.startswith(("sh setup.sh ", ". .venv/bin/activate")):
            printed.append(run_shell(block, tmp_path))
        elif kind == "python":
            printed.append(run_python(block, tmp_path))
    first, workers, reopened, arrays, merged, day = printed
    assert first == "True\nTrue False\n"
    assert (workers, reopened) == ("['/a', '/b', '/c']\n", "True 3\n[ True  True]\n")
    assert arrays == "[ True False]\n"
    assert re.findall(r"(\S+) looked up, (\d+) missing", merged) == [("2,000", "0")]
    assert day == ""
    distinct = len(set((README.parent / "examples" / "access.log").read_bytes().splitlines()))
    written = [(tmp_path / "unique" / f"{day}.log").read_bytes() for day in DAYS]
    assert b"".join(written).count(b"\n") == distinct
    again = blocks(README, "sh")[-2]  # before the one that runs the tests
    assert run_shell(again, tmp_path) == ""  # "however often the command runs"
    assert written == [(tmp_path / "unique" / f"{day}.log").read_bytes() for day in DAYS]
    first, workers = (run_python(one.code, tmp_path) for one in examples(README)[:2])
    assert (first, workers) == ("False\nTrue False\n", "[]\n")  # "when run again"
    found = run_shell("seq 1000 | mmbloom verify archive.bloom --keys -", tmp_path)
    assert re.findall(r"(\S+) looked up, (\d+) missing", found) == [("1,000", "0")]
    assert len(re.findall(r"seal +\d+ MiB compared", found)) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """No command goes undocumented."""
    assert re.search(f"^[|] `mmbloom {command}[ `]", README.read_text("utf-8"), re.MULTILINE)


OF_DEVELOPERS = {"bench", "docs", "fuzz", "lint", "test", "test-s3"}


def test_every_extra_is_named() -> None:
    """The table has the extras of users, and no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, _, table = (DOCS / "install.md").read_text("utf-8").partition("## Extras\n")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    assert {*named} == extras["optional-dependencies"].keys() - OF_DEVELOPERS


def test_the_first_pages_say_how() -> None:
    """The first page of the site has the README's command, and so has the page, in its words."""
    (command,) = re.findall(
        r"^sh setup.sh .*mmbloom dedup.*", README.read_text("utf-8"), re.MULTILINE
    )
    assert f"$ {command}\n" in (DOCS / "index.md").read_text("utf-8")
    page = (DOCS / "install.md").read_text("utf-8")
    for part in command.replace(".venv/bin/", "").split(" && "):
        assert f"$ {part}\n" in page
