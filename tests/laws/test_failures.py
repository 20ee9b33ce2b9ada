"""What fails, fails loudly: a flush that did not, a file that is none (laws 11, 13; T7)."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import READS, WRITES, array_of, flock_is_free, in_thread
from descriptors import open_descriptors
from faults import at_call, fail_with
from maps import map_of, replace_map
from tally import Count

from mmbloom import BloomFilter, DurabilityError, FormatError
from mmbloom._system import disk


class BrokenMap:
    """A map whose flush fails, once or for ever."""

    def __init__(self, real: Any, failures: int) -> None:
        self._real, self._failures = real, failures
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1
        if self.flushed <= self._failures:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real.flush()

    def close(self) -> None:
        self._real.close()


def fail_fsync(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    real, hook = disk.sync, at_call(0, fail_with(errno.EIO))

    def fsync(fd: int) -> None:
        hook("fsync")
        real(fd)

    monkeypatch.setattr(disk, "sync", fsync)


def fail_msync(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_map(seen._storage, BrokenMap(map_of(seen._storage), 1))


@pytest.mark.laws("T7")
@pytest.mark.parametrize("fail", [fail_fsync, fail_msync])
def test_failed_flush_is_final(
    path: str, fail: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tally: Count
) -> None:
    """Law 11: after one failed flush every write and flush of the object fails; reads work."""
    with BloomFilter.create(path, 1000) as seen:
        seen.add("old")
        fail(seen, monkeypatch)
        with pytest.raises(DurabilityError, match="a flush failed"):
            seen.flush()
        array = array_of(path)
        for write in (*WRITES.values(), BloomFilter.flush):  # the system reports success now
            with pytest.raises(DurabilityError) as caught:
                write(seen)
            assert (caught.value.path, caught.value.reason) == (path, os.strerror(errno.EIO))
        assert array_of(path) == array
        for read in READS.values():
            read(seen)
        assert ("old" in seen, "a" in seen) == (True, False)
        assert in_thread(lambda: flock_is_free(path)) is True
        with BloomFilter.open(path) as other:  # whose disk works again
            assert other.add("a")
            other.flush()
    tally(faults=1)


def test_flush_forces_map_and_file_to_the_disk(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws 11, 12: a flush that reports success has called msync and then fsync of this file."""
    order: list[str] = []
    with BloomFilter.create(path, 1000) as seen:
        watched = BrokenMap(map_of(seen._storage), 0)
        replace_map(seen._storage, watched)

        def fsync(fd: int) -> None:
            assert os.path.samestat(os.fstat(fd), os.stat(path))
            order.append(f"fsync after {watched.flushed} msync")

        monkeypatch.setattr(disk, "sync", fsync)
        seen.add("a")
        seen.flush()
        assert seen.info().flushed_ns > seen.info().created_ns
    assert order == ["fsync after 1 msync"]


def test_refused_files_leave_nothing_open(tmp_path: Path) -> None:
    """Law 13: 100 refusals of each kind cost no descriptor."""
    path = tmp_path / "seen.bloom"
    descriptors = open_descriptors()
    BloomFilter.create(path, 1000).close()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], b"x" + whole[1:], whole[:600] + b"x" + whole[600:]):
        path.write_bytes(damaged)
        for _ in range(100):
            with pytest.raises(FormatError):
                BloomFilter.open(path)
    assert open_descriptors() == descriptors
