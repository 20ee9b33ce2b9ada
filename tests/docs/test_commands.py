"""Examples on pages of docs/ that `test_pages` cannot check: commands, and figures that vary."""

import shlex
import subprocess
from pathlib import Path

from cli_runner import mmbloom
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
    assert run_commands("which-one.md", tmp_path) == ""
    assert (tmp_path / "unique.log").read_bytes().splitlines() == FIRST_SEEN


def test_growing(tmp_path: Path) -> None:
    first, _ = examples(DOCS / "growing.md")
    new, found, *files, rate = run_python(first.code, tmp_path).splitlines()
    assert 8_970 <= int(new) <= 9_000
    assert found in ("True True False", "True True True")  # true by chance once in 1,000 runs
    assert [line.split()[0] for line in files] == ["1,000", "2,000", "4,000", "8,000"]
    assert 0 < float(rate.split("%")[0]) <= 0.1


def test_growing_commands(tmp_path: Path) -> None:
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


def test_recovery_after_a_power_cut(here: Path) -> None:
    again, lost = ("dedup", "seen.bloom", "access.log"), FIRST_SEEN[-100:]
    Path("access.log").write_bytes(LOG.read_bytes())
    assert mmbloom(*again, "-n", "1e5", "-o", "unique.log").code == 0
    cut_off = lost[0][:9]
    Path("unique.log").write_bytes(b"\n".join([*FIRST_SEEN[: -len(lost)], cut_off]))
    assert mmbloom(*again) == (0, b"", "")
    printed = b""
    for block in blocks(DOCS / "how-to-break-a-filter.md", "sh")[1:]:  # after what it makes
        for words in map(shlex.split, block.splitlines()):
            if words[0] == "mmbloom":
                done = mmbloom(*words[1:])
                assert (done.code, done.err) == (0, "")
                printed += done.out
            else:
                subprocess.run(words, check=True)
    lines = LOG.read_bytes().splitlines()
    assert printed == b"%d\n" % sum(line in lost for line in lines)
    assert {*FIRST_SEEN} == {*Path("unique.log").read_bytes().splitlines()} - {cut_off}
    assert mmbloom(*again) == (0, b"", "")
