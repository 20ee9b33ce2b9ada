"""Counters: each engine answers, and leaves every counter, as a naive filter one key at a time."""

from random import Random
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from kernels import ALL_ENGINES, COMPILED, NUMPY, Engine, each_engine, needs_compiled
from naive import LAYOUTS, CountedOneByOne, Hash, crowd, empty_counters, scenes, split

from mmbloom import _engine
from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams, Layout

Scene = tuple[FilterParams, list[list[Hash]]]
STEPS = st.lists(st.sampled_from(["increment", "decrement", "decrement"]), min_size=8, max_size=8)


@each_engine
@hypothesis.given(scenes(), STEPS)
def test_batches_answer_as_one_by_one(engine: Engine, scene: Scene, steps: list[str]) -> None:
    """Batches added and removed: answers, changes of the nonzero count and every counter."""
    params, batches = scene
    naive, words = CountedOneByOne(params), empty_counters(params)
    for step, batch in zip(steps, [*batches, *batches], strict=False):
        h1, h2 = split(batch)
        nonzero = naive.nonzero()
        before = words.copy()
        claimed = _engine.counted_claim(words, h1, h2, params).tolist()
        found = engine.counted_contains(words, h1, h2, params)
        assert found.dtype == np.bool_
        assert found.tolist() == [*map(naive.has, batch)]
        assert (words == before).all(), "asking changes nothing"
        answers, changed = getattr(engine, step)(words, h1, h2, params)
        assert answers.dtype == np.bool_
        assert type(changed) is int
        if step == "increment":
            assert answers.tolist() == [naive.add(key) for key in batch] == claimed
            assert changed == naive.nonzero() - nonzero
        else:
            assert answers.tolist() == [naive.remove(key) for key in batch]
            assert changed == nonzero - naive.nonzero()
        assert words.tolist() == naive.words()
        assert _engine.count_nonzero(words) == naive.nonzero()


@each_engine
@hypothesis.given(scenes(), st.integers(0, 40))
def test_saturated_counters_stay(engine: Engine, scene: Scene, more: int) -> None:
    """A key added 15 times or more is found for ever; one added less goes with its last copy."""
    params, batches = scene
    key = (batches[0] or [(1, 2)])[0]
    times = 1 + more
    words, h = empty_counters(params), split([key] * times)
    new, newly_set = engine.increment(words, *h, params)
    assert new.tolist() == [True] + more * [False]
    found, newly_clear = engine.decrement(words, *h, params)
    assert found.all()
    gone = times < 15
    assert newly_clear == (newly_set if gone else 0)
    assert engine.counted_contains(words, *split([key]), params).tolist() == [not gone]
    assert engine.decrement(words, *split([key]), params)[0].tolist() == [not gone]


