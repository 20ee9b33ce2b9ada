"""The laws of a filter of counters: killed writers, several writers, and a control without lock."""

import mmap
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import die_when_written, ended_by_a_write, kill_self, slow, switch_lock_off
from kernels import Engine, each_engine
from naive import CountedOneByOne, split
from reference import NaiveCounting
from tally import Count
from workers import PATIENCE, Child, end, ended_by, together

from mmbloom import CountingBloomFilter, _engine, verify
from mmbloom._engine.reference import counters
from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams

PAGE = mmap.PAGESIZE
OLD, NEW = [f"old-{i}" for i in range(300)], [f"new-{i}" for i in range(300)]


def change_some(change: Callable[..., Any], share: float) -> Callable[..., Any]:
    """Make a kernel that is killed when it has written so many of the words that it changes."""

    class Dying(np.ndarray):
        left = 0

        def __setitem__(self, index: Any, value: Any) -> None:
            some = len(index)
            if some > self.left:
                super().__setitem__(index[: self.left], value[: self.left])
                kill_self("amid the counters")
            self.left -= some
            super().__setitem__(index, value)

    def run(words: Words, *rest: Any) -> Any:
        whole = words.copy()
        change(whole, *rest)
        dying = words.view(Dying)
        dying.left = int(np.count_nonzero(whole != words) * share)
        return change(dying, *rest)

    return run


@pytest.mark.laws("F1")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
@pytest.mark.parametrize("method", ["add_many", "remove_many"])
def test_kill_amid_the_counters(tmp_path: Path, method: str, share: float, tally: Count) -> None:
    """Law 5: a batch that was cut off loses no other key, and none when it is done again."""
    path = tmp_path / "seen.bloom"
    with CountingBloomFilter.create(path, 1000, 1e-4, layout="standard") as seen:
        seen.add_many(OLD)
        if method == "remove_many":
            seen.add_many(NEW)

    def write_and_die() -> None:
        kernel = {"add_many": "increment", "remove_many": "decrement"}[method]
        # The reference kernel: its writes can be cut off, and its order is the compiled one's.
        reference = getattr(counters, kernel)
        setattr(_engine, kernel, change_some(reference, share))
        with CountingBloomFilter.open(path) as seen:
            getattr(seen, method)(NEW)

    ended_by(signal.SIGKILL, write_and_die)
    tally(kills=1)
    with CountingBloomFilter.open(path, lock_timeout=PATIENCE) as seen:
        assert seen.info().unfinished_batches == 1
        assert seen.contains_many(OLD).all()
        seen.recount()
        getattr(seen, method)(NEW)
        assert seen.contains_many(OLD).all()
        assert (seen.contains_many(NEW) == (method == "add_many")).mean() > 0.99
        assert seen.info().unfinished_batches == 0
    naive = NaiveCounting(path.read_bytes())
    assert all(key in naive for key in OLD)
    assert naive.counters[1] == naive.popcount()
    assert verify(path, keys=OLD).ok


def come_and_go(path: Path, worker: int, seed: int, log: Path) -> None:
    """Add and remove this worker's keys for ever, telling first what is about to change."""
    chance = random.Random(seed)
    with CountingBloomFilter.open(path) as seen:
        keys = [f"{worker}-{i}" for i in range(100)]
        while True:
            some = chance.sample(keys, 40)
            log.write_text("\n".join(some))
            if chance.random() < 0.3:
                for key in some:
                    seen.add(key)
                    seen.remove(key)
            else:
                seen.add_many(some)
                seen.remove_many(some)


@pytest.mark.stress
@pytest.mark.laws("F1")
def test_killed_writers_lose_no_key_of_others(
    tmp_path: Path, seed: int, stress: int, tally: Count
) -> None:
    """Law 5: writers that add and remove are killed at random: keys that stay are always found."""
    path, chance, kills = tmp_path / "seen.bloom", random.Random(seed), 0
    with CountingBloomFilter.create(path, 2000, 0.01) as seen:
        seen.add_many(OLD)
    start = time.monotonic()
    children: dict[int, Child[None]] = {}
    try:
        while time.monotonic() - start < 2 * stress or kills < 6:  # however slow the machine is
            for worker in range(2):
                if worker not in children:
                    log, own_seed = tmp_path / f"log-{worker}", chance.getrandbits(32)
                    children[worker] = Child(partial(come_and_go, path, worker, own_seed, log))
            with CountingBloomFilter.open(path, lock_timeout=PATIENCE) as seen:
                for _ in range(5):
                    assert seen.contains_many(OLD).all()
                assert all(key in seen for key in OLD)
            with CountingBloomFilter.open(path, "r") as seen:
                assert seen.contains_many(OLD).all()
            time.sleep(chance.random() * 0.05)
            end(children.pop(chance.randrange(2)))
            kills += 1
    finally:
        for child in children.values():
            end(child)
    tally(kills=kills)
    with CountingBloomFilter.open(path, lock_timeout=0) as seen:
        seen.recount()
    assert verify(path, keys=OLD).ok


