"""The places that a state may be at."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from drivers import SIZES

from mmbloom.cluster import Generations, places


@pytest.fixture(params=["folder", "memory", "moving"])
def where(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Where a state may be made: a folder, a store in memory, and one whose files are moved."""
    if request.param == "folder":
        yield str(tmp_path / "seen")
        return
    if request.param == "moving":
        monkeypatch.setattr(places, "_OBJECT_STORES", frozenset())
    system = fsspec.filesystem("memory")
    yield f"memory://{tmp_path.name}/seen"
    system.rm(f"/{tmp_path.name}", recursive=True)


@pytest.fixture
def state(where: str) -> Generations:
    return Generations.create(where, **SIZES)
