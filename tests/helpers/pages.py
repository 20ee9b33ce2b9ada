"""The examples of the documentation's pages, taken from them and run as they stand.

A page gives what an example prints in one of two ways: a comment of nothing but values behind a
`print`, which is that line of the output (a comment with words is a remark); or a block of kind
``text`` right after the example, which is all of its output.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
# Pages that are read from top to bottom: `test_recipes` runs their commands and their Python.
RECIPES = [
    *("command-line.md", "composite-keys.md", "containers.md", "cron.md", "csv.md"),
    *("dataframes.md", "first-dedup.md", "full-filter.md", "how-to-break-a-filter.md"),
    *("hugging-face.md", "install.md", "monitoring.md", "n-grams.md", "near-duplicates.md"),
    *("object-stores.md", "on-the-disk.md", "out-of-memory.md", "own-project.md"),
    *("pipelines.md", "python-and-commands.md", "retries.md", "rotating.md"),
    *("set-operations.md", "training-data.md", "urls.md"),
]

_VALUES = re.compile(r"(?:[\[\](){},:\s]|'[^']*'|-?\d[\d.e+-]*|(?:True|False|None|nan|inf)\b)+")
_PRINT = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
_EXAMPLE = re.compile(
    r"^```python\n(.*?)^```\n(?:\n*^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
_STEP = re.compile(
    r"^```(sh|python)\n(.*?)^```\n(?:\n*^```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    """A block of Python on a page, and the output that stands right after it, if any."""

    code: str
    output: str | None

    def check(self, folder: Path) -> None:
        """Run it in a folder, and compare what it prints with what the page gives."""
        printed = run_python(self.code, folder)
        if self.output is not None:
            assert printed == self.output
        left = iter(printed.splitlines())
        for line in self.promised():
            assert line in left, f"{line!r} is not printed, or not in its turn:\n{printed}"

    def promised(self) -> list[str]:
        remarks: list[str] = _PRINT.findall(self.code)
        return [remark for remark in remarks if _VALUES.fullmatch(remark)]


def examples(page: Path) -> list[Example]:
    found = _EXAMPLE.findall(page.read_text(encoding="utf-8"))
    return [Example(code, output or None) for code, output in found]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def steps(page: Path) -> list[tuple[str, str, str]]:
    return _STEP.findall(page.read_text(encoding="utf-8"))


def section(page: Path, heading: str) -> str:
    """What stands under a heading of the second level, up to the next."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    return rest.partition("\n## ")[0]


def run_python(code: str, folder: Path) -> str:
    """Run an example as a script in a folder; gives what it printed. No warning is let pass."""
    script = folder / "example.py"  # a file: processes that it starts may have to import it
    script.write_text(code, encoding="utf-8")
    return run([sys.executable, "-P", "-W", "error", script.name], folder)


def run_shell(commands: str, folder: Path) -> str:
    """Run commands, `mmbloom` of this interpreter among them; gives what they printed."""
    prefix = f"mmbloom() {{ '{sys.executable}' -P -m mmbloom \"$@\"; }}\nset -e\n"
    return run(["bash", "-c", prefix + commands], folder)


def run(command: list[str], folder: Path) -> str:
    """Run a command that must succeed in silence; gives what it printed.

    What it leaves among the temporary files is removed. They are not in `folder`, whose path is too
    long for the sockets of other processes.
    """
    with tempfile.TemporaryDirectory() as temporary:
        datasets = {"HF_HOME": temporary, "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": temporary, **datasets},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done}"
    return done.stdout
