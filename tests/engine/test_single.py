"""`OneKey` answers, sets and counts as the naive filter, for keys of every kind."""

from typing import Any

import hypothesis
import numpy as np
import pytest
from forms import hashed
from hypothesis import strategies as st
from kernels import ENGINES, Engine, each_engine
from large_arrays import set_words, zero_words
from naive import Hash, OneByOne, empty_words, scenes

from mmbloom import KeyEncodingError, KeyTypeError
from mmbloom._keys.coerce import coerce_one
from mmbloom._system.typing import Words
from mmbloom.sizing import FilterParams, Layout

KEYS = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([-1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), b"", ""]),
    st.binary(max_size=9).map(bytearray),
    st.integers(-128, 127).map(np.int8),
    st.booleans().map(lambda on: np.uint64(2**64 - on - 1)),
)
AT_FIRST = np.array([2**64 - 1, 2**64 - 3, 7, 2**64 - 1, 5], dtype=np.uint64)  # counters wrap


def check_one_by_one(engine: Engine, words: Words, params: FilterParams, keys: list[Any]) -> None:
    """Ask for each key, add it and ask again; the array and the counters are the naive filter's."""
    naive, counters, num_new = OneByOne(params), AT_FIRST.copy(), 0
    one = engine.OneKey(words, counters, params, coerce_one)
    for key, halves in zip(keys, hashed(map(coerce_one, keys), params.key_hash), strict=True):
        assert one.contains(key) is naive.has(halves)
        new = naive.add(halves)
        assert one.add(key) is new
        assert one.contains(key) is True
        num_new += new
        counts = np.array([num_new, len(naive.held), num_new, num_new, 0], np.uint64)
        assert (counters == AT_FIRST + counts).all()
        assert one.positions_set() == int(counters[1])
    places, values = set_words(words)
    assert dict(zip(places.tolist(), values.tolist(), strict=True)) == naive.words_set()


@hypothesis.given(scenes(), st.lists(KEYS, max_size=40))
def test_one_by_one(scene: tuple[FilterParams, list[list[Hash]]], keys: list[Any]) -> None:
    params, _ = scene
    for engine in ENGINES:
        check_one_by_one(engine, empty_words(params), params, keys)


@each_engine
@pytest.mark.parametrize(
    ("layout", "num_bits"), [("blocked", 2**32 + 512), ("standard", 2**33 + 64)]
)
def test_positions_beyond_32_bits(engine: Engine, layout: Layout, num_bits: int) -> None:
    params = FilterParams(10, 0.1, layout, num_bits, 6)
    check_one_by_one(engine, zero_words(num_bits // 64), params, [b"%d" % i for i in range(50)])


@each_engine
@pytest.mark.parametrize("key", [1.5, None, True, 2**64, -(2**63) - 1, "\ud800", (1.5,)])
def test_wrong_key(engine: Engine, key: Any) -> None:
    """What is no key raises the error of `coerce_one`, and sets and counts nothing."""
    params = FilterParams(10, 0.1, "blocked", 512, 3, seed=4)
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
