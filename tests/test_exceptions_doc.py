"""The examples of docs/exceptions.md run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOC = (Path(__file__).parents[1] / "docs" / "exceptions.md").read_text(encoding="utf-8")


def run(argv: list[str], folder: Path) -> list[str]:
    """Run an example in a folder of its own; the lines that it printed."""
    bin_folder = os.path.dirname(sys.executable)
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_examples(tmp_path: Path) -> None:
    """The white list holds just the false positives, and no spammer is taken for a friend."""
    (code,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    size, mistaken, found, last = run([sys.executable, "-P", "-W", "error", "-c", code], tmp_path)
    assert size == "16 8"
    count = int(mistaken.split()[0])
    assert 25 <= count <= 95  # 57 expected, with a standard deviation of 8
    assert found == "0 100000"
    assert last == f"False True {count}"
    (commands,) = re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL)
    listed = run(["bash", "-eu", "-c", commands], tmp_path)
    assert len(listed) == count + 1
    assert listed[-1] == "aunt@mail.example"
    assert (tmp_path / "spam.bloom.exceptions").read_text().splitlines() == listed
