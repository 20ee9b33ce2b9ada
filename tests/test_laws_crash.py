"""A writer killed at any instant leaves a valid filter, and no acknowledged key lost (law 5)."""

import os
import random
import signal
import struct
import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from faults import at_call, kill_self
from reference import NaiveFilter
from workers import Child, ChildDied, end, in_child, running

from mmbloom import BloomFilter, _engine
from mmbloom._storage import Storage
from mmbloom.sizing import FilterParams

BATCH = 40
CAPACITY = 8_000_000


def keys_of(generation: int, batch: int) -> npt.NDArray[np.int64]:
    """The keys of one batch of one writer: no other has them."""
    start = (generation << 32) + batch * BATCH
    return np.arange(start, start + BATCH)


def write_for_ever(path: str, generation: int, report: int) -> None:
    """Add batch after batch in every way, and acknowledge each once its call has returned."""
    with BloomFilter.open(path) as seen:
        for batch in count():
            keys = keys_of(generation, batch)
            if batch % 8 == 0:
                for key in keys.tolist():
                    seen.add(key)
            elif batch % 8 == 1:
                with seen.claim(keys):
                    pass
            elif batch % 8 == 2:
                seen.update(keys.tolist())
            else:
                seen.add_many(keys)
            os.write(report, struct.pack("<q", batch))


@dataclass
class Writer:
    """A process that writes, and the pipe of what it acknowledged."""

    generation: int
    child: "Child[None]"
    reports: int

    @classmethod
    def start(cls, path: str, generation: int) -> "Writer":
        reports, report = os.pipe()
        child = Child(partial(write_for_ever, path, generation, report))
        os.close(report)
        return cls(generation, child, reports)

    def kill(self) -> npt.NDArray[np.int64]:
        """Kill -9; returns all acknowledged keys."""
        self.child.kill()
        assert self.child.wait() == -signal.SIGKILL, "the writer failed before it was killed"
        with open(self.reports, "rb") as stream:
            batches = np.frombuffer(stream.read(), dtype="<i8")
        return np.concatenate([np.zeros(0, np.int64), *map(self._keys, batches.tolist())])

    def _keys(self, batch: int) -> npt.NDArray[np.int64]:
        return keys_of(self.generation, batch)

    def end(self) -> None:
        if self.child.exit_status is None:
            end(self.child)
            os.close(self.reports)


@pytest.mark.stress
def test_no_acknowledged_key_is_lost_when_writers_are_killed(
    path: str, seed: int, stress: int
) -> None:
    """Law 5, T1: 3 writers, one killed every 50 ms: no false negative, file valid, lock free."""
    chance, generations = random.Random(seed), count()
    acknowledged: list[npt.NDArray[np.int64]] = []
    with BloomFilter.create(path, CAPACITY * stress, 1e-4, seed=seed) as seen:
        writers = [Writer.start(path, next(generations)) for _ in range(3)]
        try:
            deadline = time.monotonic() + 3 * stress
            while time.monotonic() < deadline:
                time.sleep(0.05)
                victim = chance.randrange(3)
                acknowledged.append(writers[victim].kill())
                assert seen.contains_many(acknowledged[-1]).all()
                writers[victim] = Writer.start(path, next(generations))
            acknowledged += [writer.kill() for writer in writers]
        finally:
            for writer in writers:
                writer.end()
        with seen.locked(timeout=10):
            pass
    keys, kills = np.concatenate(acknowledged), len(acknowledged)
    print(f"{kills} kills, {len(keys)} acknowledged keys")
    assert len(keys) > 1000
    check_after_kills(Path(path), keys, kills, chance)


def check_after_kills(
    path: Path, keys: npt.NDArray[np.int64], kills: int, chance: random.Random
) -> None:
    """Open the file anew; compare all that it says with an independent count of its bits."""
    naive = NaiveFilter(path.read_bytes())
    popcount = naive.popcount()
    with BloomFilter.open(path) as seen:
        assert seen.contains_many(keys).all()
        assert all(int(key) in naive for key in chance.choices(keys.tolist(), k=2000))
        before = seen.info()
        assert 0 <= before.unfinished_batches <= kills
        assert before.positions_set <= popcount
        assert before.unfinished_batches or before.positions_set == popcount
        assert seen.recount() == popcount
        after = seen.info()
        assert (after.positions_set, after.unfinished_batches) == (popcount, 0)
        assert not seen.add_many(keys).any()


OLD, NEW = [f"old-{i}" for i in range(50)], [f"new-{i}" for i in range(50)]


