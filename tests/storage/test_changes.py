"""A file that changes under an open filter is noticed before its map is touched (law 16)."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import READS, WRITES, check_raises, soon
from workers import in_child

from mmbloom import BloomFilter, FileChangedError


@pytest.fixture
def made(path: str) -> str:
    """A filter file with one key in it."""
    with BloomFilter.create(path, 100, seed=1) as seen:
        seen.add("a")
    return path


def truncate(path: str) -> None:
    os.truncate(path, 4096)


def empty(path: str) -> None:
    os.truncate(path, 0)


def extend(path: str) -> None:
    os.truncate(path, os.path.getsize(path) + 1)


def replace(path: str) -> None:
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)


def rename(path: str) -> None:
    os.rename(path, path + ".old")


def move_folder(path: str) -> None:
    folder = os.path.dirname(path)
    os.rename(folder, folder + ".old")


def file_for_folder(path: str) -> None:
    move_folder(path)
    Path(os.path.dirname(path)).write_bytes(b"")


CHANGES: list[Callable[[str], None]] = [
    *(truncate, empty, extend, replace, os.unlink, rename, move_folder, file_for_folder)
]


@pytest.fixture(params=CHANGES, ids=lambda change: change.__name__)
def changed(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Something that happens to a file while it is open."""
    found: Callable[[str], None] = request.param
    return found


@pytest.mark.parametrize("written", [True, False], ids=["written before", "never written"])
def test_changed_file_is_noticed_by_writes(
    tmp_path: Path, changed: Callable[[str], None], *, written: bool
) -> None:
    """Each write to a file cut, replaced or gone is FileChangedError; the map is not touched."""
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / "folder" / "seen.bloom")

    def work() -> None:
        with BloomFilter.create(path, 100) as seen:
            if written:
                seen.add("x")
            changed(path)
            soon()
            check_raises(WRITES | {"flush": lambda seen: seen.flush()}, seen, FileChangedError)

    in_child(work)  # touching the map of a cut file would kill


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_changed_file_is_noticed_by_queries(
    tmp_path: Path, changed: Callable[[str], None], mode: Any
) -> None:
    """Each query on a file cut, replaced or gone is FileChangedError."""
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / "folder" / "seen.bloom")
    BloomFilter.create(path, 100).close()
    queries = {name: READS[name] for name in ("in", "contains_many")}

    def work() -> None:
        with BloomFilter.open(path, mode) as seen:
            changed(path)
            check_raises(queries, seen, FileChangedError)

    in_child(work)


@pytest.mark.parametrize("read", ["approx_count", "fill_ratio", "current_error_rate", "info"])
def test_emptied_file_does_not_kill_who_reads_counters(made: str, read: str) -> None:
    """Reading the counters of a file cut to nothing is FileChangedError, not a fatal signal."""

    def look() -> object:
        with BloomFilter.open(made, "r") as seen:
            os.truncate(made, 0)
            return READS[read](seen)

    with pytest.raises(FileChangedError):
        in_child(look)
