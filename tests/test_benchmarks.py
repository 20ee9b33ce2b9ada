"""A small run of each benchmark, so that none can rot; speed is not looked at."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        ("insert_query.py", "--keys 2000 --large 100000 --rounds 1", "mmbloom (numpy engine)"),
        ("dedup_log.py", "--lines 2000 --rounds 1", "| mmbloom dedup |"),
        ("open_filter.py", "--capacity 100000 --rounds 3", "open, query one key, close"),
    ],
)
def test_benchmark_runs(script: str, options: str, expected: str, tmp_path: Path) -> None:
    """Each script runs to its end and prints its table."""
    command = [sys.executable, str(BENCHMARKS / script), *options.split()]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_sample_log_is_what_the_script_writes() -> None:
    """The sample log in the repository can be made again."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "make_log.py"), "2000", "7"],
        capture_output=True,
        check=True,
    )
    assert done.stdout == (BENCHMARKS.parent / "examples" / "access.log").read_bytes()


def test_log_repeats_three_lines_in_ten() -> None:
    """The synthetic log has the share of repeats that it says it has."""
    lines = (BENCHMARKS.parent / "examples" / "access.log").read_bytes().splitlines()
    assert 0.65 < len(set(lines)) / len(lines) < 0.75
