"""Fixtures: locks of one file, as several open filters have, on each system's way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mmbloom import LockTimeoutError
from mmbloom._storage.lock import WriteLock

SHORT = 0.05


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file to be locked, with something in it that must stay."""
    file = tmp_path / "data"
    file.write_bytes(b"precious")
    return file


@pytest.fixture
def new_lock(data: Path) -> Iterator[Callable[[], WriteLock]]:
    """Make locks of one file, as several open filters have."""
    made = []

    def make() -> WriteLock:
        status = os.stat(data)
        made.append(WriteLock(str(data), (status.st_dev, status.st_ino), SHORT))
        return made[-1]

    yield make
    for lock in made:
        with lock.closing():
            pass
    assert data.read_bytes() == b"precious"


def is_free(lock: WriteLock) -> bool:
    """Tell whether a lock can be taken at once."""
    try:
        with lock.held(0):
            return True
    except LockTimeoutError:
        return False
