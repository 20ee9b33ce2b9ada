"""The compiled kernels of the array against the reference: answers, counts and every byte."""

import inspect
from importlib import import_module
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from kernels import ALL_ENGINES, COMPILED, NUMPY, OF_EACH_KIND, Engine, claim, needs_compiled
from large_arrays import set_words, zero_words
from naive import LAYOUTS, Hash, empty_words, scenes, split

from mmbloom import KeyEncodingError, KeyTypeError, _engine
from mmbloom._keys.coerce import coerce_one
from mmbloom.sizing import FilterParams, Layout

pytestmark = needs_compiled
Words = npt.NDArray[np.uint64]
Scene = tuple[FilterParams, list[list[Hash]]]


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


@needs_compiled
@hypothesis.given(scenes())
def test_every_kernel(scene: Scene) -> None:
    """Contains, claim, commit, add and count_set: the same from the same array, batch by batch."""
    params, batches = scene
    arrays = [empty_words(params) for _ in ALL_ENGINES]
    for number, batch in enumerate(batches):
        h1, h2 = split(batch)
        answers = []
        for engine, array in zip(ALL_ENGINES, arrays, strict=True):
            found = engine.contains(array, h1, h2, params).tolist()
            if number % 2:
                new, newly_set = engine.add(array, h1, h2, params)
            else:
                claimed = claim(engine, array, h1, h2, params)
                new, newly_set = claimed.new, engine.commit(array, claimed)
            answers.append((found, new.tolist(), newly_set, engine.count_set(array)))
            assert type(newly_set) is type(answers[-1][3]) is int
        assert answers == [answers[0]] * len(ALL_ENGINES)
        assert_same(arrays)


def assert_same(arrays: list[npt.NDArray[Any]]) -> None:
    """Check that all are equal to the first, which is the reference's."""
    for engine, array in zip(ALL_ENGINES, arrays, strict=True):
        assert np.array_equal(array, arrays[0]), engine


def random_array(params: FilterParams, chance: np.random.Generator, fill: float) -> Words:
    """An array with about this share of its bits set."""
    bits = chance.integers(0, 256, params.num_bits, np.uint8) < round(256 * fill)
    return np.packbits(bits, bitorder="little").view("<u8")


