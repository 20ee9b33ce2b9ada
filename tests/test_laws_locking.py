"""One writer at a time: no bit lost, no key new twice, no two holders of the lock.

Each test of safety has its negative control: with the lock switched off it must bite.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from reference import Fields, NaiveFilter
from workers import in_child, running, together, wait_for

from mmbloom import BloomFilter, LockTimeout, _engine, _lock
from mmbloom._keys import coerce
from mmbloom.sizing import Layout

BITS = 1 << 16
Positions = npt.NDArray[np.int64]


def switch_lock_off() -> None:
    """In a child: every process gets the lock at once, whoever has it."""

    class Open(_lock.DescriptorLock):
        def try_acquire(self) -> bool:
            return True

        def release(self) -> None:
            pass

    _lock.WriteLock.__init__.__defaults__ = (Open,)


@pytest.fixture(scope="module")
def key_of_bit() -> Positions:
    """For each bit of a standard filter with k = 1, m = 65,536, seed 0: a key of that bit."""
    candidates = np.arange(1_200_000, dtype=np.int64)
    (batch,) = coerce(candidates).parts
    h1, _ = _engine.hash_keys(batch, 0)
    bits, first = np.unique((h1 & np.uint64(2**63 - 1)) % np.uint64(BITS), return_index=True)
    assert len(bits) == BITS
    return candidates[first]


def one_bit_filter(file: Path) -> None:
    """Write a filter in which every key sets exactly one bit."""
    file.write_bytes(NaiveFilter.empty(Fields(BITS, 1, 1, capacity=BITS**2)).data)


def set_own_bits(file: Path, keys: Positions, seed: int, locked: bool) -> int:
    """Set bits that no other process sets, once each; returns how many were new."""
    if not locked:
        switch_lock_off()
    chance, new = random.Random(seed), 0
    order = keys[np.random.default_rng(seed).permutation(len(keys))]
    with BloomFilter.open(file) as seen:
        start = 0
        while start < len(order):
            part = order[start : start + chance.randint(20, 120)]
            start += len(part)
            how = chance.random()
            if how < 0.15:
                with seen.claim(part) as claimed:
                    new += int(claimed.sum())
            elif how < 0.25:
                new += sum(seen.add(int(key)) for key in part)
            else:
                new += int(seen.add_many(part).sum())
    return new


def set_all_bits(file: Path, key_of_bit: Positions, workers: int, seed: int, locked: bool) -> int:
    """Set every bit of a new filter, each owned by one process; returns how many were lost."""
    one_bit_filter(file)
    owned = [key_of_bit[worker::workers] for worker in range(workers)]
    new = together(
        [partial(set_own_bits, file, keys, seed + i, locked) for i, keys in enumerate(owned)]
    )
    if locked:
        assert new == [len(keys) for keys in owned]
    return BITS - NaiveFilter(file.read_bytes()).popcount()


@pytest.mark.stress
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_no_bit_is_lost(
    tmp_path: Path, key_of_bit: Positions, workers: int, seed: int, stress: int
) -> None:
    """Law 1, T2: each bit owned by one of 2-4 processes and set once: none is lost."""
    for number in range(4 * stress):
        file = tmp_path / f"{number}.bloom"
        assert set_all_bits(file, key_of_bit, workers, seed + 100 * number, True) == 0
        assert NaiveFilter(file.read_bytes()).counters[:2] == (BITS, BITS)


def test_bits_are_lost_without_the_lock(tmp_path: Path, key_of_bit: Positions, seed: int) -> None:
    """Law 1, T2 negative control: with the lock switched off the same test loses bits."""
    deadline, number, lost = time.monotonic() + 60, 0, 0
    while not lost and time.monotonic() < deadline:
        lost = set_all_bits(tmp_path / f"{number}.bloom", key_of_bit, 4, seed + number, False)
        number += 1
    assert lost > 0


def add_all_shuffled(file: Path, count: int, seed: int, how: str) -> npt.NDArray[np.uint8]:
    """Add keys 0..count-1 in random order, duplicates in every batch; how often each was new."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(count)
    told_new = np.zeros(count, dtype=np.uint8)
    with BloomFilter.open(file) as seen:
        for part in np.array_split(order, 40):
            batch = generator.permutation(np.concatenate([part, generator.choice(part, 1000)]))
            if how == "claim":
                with seen.claim(batch) as claimed:
                    new = claimed
            else:
                new = seen.add_many(batch)
            np.add.at(told_new, batch[new], 1)
    return told_new


