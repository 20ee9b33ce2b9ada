"""A writer killed at a chosen instant leaves a valid filter, and no key is lost (laws 5 and 6)."""

import mmap
import signal
from pathlib import Path

import has
import numpy as np
import numpy.typing as npt
import pytest
from checks import counters_of, flock_is_free
from faults import die_at_counter, die_when_written, ended_by_a_write, kill_self
from kernels import Engine, each_engine
from naive import LAYOUTS
from reference import Fields, NaiveFilter
from tally import Count
from workers import ChildDiedError, ended_by, in_child, running

from mmbloom import BloomFilter, _engine, verify
from mmbloom._keys.coerce import coerce_one
from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams, Layout

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
    assert verify(path, keys=[*OLD, *NEW]).ok


WAYS = ["add_many", "claim"]  # for "add" see below


def write_new(seen: BloomFilter, way: str) -> None:
    if way == "add_many":
        seen.add_many(NEW)
    else:
        with seen.claim(NEW):
            pass


def filter_with_old_keys(path: Path) -> None:
    with BloomFilter.create(path, 1000, layout="standard") as seen:
        seen.add_many(OLD)


@pytest.mark.laws("T1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("counter", range(4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_at_each_counter_leaves_a_valid_filter(
    tmp_path: Path, way: str, counter: int, when: str, tally: Count
) -> None:
    """Law 5: a writer dies before or after each counter it writes: counted, and mended."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)

    def write_and_die() -> None:
        die_at_counter(counter, when)
        with BloomFilter.open(path) as seen:
            write_new(seen, way)

    ended_by(signal.SIGKILL, write_and_die)
    tally(kills=1)
    # begun is the first counter written, done the last: the batch is unfinished in between.
    untouched, finished = (counter, when) == (0, "before"), (counter, when) == (3, "after")
    check_one_kill(path, expected_unfinished=0 if untouched or finished else 1)


@pytest.mark.laws("T1")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("way", WAYS)
def test_kill_amid_the_bits_leaves_a_valid_filter(
    tmp_path: Path, way: str, share: float, tally: Count
) -> None:
    """Law 5: a writer dies when some bits of a batch are set and some are not."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)

    def write_and_die() -> None:
        add, commit = _engine.add, _engine.commit

        def set_some(words: Words, whole: Words) -> None:
            changed = np.flatnonzero(words != whole)
            assert len(changed) > 10
            some = changed[: int(len(changed) * share)]
            words[some] = whole[some]
            kill_self("amid the bits")

        def add_some(
            words: Words, h1: Words, h2: Words, params: FilterParams, order: object = None
        ) -> tuple[npt.NDArray[np.bool_], int]:
            whole = words.copy()
            answer = add(whole, h1, h2, params, order)
            set_some(words, whole)
            return answer

        def commit_some(words: Words, claimed: _engine.Claimed) -> int:
            whole = words.copy()
            newly_set = commit(whole, claimed)
            set_some(words, whole)
            return newly_set

        _engine.add, _engine.commit = add_some, commit_some
        with BloomFilter.open(path) as seen:
            write_new(seen, way)

    ended_by(signal.SIGKILL, write_and_die)
    tally(kills=1)
    check_one_kill(path, expected_unfinished=1)


def test_counter_is_never_seen_half_written(path: str) -> None:
    """Law 5: a counter is stored at once: neither a reader nor a kill finds some of its bytes."""
    with BloomFilter.create(path, 1000) as seen:
        storage = seen._storage

        def count_up_and_down() -> None:
            while True:
                storage.counters["positions_set"] = 0x00FF
                storage.counters["positions_set"] = 0x0100

        storage.counters["positions_set"] = 0x0100
        with running(count_up_and_down):
            found = {storage.counters["positions_set"] for _ in range(1_000_000)}
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

    with pytest.raises(ChildDiedError):
        in_child(claim_and_die)
    assert path.read_bytes() == before
    check_one_kill(path, expected_unfinished=0)


