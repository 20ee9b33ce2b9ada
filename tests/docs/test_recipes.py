"""Pages that are read from top to bottom: all their blocks, in order, in one folder.

Commands print what the block of kind ``text`` after them says, or nothing; for Python see `pages`.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pages import DOCS, RECIPES, ROOT, Example, blocks, run, run_python, steps

from mmbloom import grow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sample log, and `mmbloom` on the PATH, for scripts too."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    there = tmp_path / "bin"
    there.mkdir()
    # A reader's python finds the scripts of the folder; ours shall not, of any other.
    python = f"env -u PYTHONSAFEPATH '{sys.executable}'"
    for name, starts in {"mmbloom": f"'{sys.executable}' -P -m mmbloom", "python": python}.items():
        (there / name).write_text(f'#!/bin/sh\nexec {starts} "$@"\n')
        (there / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{there}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def follow(page: Path, folder: Path, without: Sequence[str] = ()) -> None:
    """Run all blocks of a page, but for those that contain one of some words."""
    for language, block, output in steps(page):
        if any(word in block for word in without):
            continue
        if language == "python":
            Example(block, output or None).check(folder)
        else:
            assert run(["bash", "-euo", "pipefail", "-c", block], folder) == output, block


@pytest.mark.parametrize("name", RECIPES)
def test_from_top_to_bottom(folder: Path, name: str) -> None:
    """Every block of the page does what the page says."""
    assert steps(DOCS / name)
    text = (DOCS / name).read_text(encoding="utf-8")
    missing = [
        library
        for library in ("dlt", "duckdb", "datasets", "w3lib")
        if f"import {library}" in text or f"from {library} import" in text
        if not importlib.util.find_spec(library)
    ]
    follow(DOCS / name, folder, without=missing)
    if missing:
        pytest.skip(f"{missing} not installed, and all but their blocks were run")


def test_every_block_of_shell_is_run() -> None:
    """Each page with commands has a test that runs them: it stands above, or is named here."""
    elsewhere = {
        "exclusions.md": "test_commands",
        "growing.md": "test_commands",
        "interchange.md": "test_commands",
        "which-one.md": "test_commands",
    }
    with_shell = {page.name for page in DOCS.rglob("*.md") if blocks(page, "sh")}
    assert with_shell - {*RECIPES} == {*elsewhere}
    for name, test in elsewhere.items():
        assert f'"{name}"' in (Path(__file__).parent / f"{test}.py").read_text(encoding="utf-8")


# Pages whose programs open or create a filter, and run again when it has grown.
GROWN = {
    "README.md": ["ids.bloom", "keys.bloom", "urls.bloom"],
    "asyncio.md": ["sent.bloom", "urls.bloom"],
    "index.md": ["keys.bloom"],
    "long-work.md": ["done.bloom", "taken.bloom"],
    "near-duplicates.md": ["near.bloom"],
    "on-the-disk.md": ["jobs.bloom"],
    "own-project.md": ["urls.bloom"],
    "sieve.md": ["seen.bloom"],
    "urls.md": ["seen.bloom"],
}
# No program that runs twice; one that grows its filter itself; one about a cache.
NOT_AGAIN = {"errors.md", "growing.md", "hugging-face.md"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS.glob("*.md")], ids=lambda at: at.name)
def test_a_filter_that_has_grown_meanwhile(folder: Path, page: Path) -> None:
    """Programs that open or create their filter go on when `grow` has made a folder of it."""
    if page.name not in GROWN:
        assert "open_or_create(" not in page.read_text("utf-8") or page.name in NOT_AGAIN
        return
    for _ in range(2):
        for language, block, _ in steps(page):
            if language == "python":
                run_python(block, folder)
            elif "open_or_create(" in block:
                run(["bash", "-euo", "pipefail", "-c", block], folder)
        for name in GROWN[page.name]:
            grow(folder / name)


@pytest.mark.parametrize("promised", ["b\n", ""])
def test_what_a_page_says_is_compared(tmp_path: Path, promised: str) -> None:
    """Another output than the page's, or one where the page has none, is an error."""
    text = f"```text\n{promised}```\n" if promised else ""
    (tmp_path / "page.md").write_text(f"```sh\necho a\n```\n{text}", encoding="utf-8")
    with pytest.raises(AssertionError):
        follow(tmp_path / "page.md", tmp_path)


def test_logrotate(folder: Path) -> None:
    """logrotate renames the log, and then has the script print what is new in it."""
    logrotate = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin")
    if not logrotate:
        pytest.skip("logrotate is not installed")
    follow(DOCS / "cron.md", folder)
    (rule,) = blocks(DOCS / "cron.md", "none")
    (folder / "rule").write_text(rule.replace("/srv/logs/", f"{folder}/"), encoding="utf-8")
    (folder / "access.log.1").unlink()
    (folder / "access.log").write_bytes(b"a line of today\n")
    before = (folder / "unique.log").read_bytes()
    done = subprocess.run(
        [logrotate, "--force", "--state", folder / "state", folder / "rule"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (folder / "access.log").exists()
    assert (folder / "unique.log").read_bytes() == before + b"a line of today\n"