def add_and_remove(path: Path, worker: int, seed: int, locked: bool) -> None:
    """Add own keys in batches, and remove the second half of them."""
    if not locked:
        switch_lock_off()
    chance = random.Random(seed)
    _engine.increment = slow(_engine.increment, chance)
    _engine.decrement = slow(_engine.decrement, chance)
    keys = np.arange(3000) + 10_000 * worker
    with CountingBloomFilter.open(path) as seen:
        for part in np.array_split(keys, 100):
            seen.add_many(part)
        for part in np.array_split(keys[1500:], 100):
            seen.remove_many(part)


def wrong_counters(path: Path, seed: int, locked: bool) -> int:
    """How many counters are not what two workers should have left, in a new filter."""
    expected = path.with_name("expected")
    with CountingBloomFilter.create(path, 20_000, layout="standard", seed=seed % 2**32) as seen:
        together([partial(add_and_remove, path, i, seed + i, locked) for i in range(2)])
        with CountingBloomFilter.create(expected, like=seen) as alone:
            for worker in range(2):
                alone.add_many(np.arange(1500) + 10_000 * worker)
            wrong = alone._storage.views.words != seen._storage.views.words
    path.unlink()
    expected.unlink()
    return int(np.count_nonzero(wrong))


@pytest.mark.laws("F2")
def test_no_count_is_lost(tmp_path: Path, seed: int, tally: Count) -> None:
    """Law 1: of two writers that add and remove, every count is kept."""
    wrong = wrong_counters(tmp_path / "seen.bloom", seed, True)
    tally(rounds=1, lost=wrong)
    assert wrong == 0


@pytest.mark.laws("F2")
def test_control_without_the_lock(tmp_path: Path, seed: int) -> None:
    """The negative control of the test above: with the lock switched off counts are lost."""
    assert any(wrong_counters(tmp_path / "seen.bloom", seed + i, False) for i in range(5))


def take_turns(path: Path, seed: int, remove: bool) -> Counter[int]:
    """Add or remove all keys, in an order of its own; which were new, or there."""
    keys = np.random.default_rng(seed).permutation(20_000)
    told = Counter[int]()
    with CountingBloomFilter.open(path) as seen:
        for part in np.array_split(keys, 40):
            answers = seen.remove_many(part) if remove else seen.add_many(part)
            told.update(part[answers].tolist())
    return told


@pytest.mark.laws("F11")
@pytest.mark.parametrize("workers", [2, 4])
def test_each_copy_is_removed_once(tmp_path: Path, workers: int, seed: int, tally: Count) -> None:
    """Law 7: of n workers one is told "new", and what n added n remove, and not n + 1."""
    path = tmp_path / "seen.bloom"
    with CountingBloomFilter.create(path, 20_000, 1e-9) as seen:
        for remove, times in ((False, 1), (True, workers)):
            told = together([partial(take_turns, path, seed + i, remove) for i in range(workers)])
            counted = sum(told, Counter[int]())
            assert len(counted) == 20_000
            assert set(counted.values()) == {times}
        assert not take_turns(path, seed, True)
        assert seen.info().positions_set == seen.recount()
        octets = seen._storage.views.words.view(np.uint8)
        assert {*np.unique(octets & 15), *np.unique(octets >> 4)} <= {0, 15}, "15 stays"
    tally(rounds=1, keys=20_000 * workers)


def held_on_two_pages(params: FilterParams) -> tuple[tuple[int, int], list[int], list[int]]:
    """Find a key with counters on both pages of an array of two; these, page by page."""
    naive = CountedOneByOne(params)
    for number in range(1, 1000):
        key = (number * 0x9E3779B97F4A7C15 % 2**64, number * 0xC2B2AE3D27D4EB4F % 2**64)
        held = sorted(naive.positions(key))
        first = [p for p in held if p < 2 * PAGE]
        if 0 < len(first) < len(held):
            return key, first, held[len(first) :]
    raise AssertionError("no such key")


@each_engine
@pytest.mark.parametrize("scarce_page", [0, 1])
def test_counters_that_get_to_0_are_written_first(engine: Engine, scarce_page: int) -> None:
    """Law 5: killed when the first counter gets to 0, a key has lost nothing yet."""
    params = FilterParams(100, 0.01, "standard", 4 * PAGE, 7)
    key, *pages = held_on_two_pages(params)
    words, h = np.frombuffer(mmap.mmap(-1, 2 * PAGE), np.uint64), split([key])
    engine.increment(words, *h, params)
    for p in pages[1 - scarce_page]:
        words.view(np.uint8)[p >> 1] += 1 << 4 * (p & 1)  # held by other keys, too
    before = words.copy()

    def remove() -> None:
        die_when_written(words.ctypes.data + scarce_page * PAGE, PAGE)
        engine.decrement(words, *h, params)

    ended_by_a_write(remove)
    assert (words == before).all()
    engine.decrement(words, *h, params)
    assert not engine.counted_contains(words, *h, params).any()
    assert _engine.count_nonzero(words) == len(pages[1 - scarce_page])
