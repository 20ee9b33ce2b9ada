"""The examples of docs/growing.md and docs/rotating.md run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def run_example(page: str, folder: Path) -> list[str]:
    """Run the Python of a page in a folder; what it printed, line by line."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_growing(tmp_path: Path) -> None:
    """Four files hold the 10,000 keys, and the whole is as good as was asked for."""
    new, found, *files, rate = run_example("growing.md", tmp_path)
    assert 8_970 <= int(new) <= 9_000
    assert found in ("True True False", "True True True")  # true by chance once in 1,000 runs
    assert [line.split()[0] for line in files] == ["1,000", "2,000", "4,000", "8,000"]
    assert 0 < float(rate.split("%")[0]) <= 0.1


def test_rotating(tmp_path: Path) -> None:
    """Keys are forgotten after their week, and not before."""
    assert run_example("rotating.md", tmp_path) == [
        "[ True  True False]",
        "True False",
        "False True",
        "True False",
    ]
