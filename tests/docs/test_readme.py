"""The README's examples run as they stand, and the page of the installation has its command."""

import re
import tomllib
from pathlib import Path

import pytest
from cli_runner import on_a_terminal
from pages import DOCS, README, ROOT, Example, blocks, run_shell, steps

from mmbloom.cli.commands import COMMANDS


def test_the_page_pasted_from_top_to_bottom(tmp_path: Path) -> None:
    """Every block runs in the order of the page, and prints what the page shows.

    But for those that make an environment and enter it: CI runs them in a fresh clone.
    """
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for kind, block, output in steps(README):
        if kind == "python":
            Example(block, output or None).check(tmp_path)
        elif not block.startswith(("sh setup.sh ", ". .venv/bin/activate")):
            assert run_shell(block, tmp_path) == output
    (day,) = (block for block in blocks(README, "sh") if "--output-dir" in block)
    assert run_shell(day, tmp_path) == "1394\n"  # "however often the command runs"
    assert len({*(ROOT / "examples" / "access.log").read_bytes().splitlines()}) == 1394


def test_the_first_command_on_a_terminal(tmp_path: Path) -> None:
    """It prints the line of figures that the page shows, but for the time."""
    (_, command, output), *_ = steps(README)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = command.partition(" && .venv/bin/mmbloom ")[2].split()
    shown = on_a_terminal(*words, cwd=tmp_path)[1].removesuffix("|END|")
    last = shown.split("\r")[-2]  # after it a newline
    seconds = r"[\d.]+ s$"
    assert re.sub(seconds, "", last) == re.sub(seconds, "", output.rstrip())
    assert len((tmp_path / "unique.log").read_bytes().splitlines()) == 1394


def test_the_page_is_short() -> None:
    """A first page that is read has 350 to 1,500 words."""
    assert len(README.read_text(encoding="utf-8").split()) <= 1200


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_at_a_glance(command: str) -> None:
    """No command goes undocumented."""
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    assert re.search(f"^[|] `mmbloom {command}[ `]", page, re.MULTILINE)


OF_DEVELOPERS = {"bench", "docs", "fuzz", "lint", "test", "test-s3"}


def test_every_extra_is_named() -> None:
    """The table has the extras of users, and no other."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    _, _, table = (DOCS / "install.md").read_text("utf-8").partition("## Extras\n")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = re.findall(r"`([\w-]+)`", " ".join(rows))
    assert {*named} == extras["optional-dependencies"].keys() - OF_DEVELOPERS


def test_the_first_pages_say_how() -> None:
    """The site begins as the README does, with its command; so has the page, in its words."""
    (command,) = re.findall(
        r"^sh setup.sh .*mmbloom dedup.*", README.read_text("utf-8"), re.MULTILINE
    )
    first = (DOCS / "index.md").read_text("utf-8")
    assert f"$ {command}\n" in first
    for part in README.read_text("utf-8").split("\n\n")[:3]:  # its name, a sentence, three figures
        assert f"{part}\n" in first
    page = (DOCS / "install.md").read_text("utf-8")
    for part in command.replace(".venv/bin/", "").split(" && "):
        assert f"$ {part}\n" in page
