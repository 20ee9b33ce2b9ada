"""mode="r" maps read-only, takes no lock, makes no file: any user, any disk (law 14, T13)."""

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from checks import WRITES, check_raises
from faults import mount_tmpfs, remount_read_only
from reference import NaiveFilter
from tally import Count
from workers import in_child, locked_elsewhere

from mmbloom import BloomFilter, ReadOnlyError

KEYS: list[bytes | str | int] = ["a", b"b", 3]
NOBODY = 65534


@pytest.fixture
def entered() -> Iterator[Path]:
    """A folder that every user may enter, and read, as none may a folder of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def listing(folder: Path | str) -> list[tuple[str, int, int, int]]:
    found = []
    for name in sorted(os.listdir(folder)):
        status = os.lstat(os.path.join(folder, name))
        found.append((name, status.st_size, status.st_mode, status.st_mtime_ns))
    return found


def ask_everything(seen: BloomFilter) -> None:
    """Ask all that mode r answers, and try all that it does not."""
    assert seen.contains_many([*KEYS, "absent"]).tolist() == [True, True, True, False]
    assert "a" in seen
    assert seen.info().keys_added == 3
    assert seen.info().read_only
    assert seen.approx_count == 3
    assert 0 < seen.fill_ratio < 0.1
    seen.flush()
    before = seen.info()
    check_raises(WRITES, seen, ReadOnlyError)
    assert seen.info() == before


def become_nobody() -> None:
    """Drop root for good; does nothing for others."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def make_filter(path: Path) -> None:
    with BloomFilter.create(path, 1000, 0.0001) as seen:
        seen.add_many(KEYS)


@pytest.mark.laws("T13")
def test_read_only_folder_and_other_user(entered: Path, tally: Count) -> None:
    """Law 14: a file of mode 0444 in a folder of mode 0555, and another uid if we are root."""
    folder = entered / "folder"
    folder.mkdir()
    make_filter(folder / "seen.bloom")
    (folder / "seen.bloom").chmod(0o444)
    folder.chmod(0o555)
    before, data = listing(folder), (folder / "seen.bloom").read_bytes()

    def use() -> None:
        become_nobody()
        path = folder / "seen.bloom"
        with pytest.raises(PermissionError):
            (folder / "new").touch()
        with BloomFilter.open(path, mode="r") as seen:
            ask_everything(seen)
        with pytest.raises(PermissionError, match="mode='r'"):
            BloomFilter.open(path, mode="r+")
        with pytest.raises(PermissionError):
            BloomFilter.create(folder / "other.bloom", 1000)

    try:
        in_child(use)
        assert listing(folder) == before
        assert (folder / "seen.bloom").read_bytes() == data
    finally:
        folder.chmod(0o755)
    tally(folders=1)


@pytest.mark.laws("T13")
def test_private_file_is_closed_to_others(entered: Path, tally: Count) -> None:
    """Law 15: another user cannot read a file made with the default permissions."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    make_filter(entered / "seen.bloom")

    def use() -> None:
        become_nobody()
        assert (entered / "seen.bloom").exists()
        with pytest.raises(PermissionError):
            BloomFilter.open(entered / "seen.bloom", mode="r")

    in_child(use)
    tally(refusals=1)


@pytest.mark.laws("T13")
def test_read_only_file_system(tmp_path: Path, tally: Count) -> None:
    """Law 14: on a file system that is mounted read-only, mode r works and r+ is OSError."""

    def use() -> str:
        if not mount_tmpfs(tmp_path, 1 << 20):
            return "not allowed"
        path = tmp_path / "seen.bloom"
        make_filter(path)
        before = listing(tmp_path)
        assert remount_read_only(tmp_path)
        with BloomFilter.open(path, mode="r") as seen:
            ask_everything(seen)
        with pytest.raises(OSError, match="Read-only file system"):
            BloomFilter.open(path)
        assert listing(tmp_path) == before
        return "done"

    outcome = in_child(use)
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"
    assert os.listdir(tmp_path) == []
    tally(file_systems=1)


@pytest.mark.laws("T13")
def test_reading_neither_waits_for_nor_takes_the_lock(tmp_path: Path, tally: Count) -> None:
    """Laws 4, 14: while another process holds the lock readers answer, in both modes."""
    path = tmp_path / "seen.bloom"
    make_filter(path)

    def ask() -> None:
        with BloomFilter.open(path, mode="r", lock_timeout=0.01) as seen:
            ask_everything(seen)
        with BloomFilter.open(path, mode="r+", lock_timeout=0.01) as seen:
            assert seen.contains_many(KEYS).all()
            assert "a" in seen
            assert "absent" not in seen
            assert seen.info().keys_added == 3

    with locked_elsewhere(path):
        in_child(ask)
    with BloomFilter.open(path, mode="r") as reader:
        ask_everything(reader)
        with BloomFilter.open(path, lock_timeout=10) as writer, writer.locked():
            ask_everything(reader)
    tally(readers=3)


def test_reader_sees_what_a_writer_adds(tmp_path: Path) -> None:
    """Laws 4, 14: a filter open with mode r answers yes to a key as soon as its add returned."""
    path = tmp_path / "seen.bloom"
    make_filter(path)

    def add(key: int) -> None:
        with BloomFilter.open(path) as seen:
            seen.add(key)

    with BloomFilter.open(path, mode="r") as reader:
        for key in range(100, 110):
            assert key not in reader
            in_child(lambda key=key: add(key))  # type: ignore[misc]
            assert key in reader
            assert reader.contains_many([key]).all()


def test_map_of_mode_r_cannot_be_written(tmp_path: Path) -> None:
    """Law 14: the map itself is read-only, not only the methods of the object."""
    path = tmp_path / "seen.bloom"
    make_filter(path)
    with BloomFilter.open(path, mode="r") as seen:
        views = seen._storage.views
        with pytest.raises((TypeError, ValueError), match="read-only"):
            views.one.add("never added")
        assert not views.counters.words.flags.writeable
        assert not views.words.flags.writeable
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(key in NaiveFilter(path.read_bytes()) for key in KEYS)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_open_and_query_change_no_byte_and_no_time(tmp_path: Path, mode: str) -> None:
    """Law 10: opening, asking and closing change no byte, no size and no time of the file."""
    path = tmp_path / "seen.bloom"
    BloomFilter.create(path, 1000).close()
    before, status = path.read_bytes(), path.stat()
    time.sleep(0.02)
    with BloomFilter.open(path, mode) as seen:  # type: ignore[arg-type]
        assert not seen.contains_many(np.arange(1000)).any()
        assert "a" not in seen
        assert seen.info().keys_added == 0
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["seen.bloom"]
