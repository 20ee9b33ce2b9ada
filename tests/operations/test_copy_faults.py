"""Copying and mending when calls fail, disks are full, processes die and sources change."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import check_folder, check_settled
from damages import KEYS, MIB, at_pread, copy_over, filter_of, sealed_of
from faults import fail_with
from sweeps import Sweep

from mmbloom import FileChangedError, copy, repair, verify

WAYS: dict[str, Callable[[str, str], object]] = {
    "copy": copy,
    "seal": partial(copy, seal=True),
    "repair": repair,
}
every_way = pytest.mark.parametrize("way", WAYS)


def check_sound(path: Path) -> None:
    assert verify(path, keys=list(KEYS)).problems == ()


def sweep_of(folder: Path, way: str, size: int = MIB + 64) -> Sweep:
    """Make a filter, and give the way to make another of it."""
    source = filter_of(folder / "source", size)
    return Sweep(lambda path: WAYS[way](source, str(path)), check_sound)


@every_way
def test_on_the_disk_before_it_has_its_path(tmp_path: Path, way: str) -> None:
    """Law 8: array and header are written and forced to the disk, then linked, then the folder."""
    calls = sweep_of(tmp_path, way).calls(tmp_path)
    assert "pread" in calls
    steps = [name for name in calls if name in {"pwrite", "fsync", "link"}]
    assert steps == ["pwrite", "pwrite", "fsync", "link", "fsync"]


@pytest.mark.parametrize(
    ("way", "when"), [("copy", "before"), ("seal", "after"), ("repair", "after")]
)
def test_killed_at_any_call(tmp_path: Path, way: str, when: str) -> None:
    """Law 8: kill -9 before or after each os call: destination absent or sound, source as ever."""
    sweep = sweep_of(tmp_path, way)
    before = (tmp_path / "source").read_bytes()
    sweep.killed_at_each_call(tmp_path, when)
    assert (tmp_path / "source").read_bytes() == before


@pytest.mark.parametrize(
    ("way", "code"), [("copy", errno.EIO), ("seal", errno.ENOSPC), ("repair", errno.EIO)]
)
def test_any_failing_call(tmp_path: Path, way: str, code: int) -> None:
    """Law 8: each os call fails in turn: OSError, no half file, no temp file, no descriptor."""
    sweep = sweep_of(tmp_path, way)
    before = (tmp_path / "source").read_bytes()
    sweep.failing_at_each_call(tmp_path, code)
    assert (tmp_path / "source").read_bytes() == before


@every_way
def test_full_disk(tmp_path: Path, way: str) -> None:
    """Laws 8, 9: a full disk is ENOSPC with the size and the path, and nothing is left."""
    (tmp_path / "disk").mkdir()
    sweep_of(tmp_path, way, MIB * 5 // 8).second_on_a_small_disk(tmp_path / "disk", MIB)


SIZE = 4 * MIB  # read in 4 pieces, after the header (and its counters)
CHANGES: dict[str, Callable[[str, bytes], Callable[[], object]]] = {
    "truncate-to-nothing": lambda path, _: partial(os.truncate, path, 0),
    "truncate-to-header": lambda path, _: partial(os.truncate, path, 4096),
    "truncate-by-a-byte": lambda path, _: partial(os.truncate, path, 4096 + SIZE - 1),
    "truncate-to-an-odd-size": lambda path, _: partial(os.truncate, path, 4096 + MIB + 5),
    "extend": lambda path, _: partial(os.truncate, path, 5 * SIZE),
    "copy-another-over": copy_over,
    "zeros-over": lambda path, other: copy_over(path, bytes(len(other))),
    "text-over": lambda path, other: copy_over(path, b"x" * len(other)),
}


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sealed", [False, True], ids=["live", "sealed"])
def test_source_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool, change: str, at: int
) -> None:
    """Law 16: a source truncated or overwritten meanwhile is FileChangedError, and no signal."""
    source = (sealed_of if sealed else filter_of)(tmp_path / "a", SIZE)
    other = Path((sealed_of if sealed else filter_of)(tmp_path / "c", SIZE)).read_bytes()
    os.unlink(tmp_path / "c")
    at_pread(monkeypatch, at, CHANGES[change](source, other))
    with pytest.raises(FileChangedError) as caught:
        copy(source, tmp_path / "b")
    assert caught.value.path == source
    if change == "extend":
        assert caught.value.found.startswith("resized from ")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("change", ["truncate-to-nothing", "truncate-to-an-odd-size"])
def test_source_truncated_while_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Law 16: what is no longer there when it is read is an error, not a loss."""
    source = filter_of(tmp_path / "a", SIZE)
    at_pread(monkeypatch, 2, CHANGES[change](source, b""))
    with pytest.raises(FileChangedError):
        repair(source, tmp_path / "b")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("how", ["replace", "unlink"])
def test_source_that_loses_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A source that is moved over or removed meanwhile is copied as it was: no mixture."""
    source = filter_of(tmp_path / "a", SIZE)
    other = filter_of(tmp_path / "other", SIZE, keys=range(10**6, 10**6 + 500))
    at_pread(
        monkeypatch,
        3,
        partial(os.replace, other, source) if how == "replace" else partial(os.unlink, source),
    )
    copy(source, tmp_path / "b")
    check_settled(str(tmp_path / "b"))
    assert verify(tmp_path / "b", keys=list(KEYS)).ok
    assert verify(tmp_path / "b", keys=list(range(10**6, 10**6 + 500))).keys_missing == 500


def test_unreadable_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails names the file, not a descriptor, and makes nothing."""
    source = filter_of(tmp_path / "a", SIZE)
    at_pread(monkeypatch, 3, partial(fail_with(errno.EIO), "pread"))
    with pytest.raises(OSError, match="cannot be read: Input/output error") as caught:
        copy(source, tmp_path / "b")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, source)
    check_folder(tmp_path, "a")
