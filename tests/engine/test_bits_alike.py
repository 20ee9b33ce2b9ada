"""Engines, and kinds of vectors, against each other: the same answers, counts and every byte."""

import inspect
from importlib import import_module
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from kernels import ALL_ENGINES, COMPILED, NUMPY, OF_EACH_KIND, Engine, needs_compiled
from naive import LAYOUTS, crowd, empty_words, random_words, step_of

from mmbloom import _engine
from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams, Layout

pytestmark = needs_compiled
AROUND = (0, 1, 15, 16, 17, 31, 32, 33, 700)  # the keys that are looked ahead


def test_same_interface() -> None:
    """Every function takes the same parameters, by name and default; every method is in both."""
    pairs: list[tuple[Any, Any]] = list(zip(NUMPY[1:], COMPILED[1:], strict=True))
    for name, (ours, theirs) in zip(NUMPY._fields[1:], pairs, strict=True):
        assert theirs is not ours
        assert theirs.__name__ == ours.__name__ == name
        if name == "OneKey":  # a compiled class does not tell its signatures
            public = {method for method in vars(ours) if not method.startswith("_")}
            assert public == {method for method in vars(theirs) if not method.startswith("_")}
            continue
        here, there = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert list(here) == list(there), name
        for parameter in here.values():
            same = there[parameter.name]
            assert (same.default, same.kind) == (parameter.default, parameter.kind), name
    types = {"Claimed", "Grounds", "HashHalves", "SingleKeys", "Words", "described"}
    shared = {"bytes_of", "count_nonzero", "counted_claim", "nonzero_bits", "union"}
    constants = {"CHUNK_KEYS", "COUNTER_BITS", "engine", "INSIDE", "WHOLE_LINE"}
    named = {"fields_of", "lines_of", "narrower", *constants, *shared, *types}
    for_tests = {"siphash"}  # published digests are of other rounds
    locks = {"Held", "Hold", "LockState"}
    served = {name for name, value in vars(_engine).items() if not inspect.ismodule(value)}
    served = {name for name in served if name[0] != "_"} - {"import_module"}
    assert served - named - locks == set(NUMPY._fields[1:]) - for_tests
    for name in locks:
        ours, theirs = (
            methods_of(getattr(import_module(f"mmbloom._engine.{folder}.holding"), name))
            for folder in ("reference", "compiled")
        )
        assert theirs == ours - {"mend"}  # what only the reference has to put right


def methods_of(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if callable(value) and name[0] != "_"}


def params_of(layout: Layout, blocks: int, units: int, num_hashes: int) -> FilterParams:
    num_bits = step_of(layout, blocks) * units
    return FilterParams(10, 0.1, layout, num_bits, num_hashes, blocks_per_key=blocks)


def check_alike(params: FilterParams, before: Words, sizes: tuple[int, ...], seed: int) -> None:
    """Claim, ask, commit, add and ask batch after batch with each engine, and add all at once."""
    chance = np.random.default_rng(seed)
    h1, h2 = crowd(chance, sum(sizes))
    ends = np.cumsum(sizes)[:-1]
    batches = [*zip(np.split(h1, ends), np.split(h2, ends), strict=True)]
    whole = before.copy()
    new, newly_set = NUMPY.add(whole, h1, h2, params)
    arrays, set_in_all, answers_of_all = [before.copy() for _ in ALL_ENGINES], 0, []
    for halves in batches:
        others = crowd(chance, len(halves[0]) + 50)
        asked = np.concatenate([halves[0], others[0]]), np.concatenate([halves[1], others[1]])
        said = []
        for engine, array in zip(ALL_ENGINES, arrays, strict=True):
            there, added_to = array.copy(), array.copy()
            claimed = engine.claim(array, *halves, params)
            found = engine.contains(array, *asked, params)
            with_it = engine.contains_with(array, claimed, *asked, params)
            in_any = engine.contains_any([array, array[::-1].copy()], *asked, params)
            assert np.array_equal(array, there), "neither claiming nor asking sets a bit"
            committed = np.array(engine.commit(array, claimed))
            added = map(np.asarray, engine.add(added_to, *halves, params))
            assert np.array_equal(array, added_to), engine
            assert engine.contains(array, *halves, params).all(), engine
            said.append([claimed.new, found, with_it, in_any, committed, *added, array])
        for engine, answers in zip(ALL_ENGINES, said, strict=True):
            assert all(map(np.array_equal, answers, said[0])), engine
        answers_of_all.append(said[0][0])
        set_in_all += int(said[0][4])
    assert np.array_equal(np.concatenate(answers_of_all), new)
    assert set_in_all == newly_set
    assert np.array_equal(arrays[0], whole)
    for engine, array in zip(OF_EACH_KIND, arrays, strict=False):
        array[:] = before
        at_once, set_at_once = engine.add(array, h1, h2, params)
        assert np.array_equal(at_once, new), engine
        assert set_at_once == newly_set
        assert np.array_equal(array, whole), engine


