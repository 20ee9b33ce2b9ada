"""The page that leads to a member of the family: its commands run as they stand.

Its Python is run by `test_pages`, as that of every page.
"""

from pathlib import Path

from pages import DOCS, ROOT, blocks, run_shell

LOG = ROOT / "examples" / "access.log"


def test_commands(tmp_path: Path) -> None:
    """The sample log comes out without its repeats."""
    (tmp_path / "examples").symlink_to(LOG.parent)
    (commands,) = blocks(DOCS / "which-one.md", "sh")
    assert run_shell(commands, tmp_path) == ""
    written = (tmp_path / "unique.log").read_bytes().splitlines()
    assert written == list(dict.fromkeys(LOG.read_bytes().splitlines()))