@pytest.mark.stress
@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("how", ["add_many", "claim"])
def test_every_key_is_new_exactly_once(
    path: str, layout: Layout, how: str, seed: int, stress: int
) -> None:
    """Law 7, T11: of 4 workers that add the same 200,000 keys exactly one is told "new"."""
    count, error_rate = 200_000 * stress, 1e-6
    BloomFilter.create(path, count, error_rate, layout=layout, seed=seed).close()
    told = together([partial(add_all_shuffled, Path(path), count, seed + i, how) for i in range(4)])
    total = np.sum(told, axis=0, dtype=np.int64)
    assert total.max() == 1
    # A key told new by nobody was a false positive when it came: at most count * error_rate
    # = 0.2 are expected, and more than 10 have a chance below 1e-14.
    assert (total == 0).sum() <= 10 * stress
    with BloomFilter.open(path, mode="r") as seen:
        assert seen.contains_many(np.arange(count)).all()
        assert seen.info().keys_added == total.sum()


def test_claim_of_many_chunks_is_one_batch(path: str, seed: int) -> None:
    """Law 7: duplicates far apart in one claim are new once, as adding one by one would say."""
    count = 3 * _engine.CHUNK_KEYS
    order = np.random.default_rng(seed).permutation(np.tile(np.arange(count), 2))
    first = np.zeros(2 * count, dtype=np.bool_)
    first[np.unique(order, return_index=True)[1]] = True
    with BloomFilter.create(path, count, 1e-9, seed=seed) as seen:
        with seen.claim(order) as new:
            # Not new although first: a false positive, 0.0001 of which are expected.
            assert (new <= first).all()
            assert (new != first).sum() <= 3
        assert not seen.add_many(order).any()


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
def test_lock_never_has_two_holders(path: str, tmp_path: Path, stress: int) -> None:
    """Law 2, T14: 8 processes take the lock 200 times each: no two hold it at a time."""
    BloomFilter.create(path, 1000).close()
    hold = partial(hold_in_process, path, tmp_path / "held", 200 * stress, int)
    assert together([hold] * 8) == [0] * 8


def test_overlaps_are_seen_without_the_lock(path: str, tmp_path: Path) -> None:
    """Law 2, T14 negative control: with the lock switched off the detector finds overlaps."""
    BloomFilter.create(path, 1000).close()
    hold = partial(hold_in_process, path, tmp_path / "held", 200, switch_lock_off)
    deadline, overlaps = time.monotonic() + 30, 0
    while not overlaps and time.monotonic() < deadline:
        overlaps = sum(together([hold] * 4))
    assert overlaps > 0


def test_threads_of_one_object_exclude_each_other(path: str, tmp_path: Path) -> None:
    """Law 1, T14: 4 threads that share one filter object never hold the lock together."""
    found: list[int] = []
    with BloomFilter.create(path, 1000) as seen:
        threads = [
            threading.Thread(target=lambda: found.append(hold_alone(seen, tmp_path / "held", 100)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [0] * 4


@pytest.mark.parametrize("write", ["add", "add_many", "update", "claim", "locked", "recount"])
def test_every_write_waits_for_the_lock(path: str, tmp_path: Path, write: str) -> None:
    """Law 1: while another process holds the lock every writing call times out and sets nothing."""
    BloomFilter.create(path, 1000).close()
    holds = tmp_path / "holds"

    def hold() -> None:
        with BloomFilter.open(path) as seen, seen.locked():
            holds.touch()
            time.sleep(600)

    def try_to_write() -> str:
        with BloomFilter.open(path, lock_timeout=0.05) as seen:
            calls: dict[str, Callable[[], object]] = {
                "add": lambda: seen.add("a"),
                "add_many": lambda: seen.add_many(["a"]),
                "update": lambda: seen.update(["a"]),
                "claim": lambda: seen.claim(["a"]).__enter__(),
                "locked": lambda: seen.locked().__enter__(),
                "recount": seen.recount,
            }
            with pytest.raises(LockTimeout):
                calls[write]()
            return "written" if "a" in seen else "untouched"

    before = Path(path).read_bytes()
    with running(hold):
        wait_for(holds)
        assert in_child(try_to_write) == "untouched"
    assert Path(path).read_bytes() == before
