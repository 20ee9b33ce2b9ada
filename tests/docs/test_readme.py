"""The README's examples run as they stand."""

import re
import subprocess
from pathlib import Path

import pytest
from pages import README, examples, run_python, run_shell

from mmbloom.cli.parser import COMMANDS


def test_python_examples_run_in_order(tmp_path: Path) -> None:
    """All Python blocks work, the second on the file that the first made."""
    printed = [run_python(example.code, tmp_path) for example in examples(README)]
    assert printed == [
        "['/a', '/b', '/c']\n",
        "True 3\n[ True  True]\n",
        "[ True  True False]\n[ True False False]\n",
    ]


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
        run_shell(f"mmbloom dedup {options}", tmp_path)
        written = [(tmp_path / "unique" / f"{name}.log").read_bytes() for name in ("a", "b")]
        assert b"".join(written).count(b"\n") == distinct


def test_merge_and_archive_run(tmp_path: Path) -> None:
    """The shell example of writers with a filter each ends in an archive that has all keys."""
    found = re.search(r"```sh\n(mmbloom create north.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found
    (tmp_path / "examples").symlink_to(README.parent / "examples")
    also = "\nseq 1000 | mmbloom verify archive.bloom --keys -"
    printed = run_shell(found.group(1) + also, tmp_path)
    lines = (README.parent / "examples" / "access.log").read_bytes().count(b"\n")
    assert re.findall(r"(\S+) looked up, (\d+) missing", printed) == [
        (f"{lines:,}", "0"),
        ("1,000", "0"),
    ]
    assert len(re.findall(r"seal +\d+ MiB compared", printed)) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    """No command goes undocumented."""
    assert re.search(f"^[|] `mmbloom {command}[ `]", README.read_text("utf-8"), re.MULTILINE)