def check_one_kill(path: Path, expected_unfinished: int) -> None:
    """After one writer died: nothing old is lost, all is usable, the counters tell and mend."""
    popcount = NaiveFilter(path.read_bytes()).popcount()
    with BloomFilter.open(path, lock_timeout=10) as seen:
        assert seen.contains_many(OLD).all()
        assert seen.info().unfinished_batches == expected_unfinished
        assert seen.info().positions_set <= popcount
        assert seen.recount() == popcount
        assert seen.info().unfinished_batches == 0
        seen.add_many(NEW)
        assert seen.contains_many(NEW).all()
    after = NaiveFilter(path.read_bytes())
    assert all(key in after for key in [*OLD, *NEW])
    assert after.counters[1] == after.popcount()


WAYS = ["add_many", "claim"]  # for "add" see test_laws_crash_one


def write_new(seen: BloomFilter, way: str) -> None:
    if way == "add_many":
        seen.add_many(NEW)
    else:
        with seen.claim(NEW):
            pass


def filter_with_old_keys(path: Path) -> None:
    with BloomFilter.create(path, 1000, layout="standard") as seen:
        seen.add_many(OLD)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("counter", range(4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_at_each_counter_leaves_a_valid_filter(
    tmp_path: Path, way: str, counter: int, when: str
) -> None:
    """Law 5, T1: a writer dies before or after each counter it writes: counted, and mended."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)

    def write_and_die() -> None:
        real, hook = Storage.set_counter, at_call(counter, kill_self)

        def set_counter(self: Storage, name: str, value: int) -> None:
            if when == "before":
                hook(name)
            real(self, name, value)
            if when == "after":
                hook(name)

        Storage.set_counter = set_counter  # type: ignore[method-assign]
        with BloomFilter.open(path) as seen:
            write_new(seen, way)

    with pytest.raises(ChildDied) as caught:
        in_child(write_and_die)
    assert caught.value.signal == signal.SIGKILL
    # begun is the first counter written, done the last: the batch is unfinished in between.
    untouched, finished = (counter, when) == (0, "before"), (counter, when) == (3, "after")
    check_one_kill(path, expected_unfinished=0 if untouched or finished else 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("way", WAYS)
def test_kill_amid_the_bits_leaves_a_valid_filter(tmp_path: Path, way: str, share: float) -> None:
    """Law 5, T1: a writer dies when some bits of a batch are set and some are not."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)

    def write_and_die() -> None:
        add, commit = _engine.add, _engine.commit

        def set_some(words: _engine.Words, whole: _engine.Words) -> None:
            changed = np.flatnonzero(words != whole)
            assert len(changed) > 10
            some = changed[: int(len(changed) * share)]
            words[some] = whole[some]
            kill_self("amid the bits")

        def add_some(
            words: _engine.Words, h1: _engine.Words, h2: _engine.Words, params: FilterParams
        ) -> tuple[npt.NDArray[np.bool_], int]:
            whole = words.copy()
            answer = add(whole, h1, h2, params)
            set_some(words, whole)
            return answer

        def commit_some(words: _engine.Words, claimed: _engine.Claimed) -> int:
            whole = words.copy()
            newly_set = commit(whole, claimed)
            set_some(words, whole)
            return newly_set

        _engine.add, _engine.commit = add_some, commit_some
        with BloomFilter.open(path) as seen:
            write_new(seen, way)

    with pytest.raises(ChildDied) as caught:
        in_child(write_and_die)
    assert caught.value.signal == signal.SIGKILL
    check_one_kill(path, expected_unfinished=1)


def test_counter_is_never_seen_half_written(path: str) -> None:
    """Law 5: a counter is stored at once: neither a reader nor a kill finds some of its bytes."""
    with BloomFilter.create(path, 1000) as seen:
        storage = seen._storage

        def count_up_and_down() -> None:
            while True:
                storage.set_counter("positions_set", 0x00FF)
                storage.set_counter("positions_set", 0x0100)

        storage.set_counter("positions_set", 0x0100)
        with running(count_up_and_down):
            found = {storage.counter("positions_set") for _ in range(1_000_000)}
    assert found <= {0x00FF, 0x0100}


def test_killed_within_claim_marks_nothing(tmp_path: Path) -> None:
    """Law 6: a process that dies within claim() has marked no key, and the lock is free."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)
    before = path.read_bytes()

    def claim_and_die() -> None:
        with BloomFilter.open(path) as seen, seen.claim(NEW) as new:
            assert new.all()
            kill_self("claim")

    with pytest.raises(ChildDied):
        in_child(claim_and_die)
    assert path.read_bytes() == before
    check_one_kill(path, expected_unfinished=0)


def test_error_within_claim_marks_nothing(tmp_path: Path) -> None:
    """Law 6: a block that raises leaves its keys unmarked, the lock free, the file untouched."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)
    before = path.read_bytes()
    with BloomFilter.open(path) as seen, BloomFilter.open(path, lock_timeout=10) as other:
        with pytest.raises(BrokenPipeError), seen.claim(NEW):
            raise BrokenPipeError
        assert path.read_bytes() == before
        assert not other.contains_many(NEW).any()
        with other.claim(NEW) as new:
            assert new.all()
        assert seen.contains_many(NEW).all()
