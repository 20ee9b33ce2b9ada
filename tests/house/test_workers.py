"""The children of tests: what one raises is raised, and one that hangs is ended."""

import os
import sys
import time

import pytest
from workers import ChildDiedError, ChildFailedError, in_child

from mmbloom import FormatError


def hang_here() -> None:
    time.sleep(600)


def raise_here() -> None:
    raise FormatError("a path", "size", "1", "2")


def test_hanging_child_shows_its_stacks(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildDiedError, match="hung for"):
        in_child(hang_here, timeout=0.1)
    assert "in hang_here" in capfd.readouterr().err


def test_error_of_a_child_is_raised_as_it_was() -> None:
    with pytest.raises(FormatError) as caught:
        in_child(raise_here)
    assert caught.value.path == "a path"
    assert "in raise_here" in str(caught.value.__cause__)


def test_child_that_would_end_the_tests() -> None:
    """SystemExit of a child is an error like any other in its parent."""
    with pytest.raises(ChildFailedError, match="SystemExit: 3"):
        in_child(lambda: sys.exit(3))


def test_child_without_a_report() -> None:
    """A child that ends by itself did not return, and no signal ended it."""
    with pytest.raises(ChildFailedError, match="exit code 3"):
        in_child(lambda: os._exit(3))
