"""Shared memory of one test: a folder, so that nothing is left in the real one."""

from pathlib import Path

import pytest
from copies import OLD

from mmbloom import BloomFilter
from mmbloom._system import memory


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder that stands for /dev/shm."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(memory, "SHARED", str(folder))
    return folder


@pytest.fixture
def file(path: str) -> str:
    """Make a filter that is mapped, with some keys."""
    with BloomFilter.create(path, 10_000, 1e-6, resident=False) as seen:
        seen.add_many(OLD)
    return path
