"""Interchange when calls fail, disks are full and processes die: all of the file, or none."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import array_of, check_folder, check_settled
from damages import KEYS, MIB, at_pread, copy_over
from guava_files import parse
from sweeps import Sweep

from mmbloom import BloomFilter, FileChangedError, FilterParams, export_guava, import_guava, verify
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file

WAYS: dict[str, Callable[[str, str], None]] = {"export": export_guava, "import": import_guava}
every_way = pytest.mark.parametrize("way", WAYS)


def make_source(folder: Path, way: str, size: int = MIB + 64) -> str:
    """Make what is to go out, or to come in; gives its path."""
    ours, theirs = str(folder / "ours"), str(folder / "theirs")
    params = FilterParams(10**6, 0.01, "standard", 8 * size, 7, hash="murmur3")
    create_file(Target(ours, 0o600, False), params)
    with BloomFilter.open(ours) as seen:
        seen.add_many(list(KEYS))
    export_guava(ours, theirs)
    return ours if way == "export" else theirs


def check_whole(path: Path, ours: Path, way: str) -> None:
    """Check that a file holds the very array of ours."""
    array = array_of(str(ours))
    if way == "export":
        held = parse(path.read_bytes())
        assert held is not None
        assert held.array == array
    else:
        assert array_of(str(path)) == array
        check_settled(str(path))
        assert verify(path, keys=list(KEYS)).problems == ()


def sweep_of(source: str, way: str) -> Sweep:
    """Give the way to make a file of the source."""
    ours = Path(source).with_name("ours")
    return Sweep(
        lambda path: WAYS[way](source, str(path)), lambda path: check_whole(path, ours, way)
    )


@every_way
def test_on_the_disk_before_it_has_its_path(tmp_path: Path, way: str) -> None:
    """Laws 8, 16: nothing is mapped; all is reserved, written and forced, then linked."""
    calls = sweep_of(make_source(tmp_path, way), way).calls(tmp_path)
    assert not {"mmap", "flock"} & set(calls)
    wanted = {"posix_fallocate", "pwrite", "fsync", "link"}
    steps = [name for name in calls if name in wanted]
    header = ["pwrite"] if way == "import" else []
    assert steps == ["posix_fallocate", "pwrite", *header, "fsync", "link", "fsync"]


@every_way
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_call(tmp_path: Path, way: str, when: str) -> None:
    """Law 8: kill -9 before or after each os call: destination absent or whole, source as ever."""
    source = make_source(tmp_path, way)
    before = Path(source).read_bytes()
    sweep_of(source, way).killed_at_each_call(tmp_path, when)
    assert Path(source).read_bytes() == before


@every_way
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_any_failing_call(tmp_path: Path, way: str, code: int) -> None:
    """Law 8: each os call fails in turn: OSError, no half file, no temp file, no descriptor."""
    source = make_source(tmp_path, way)
    before = Path(source).read_bytes()
    sweep_of(source, way).failing_at_each_call(tmp_path, code)
    assert Path(source).read_bytes() == before


@every_way
def test_full_disk(tmp_path: Path, way: str) -> None:
    """Laws 8, 9: a full disk is ENOSPC with the size and the path, and nothing is left."""
    source = make_source(tmp_path, way, MIB * 5 // 8)
    (tmp_path / "disk").mkdir()
    sweep_of(source, way).second_on_a_small_disk(tmp_path / "disk", MIB)


@every_way
def test_short_writes_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A system that reads and writes less than asked for makes the same file."""
    source = make_source(tmp_path, way)
    (tmp_path / "out").mkdir()
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 99_999), at))
    monkeypatch.setattr(
        os,
        "pwrite",
        lambda fd, data, at: pwrite(fd, data[: 99_999 if len(data) > 4096 else None], at),
    )
    WAYS[way](source, str(tmp_path / "out" / "b"))
    monkeypatch.undo()
    check_whole(tmp_path / "out" / "b", tmp_path / "ours", way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("error")
def test_copy_on_write_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Law 9: a filter made there comes with a warning, a file that nobody maps without."""
    source = make_source(tmp_path, way)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("mmbloom._system.proc.file_system_type", lambda _folder: "btrfs")
    if way == "import":
        with pytest.warns(UserWarning, match="btrfs copies on write"):
            WAYS[way](source, str(tmp_path / "out" / "b"))
    else:
        WAYS[way](source, str(tmp_path / "out" / "b"))
    check_whole(tmp_path / "out" / "b", tmp_path / "ours", way)


CHANGES: dict[str, Callable[[str], object]] = {
    "cut": lambda path: os.truncate(path, 4096 + 5),
    "extended": lambda path: os.truncate(path, 8 * MIB),
    "text over it": lambda path: copy_over(path, b"x" * os.path.getsize(path))(),
}


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_filter_that_changes_while_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, at: int
) -> None:
    """Law 16: a filter truncated or overwritten meanwhile is FileChangedError, and no file."""
    source = make_source(tmp_path, "export", 4 * MIB)
    (tmp_path / "out").mkdir()
    at_pread(monkeypatch, at, partial(CHANGES[change], source))
    with pytest.raises(FileChangedError) as caught:
        export_guava(source, tmp_path / "out" / "b")
    assert caught.value.path == source
    check_folder(tmp_path / "out")
