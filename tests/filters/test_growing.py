"""GrowingFilter: what is made, what a full file does, what survives."""

import errno
import io
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import files_of, manifest_of
from checks import check_folder, flock_is_free, in_thread
from descriptors import open_files
from folders import Grow as Create
from maps import map_of, replace_map
from operations import Collect
from workers import in_child

from mmbloom import GrowingFilter, Sieve, verify
from mmbloom._system import disk
from mmbloom.errors import DurabilityError, LockTimeoutError
from mmbloom.logs import dedup, lines


def test_files_of_a_folder(grow: Create, folder: Path) -> None:
    """Each file is twice as large and half as wrong as the one before, and sound by itself."""
    seen = grow(100, 0.01, seed=7)
    assert seen.update(range(1000)) > 950
    members = seen.info().files
    assert [one.capacity for one in members] == [100, 200, 400, 800]
    assert [one.error_rate for one in members] == [0.005, 0.0025, 0.00125, 0.000625]
    assert {one.seed for one in members} == {7}
    assert [one.keys_added for one in members[:3]] == [100, 200, 400]
    check_folder(folder, "manifest.json", *(path.name for path in files_of(folder)))
    for path in files_of(folder):
        assert verify(path).ok


def test_permissions_are_those_asked_for(grow: Create, folder: Path) -> None:
    """Of the later files and manifests too."""
    grow(10, permissions=0o640).update(range(100))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    found = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert found == {0o640}
    assert len(files_of(folder)) > 2


def test_a_file_that_is_just_full_is_the_newest_still(grow: Create, folder: Path) -> None:
    """The next one is made by the first new key, and not by one that is there."""
    seen = grow(10)
    assert seen.add_many(list(range(10))).all()
    assert not seen.add_many(list(range(10))).any()
    assert not any(seen.add(key) for key in range(10))
    with seen.claim(range(10)):
        pass
    assert len(files_of(folder)) == 1
    assert seen.add(10)
    assert len(files_of(folder)) == 2


@pytest.mark.parametrize("layout", ["blocked", "standard"])
def test_error_rate_of_four_files(grow: Create, layout: str, seed: int) -> None:
    n, p, asked = 2000, 0.05, 200_000
    seen = grow(n, p, layout=layout, seed=seed)
    chance = np.random.default_rng(seed)
    while seen.info().keys_added < 15 * n:
        seen.update(chance.integers(0, 2**62, 15 * n - seen.info().keys_added))
    assert len(seen.info().files) == 4
    wrong = int(seen.contains_many(chance.integers(2**62, 2**63, asked)).sum())
    print(f"{wrong / asked:.4%} of absent keys were found, planned {p:.2%}")
    assert wrong / asked <= p  # planned with all files full: 15/16 of p at most
    assert wrong / asked >= 0.8 * p  # and not by far too large
    assert seen.current_error_rate == pytest.approx(wrong / asked, rel=0.1)


def test_figures(grow: Create) -> None:
    """Counts are sums, the fill is that of all bits, and all is ready for JSON."""
    seen = grow(100)
    seen.update(range(650))
    info = seen.info()
    assert seen.approx_count == info.approx_count == sum(one.approx_count for one in info.files)
    assert info.keys_added == 650 == pytest.approx(info.approx_count, rel=0.05)
    bits = sum(one.positions_set for one in info.files)
    assert seen.fill_ratio == info.fill_ratio == bits / sum(one.num_bits for one in info.files)
    assert info.as_dict()["kind"] == "growing"
    written = manifest_of(seen.path)["settings"]
    key = bytes.fromhex(written.pop("seed"))
    assert info.settings == {**written, "seed": int.from_bytes(key, "little")}
    assert info.as_dict()["settings"] == {**written, "seed": None}
    assert key.hex() not in repr(info) + str(info.as_dict())
    assert str(info.settings["seed"]) not in repr(info) + str(info.as_dict())
    assert info.file_bytes == sum(os.path.getsize(one.path) for one in info.files)
    assert seen.recount() == bits


def test_lock_moves_on_with_the_newest_file(grow: Create, folder: Path) -> None:
    """Within `locked` the newest file's lock is held, through every change-over; then none."""
    seen = grow(10)
    with seen.locked(), seen.locked():
        for key in range(200):
            seen.add(key)
            *older, newest = files_of(folder)
            assert not flock_is_free(newest)
            assert all(flock_is_free(file) for file in older)
        with GrowingFilter.open(folder) as other:

            def try_to_lock() -> str:
                with pytest.raises(LockTimeoutError) as caught, other.locked(0.05):
                    pass
                return caught.value.path

            assert in_thread(try_to_lock) == str(folder)
    assert all(flock_is_free(file) for file in files_of(folder))


def test_claim_that_fails_leaves_no_key(grow: Create, folder: Path) -> None:
    """Nor a file in anybody's way: the next change-over uses it."""
    seen = grow(10)
    seen.update(range(5))
    with suppress(ZeroDivisionError), seen.claim(range(100)) as new:
        assert new.tolist() == [False] * 5 + [True] * 95
        assert "5" not in seen
        raise ZeroDivisionError
    assert not seen.contains_many(list(range(5, 100))).any()
    assert len(files_of(folder)) == 1
    assert seen.update(range(100)) == 95
    named = {path.name for path in files_of(folder)}
    check_folder(folder, "manifest.json", *named)
    assert [path.name[:10] for path in sorted(files_of(folder))] == [f"{i:010}" for i in range(4)]


