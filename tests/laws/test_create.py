"""create makes a whole file or none (laws 8, 9): races, faults, full disks (T6-T8)."""

import errno
import multiprocessing
import os
import resource
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults import Hook, fail_with, ignore, mount_tmpfs, os_calls
from reference import NaiveFilter
from sweeps import Sweep
from tally import Count
from workers import PATIENCE, in_child, together

from mmbloom import BloomFilter, verify

CAPACITY = 2000  # of layout "standard", which is planned in no time; "blocked" takes 6 ms


def check_empty(path: Path) -> None:
    """Check that the file is a whole, empty filter, which can be used."""
    naive = NaiveFilter(path.read_bytes())
    assert naive.popcount() == 0
    assert naive.fields.capacity == CAPACITY
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


CREATE = Sweep(
    lambda path: BloomFilter.create(path, CAPACITY, layout="standard").close(), check_empty
)


@pytest.mark.laws("T7")
@pytest.mark.parametrize("when", ["before", "after"])
def test_create_killed_at_any_call_leaves_all_or_nothing(
    tmp_path: Path, when: str, tally: Count
) -> None:
    """Law 8: kill -9 before or after each call of the system in create: path absent or valid."""
    tally(kills=CREATE.killed_at_each_call(tmp_path, when))


@pytest.mark.laws("T7")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EINTR])
def test_create_leaves_no_half_file_whatever_fails(tmp_path: Path, code: int, tally: Count) -> None:
    """Law 8: each call of the system fails in turn: OSError, no half file, no temp file."""
    tally(faults=CREATE.failing_at_each_call(tmp_path, code))


def race(folder: Path, barrier: threading.Barrier, me: int, rounds: int, exist_ok: bool) -> str:
    """Create (or lose) and add own keys, round by round; "w" for a win, "l" for a loss."""
    outcomes = ""
    for number in range(rounds):
        path = folder / f"{number}.bloom"
        barrier.wait(PATIENCE)
        try:
            seen = BloomFilter.create(path, CAPACITY, layout="standard", exist_ok=exist_ok)
            outcomes += "w"
        except FileExistsError:
            seen = BloomFilter.open(path)
            outcomes += "l"
        with seen:
            seen.add_many([f"{me}-{i}" for i in range(8)])
            seen.add(f"{me}-8")
    return outcomes


@pytest.mark.stress
@pytest.mark.laws("T6")
@pytest.mark.parametrize("exist_ok", [False, True])
def test_create_race_has_one_winner(
    tmp_path: Path, exist_ok: bool, stress: int, tally: Count
) -> None:
    """Law 8: 4 processes create one path, 100 rounds: one winner, no key lost, no temp file."""
    rounds = 100 * stress

    def run_race() -> list[str]:
        barrier: Any = multiprocessing.get_context("fork").Barrier(4)
        racers = [partial(race, tmp_path, barrier, me, rounds, exist_ok) for me in range(4)]
        return together(racers, timeout=PATIENCE * stress)

    outcomes = in_child(run_race, timeout=PATIENCE * stress)
    for number in range(rounds):
        wins = sum(outcome[number] == "w" for outcome in outcomes)
        assert wins == (4 if exist_ok else 1)
        file = tmp_path / f"{number}.bloom"
        naive = NaiveFilter(file.read_bytes())
        lost = sum(f"{me}-{i}" not in naive for me in range(4) for i in range(9))
        tally(rounds=1, keys=36, lost=lost)
        assert lost == 0
        assert verify(file).ok
    assert len(os.listdir(tmp_path)) == rounds


def refuse_to_reserve(code: int) -> Hook:
    """Make a hook for a file system without fallocate."""
    return lambda name: fail_with(code)(name) if name == "posix_fallocate" else None


def test_space_is_reserved_at_creation(tmp_path: Path) -> None:
    """Law 9: a new file has no hole, neither with fallocate nor on a file system without it."""

    def create(code: int) -> int:
        path = tmp_path / f"{code}.bloom"
        with os_calls(refuse_to_reserve(code) if code else ignore):
            BloomFilter.create(path, 100_000_000).close()
        assert path.stat().st_blocks * 512 >= path.stat().st_size > 100_000_000
        with BloomFilter.open(path) as seen:
            assert seen.recount() == 0
        path.unlink()
        return code

    for code in (0, errno.EOPNOTSUPP, errno.EINVAL):
        assert in_child(partial(create, code)) == code


@pytest.mark.laws("T8")
@pytest.mark.parametrize("limit", [0, 100, 4096, 60_000])
@pytest.mark.parametrize("fallocate", [True, False])
def test_file_size_limit_is_an_error(
    tmp_path: Path, limit: int, fallocate: bool, tally: Count
) -> None:
    """Laws 8, 9: a file larger than RLIMIT_FSIZE: OSError, no signal, nothing left."""

    def create() -> int | None:
        hook = ignore if fallocate else refuse_to_reserve(errno.EOPNOTSUPP)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with os_calls(hook), pytest.raises(OSError, match="reserve") as caught:
            BloomFilter.create(tmp_path / "seen.bloom", 100_000)
        return caught.value.errno

    assert in_child(create) == errno.EFBIG
    assert os.listdir(tmp_path) == []
    tally(refusals=1)


@pytest.mark.laws("T8")
def test_filter_within_a_file_size_limit_is_used_all_the_same(tmp_path: Path, tally: Count) -> None:
    """Law 9: a process that may write no file fills, flushes and reads a filter that is there."""
    path, keys = tmp_path / "seen.bloom", list(range(1000))
    BloomFilter.create(path, 2000).close()

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        with BloomFilter.open(path) as seen:
            seen.add_many(keys)
            seen.flush()
            assert seen.contains_many(keys).all()

    in_child(fill)
    assert verify(path, keys=keys).ok
    assert os.listdir(tmp_path) == ["seen.bloom"]
    tally(filled=1)


def fill_disk(folder: Path) -> None:
    """Write until the disk is full."""
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def on_small_disk(folder: Path) -> str:
    """In a child: create too large a filter, then one that fits; fill the disk; add keys."""
    if not mount_tmpfs(folder, 1 << 20):
        return "not allowed"
    with pytest.raises(OSError, match="reserve") as caught:
        BloomFilter.create(folder / "large.bloom", 10_000_000)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).endswith("large.bloom")
    assert os.listdir(folder) == []
    with BloomFilter.create(folder / "seen.bloom", 500_000) as seen:
        fill_disk(folder)
        seen.add_many(range(400_000))
        seen.flush()
        assert seen.contains_many(list(range(400_000))).all()
    with pytest.raises(OSError, match="reserve"):
        BloomFilter.create(folder / "another.bloom", 1000)
    assert sorted(os.listdir(folder)) == ["ballast", "seen.bloom"]
    return "done"


@pytest.mark.laws("T8")
def test_full_disk_is_an_error_at_creation_and_never_later(tmp_path: Path, tally: Count) -> None:
    """Laws 8, 9: 1 MiB tmpfs: ENOSPC at creation; once made, a filter fills on a full disk."""
    outcome = in_child(partial(on_small_disk, tmp_path))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"
    tally(refusals=2, filled=1)
