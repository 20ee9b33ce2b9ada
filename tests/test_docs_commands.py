"""The commands on pages of docs/, run as they stand.

Their Python is run by `test_pages`, as that of every page.
"""

from pathlib import Path

from pages import DOCS, ROOT, blocks, run_shell

LOG = ROOT / "examples" / "access.log"
FIRST_SEEN = list(dict.fromkeys(LOG.read_bytes().splitlines()))


def run_commands(page: str, folder: Path) -> str:
    """Run the page's commands in a folder with the sample log; gives what they print."""
    (folder / "examples").symlink_to(LOG.parent)
    (commands,) = blocks(DOCS / page, "sh")
    return run_shell(commands, folder)


def test_which_one(tmp_path: Path) -> None:
    """The sample log comes out without its repeats."""
    assert run_commands("which-one.md", tmp_path) == ""
    assert (tmp_path / "unique.log").read_bytes().splitlines() == FIRST_SEEN


def test_growing(tmp_path: Path) -> None:
    """The sample log comes out without its repeats, and every line of it is found afterwards."""
    printed = run_commands("growing.md", tmp_path)
    assert (tmp_path / "unique.log").read_bytes().splitlines() == FIRST_SEEN
    assert "0 missing" in printed
    assert "sound" in printed
    assert (tmp_path / "kept" / "manifest.json").exists()
