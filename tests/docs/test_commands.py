"""Examples on pages of docs/ that `test_pages` cannot check: commands, and figures that vary."""

from pathlib import Path

from pages import DOCS, ROOT, blocks, examples, run_python, run_shell

LOG = ROOT / "examples" / "access.log"
FIRST_SEEN = list(dict.fromkeys(LOG.read_bytes().splitlines()))


def run_commands(page: str, folder: Path) -> str:
    """Run the page's commands in a folder with the sample log; gives what they print."""
    (folder / "examples").symlink_to(LOG.parent)
    (commands,) = blocks(DOCS / page, "sh")
    return run_shell(commands, folder)


def printed_by(page: str, folder: Path) -> list[str]:
    """Run the one example of a page in a folder; the lines that it prints."""
    (example,) = examples(DOCS / page)
    return run_python(example.code, folder).splitlines()


def test_which_one(tmp_path: Path) -> None:
    """The sample log comes out without its repeats."""
    assert run_commands("which-one.md", tmp_path) == ""
    assert (tmp_path / "unique.log").read_bytes().splitlines() == FIRST_SEEN


def test_growing(tmp_path: Path) -> None:
    """Four files hold the 10,000 keys, and the whole is as good as was asked for."""
    new, found, *files, rate = printed_by("growing.md", tmp_path)
    assert 8_970 <= int(new) <= 9_000
    assert found in ("True True False", "True True True")  # true by chance once in 1,000 runs
    assert [line.split()[0] for line in files] == ["1,000", "2,000", "4,000", "8,000"]
    assert 0 < float(rate.split("%")[0]) <= 0.1


def test_growing_commands(tmp_path: Path) -> None:
    """The sample log comes out without its repeats, and every line of it is found afterwards."""
    printed = run_commands("growing.md", tmp_path)
    assert (tmp_path / "unique.log").read_bytes().splitlines() == FIRST_SEEN
    assert "0 missing" in printed
    assert "sound" in printed
    assert (tmp_path / "kept" / "manifest.json").exists()


def test_exclusions(tmp_path: Path) -> None:
    """The white list holds just the false positives, and no spammer is taken for a friend."""
    size, mistaken, found, last = printed_by("exclusions.md", tmp_path)
    assert size == "16 8"
    count = int(mistaken.split()[0])
    assert 25 <= count <= 95  # 57 expected, with a standard deviation of 8
    assert found == "0 100000"
    assert last == f"False True {count}"
    listed = run_commands("exclusions.md", tmp_path).splitlines()
    assert len(listed) == count + 1
    assert listed[-1] == "aunt@mail.example"
    assert (tmp_path / "spam.bloom.exclusions").read_text().splitlines() == listed
