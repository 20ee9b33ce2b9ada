"""The commands of docs/composite-keys.md, and what the page says that Python finds of them."""

from pathlib import Path

from pages import DOCS, blocks, run_shell

from mmbloom import BloomFilter


def test_commands(tmp_path: Path) -> None:
    """Python finds the fields as a tuple of str, and numbers of JSON as no digits."""
    (tmp_path / "visits.csv").write_text("ann,x,20260101\nann,y,20260101\nann,x,20260102\n")
    events = ['{"user": {"id": "ann"}, "day": "mon"}', '{"user": {"id": "ann"}, "day": 5}']
    (tmp_path / "events.jsonl").write_text("".join(f"{event}\n" for event in [*events, *events]))
    (commands,) = blocks(DOCS / "composite-keys.md", "sh")
    assert run_shell(commands, tmp_path) == ""
    assert (tmp_path / "new.csv").read_text() == "ann,x,20260101\nann,x,20260102\n"
    assert (tmp_path / "new.jsonl").read_text().splitlines() == events
    with BloomFilter.open(tmp_path / "visits.bloom", "r") as seen:
        assert ("ann", "20260101") in seen
        assert ("ann", 20260101) not in seen
    with BloomFilter.open(tmp_path / "events.bloom", "r") as seen:
        assert ("ann", "mon") in seen
        assert ("ann", "5") not in seen
