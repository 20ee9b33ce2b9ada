"""Where systems differ: what is asked of macOS, and of a Linux that has less than most."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import has
import pytest

from mmbloom import BloomFilter, DurabilityError, ReservationWarning
from mmbloom._system import disk, locks, memory

FULL_SYNC = 51  # F_FULLFSYNC


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Be on macOS, and note which calls reach the disk."""
    calls: list[str] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", FULL_SYNC, raising=False)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    return calls


def answer(monkeypatch: pytest.MonkeyPatch, calls: list[str], code: int) -> None:
    """Have the full sync fail, or succeed with 0."""

    def full(_fd: int, command: int, *_: object) -> int:
        assert command == FULL_SYNC
        calls.append("full")
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    monkeypatch.setattr(fcntl, "fcntl", full)


def test_macos_empties_the_cache_of_the_disk(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fsync does there does not survive a power cut."""
    answer(monkeypatch, asked, 0)
    disk.sync(0)
    assert asked == ["full"]


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_it(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A disk of another system, or one in a network, has fsync alone."""
    answer(monkeypatch, asked, code)
    disk.sync(0)
    assert asked == ["full", "fsync"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failure_is_final(asked: list[str], monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A second call would succeed, with nothing more on the disk: none is made."""
    answer(monkeypatch, asked, code)
    with pytest.raises(OSError, match=os.strerror(code)):
        disk.sync(0)
    assert asked == ["full"]


def test_a_flush_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the call that the system has is that of `flush`."""

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with BloomFilter.create(tmp_path / "f", 10) as seen:
        seen.add("a")
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync", fail)
            with pytest.raises(DurabilityError):
                seen.flush()


def test_names_are_swapped(tmp_path: Path) -> None:
    """A file and a folder, in one step; an error is that of the system."""
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    disk.exchange_names(str(tmp_path / "file"), str(tmp_path / "folder"))
    assert (tmp_path / "folder").read_bytes() == b"1"
    assert (tmp_path / "file").is_dir()
    with pytest.raises(FileNotFoundError):
        disk.exchange_names(str(tmp_path / "file"), str(tmp_path / "gone"))


@pytest.mark.skipif(has.MACOS, reason="this system has no locks of open files for arrays")
def test_bytes_of_an_open_file(tmp_path: Path) -> None:
    """One open file excludes another of the same process, until it releases the bytes."""
    with (tmp_path / "f").open("wb") as one, (tmp_path / "f").open("wb") as other:
        assert locks.lock_bytes(one.fileno(), 1 << 61, 2)
        assert not locks.lock_bytes(other.fileno(), (1 << 61) + 1, 1)
        assert locks.are_locked(other.fileno(), 1 << 61, 1)
        assert not locks.are_locked(one.fileno(), 1 << 61, 1)
        locks.unlock_bytes(one.fileno(), 1 << 61, 2)
        assert locks.lock_bytes(other.fileno(), (1 << 61) + 1, 1)


def test_an_array_in_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for where the system has none, that is said once, and the file serves."""
    monkeypatch.setattr(memory, "boot_id", lambda: b"")
    with pytest.warns(ReservationWarning, match="not kept in shared memory: only Linux") as warned:
        seen = BloomFilter.create(tmp_path / "f", 10, resident=True)
    with seen:
        assert seen.add("a")
        assert "a" in seen
        assert not seen.info().resident
    assert len(warned) == 1


def test_windows_is_refused_in_one_line() -> None:
    """Whatever is imported first, and by the command, the error names the systems and WSL."""
    for what in ("import mmbloom", "from mmbloom import BloomFilter", "import mmbloom.errors"):
        code = f"import sys; sys.modules['fcntl'] = None; {what}"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ImportError: mmbloom runs on Linux and macOS; on Windows, ")
        assert "WSL" in last
