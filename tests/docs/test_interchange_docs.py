"""The examples of docs/interchange.md run as they stand; its Java with the real Guava."""

import shutil
from pathlib import Path

from checks import check_folder
from guava_files import parse, require_jar
from pages import DOCS, blocks, examples, run, run_python, run_shell

PAGE = DOCS / "interchange.md"


def test_python_examples(tmp_path: Path) -> None:
    """The first makes a Guava file with its keys, the second reads what a JVM gives back.

    In the folder where the commands before them were run, as whoever reads on has done.
    """
    out, back = examples(PAGE)
    (commands,) = blocks(PAGE, "sh")
    run_shell(commands, tmp_path)
    out.check(tmp_path)
    held = parse((tmp_path / "seen.guava").read_bytes())
    assert held is not None
    assert [held.has(key) for key in ("/a", "/b", "/c")] == [True, True, False]
    shutil.copy(tmp_path / "seen.guava", tmp_path / "back.guava")
    assert run_python(back.code, tmp_path) == "[ True  True False False]\n"


def test_shell_example(tmp_path: Path) -> None:
    """The commands make a filter, a Guava file of it, and a filter of that."""
    (commands,) = blocks(PAGE, "sh")
    assert run_shell(commands, tmp_path) == ""
    check_folder(tmp_path, "again.bloom", "lines.bloom", "lines.guava")


def test_all_examples_in_order(tmp_path: Path) -> None:
    """With Java between them: it finds what mmbloom added, and mmbloom what it put."""
    jar = require_jar()
    out, back = examples(PAGE)
    (java,) = blocks(PAGE, "java")
    out.check(tmp_path)
    (tmp_path / "Seen.java").write_text(java, encoding="utf-8")
    assert run(["java", "-cp", str(jar), "Seen.java"], tmp_path) == "true false\n"
    assert back.promised() == ["[ True  True  True False]"]
    back.check(tmp_path)