@pytest.mark.parametrize("error", [BrokenPipeError, KeyboardInterrupt, GeneratorExit])
def test_error_within_claim_marks_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    """Law 6: a block that raises leaves its keys unmarked, the lock free, the file untouched."""
    path = tmp_path / "seen.bloom"
    filter_with_old_keys(path)
    before = path.read_bytes()
    with BloomFilter.open(path) as seen, BloomFilter.open(path, lock_timeout=10) as other:
        with pytest.raises(error), seen.claim(NEW):
            raise error
        assert path.read_bytes() == before
        assert flock_is_free(path)
        assert not other.contains_many(NEW).any()
        with other.claim(NEW) as new:
            assert new.all()
        assert seen.contains_many(NEW).all()


PAGE = mmap.PAGESIZE
KEYS_ADDED, POSITIONS_SET, BEGUN, DONE = range(4)


def shared_memory(pages: int) -> Words:
    """Memory that a forked child shares, in pages of their own."""
    return np.frombuffer(mmap.mmap(-1, pages * PAGE), dtype=np.uint64)


def die_adding(engine: Engine, words: Words, counters: Words, layout: Layout, page: int) -> None:
    """In a child, add a key that has to write to a page that cannot be written."""
    params = FilterParams(100, 0.01, layout, PAGE * 8, 7, seed=5)
    one = engine.OneKey(words, counters, params, coerce_one)

    def add() -> None:
        die_when_written(page, PAGE)
        one.add("key")

    ended_by_a_write(add)


def bits_of_the_key(layout: Layout) -> bytes:
    """The array with the key of `die_adding` in it, by the independent reader."""
    number = {"standard": 1, "blocked": 2}[layout]
    naive = NaiveFilter.empty(Fields(PAGE * 8, 7, number, seed=5, hash_id=2))
    naive.add("key")
    return naive.array


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kill_at_the_first_bit(engine: Engine, layout: Layout) -> None:
    """When the first bit is set the batch is begun, and nothing else is counted."""
    words, counters = shared_memory(1), shared_memory(1)
    die_adding(engine, words, counters[:5], layout, words.ctypes.data)
    assert counters[:5].tolist() == [0, 0, 1, 0, 0]
    assert not words.any()


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("forbidden", "late"),
    [(KEYS_ADDED, False), (POSITIONS_SET, False), (BEGUN, True), (DONE, True)],
)
def test_kill_at_a_counter(engine: Engine, layout: Layout, forbidden: int, late: bool) -> None:
    """It and all before it cannot be written, or it and all after it.

    Before `begun` nothing is written; before keys and bits are counted, or `done` is, every bit is.
    """
    words, memory = shared_memory(1), shared_memory(2)
    first = PAGE // 8 - (forbidden if late else forbidden + 1)
    counters = memory[first:][:5]
    die_adding(engine, words, counters, layout, memory.ctypes.data + PAGE * late)
    if forbidden == BEGUN:
        assert counters.tolist() == [0] * 5
        assert not words.any()
        return
    assert words.tobytes() == bits_of_the_key(layout)
    if forbidden == DONE:
        assert counters.tolist() == [1, int(np.bitwise_count(words).sum()), 1, 0, 0]
    elif forbidden == KEYS_ADDED:  # `begun` can be written
        assert counters.tolist()[2:] == [1, 0, 0]


@pytest.mark.skipif(not has.PAGES_OF_4_KIB, reason="a page of this system has header and bits")
def test_kill_while_one_key_is_added(path: str) -> None:
    """Law 5: `add` dies at its first bit: the file is valid, the counters tell, recount mends."""
    with BloomFilter.create(path, 1000, layout="standard") as seen:
        seen.add_many(range(50))
        array = seen._storage.views.words.ctypes.data // PAGE * PAGE

        def add_and_die() -> None:
            die_when_written(array, PAGE)
            seen.add("new")

        ended_by_a_write(add_and_die)
        assert (counters_of(path)["batches_begun"], counters_of(path)["batches_done"]) == (2, 1)
        assert seen.contains_many(range(50)).all()
        assert "new" not in seen
        assert seen.info().unfinished_batches == 1
        assert seen.recount() == NaiveFilter(Path(path).read_bytes()).popcount()
        assert seen.info().unfinished_batches == 0
        assert seen.add("new")