@needs_compiled
@pytest.mark.parametrize(
    ("layout", "units", "blocks", "num_hashes"),
    [
        *((layout, 37, 1, k) for layout in LAYOUTS for k in (1, 2, 7, 16, 63, 64)),
        *(("blocked", 2 * 64, blocks, 3 * blocks) for blocks in (2, 3, 8)),
    ],
)
def test_engines_agree(layout: Layout, units: int, blocks: int, num_hashes: int, seed: int) -> None:
    """Random counters, all values among them; batches around what is looked ahead, and larger."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, 512 * units, num_hashes, blocks_per_key=blocks)
    words = chance.integers(0, 2**64, params.num_bits // 16, np.uint64)
    words |= words >> np.uint64(1)  # few at 0, or hardly a key would be found
    arrays = [words.copy() for _ in ALL_ENGINES]
    for n in (0, 1, 15, 16, 17, 31, 33, 700, 20_000):
        halves = crowd(chance, n)
        for step in ("counted_contains", "decrement", "increment", "counted_contains", "decrement"):
            said = [
                getattr(engine, step)(array, *halves, params)
                for engine, array in zip(ALL_ENGINES, arrays, strict=True)
            ]
            if step != "counted_contains":
                answers, changed = map(list, zip(*said, strict=True))
                assert changed == changed[:1] * len(ALL_ENGINES), step
                said = answers
            for engine, answer, array in zip(ALL_ENGINES, said, arrays, strict=True):
                assert np.array_equal(answer, said[0]), (engine, step)
                assert np.array_equal(array, arrays[0]), (engine, step)


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_first_and_last_counters(engine: Engine, layout: Layout, seed: int) -> None:
    """Beyond 2^32 counters too, the first and the last block are counted, and nothing else."""
    num_bits = 2**32 + 512
    params = FilterParams(10, 0.1, layout, num_bits, 9)
    keys = [(0, 0), (2**64 - 1, 2**64 - 1), *((Random(seed).getrandbits(64), 5),) * 2]
    words = empty_counters(params)  # sparse: hardly touched
    engine.increment(words, *split(keys), params)
    naive = CountedOneByOne(params)
    for key in keys:
        naive.add(key)
    expected = naive.words_set()
    assert {place: int(words[place]) for place in expected} == expected
    assert engine.decrement(words, *split(keys), params)[0].all()
    assert not any(words[place] for place in expected)


@hypothesis.given(st.lists(st.integers(0, 15), min_size=64, max_size=64), st.integers(1, 5))
def test_bits_of_counters(counts: list[int], times: int) -> None:
    """Bit p of the plain filter is 1 where counter p is not 0."""
    number = sum(count << 4 * p for p, count in enumerate(counts))
    words = np.frombuffer(number.to_bytes(32, "little") * times, "<u8")
    bits = sum((count > 0) << p for p, count in enumerate(counts))
    assert _engine.nonzero_bits(words).tolist() == [bits] * times


@needs_compiled
@pytest.mark.parametrize("step", ["counted_contains", "increment", "decrement"])
def test_wrong_arrays(step: str) -> None:
    """The compiled loops refuse an array that is not of the filter's size, and a lone half."""
    params = FilterParams(10, 0.1, "blocked", 512, 3)
    h1, h2 = split([(1, 2)])
    for words in (31, 33, 36, 128, 8):
        with pytest.raises(ValueError, match=r"^(the array has|num_bits is)"):
            getattr(COMPILED, step)(np.zeros(words, np.uint64), h1, h2, params)
    with pytest.raises(ValueError, match=r"differ in length: 1 and 0"):
        getattr(COMPILED, step)(np.zeros(32, np.uint64), h1, h2[:0], params)


class Watched(np.ndarray):
    """An array that keeps what it was after each assignment, as a kill would leave it."""

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value)
        self.states.append(np.array(self))  # type: ignore[attr-defined]


@hypothesis.given(scenes())
def test_killed_removal_is_harmless_again(scene: Scene) -> None:
    """Law 5: in every state in between, keys are untouched, gone, or found at the end too."""
    params, batches = scene
    words = empty_counters(params)
    for batch in batches:
        NUMPY.increment(words, *split(batch), params)
    whole = split([key for batch in batches for key in batch[::2]])
    watched = words.copy().view(Watched)
    watched.states = []  # type: ignore[attr-defined]
    removed = NUMPY.decrement(watched, *whole, params)[0]
    stays = NUMPY.counted_contains(np.array(watched), *whole, params)
    every = list(zip(whole[0].tolist(), whole[1].tolist(), strict=True))
    for state in watched.states:  # type: ignore[attr-defined]
        there = NUMPY.counted_contains(state, *whole, params)
        for number, key in enumerate(every):
            held = sorted(CountedOneByOne(params).positions(key))
            untouched = _counts(state, held) == _counts(words, held)
            assert not removed[number] or untouched or not there[number] or stays[number]


def _counts(words: Words, held: list[int]) -> list[int]:
    return [int(words[p >> 4]) >> 4 * (p & 15) & 15 for p in held]
