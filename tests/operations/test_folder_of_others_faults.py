"""A folder made of others, where calls fail, disks are full and processes die (laws 8, 9)."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from chains import files_of
from sweeps import Sweep
from tally import Count

from mmbloom import GrowingFilter, copy, merge, repair, verify

pytestmark = pytest.mark.slow

WAYS: dict[str, Callable[[Path, Path], object]] = {
    "copy": copy,
    "repair": repair,
    "merge": lambda source, path: merge(path, [source, source]),
}
KEYS = range(18)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A growing filter of two files."""
    with GrowingFilter.create(tmp_path / "source", 12, 1e-9, seed=5) as seen:
        seen.update(KEYS)
    return tmp_path / "source"


def sweep_of(source: Path, way: str) -> Sweep:
    """Give the way to make another folder of one."""
    return Sweep(lambda path: WAYS[way](source, path), check_sound)


def check_sound(path: Path) -> None:
    assert verify(path, keys=KEYS).problems == ()


@pytest.mark.laws("F7")
@pytest.mark.parametrize(
    ("way", "when"),
    [("copy", "after"), ("repair", "after"), ("merge", "before")],
)
def test_killed_at_any_call(
    tmp_path: Path, source: Path, way: str, when: str, tally: Count
) -> None:
    """Whichever call comes next, the result is sound or absent, and what is left in no way."""
    before = [file.read_bytes() for file in files_of(source)]
    tally(kills=sweep_of(source, way).killed_at_each_call(tmp_path, when))
    assert [file.read_bytes() for file in files_of(source)] == before


@pytest.mark.laws("F7")
@pytest.mark.parametrize(
    ("way", "code"), [("copy", errno.ENOSPC), ("repair", errno.EIO), ("merge", errno.EIO)]
)
def test_any_call_failing(tmp_path: Path, source: Path, way: str, code: int, tally: Count) -> None:
    """Each os call fails in turn: OSError, no half-made folder, no file, no descriptor left."""
    tally(faults=sweep_of(source, way).failing_at_each_call(tmp_path, code))


@pytest.mark.parametrize("way", WAYS)
def test_full_disk(tmp_path: Path, source: Path, way: str) -> None:
    """No space for a second one is ENOSPC with its path and size, and none of it is left."""
    (tmp_path / "disk").mkdir()
    size = sum(file.stat().st_size for file in files_of(source))
    sweep_of(source, way).second_on_a_small_disk(tmp_path / "disk", size + 16_384)