def test_sieve_and_dedup(grow: Create) -> None:
    """What people do with a filter works with one that grows."""
    urls: Sieve[str] = Sieve(grow(10))
    assert urls.push_many([f"/{n % 60}" for n in range(100)]).sum() == 60
    assert not urls.push("/3")
    assert urls.pop() == "/0"
    with urls.visit() as url:
        assert url == "/1"
    assert len(urls) == 58
    assert "growing" not in repr(urls)
    raw = b"".join(b"line %d\n" % (n % 500) for n in range(2000))
    sink = Collect()
    tally = dedup.dedup(urls.filter, lines.read_chunks(io.BytesIO(raw)), sink)
    assert (tally.lines, tally.unique) == (2000, 500)
    assert sink.octets == b"".join(b"line %d\n" % n for n in range(500))


def test_a_full_file_keeps_no_lock_open(grow: Create, folder: Path) -> None:
    """Two descriptors a file, its own and that of its map: a folder can have hundreds of files."""
    seen = grow(10)
    seen.update(range(75))
    opened = Counter(open_files().values())
    *older, _ = files_of(folder)
    assert len(older) == 3
    assert all(opened[str(file.resolve())] <= 2 for file in older)
    assert seen.update(range(150)) == 75
    assert seen.recount() > 0  # which takes the lock of each


def test_flush_forces_each_file_to_the_disk(
    grow: Create, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that reports success has called msync and then fsync of every file."""
    seen = grow(10)
    seen.update(range(60))
    files = files_of(folder)
    assert len(files) == 3
    calls: list[tuple[str, Path]] = []

    class WatchedMap:
        def __init__(self, real: Any, path: Path) -> None:
            self._real, self._path = real, path

        def flush(self) -> None:
            calls.append(("msync", self._path))

        def close(self) -> None:
            self._real.close()

    def fsync(fd: int) -> None:
        (path,) = (path for path in files if os.path.samestat(os.fstat(fd), path.stat()))
        calls.append(("fsync", path))

    for member, path in zip(seen._shelf.members, files, strict=True):
        replace_map(member.storage, WatchedMap(map_of(member.storage), path))
    monkeypatch.setattr(disk, "sync", fsync)
    seen.flush()
    assert sorted(calls) == sorted((name, path) for name in ("msync", "fsync") for path in files)
    for path in files:
        assert [name for name, called in calls if called == path] == ["msync", "fsync"]


@pytest.mark.parametrize("failing", range(3))
def test_failed_flush_of_any_file_is_final(
    grow: Create, folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Whichever file it is: the flush raises, and no write succeeds until it is opened again."""
    seen = grow(10)
    seen.update(range(60))
    broken = files_of(folder)[failing]

    def fsync(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), broken.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", fsync)
        with pytest.raises(DurabilityError) as caught:
            seen.flush()
    assert caught.value.path == str(broken)
    writes: list[Callable[[], object]] = [
        *(seen.flush, lambda: seen.add("new"), lambda: seen.add_many(["new"])),
        *(lambda: seen.claim(["new"]).__enter__(), lambda: seen.locked().__enter__()),
    ]
    for write in writes:
        with pytest.raises(DurabilityError):
            write()
    assert seen.contains_many(range(60)).all()
    with GrowingFilter.open(folder) as again:
        again.flush()
        assert again.add("new")


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_change_over_before_the_lock_is_taken(
    grow: Create, folder: Path, timeout: float | None
) -> None:
    """Whoever locks what has stopped being the newest file goes on to the newer one."""
    seen = grow(10)
    with GrowingFilter.open(folder) as other:
        other.update(range(60))
    with seen.locked(timeout):
        assert seen._shelf.newest.lock.state.mine()
        assert seen._shelf.newest.number == 2
        assert not flock_is_free(files_of(folder)[-1])
        assert seen.update(range(70)) == 10


def test_waiting_for_a_newer_file_ends_in_time(grow: Create, folder: Path) -> None:
    """The time allowed for the lock is that of all files together that were the newest."""
    seen = grow(10)
    with GrowingFilter.open(folder) as other, other.locked():
        other.update(range(60))  # the first file is free now, and the third is locked

        def wait() -> float:
            begun = time.monotonic()
            with pytest.raises(LockTimeoutError) as caught:
                seen.locked(0.5).__enter__()
            assert (caught.value.path, caught.value.seconds) == (str(folder), 0.5)
            return time.monotonic() - begun

        assert in_child(wait) >= 0.5


def test_times_of_open_files_in_whole_seconds(
    grow: Create, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may round them, while it tells those of paths to the nanosecond."""
    real, asked = os.fstat, 0

    def rounded(fd: int) -> os.stat_result:
        nonlocal asked
        asked += 1
        assert asked < 5000, "it is asked for ever"
        status = real(fd)
        return os.stat_result(status[:10], {"st_mtime_ns": int(status.st_mtime) * 10**9})

    monkeypatch.setattr(os, "fstat", rounded)
    seen = grow(10)
    seen.update(range(40))
    os.utime(folder / "manifest.json", ns=(10**9 + 5, 10**9 + 5))
    with GrowingFilter.open(folder) as other:
        assert other.contains_many(range(40)).all()
        seen.update(range(40, 200))
        assert other.contains_many(range(200)).all()
