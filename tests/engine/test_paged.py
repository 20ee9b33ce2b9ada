"""Several blocks a key, in one page: all engines give the same answers and the same bits."""

import numpy as np
import pytest
from kernels import ALL_ENGINES, claim, needs_compiled

from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams

pytestmark = needs_compiled
AROUND = (0, 1, 31, 32, 33, 700)  # the keys that are looked ahead


def params_of(blocks: int, num_hashes: int, pages: int) -> FilterParams:
    return FilterParams(10, 0.1, "blocked", 32768 * pages, num_hashes, blocks_per_key=blocks)


def crowd(chance: np.random.Generator, n: int) -> tuple[Words, Words]:
    """Hash halves of which about every second key comes again."""
    some = chance.integers(0, 2**64, (2, max(1, n // 2)), np.uint64)
    h1, h2 = some[:, chance.integers(0, some.shape[1], n)]
    return np.ascontiguousarray(h1), np.ascontiguousarray(h2)


def check_equal(params: FilterParams, arrays: list[Words], n: int, seed: int) -> None:
    """Claim, ask, commit, add and ask n keys with each engine."""
    chance = np.random.default_rng(seed + n)
    halves, others = crowd(chance, n), crowd(chance, 100)
    asked = (
        np.concatenate([others[0], halves[0][:50]]),
        np.concatenate([others[1], halves[1][:50]]),
    )
    said = []
    for engine, words in zip(ALL_ENGINES, arrays, strict=True):
        claimed = claim(engine, words, *halves, params)
        answers = [claimed.new, engine.contains_with(words, claimed, *asked, params)]
        if n % 2:
            answers.append(np.array(engine.commit(words, claimed)))
        else:
            answers += map(np.asarray, engine.add(words, *halves, params))
        answers.append(engine.contains(words, *asked, params))
        assert answers[-1][100:].all()
        answers.append(engine.contains_any([words, words[::-1].copy()], *asked, params))
        said.append(answers)
    for engine, answers, words in zip(ALL_ENGINES, said, arrays, strict=True):
        assert all(map(np.array_equal, answers, said[0])), engine
        assert np.array_equal(words, arrays[0]), engine


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("blocks", range(2, 9))
def test_every_number_of_blocks(blocks: int, least: bool, seed: int) -> None:
    """b = 2 to 8 with the fewest and the most hashes, until the array is far past full."""
    params = params_of(blocks, blocks if least else 64 // blocks * blocks, 3)
    arrays = [np.zeros(params.num_bits // 64, np.uint64) for _ in ALL_ENGINES]
    for n in AROUND:
        check_equal(params, arrays, n, seed)


@pytest.mark.parametrize("pages", [5, 3000])
def test_several_chunks(pages: int, seed: int) -> None:
    """Repeats across chunks; most keys share a block with another, or hardly any does."""
    params = params_of(2, 6, pages)
    arrays = [np.zeros(params.num_bits // 64, np.uint64) for _ in ALL_ENGINES]
    for n in (20_000, 16_385):
        check_equal(params, arrays, n, seed)


@pytest.mark.parametrize("blocks", [2, 3, 8])
def test_counters(blocks: int, seed: int) -> None:
    """Counters of several blocks a key are counted up and down alike, all lines of a block."""
    chance = np.random.default_rng(seed)
    params = params_of(blocks, 3 * blocks, 2)
    arrays = [np.zeros(params.num_bits // 16, np.uint64) for _ in ALL_ENGINES]
    for n in AROUND:
        halves = crowd(chance, n)
        for step in ("increment", "increment", "decrement"):
            said = [
                getattr(engine, step)(words, *halves, params)
                for engine, words in zip(ALL_ENGINES, arrays, strict=True)
            ]
            for engine, (answers, changed), words in zip(ALL_ENGINES, said, arrays, strict=True):
                assert np.array_equal(answers, said[0][0]), engine
                assert changed == said[0][1], engine
                assert np.array_equal(words, arrays[0]), engine
        for engine, words in zip(ALL_ENGINES, arrays, strict=True):
            assert engine.counted_contains(words, *halves, params).all(), engine
    assert arrays[0].any()
