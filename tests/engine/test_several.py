"""Several arrays at once: what any of them has, in both engines, as one by one."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import COMPILED, NUMPY, Engine, each_engine, needs_compiled
from naive import LAYOUTS, Hash, OneByOne, empty_words, scenes, split

from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams, Layout

Scene = tuple[FilterParams, list[list[Hash]]]


@each_engine
@given(scene=scenes(), random=st.randoms(use_true_random=False))
def test_as_one_by_one(engine: Engine, scene: Scene, random: Random) -> None:
    """Each batch in an array of its own: a key is there if it is in one of them."""
    params, batches = scene
    naive = [OneByOne(params) for _ in batches]
    arrays = [empty_words(params) for _ in batches]
    for model, words, batch in zip(naive, arrays, batches, strict=True):
        engine.add(words, *split(batch), params)
        for key in batch:
            model.add(key)
    asked = [key for batch in batches for key in batch] + [(5, 6), (7, 8)]
    random.shuffle(asked)
    found = engine.contains_any(arrays, *split(asked), params)
    assert found.dtype == np.bool_
    assert found.tolist() == [any(model.has(key) for model in naive) for key in asked]
    assert not engine.contains_any([], *split(asked), params).any()


@needs_compiled
@pytest.mark.parametrize("num_hashes", [1, 2, 3, 4, 5, 10, 63, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_engines(layout: Layout, num_hashes: int, seed: int) -> None:
    """Around the groups that are worked on together, and the few bits that are tested first."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, 512 * 37, num_hashes)
    fill = 0.5 ** (2 / num_hashes)  # so that about a quarter of the keys is in each
    arrays: list[Words] = []
    for _ in range(5):
        bits = chance.random(params.num_bits) < fill
        arrays.append(np.packbits(bits, bitorder="little").view("<u8"))
        arrays[-1].setflags(write=False)
    for n in (0, 1, 15, 16, 17, 33, 700):
        h1, h2 = chance.integers(0, 2**64, (2, n), np.uint64)
        ours = COMPILED.contains_any(arrays, h1, h2, params)
        assert (ours == NUMPY.contains_any(arrays, h1, h2, params)).all()
    assert 0.5 < ours.mean() < 0.95


@needs_compiled
@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros(8, np.uint64), np.zeros(16, np.uint64)],
        [np.zeros(16, np.uint64), np.zeros(8, np.uint64)],
        [np.zeros(0, np.uint64)],
        [np.zeros(8, np.int64)],
        [np.zeros(16, np.uint64)[::2]],
        [np.zeros((8, 1), np.uint64)],
        [b"x"],
        [None],
    ],
)
def test_wrong_arrays(arrays: list[Any]) -> None:
    """Another size or kind than the parameters have is refused, whichever array it is."""
    halves = np.zeros(3, np.uint64)
    with pytest.raises((ValueError, TypeError)):
        COMPILED.contains_any(arrays, halves, halves, FilterParams(10, 0.1, "blocked", 512, 3))


@needs_compiled
def test_halves_of_different_length() -> None:
    halves, words = np.zeros(3, np.uint64), [np.zeros(8, np.uint64)]
    with pytest.raises(ValueError, match="differ in length"):
        COMPILED.contains_any(words, halves, halves[:2], FilterParams(9, 0.1, "blocked", 512, 3))
