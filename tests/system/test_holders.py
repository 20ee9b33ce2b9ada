"""Which process has the lock of a file, as the system reports it."""

import fcntl
import os
from pathlib import Path

import has
import pytest
from cli_runner import wait_until

from mmbloom._system.locks import holder, holders

pytestmark = pytest.mark.skipif(not has.HOLDERS, reason="this system has no table of locks")


def test_holders_of_a_file_and_of_its_folder(tmp_path: Path) -> None:
    """The holder is found while it holds the lock; a lock of another file does not count."""
    (tmp_path / "one").touch()
    (tmp_path / "other").touch()
    with (tmp_path / "one").open() as file, (tmp_path / "two").open("w") as too:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(too, fcntl.LOCK_EX)
        # Tried again: a table of several pages may leave out a lock.
        wait_until(lambda: holders(str(tmp_path / "one")) == [os.getpid()], "its lock")
        wait_until(lambda: holders(str(tmp_path)) == [os.getpid()], "both, of one process")
        assert holders(str(tmp_path / "other")) == []
        name = f"process {os.getpid()} ("
        wait_until(lambda: holder(str(tmp_path / "one")).startswith(name), "its name")
        assert "\0" not in holder(str(tmp_path / "one"))
    assert holders(str(tmp_path / "one")) == []
    assert holder(str(tmp_path / "one")) == ""


def test_a_lock_of_another_kind(tmp_path: Path) -> None:
    """A lock of fcntl, which guards no filter, does not count; nor does a file that is gone."""
    with (tmp_path / "one").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert holders(str(tmp_path / "one")) == []
    assert holders(str(tmp_path / "gone")) == []
