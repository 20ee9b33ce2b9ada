"""A writer killed while it adds one key (law 5): the kernel itself counts, and cannot be hooked.

So a child adds a key to memory of which one page cannot be written: it dies at the first
write there, and what it had written before is what a kill at that instant leaves.
"""

import mmap
import signal
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from checks import counters_of
from faults import die_when_written
from kernels import Engine, each_engine
from naive import LAYOUTS
from reference import Fields, NaiveFilter
from workers import ended_by

from mmbloom import BloomFilter
from mmbloom._keys.coerce import coerce_one
from mmbloom.sizing import FilterParams, Layout

PAGE = mmap.PAGESIZE
Words = npt.NDArray[np.uint64]
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

    ended_by(signal.SIGSEGV, add)


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
@pytest.mark.parametrize("first_forbidden", [BEGUN, DONE])
def test_kill_at_a_late_counter(engine: Engine, layout: Layout, first_forbidden: int) -> None:
    """Before `begun` nothing is written; before `done` every bit is, and counted."""
    words, memory = shared_memory(1), shared_memory(2)
    edge = PAGE // 8
    counters = memory[edge - first_forbidden :][:5]
    die_adding(engine, words, counters, layout, memory.ctypes.data + PAGE)
    if first_forbidden == BEGUN:
        assert counters.tolist() == [0] * 5
        assert not words.any()
    else:
        assert words.tobytes() == bits_of_the_key(layout)
        assert counters.tolist() == [1, int(np.bitwise_count(words).sum()), 1, 0, 0]


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("last_forbidden", [KEYS_ADDED, POSITIONS_SET])
def test_kill_at_an_early_counter(engine: Engine, layout: Layout, last_forbidden: int) -> None:
    """When keys and bits are counted every bit is set, the batch begun and not done."""
    words, memory = shared_memory(1), shared_memory(2)
    edge = PAGE // 8
    counters = memory[edge - last_forbidden - 1 :][:5]
    die_adding(engine, words, counters, layout, memory.ctypes.data)
    assert words.tobytes() == bits_of_the_key(layout)
    if last_forbidden == KEYS_ADDED:  # `begun` can be written
        assert counters.tolist()[2:] == [1, 0, 0]


def test_kill_while_one_key_is_added(path: str) -> None:
    """Law 5: `add` dies at its first bit: the file is valid, the counters tell, recount mends."""
    with BloomFilter.create(path, 1000, layout="standard") as seen:
        seen.add_many(range(50))
        array = seen._storage.views.words.ctypes.data // PAGE * PAGE

        def add_and_die() -> None:
            die_when_written(array, PAGE)
            seen.add("new")

        ended_by(signal.SIGSEGV, add_and_die)
        assert (counters_of(path)["batches_begun"], counters_of(path)["batches_done"]) == (2, 1)
        assert seen.contains_many(range(50)).all()
        assert "new" not in seen
        assert seen.info().unfinished_batches == 1
        assert seen.recount() == NaiveFilter(Path(path).read_bytes()).popcount()
        assert seen.info().unfinished_batches == 0
        assert seen.add("new")
