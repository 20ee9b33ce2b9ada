"""The commands of docs/composite-keys.md, and what the page says that Python finds of them."""

from pathlib import Path

from pages import DOCS, blocks, run_shell

from mmbloom import BloomFilter


def test_commands(tmp_path: Path) -> None:
    """Python finds the fields as a tuple of str, and numbers of JSON as no digits."""
    for commands in blocks(DOCS / "composite-keys.md", "sh"):
        assert run_shell(commands, tmp_path)
    with BloomFilter.open(tmp_path / "days.bloom", "r") as seen:
        assert ("ann", "20260101") in seen
        assert ("ann", 20260101) not in seen
    with BloomFilter.open(tmp_path / "events.bloom", "r") as seen:
        assert ("ann", "mon") in seen
        assert ("ann", "5") not in seen