def repeating(chance: np.random.Generator, n: int) -> Words:
    """Hash halves of which about every second one comes again, near or far away."""
    some = chance.integers(0, 2**64, max(1, n // 2), np.uint64)
    return some[chance.integers(0, len(some), n)]


@pytest.mark.parametrize("num_hashes", range(1, 65))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_number_of_hashes(layout: Layout, num_hashes: int, seed: int) -> None:
    """k = 1 to 64, in a filter that is half full, with repeats within and across chunks."""
    chance = np.random.default_rng(seed)
    num_bits = 512 * 37 if layout == "blocked" else 64 * 301
    params = FilterParams(10, 0.1, layout, num_bits, num_hashes)
    before = random_array(params, chance, 0.5)
    arrays = [before.copy() for _ in ALL_ENGINES]
    for n in (0, 1, 15, 16, 17, 31, 32, 33, 700):  # around the keys that are looked ahead
        h1, h2 = repeating(chance, n), repeating(chance, n)
        answers = [
            (engine.contains(array, h1, h2, params), *engine.add(array, h1, h2, params))
            for engine, array in zip(ALL_ENGINES, arrays, strict=True)
        ]
        found, new, newly_set = map(list, zip(*answers, strict=True))
        assert_same(found)
        assert_same(new)
        assert newly_set == newly_set[:1] * len(ALL_ENGINES)
        assert_same(arrays)


@pytest.mark.parametrize("sizes", [(700, 3), (40, 40, 40, 40, 40), (9000, 9000, 1, 9000, 30_000)])
@pytest.mark.parametrize("num_pages", [1, 16, 640])
@pytest.mark.parametrize(("layout", "blocks"), [("standard", 1), ("blocked", 1), ("blocked", 2)])
def test_claims_that_follow_one_another(
    layout: Layout, blocks: int, num_pages: int, sizes: tuple[int, ...], seed: int
) -> None:
    """Crowded or not, with repeats across them: as adding them would."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, 32_768 * num_pages, 6, blocks_per_key=blocks)
    before = random_array(params, chance, 0.1)
    h1, h2 = repeating(chance, sum(sizes)), repeating(chance, sum(sizes))
    h2[h1 == h1[0]] = h2[0]
    ends = np.cumsum(sizes)[:-1]
    batches = [*zip(np.split(h1, ends), np.split(h2, ends), strict=True)]
    whole = before.copy()
    new, newly_set = NUMPY.add(whole, h1, h2, params)
    for engine in OF_EACH_KIND:
        array = before.copy()
        answer, set_by_add = engine.add(array, h1, h2, params)
        assert (answer == new).all()
        assert set_by_add == newly_set
        assert (array == whole).all()
    for engine in ALL_ENGINES:
        array, answers, committed = before.copy(), [], 0
        for batch in batches:
            claimed = claim(engine, array, *batch, params)
            answers.append(claimed.new)
            committed += engine.commit(array, claimed)
        assert (np.concatenate(answers) == new).all()
        assert committed == newly_set
        assert (array == whole).all()


@pytest.mark.parametrize("n", [16_383, 16_384, 16_385, 16_416, 70_001])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_claims_beyond_a_chunk(layout: Layout, n: int, seed: int) -> None:
    """A claim of several chunks, repeats across them, finds what adding in chunks would."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, 512 * 999, 5)
    before = random_array(params, chance, 0.1)
    h1, h2 = repeating(chance, n), repeating(chance, n)
    h2[h1 == h1[0]] = h2[0]
    other = before.copy()
    theirs = claim(NUMPY, other, h1, h2, params)
    assert (other == before).all()
    assert 0 < theirs.new.sum() < n
    others = chance.integers(0, 2**64, (2, n), np.uint64)
    asked = h1.copy(), h2.copy()
    asked[0][::3], asked[1][::3] = others[0][::3], others[1][::3]
    expected = NUMPY.contains_with(other, theirs, *asked, params)
    newly_set = NUMPY.commit(other, theirs)
    for engine in OF_EACH_KIND:
        one, added = before.copy(), before.copy()
        ours = claim(engine, one, h1, h2, params)
        assert (one == before).all()
        assert (ours.new == theirs.new).all()
        assert (engine.contains_with(one, ours, *asked, params) == expected).all()
        assert engine.contains(one, *asked, params).sum() < expected.sum() < n
        assert engine.commit(one, ours) == newly_set
        assert engine.add(added, h1, h2, params)[1] == newly_set
        assert (one == other).all()
        assert (one == added).all()


@pytest.mark.parametrize(
    ("layout", "num_bits"),
    [("blocked", 2**32 + 512), ("standard", 2**32 + 64), ("standard", 2**33 - 64)],
)
def test_large_arrays(layout: Layout, num_bits: int, seed: int) -> None:
    """Above 2^32 bits both set the same words, the very first and last ones too."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, layout, num_bits, 9)
    h1 = np.concatenate([repeating(chance, 500), np.array([0, 2**64 - 1], dtype=np.uint64)])
    h2 = np.concatenate([repeating(chance, 500), np.array([0, 2**64 - 1], dtype=np.uint64)])
    found = []
    for engine in ALL_ENGINES:
        words = zero_words(params.num_bits // 64)
        new, newly_set = engine.add(words, h1, h2, params)
        places, held = set_words(words)
        found.append((new.tolist(), newly_set, places.tolist(), held.tolist()))
        del words
    assert found == [found[0]] * len(ALL_ENGINES)


def positions_of(h1: int, h2: int, params: FilterParams, engine: Engine) -> list[int]:
    """The bits that a key sets in an empty array."""
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


KEYS = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([-1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), b"", ""]),
    st.binary(max_size=9).map(bytearray),
    st.integers(-128, 127).map(np.int8),
    st.booleans().map(lambda on: np.uint64(2**64 - on - 1)),
)


@hypothesis.given(scenes(), st.lists(KEYS, max_size=30))
def test_one_key_at_a_time(scene: Scene, keys: list[Any]) -> None:
    """OneKey answers, sets and counts the same for keys of every kind; counters wrap alike."""
    params, _ = scene
    start = np.array([2**64 - 1, 2**64 - 3, 7, 2**64 - 1, 5], dtype=np.uint64)
    words = [empty_words(params), empty_words(params)]
    counters = [start.copy(), start.copy()]
    ones = [
        engine.OneKey(array, counts, params, coerce_one)
        for engine, array, counts in zip((NUMPY, COMPILED), words, counters, strict=True)
    ]
    for key in keys:
        for method in ("contains", "add", "contains"):
            answers = [getattr(one, method)(key) for one in ones]
            assert answers[0] is answers[1]
        assert (words[0] == words[1]).all()
        assert (counters[0] == counters[1]).all()
        assert ones[0].positions_set() == ones[1].positions_set() == int(counters[0][1])


@pytest.mark.parametrize("key", [1.5, None, True, 2**64, -(2**63) - 1, "\ud800", (1.5,)])
def test_one_wrong_key(key: Any) -> None:
    """What is no key raises the same from both, and sets and counts nothing."""
    params = FilterParams(10, 0.1, "blocked", 512, 3, seed=4)
    for engine in (NUMPY, COMPILED):
        words, counters = empty_words(params), np.zeros(4, dtype=np.uint64)
        one = engine.OneKey(words, counters, params, coerce_one)
        for method in (one.add, one.contains):
            with pytest.raises((KeyTypeError, KeyEncodingError)) as caught:
                method(key)
            with pytest.raises(type(caught.value)) as expected:
                coerce_one(key)
            assert str(caught.value) == str(expected.value)
        assert not words.any()
        assert not counters.any()
