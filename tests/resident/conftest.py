"""Shared memory of one test: a folder, so that nothing is left in the real one."""

from collections.abc import Iterator
from pathlib import Path

import has
import pytest
from copies import NEW, make_file

from mmbloom import BloomFilter
from mmbloom._system import memory


def pytest_runtest_setup() -> None:
    if not has.WORKING_COPIES:
        pytest.skip("this system has no working copies in shared memory: only Linux has")


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(memory, "SHARED", str(folder))
    return folder


@pytest.fixture
def file(path: str) -> str:
    make_file(path)
    return path


@pytest.fixture
def seen(file: str) -> Iterator[BloomFilter]:
    """Open that filter in shared memory, and add keys there; it is closed at the end."""
    with BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEW)
        yield seen
