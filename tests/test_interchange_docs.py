"""The examples of docs/interchange.md run as they stand; its Java with the real Guava."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from checks import check_folder
from guava_files import parse, require_jar

DOC = Path(__file__).parents[1] / "docs" / "interchange.md"


def blocks(language: str) -> list[str]:
    text = DOC.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder; returns what it printed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(code: str, folder: Path) -> str:
    return run([sys.executable, "-P", "-W", "error", "-c", code], folder)


def test_python_examples(tmp_path: Path) -> None:
    """The first makes a Guava file with its keys, the second reads what a JVM gives back."""
    out, back = blocks("python")
    assert python(out, tmp_path) == ""
    held = parse((tmp_path / "seen.guava").read_bytes())
    assert held is not None
    assert [held.has(key) for key in ("/a", "/b", "/c")] == [True, True, False]
    shutil.copy(tmp_path / "seen.guava", tmp_path / "back.guava")
    assert python(back, tmp_path) == "[ True  True False False]\n"


def test_shell_example(tmp_path: Path) -> None:
    """The commands make a filter, a Guava file of it, and a filter of that."""
    (commands,) = blocks("sh")
    prefix = f"mmbloom() {{ '{sys.executable}' -P -m mmbloom \"$@\"; }}\nset -e\n"
    assert run(["bash", "-c", prefix + commands], tmp_path) == ""
    check_folder(tmp_path, "again.bloom", "seen.bloom", "seen.guava")


def test_all_examples_in_order(tmp_path: Path) -> None:
    """With Java between them: it finds what mmbloom added, and mmbloom what it put."""
    jar = require_jar()
    out, back = blocks("python")
    (java,) = blocks("java")
    python(out, tmp_path)
    (tmp_path / "Seen.java").write_text(java, encoding="utf-8")
    assert run(["java", "-cp", str(jar), "Seen.java"], tmp_path) == "true false\n"
    printed = re.findall(r"print\(.*# (.*)", back)
    assert python(back, tmp_path) == f"{printed[0]}\n"
