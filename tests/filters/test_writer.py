"""The critical section: exclusive, counted, one warning, and no write after a bad flush."""

import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from checks import (
    READS,
    WRITES,
    array_of,
    check_holds,
    check_raises,
    check_settled,
    counters_of,
    flock_is_free,
    in_thread,
    run_threads,
    set_counters,
)
from maps import map_of, replace_map
from workers import PATIENCE

from mmbloom import BloomFilter, CapacityWarning, DurabilityError, LockTimeoutError, verify
from mmbloom.sizing import Layout

LAYOUTS = get_args(Layout)
Create = Callable[..., BloomFilter]


def test_counters_count(create: Create, path: str) -> None:
    """New keys, set bits and batches are counted; what brings nothing new is no batch."""
    seen = create(1000)
    seen.add_many(["a", "b", "a"])
    seen.add("c")
    counters = counters_of(path)
    assert (counters["keys_added"], counters["batches_begun"], counters["batches_done"]) == (
        3,
        2,
        2,
    )
    assert counters["positions_set"] == int.from_bytes(array_of(path), "little").bit_count()
    seen.add_many(["a", "b"])
    seen.add("c")
    with seen.claim(["a"]):
        pass
    seen.add_many([])
    assert counters_of(path) == counters


def test_batch_is_begun_before_its_first_bit(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While bits are being set the batch is begun and not done: a kill there can be told.

    Of a single key `test_kill_while_one_key_is_added` tells the same.
    """
    seen, during = create(1000), []

    def watch(*_: object) -> int:
        during.append(counters_of(path))
        raise MemoryError  # as good as a kill

    for name in ("mmbloom._engine.add", "mmbloom._engine.commit"):
        monkeypatch.setattr(name, watch)
    with pytest.raises(MemoryError):
        seen.add_many(["a"])
    with pytest.raises(MemoryError), seen.claim(["b"]):
        pass
    assert [(one["batches_begun"], one["batches_done"]) for one in during] == [(1, 0), (2, 0)]
    assert seen.info().unfinished_batches == 2
    assert flock_is_free(path)
    monkeypatch.undo()
    assert seen.add("a")
    seen.recount()
    assert seen.info().unfinished_batches == 0
    check_settled(path)


def test_recount_mends(create: Create, path: str) -> None:
    """Recount makes the counters tell what the array holds, returns the bits, keeps the array."""
    seen = create(1000)
    seen.update(range(500))
    array, true = array_of(path), counters_of(path)
    set_counters(path, positions_set=1, batches_begun=9, batches_done=4, keys_added=10**6)
    assert seen.recount() == true["positions_set"]
    assert 450 < counters_of(path)["keys_added"] < 550  # by an estimate
    assert verify(path).ok
    assert array_of(path) == array
    check_settled(path)
    assert counters_of(path)["batches_done"] == 9


@pytest.mark.filterwarnings("ignore:.* bits are set, and:mmbloom.MmbloomWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [2**64 - 1, 2**63])
@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_damaged_counters_are_harmless(
    create: Create, path: str, layout: Layout, value: int
) -> None:
    """Counters of any value change no answer and crash nothing; recount mends them."""
    seen = create(1000, layout=layout)
    seen.update(range(100))
    damage = dict.fromkeys(counters_of(path), value)
    for wrong in (damage, damage | {"batches_done": 0}, damage | {"positions_set": 0}):
        set_counters(path, **wrong)
        for action in (READS | WRITES).values():
            action(seen)
        info = seen.info()
        assert 0 <= info.fill_ratio <= 1
        assert 0 <= info.current_error_rate <= 1
        assert 0 <= info.positions_set <= info.num_bits
        assert info.unfinished_batches >= 0
        set_counters(path, **wrong)
        assert not seen.add_many([50, 99]).any()
        check_holds(seen, range(100))
    seen.recount()
    assert (
        counters_of(path)["positions_set"] == int.from_bytes(array_of(path), "little").bit_count()
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_capacity_warning_once(create: Create, path: str, layout: Layout) -> None:
    """A filter object that is filled past its plan warns once, and keeps its word still."""
    seen = create(10_000, layout=layout, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen.update(range(9_000))
        assert caught == []
        for start in range(9_000, 15_000, 500):
            seen.add_many(range(start, start + 500))
            seen.add(-start)
    assert [one.category for one in caught] == [CapacityWarning]
    message = str(caught[0].message)
    assert path in message
    assert "was planned for 10000; false positives rise above 0.01" in message
    check_holds(seen, range(15_000))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_planned_number_of_keys_gets_no_warning(create: Create, layout: Layout) -> None:
    """A filter with exactly the keys it was planned for does not warn, whatever the seed."""
    warned = []
    for capacity, seed in itertools.product([1, 2, 10, 1000], range(20)):
        seen = create(capacity, layout=layout, seed=seed, name=f"{capacity}-{seed}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seen.add_many(range(capacity))
        warned += [(capacity, seed)] * len(caught)
        seen.close()
    assert warned == []


OVERFILL: dict[str, Callable[[BloomFilter], object]] = {
    "add_many": lambda seen: seen.add_many(range(5000)),
    "update": lambda seen: seen.update(range(5000)),
    "add": lambda seen: [seen.add(number) for number in range(5000)],
}


@pytest.mark.parametrize("way", OVERFILL)
def test_capacity_warning_names_the_caller(create: Create, way: str) -> None:
    """The warning points at the line that added too many, not into the package."""
    with pytest.warns(CapacityWarning) as caught:
        OVERFILL[way](create(1000))
    assert caught[0].filename == __file__


def test_capacity_warning_counts_the_batch(create: Create) -> None:
    """It comes before the marks, and says what will hold after them."""
    with pytest.warns(CapacityWarning, match=r"about 5000 keys .* about (9\d|100) % of new"):
        create(100).add_many(range(5000))


def test_capacity_warning_as_error_loses_nothing(create: Create, path: str) -> None:
    """Where warnings are errors, nothing of the batch is in: the next try answers and marks."""
    seen = create(100)
    before = array_of(path), counters_of(path)
    with pytest.raises(CapacityWarning):
        seen.add_many(range(1000))
    assert (array_of(path), counters_of(path)) == before
    assert flock_is_free(path)
    assert seen.add_many(range(1000))[:50].sum() >= 48  # once said is enough; false positives
    check_holds(seen, range(1000))
    check_settled(path)


def test_lock_held_by_another_object(create: Create, path: str) -> None:
    """While another open filter holds the lock, writes time out and reads go on."""
    holder = create(1000)
    holder.add("a")
    with BloomFilter.open(path, lock_timeout=0.02) as seen:
        with holder.locked():
            start = time.monotonic()
            check_raises(WRITES, seen, LockTimeoutError, r"held by others for 0.02 s")
            assert time.monotonic() - start >= 0.02 * len(WRITES)
            with pytest.raises(LockTimeoutError) as caught, seen.locked(timeout=0.001):
                pass
            assert caught.value.seconds == 0.001
            for read in READS.values():
                read(seen)
            assert holder.add("b"), "the holder writes meanwhile"
        assert not seen.add("b")


def test_locked_nests(create: Create, path: str) -> None:
    """Blocks of locked() nest with each other, with adds and claims; the outermost frees."""
    seen = create(1000)
    with seen.locked():
        with seen.locked(timeout=0), seen.claim(["a"]) as new:
            assert new.tolist() == [True]
            seen.add_many(["b", "c"])
        assert not flock_is_free(path)
        seen.recount()
    assert flock_is_free(path)
    check_holds(seen, "abc")


def test_read_mode_takes_no_lock(path: str, create: Create) -> None:
    """In either mode nothing but a write locks: opening, asking, closing do not."""
    create(1000).add("a")
    modes: tuple[Any, ...] = ("r", "r+")
    for mode in modes:
        with BloomFilter.open(path, mode) as seen:
            for read in READS.values():
                read(seen)
                assert flock_is_free(path)
    assert os.listdir(Path(path).parent) == ["seen.bloom"]


@pytest.mark.parametrize("shared", [True, False], ids=["one object", "an object each"])
def test_threads_answer_new_once(create: Create, path: str, stress: int, *, shared: bool) -> None:
    """Of threads that add the same keys exactly one is told that each key is new (law 7)."""
    number, keys = 4, np.arange(2000 * stress)
    common, barrier = create(10**6 * stress, 1e-6), threading.Barrier(number)
    told = np.zeros((number, len(keys)), dtype=np.int64)

    def work(row: int) -> None:
        seen = common if shared else BloomFilter.open(path)
        barrier.wait(PATIENCE)
        for start in range(0, len(keys), 50):
            told[row, start : start + 50] = seen.add_many(keys[start : start + 50])
        if not shared:
            seen.close()

    run_threads(*(partial(work, row) for row in range(number)))
    assert (told.sum(axis=0) == 1).all()
    check_settled(path)


def test_flush_notes_the_time(create: Create, path: str) -> None:
    """A successful flush writes its time, and changes no bit and no other counter."""
    seen = create(1000)
    seen.add("a")
    array, before, start = array_of(path), counters_of(path), time.time_ns()
    seen.flush()
    after = counters_of(path)
    assert start <= after.pop("flushed_ns") == seen.info().flushed_ns <= time.time_ns()
    assert before.pop("flushed_ns") == 0
    assert (after, array_of(path)) == (before, array)


class FailingMap:
    """A map whose flush fails as msync does; all else is the real one's."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def flush(self) -> None:
        raise OSError(5, "Input/output error")

    def close(self) -> None:
        self._real.close()


@pytest.mark.parametrize("call", ["fsync", "msync"])
def test_failed_flush_is_final(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """After one failed flush every write and flush is DurabilityError; reads go on (law 11)."""
    seen = create(1000)
    seen.add("x")
    with monkeypatch.context() as broken:
        if call == "msync":
            replace_map(seen._storage, FailingMap(map_of(seen._storage)))
        else:
            broken.setattr(
                "mmbloom._storage.moving.os.fsync",
                lambda _: FailingMap(None).flush(),
            )
        with pytest.raises(DurabilityError, match="a flush failed") as caught:
            seen.flush()
    assert (caught.value.path, caught.value.reason) == (path, "Input/output error")
    # The disk is well again, and would report success with nothing written.
    array = array_of(path)
    for _ in range(2):
        check_raises(WRITES, seen, DurabilityError, "Input/output error")
        check_raises({"flush": lambda seen: seen.flush()}, seen, DurabilityError)
    assert array_of(path) == array
    for read in READS.values():
        read(seen)
    assert in_thread(lambda: flock_is_free(path)) is True
    with BloomFilter.open(path) as again:
        assert again.add("a")
        again.flush()
