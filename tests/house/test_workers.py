"""The children of tests: one that hangs is ended, and shows where it was."""

import time

import pytest
from checks import ChildDiedError as ForkedChildDied
from checks import run_forked
from workers import ChildDiedError, in_child


def hang_here() -> None:
    time.sleep(600)


def test_hanging_child_shows_its_stacks(capfd: pytest.CaptureFixture[str]) -> None:
    """A child that takes too long is killed, and prints the function it was in."""
    with pytest.raises(ChildDiedError, match="hung for"):
        in_child(hang_here, timeout=0.1)
    assert "in hang_here" in capfd.readouterr().err


def test_hanging_fork_shows_its_stacks(capfd: pytest.CaptureFixture[str]) -> None:
    """The same of the plain fork, which the alarm clock ends."""
    with pytest.raises(ForkedChildDied, match="-14"):
        run_forked(hang_here, seconds=1)
    assert "in hang_here" in capfd.readouterr().err
