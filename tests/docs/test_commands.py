"""Examples on pages that `test_pages` cannot check: commands, figures that vary, other programs."""

import shlex
import shutil
import subprocess
from pathlib import Path

from checks import check_folder
from cli_runner import mmbloom
from guava_files import parse, require_jar
from pages import DOCS, ROOT, blocks, examples, run, run_python, run_shell

from mmbloom import BloomFilter

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


def test_composite_keys(tmp_path: Path) -> None:
    """Python finds the fields as a tuple of str, and numbers of JSON as no digits."""
    for commands in blocks(DOCS / "composite-keys.md", "sh"):
        assert run_shell(commands, tmp_path)
    with BloomFilter.open(tmp_path / "days.bloom", "r") as seen:
        assert ("ann", "20260101") in seen
        assert ("ann", 20260101) not in seen
    with BloomFilter.open(tmp_path / "events.bloom", "r") as seen:
        assert ("ann", "mon") in seen
        assert ("ann", "5") not in seen


INTERCHANGE = DOCS / "interchange.md"


def test_interchange_of_python(tmp_path: Path) -> None:
    """The first makes a Guava file with its keys, the second reads what a JVM gives back.

    In the folder where the commands before them were run, as whoever reads on has done.
    """
    out, back = examples(INTERCHANGE)
    (commands,) = blocks(INTERCHANGE, "sh")
    run_shell(commands, tmp_path)
    out.check(tmp_path)
    held = parse((tmp_path / "seen.guava").read_bytes())
    assert held is not None
    assert [held.has(key) for key in ("/a", "/b", "/c")] == [True, True, False]
    shutil.copy(tmp_path / "seen.guava", tmp_path / "back.guava")
    assert run_python(back.code, tmp_path) == "[ True  True False False]\n"


def test_interchange_of_commands(tmp_path: Path) -> None:
    """The commands make a filter, a Guava file of it, and a filter of that."""
    (commands,) = blocks(INTERCHANGE, "sh")
    assert run_shell(commands, tmp_path) == ""
    check_folder(tmp_path, "again.bloom", "lines.bloom", "lines.guava")


def test_interchange_in_order(tmp_path: Path) -> None:
    """With Java between them: it finds what mmbloom added, and mmbloom what it put."""
    jar = require_jar()
    out, back = examples(INTERCHANGE)
    (java,) = blocks(INTERCHANGE, "java")
    out.check(tmp_path)
    (tmp_path / "Seen.java").write_text(java, encoding="utf-8")
    assert run(["java", "-cp", str(jar), "Seen.java"], tmp_path) == "true false\n"
    assert back.promised() == ["[ True  True  True False]"]
    back.check(tmp_path)


NIGHTS = """
import os

def build(night):
    with mmbloom.BloomFilter.create(f"{night}", 10_000, 1e-6) as built:
        built.update(["always"])
    mmbloom.copy(f"{night}", "sealed.bloom", seal=True)
    fsspec.filesystem("memory").put("sealed.bloom", "/filters/seen.bloom")
    os.unlink("sealed.bloom")
    return fetched("memory://filters/seen.bloom", "copies")

first = build("monday")
with mmbloom.BloomFilter.open(first, mode="r") as seen:
    second = build("tuesday")
    print(first == second, "always" in seen)
    print("always" in seen, seen.contains_many(["always"]).all())
    os.unlink(first)
    try:
        seen.contains_many(["always"])
    except mmbloom.FileChangedError as error:
        print("removed" in str(error))
with mmbloom.BloomFilter.open(second, mode="r") as seen:
    print("always" in seen, fetched("memory://filters/seen.bloom", "copies") == second)
print(len(os.listdir("copies")))
"""


def test_an_open_filter_keeps_its_file(tmp_path: Path) -> None:
    """The next build has a file of its own; a filter whose file is removed says so."""
    (page,) = examples(DOCS / "object-stores.md")
    code, _, _ = page.code.partition("# Each host")
    code = code.replace(
        'fsspec.filesystem("memory").put("sealed.bloom", "/filters/seen.bloom")', ""
    )
    (tmp_path / "copies").mkdir()
    printed = run_python(code + NIGHTS, tmp_path).splitlines()
    assert printed == ["False True", "True True", "True", "True True", "1"]


def test_a_second_run_fetches_the_start(tmp_path: Path) -> None:
    """The crawl of the page, run again, has the start page alone to fetch."""
    crawl, _ = examples(DOCS / "scrapy.md")
    crawl.check(tmp_path)
    assert run_python(crawl.code, tmp_path).splitlines()[0] == "pages 1"
