"""One writer at a time: every write waits, no bit is lost, no key new twice (T2, T11, T14)."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from checks import WRITES, array_of, run_threads
from faults import slow, switch_lock_off
from reference import Fields, NaiveFilter
from tally import Count
from workers import PATIENCE, in_child, locked_elsewhere, together

from mmbloom import BloomFilter, LockTimeoutError, _engine
from mmbloom._keys.coerce import coerce
from mmbloom._storage import lock as _lock
from mmbloom.sizing import Layout
from mmbloom.sizing.params import KeyHash


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

    before = array_of(path)
    with locked_elsewhere(path):
        assert in_child(try_to_write) == "untouched"
    assert array_of(path) == before


BITS = 1 << 16
ROUNDS = 2  # without the lock one is enough: it has lost 60 bits and more each time
Positions = npt.NDArray[np.int64]


def count_waits() -> Counter[str]:
    """In a child: count how often the lock was asked for, and how often another had it."""
    counts = Counter[str]()

    class Counting(_lock.DescriptorLock):
        native = -1  # not in C

        def try_acquire(self) -> bool:
            got = super().try_acquire()
            counts["locked" if got else "waits"] += 1
            return got

    _lock.DescriptorLock = Counting  # type: ignore[misc]
    return counts


def write_slowly(chance: random.Random) -> None:
    """In a child: let others in between reading and writing the array."""
    _engine.add, _engine.commit = slow(_engine.add, chance), slow(_engine.commit, chance)


@pytest.fixture(scope="module")
def key_of_bit() -> Positions:
    """For each bit of a standard filter with k = 1, m = 65,536, seed 0: a key of that bit."""
    candidates = np.arange(1_200_000, dtype=np.int64)
    (batch,) = coerce(candidates).parts
    h1, _ = _engine.hash_keys(batch, KeyHash("murmur3", 0))
    bits, first = np.unique((h1 & np.uint64(2**63 - 1)) % np.uint64(BITS), return_index=True)
    assert len(bits) == BITS
    return candidates[first]


def one_bit_filter(file: Path) -> None:
    """Write a filter in which every key sets exactly one bit."""
    file.write_bytes(NaiveFilter.empty(Fields(BITS, 1, 1, capacity=BITS**2)).data)


def set_own_bits(file: Path, keys: Positions, seed: int, locked: bool) -> tuple[int, int]:
    """Set bits that no other process sets, once each; how many were new, and how often it waited.

    Without the lock nobody waits.
    """
    waits = Counter[str]()
    if locked:
        waits = count_waits()
    else:
        switch_lock_off()
    chance, new = random.Random(seed), 0
    write_slowly(chance)
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
    return new, waits["waits"]


def set_all_bits(
    file: Path, key_of_bit: Positions, workers: int, seed: int, locked: bool
) -> tuple[int, int]:
    """Set every bit of a new filter, each owned by one process; how many were lost, and waits."""
    one_bit_filter(file)
    owned = [key_of_bit[worker::workers] for worker in range(workers)]
    told = together(
        [partial(set_own_bits, file, keys, seed + i, locked) for i, keys in enumerate(owned)]
    )
    if locked:
        assert [new for new, _ in told] == [len(keys) for keys in owned]
    lost = BITS - NaiveFilter(file.read_bytes()).popcount()
    return lost, sum(waits for _, waits in told)


@pytest.mark.stress
@pytest.mark.laws("T2")
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_no_bit_is_lost(
    tmp_path: Path, key_of_bit: Positions, workers: int, seed: int, stress: int, tally: Count
) -> None:
    """Law 1: of bits that are each owned by one of 2-4 processes and set once none is lost."""
    waited = number = 0
    while number < ROUNDS * stress or not waited:  # without a wait it has shown nothing
        number += 1
        file = tmp_path / f"{number}.bloom"
        lost, waits = set_all_bits(file, key_of_bit, workers, seed + 100 * number, True)
        tally(rounds=1, bits=BITS, waits=waits, lost=lost)
        waited += waits
        assert lost == 0
        assert NaiveFilter(file.read_bytes()).counters[:2] == (BITS, BITS)
        file.unlink()


@pytest.mark.laws("T2")
@pytest.mark.parametrize("workers", [2, 4])
def test_bits_are_lost_without_the_lock(
    tmp_path: Path, key_of_bit: Positions, workers: int, seed: int, tally: Count
) -> None:
    """Law 1, negative control: with the lock switched off the same test loses bits."""
    lost = 0
    for number in range(100 * ROUNDS):  # one or two, where each process has a core
        file = tmp_path / f"{number}.bloom"
        lost, _ = set_all_bits(file, key_of_bit, workers, seed + number, False)
        tally(control_rounds=1, control_lost=lost)
        if lost:
            break
    assert lost > 0, "nothing lost without a lock: the test of the lock shows nothing here"


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
@pytest.mark.laws("T11")
@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("how", ["add_many", "claim"])
def test_every_key_is_new_exactly_once(
    path: str, layout: Layout, how: str, seed: int, stress: int, tally: Count
) -> None:
    """Law 7: of 4 workers that add the same 200,000 keys exactly one is told "new"."""
    count, error_rate = 200_000, 1e-6
    for first in range(seed, seed + 4 * stress, 4):
        BloomFilter.create(path, count, error_rate, layout=layout, seed=first % 2**32).close()
        adders = [partial(add_all_shuffled, Path(path), count, first + i, how) for i in range(4)]
        total = np.sum(together(adders), axis=0, dtype=np.int64)
        twice, never = int((total > 1).sum()), int((total == 0).sum())
        tally(rounds=1, keys=count, new_twice=twice, never_new=never)
        assert twice == 0
        # A key told new by nobody was a false positive when it came: at most count * error_rate
        # = 0.2 are expected, and more than 10 have a chance below 1e-14.
        assert never <= 10
        with BloomFilter.open(path, mode="r") as seen:
            assert seen.contains_many(np.arange(count)).all()
            assert seen.info().keys_added == total.sum()
        os.unlink(path)


def test_claim_of_many_chunks_is_one_batch(
    path: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7: duplicates far apart in one claim are new once, as adding one by one would say."""
    monkeypatch.setattr(_engine, "CHUNK_KEYS", 1 << 14)
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
