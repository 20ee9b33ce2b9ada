"""The lock has one holder at a time, and every write waits for it (laws 1 and 2, T14)."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import WRITES, run_threads
from faults import switch_lock_off
from tally import Count
from workers import PATIENCE, in_child, locked_elsewhere, together

from mmbloom import BloomFilter, LockTimeoutError


def hold_alone(seen: BloomFilter, marker: Path, times: int) -> int:
    """Take the lock again and again; returns how often somebody else had it, too."""
    overlaps = 0
    for _ in range(times):
        with seen.locked(timeout=None):
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                overlaps += 1
                continue
            time.sleep(0.0001)  # lets another process in, if the lock does
            marker.unlink(missing_ok=True)
    return overlaps


def hold_in_process(file: str, marker: Path, times: int, prepare: Callable[[], object]) -> int:
    prepare()
    with BloomFilter.open(file) as seen:
        return hold_alone(seen, marker, times)


@pytest.mark.stress
@pytest.mark.laws("T14")
def test_lock_never_has_two_holders(path: str, tmp_path: Path, stress: int, tally: Count) -> None:
    """Law 2: 8 processes take the lock 500 times each, and no two hold it at a time."""
    BloomFilter.create(path, 1000).close()
    times = 500 * stress
    hold = partial(hold_in_process, path, tmp_path / "held", times, int)
    overlaps = sum(together([hold] * 8, timeout=PATIENCE * stress))
    tally(acquisitions=8 * times, overlaps=overlaps)
    assert overlaps == 0


@pytest.mark.laws("T14")
def test_overlaps_are_seen_without_the_lock(path: str, tmp_path: Path, tally: Count) -> None:
    """Law 2, negative control: with the lock switched off the detector finds overlaps."""
    BloomFilter.create(path, 1000).close()
    hold = partial(hold_in_process, path, tmp_path / "held", 200, switch_lock_off)
    rounds = overlaps = 0
    while not overlaps and rounds < 1000:
        overlaps = sum(together([hold] * 4))
        rounds += 1
    tally(control_rounds=rounds, control_overlaps=overlaps)
    assert overlaps > 0, f"no overlap in {rounds} rounds: the detector shows nothing here"


@pytest.mark.laws("T14")
def test_threads_of_one_object_exclude_each_other(path: str, tmp_path: Path, tally: Count) -> None:
    """Law 1: 4 threads that share one filter object never hold the lock together."""
    found: list[int] = []
    with BloomFilter.create(path, 1000) as seen:
        run_threads(*[lambda: found.append(hold_alone(seen, tmp_path / "held", 100))] * 4)
    tally(acquisitions=4 * 100, overlaps=sum(found))
    assert found == [0] * 4


@pytest.mark.parametrize("write", WRITES)
def test_every_write_waits_for_the_lock(path: str, write: str) -> None:
    """Law 1: while another process holds the lock every writing call times out and sets nothing."""
    BloomFilter.create(path, 1000).close()

    def try_to_write() -> str:
        with BloomFilter.open(path, lock_timeout=0.05) as seen:
            with pytest.raises(LockTimeoutError):
                WRITES[write](seen)
            return "written" if "a" in seen else "untouched"

    before = Path(path).read_bytes()
    with locked_elsewhere(path):
        assert in_child(try_to_write) == "untouched"
    assert Path(path).read_bytes() == before
