"""The README's examples run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mmbloom.cli._main import COMMANDS

README = Path(__file__).parent.parent / "README.md"
PYTHON = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def _run(code: str, folder: Path) -> str:
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_examples_run_in_order(tmp_path: Path) -> None:
    """All Python blocks work, the second on the file that the first made."""
    assert len(PYTHON) == 3
    assert _run(PYTHON[0], tmp_path) == "['/a', '/b', '/c']\n"
    assert _run(PYTHON[1], tmp_path) == "True 3\n[ True  True]\n"
    assert _run(PYTHON[2], tmp_path) == "[ True  True False]\n[ True False False]\n"


def test_dedup_of_a_days_logs_runs(tmp_path: Path) -> None:
    """The shell example works on compressed logs, and a second run adds nothing."""
    found = re.search(r"\nmmbloom dedup (.*logs/\*\.log\.gz)\n", README.read_text("utf-8"))
    assert found
    (tmp_path / "logs").mkdir()
    sample = README.parent / "examples" / "access.log"
    for name in ("a", "b"):
        subprocess.run(
            f"gzip -c '{sample}' > logs/{name}.log.gz", shell=True, cwd=tmp_path, check=True
        )
    # 1e8 keys are a matter of disk space, not of the example: plan for fewer.
    options = found.group(1).replace("1e8", "1e5")
    distinct = len(set(sample.read_bytes().splitlines()))
    for _ in range(2):
        command = f"'{sys.executable}' -P -m mmbloom dedup {options}"
        subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=60)
        written = [(tmp_path / "unique" / f"{name}.log").read_bytes() for name in ("a", "b")]
        assert b"".join(written).count(b"\n") == distinct


def test_merge_and_archive_run(tmp_path: Path) -> None:
    """The shell example of writers with a filter each ends in an archive that has all keys."""
    found = re.search(r"```sh\n(mmbloom create north.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found
    (tmp_path / "examples").symlink_to(README.parent / "examples")
    prefix = f"mmbloom() {{ '{sys.executable}' -P -m mmbloom \"$@\"; }}\nset -e\n"
    also = "\nseq 1000 | mmbloom verify archive.bloom --keys -"
    done = subprocess.run(
        ["bash", "-c", prefix + found.group(1) + also],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = (README.parent / "examples" / "access.log").read_bytes().count(b"\n")
    assert re.findall(r"(\S+) looked up, (\d+) missing", done.stdout) == [
        (f"{lines:,}", "0"),
        ("1,000", "0"),
    ]
    assert len(re.findall(r"seal +\d+ MiB compared", done.stdout)) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """No command goes undocumented."""
    assert f"| `mmbloom {command} " in README.read_text(encoding="utf-8")