@pytest.mark.parametrize("num_hashes", range(1, 65))
@pytest.mark.parametrize(("layout", "units"), [("blocked", 37), ("standard", 301)])
def test_every_number_of_hashes(layout: Layout, units: int, num_hashes: int, seed: int) -> None:
    """k = 1 to 64, in a filter that is half full, with repeats within and across batches."""
    params = params_of(layout, 1, units, num_hashes)
    check_alike(params, random_words(params, np.random.default_rng(seed), 0.5), AROUND, seed)


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("blocks", range(2, 9))
def test_every_number_of_blocks(blocks: int, least: bool, seed: int) -> None:
    """b = 2 to 8 with the fewest and the most hashes, until the array is far past full."""
    params = params_of("blocked", blocks, 3, blocks if least else 64 // blocks * blocks)
    check_alike(params, empty_words(params), AROUND, seed)


@pytest.mark.parametrize("sizes", [(700, 3), (40,) * 5, (16_383, 16_384), (16_385, 1, 70_001)])
@pytest.mark.parametrize("pages", [1, 16, 640, 3000])
@pytest.mark.parametrize(("layout", "blocks"), [("standard", 1), ("blocked", 1), ("blocked", 2)])
def test_chunks(layout: Layout, blocks: int, pages: int, sizes: tuple[int, ...], seed: int) -> None:
    """Crowded or not, in one chunk or several, with repeats across them: as one after the other."""
    params = params_of(layout, blocks, 32_768 * pages // step_of(layout, blocks), 6)
    check_alike(params, random_words(params, np.random.default_rng(seed), 0.1), sizes, seed)


@pytest.mark.parametrize("num_hashes", [1, 2, 3, 4, 5, 10, 63, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_arrays(layout: Layout, num_hashes: int, seed: int) -> None:
    """Around the groups that are worked on together, and the few bits that are tested first."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, 512 * 37, num_hashes)
    # So that about a quarter of the keys is in each.
    arrays = [random_words(params, chance, 0.5 ** (2 / num_hashes)) for _ in range(5)]
    for words in arrays:
        words.setflags(write=False)
    for n in (0, 1, 15, 16, 17, 33, 700):
        h1, h2 = chance.integers(0, 2**64, (2, n), np.uint64)
        ours = COMPILED.contains_any(arrays, h1, h2, params)
        assert (ours == NUMPY.contains_any(arrays, h1, h2, params)).all()
    assert 0.5 < ours.mean() < 0.95


def positions_of(h1: int, h2: int, params: FilterParams, engine: Engine) -> list[int]:
    words = empty_words(params)
    engine.add(words, np.array([h1], np.uint64), np.array([h2], np.uint64), params)
    set_in = ((i, int(words[i])) for i in np.flatnonzero(words).tolist())
    return [64 * i + bit for i, word in set_in for bit in range(64) if word >> bit & 1]


@hypothesis.given(
    st.integers(0, 2**64 - 1) | st.integers(2**63 - 9, 2**63 + 9),
    st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    st.integers(1, 5000) | st.sampled_from([2**16 - 1, 2**16, 2**16 + 1]),
)
def test_remainder_without_division(h1: int, h2: int, num_words: int) -> None:
    """Standard positions are exact remainders for any size, at multiples and next to them."""
    params = FilterParams(10, 0.1, "standard", 64 * num_words, 3)
    near = h1 - h1 % params.num_bits
    for start in {h1, near, max(0, near - 1), min(2**64 - 1, near + params.num_bits - 1)}:
        expected = sorted({(start + i * h2) % 2**63 % params.num_bits for i in range(3)})
        for engine in OF_EACH_KIND:
            assert positions_of(start, h2, params, engine) == expected, engine


# Blocks of a key, and of the array: some keys meet, most do, all do.
SIZES = [(1, 640_000), (1, 1600), (1, 64), (3, 640_000), (3, 6400), (3, 64), (8, 64)]


@pytest.mark.parametrize(("blocks", "num_blocks"), SIZES)
@pytest.mark.parametrize("n", [0, 1, 2, 3000, 70_000])
def test_keys_that_meet_in_a_block(blocks: int, num_blocks: int, n: int, seed: int) -> None:
    """Whether few keys share a block or all do: a claim is what adding them would answer."""
    params = FilterParams(100, 0.01, "blocked", 512 * num_blocks, 2 * blocks, 0, "siphash", blocks)
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, n), np.uint64)
    h1[::9] = h1[:1]
    h2[::27] = h2[:1]
    words = np.zeros(8 * num_blocks, np.uint64)
    added, newly_set = COMPILED.add(words, h1, h2, params)
    for engine in ALL_ENGINES:
        claimed_in = np.zeros(8 * num_blocks, np.uint64)
        claimed = engine.claim(claimed_in, h1, h2, params)
        assert not claimed_in.any()
        assert (claimed.new == added).all(), engine
        assert engine.commit(claimed_in, claimed) == newly_set, engine
        assert (claimed_in == words).all(), engine
