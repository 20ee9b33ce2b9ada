"""union_update among others that write, and killed at any instant: laws 1, 4 and 5."""

import itertools
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import has
import numpy as np
import pytest
from checks import check_settled, counters_of
from faults import die_at_counter, die_when_written, ended_by_a_write
from reference import NaiveFilter
from unions import ONE, TWO, bits_of, live_writer, make, make_random
from workers import ended_by, together

from mmbloom import BloomFilter


@pytest.mark.stress
def test_nothing_is_lost_while_others_add(tmp_path: Path, seed: int, stress: int) -> None:
    """Law 1: two processes add and one unites, all to one filter: no bit lost, all counted."""
    one = make(tmp_path / "one", capacity=1_500_000, seed=1)
    number = 12 * stress
    others = [make_random(tmp_path / f"{i}", 1_500_000, "blocked", seed + i) for i in range(6)]
    keys = [np.arange(who << 32, (who << 32) + 16_384 * 40) for who in (1, 2)]

    def add(mine: Any) -> None:
        with BloomFilter.open(one) as seen:
            for start in range(0, len(mine), 4096):
                seen.add_many(mine[start : start + 4096])

    def unite() -> None:
        with BloomFilter.open(one) as seen:
            for other in itertools.islice(itertools.cycle(others), number):
                seen.union_update(other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmbloom.filters.full.CapacityCheck.warn", lambda _: None)
        work: list[Callable[[], None]] = [unite, *(partial(add, mine) for mine in keys)]
        together(work)
    with BloomFilter.open(one) as seen:
        for mine in keys:
            assert seen.contains_many(mine).all()
    assert bits_of(*others) & ~bits_of(one) == 0
    check_settled(one)


def test_other_is_written_meanwhile(tmp_path: Path) -> None:
    """Law 4: every key whose add to the other had returned before the union is in it."""
    live = make(tmp_path / "live", capacity=2_000_000)
    one = make(tmp_path / "one", range(-100, 0), live)
    with live_writer(live, distinct=1_000_000) as acknowledged, BloomFilter.open(one) as seen:
        for number in range(10):
            keys = range(-100, acknowledged(10 * (number + 1)))
            seen.union_update(live)
            assert seen.contains_many(keys).all()
            check_settled(one)


def test_keys_added_meanwhile_are_counted(two: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What others add during a union counts as much as what it brings."""
    pread, reads = os.pread, itertools.count()

    def add_and_read(*args: Any) -> bytes:
        if next(reads) == 2:  # the header and the counters of the other are read
            with BloomFilter.open(two[0]) as another:
                another.add_many(range(1000, 1300))
        return pread(*args)

    with BloomFilter.open(two[0]) as seen:
        monkeypatch.setattr(os, "pread", add_and_read)
        seen.union_update(two[1])
        monkeypatch.undo()
    assert counters_of(two[0])["keys_added"] == pytest.approx(800, rel=0.05)
    check_settled(two[0])


def check_killed(path: str, *, unfinished: int) -> None:
    """After a kill: old keys are there, the counters tell, the lock is free, a recount mends."""
    popcount = NaiveFilter(Path(path).read_bytes()).popcount()
    with BloomFilter.open(path, lock_timeout=10) as seen:
        assert seen.contains_many(ONE).all()
        assert seen.info().unfinished_batches == unfinished
        assert seen.info().positions_set <= popcount
        assert seen.recount() == popcount
        assert seen.info().unfinished_batches == 0
        seen.union_update(Path(path).with_name("two"))
        assert seen.contains_many(TWO).all()
    assert bits_of(Path(path).with_name("two")) & ~bits_of(path) == 0
    check_settled(path)


@pytest.mark.parametrize("counter", range(5))
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_at_each_counter(two: list[str], when: str, counter: int) -> None:
    """Law 5: a union dies before or after each counter it writes: told, and mended."""

    def unite_and_die() -> None:
        die_at_counter(counter, when)
        with BloomFilter.open(two[0]) as seen:
            seen.union_update(two[1])

    ended_by(signal.SIGKILL, unite_and_die)
    # begun, the keys and bits, done; then the estimate of the keys, of which no batch is left.
    began = counter > 0 or when == "after"
    done = counter > 3 or (counter, when) == (3, "after")
    check_killed(two[0], unfinished=1 if began and not done else 0)


@pytest.mark.skipif(not has.PAGES_OF_4_KIB, reason="a page of this system has header and bits")
@pytest.mark.parametrize("page", [0, 3])
def test_kill_amid_the_bits(tmp_path: Path, page: int) -> None:
    """Law 5: a union dies when some of a piece is written and some is not."""
    one = make(tmp_path / "one", ONE, capacity=20_000)
    make(tmp_path / "two", TWO, one)
    before = bits_of(one)

    def unite_and_die() -> None:
        with BloomFilter.open(one) as seen:
            array = seen._storage.views.words.ctypes.data
            die_when_written(array + 4096 * page, 4096)
            seen.union_update(tmp_path / "two")

    ended_by_a_write(unite_and_die)
    assert before & ~bits_of(one) == 0
    assert (bits_of(one) != before) == (page > 0)
    check_killed(one, unfinished=1)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("block", ["locked", "claim"])
def test_within_a_block_that_holds_the_lock(two: list[str], block: str, times: int) -> None:
    """A union within `locked` or a claim is part of it; what both bring is counted once."""
    with BloomFilter.open(two[0]) as seen:
        with seen.locked() if block == "locked" else seen.claim(TWO):
            for _ in range(times):
                seen.union_update(two[1])
        assert seen.contains_many([*ONE, *TWO]).all()
    check_settled(two[0])
    assert counters_of(two[0])["keys_added"] == pytest.approx(500, rel=0.05)
