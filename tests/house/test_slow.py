"""Tests that are marked slow are left out where nothing is named, and CI runs them all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECT = [sys.executable, "-m", "pytest", "-n0", "--collect-only", "-q"]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [((), False), (("--slow",), True), (("-m", "slow"), True), (("-k", "each_call"), True)],
)
def test_which_run(arguments: tuple[str, ...], runs: bool) -> None:
    """A slow test runs with --slow, and where a mark or a name chooses what runs."""
    words = [*COLLECT, "-o", "testpaths=tests/resident", *arguments]
    # CI names what this run takes, and --slow, for any pytest below it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    assert ("tests/resident/test_each_call.py::" in done.stdout) == runs


def test_several_processes_run_them_too() -> None:
    """A file that is named has all its tests in each process of xdist: else it has none here."""
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-n1",
        "--setup-plan",
        "tests/resident/test_each_call.py",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout


def test_ci_runs_them() -> None:
    """The three lanes that run all tests, by the README's command, leave none out."""
    lane = (ROOT / ".ci" / "run").read_text().partition("third_of_tests() {")[2]
    assert 'PYTEST_ADDOPTS="-n0 --slow ' in lane.partition("\n}")[0]
