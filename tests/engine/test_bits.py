"""The kernels of bits answer exactly what a naive filter answers, one key at a time."""

from random import Random
from unittest import mock

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from kernels import ALL_ENGINES, NUMPY, Engine, each_engine, every_engine
from large_arrays import set_words, zero_words
from naive import LAYOUTS, G, Hash, OneByOne, crowd, empty_words, scenes, split

from mmbloom._engine import union
from mmbloom._engine.reference import bits as _numpy
from mmbloom._system.typing import Bools, Words
from mmbloom.sizing import FilterParams, Layout

Scene = tuple[FilterParams, list[list[Hash]]]


def check_updates(claimed: object) -> None:
    """Check the contract of numpy's `Claimed`: no word twice in one pair, or bits would be lost."""
    if isinstance(claimed, _numpy.Claimed):
        for index, mask in claimed.updates:
            assert len(np.unique(index)) == len(index) == len(mask)


def said(answers: Bools) -> list[bool]:
    assert answers.dtype == np.bool_
    found: list[bool] = answers.tolist()
    return found


@hypothesis.given(scenes())
def test_batches_answer_as_one_by_one(scene: Scene) -> None:
    """Claim finds the naive filter's new keys and sets nothing; commit and add set their bits."""
    params, batches = scene
    naive, asked = OneByOne(params), split([key for batch in batches for key in batch])
    arrays = [(empty_words(params), empty_words(params)) for _ in ALL_ENGINES]
    for batch in batches:
        halves, clear, found = split(batch), len(naive.held), [*map(naive.has, batch)]
        new = [naive.add(key) for key in batch]
        for engine, (words, others) in zip(ALL_ENGINES, arrays, strict=True):
            before = words.copy()
            assert said(engine.contains(words, *halves, params)) == found, engine
            claimed = engine.claim(words, *halves, params)
            assert said(claimed.new) == new, engine
            assert claimed.num_new == sum(new)
            check_updates(claimed)
            with_it = said(engine.contains_with(words, claimed, *asked, params))
            assert with_it == [naive.has(key) for batch in batches for key in batch], engine
            assert (words == before).all(), "neither claiming nor asking sets a bit"
            committed, (answers, added) = (
                engine.commit(words, claimed),
                engine.add(others, *halves, params),
            )
            assert said(answers) == new, engine
            assert committed == added == len(naive.held) - clear
            assert type(committed) is type(added) is int
            assert words.tolist() == others.tolist() == naive.words(), engine
            assert engine.count_set(words) == len(naive.held)
            assert engine.contains(words, *halves, params).all()


@each_engine
@hypothesis.given(scene=scenes(), random=st.randoms(use_true_random=False))
def test_several_arrays(engine: Engine, scene: Scene, random: Random) -> None:
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
    found = said(engine.contains_any(arrays, *split(asked), params))
    assert found == [any(model.has(key) for model in naive) for key in asked]
    assert not engine.contains_any([], *split(asked), params).any()


@hypothesis.given(scenes(), st.integers(1, 9))
def test_claim_in_parts_answers_as_in_one(scene: Scene, size: int) -> None:
    """The reference cuts a claim into parts: what earlier ones will set is taken as set."""
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    words[0] = 0b1011  # and some bits are set for good already
    naive.held = {0, 1, 3}
    batch = [key for batch in batches for key in batch]
    with mock.patch("mmbloom._engine.reference.hash.PIECE_KEYS", size):
        claimed = NUMPY.claim(words, *split(batch), params)
    check_updates(claimed)
    assert claimed.new.tolist() == [naive.add(key) for key in batch]
    assert int(words[0]) == 0b1011
    assert _numpy.commit(words, claimed) == len(naive.held) - 3
    assert words.tolist() == naive.words()


@each_engine
@hypothesis.given(scenes(), st.randoms(use_true_random=False))
def test_order_of_commits_is_free(engine: Engine, scene: Scene, random: Random) -> None:
    """Commit counts bits and never clears one, whatever is committed, twice or out of order.

    Nor do the pairs within a claim of the reference have an order.
    """
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    claims = [engine.claim(words, *split(batch), params) for batch in batches] * 2
    random.shuffle(claims)
    for number, claimed in enumerate(claims):
        if isinstance(claimed, _numpy.Claimed):
            updates = claimed.updates * 2
            random.shuffle(updates)
            claims[number] = claimed._replace(updates=updates)
    for key in (key for batch in batches for key in batch):
        naive.add(key)
    assert sum(engine.commit(words, claimed) for claimed in claims) == len(naive.held)
    assert words.tolist() == naive.words()


@every_engine
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_hashes", [1, 7, 8, 9, 16, 17, 63, 64])
def test_a_batch_of_one_key_many_times(
    engine: Engine, layout: Layout, num_hashes: int, seed: int
) -> None:
    """The first is new, and the others are not, whether they are added or claimed."""
    params, key = FilterParams(10, 0.1, layout, 2560, num_hashes), (seed, seed * 2**31 + 1)
    words, others, same = empty_words(params), empty_words(params), split([key] * 5000)
    claimed = engine.claim(words, *same, params)
    assert np.flatnonzero(claimed.new).tolist() == [0]
    assert not words.any()
    expected = len(OneByOne(params).positions(key))
    assert engine.commit(words, claimed) == expected
    assert not engine.claim(words, *same, params).new.any()
    new, newly_set = engine.add(others, *same, params)
    assert (np.flatnonzero(new).tolist(), newly_set) == ([0], expected)
    assert (others == words).all()


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_filter_has_nothing_new(engine: Engine, layout: Layout) -> None:
    params = FilterParams(10, 0.1, layout, 512, 5)
    words = np.full(8, 2**64 - 1, dtype=np.uint64)
    h1 = h2 = np.arange(100, dtype=np.uint64) * np.uint64(G)
    claimed = engine.claim(words, h1, h2, params)
    assert not claimed.new.any()
    assert engine.commit(words, claimed) == 0
    new, newly_set = engine.add(words, h1, h2, params)
    assert (said(new), newly_set) == ([False] * 100, 0)
    assert engine.contains(words, h1, h2, params).all()


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_batch(engine: Engine, layout: Layout) -> None:
    """No keys, no answers, no change; with a claim of none an array has what it has."""
    params, some = FilterParams(10, 0.1, layout, 512, 5), split([(1, 2), (3, 4)])
    words, none = empty_words(params), np.zeros(0, dtype=np.uint64)
    claimed = engine.claim(words, none, none, params)
    assert not engine.contains_with(words, claimed, *some, params).any()
    assert said(engine.contains_with(words, claimed, none, none, params)) == []
    assert (said(claimed.new), engine.commit(words, claimed)) == ([], 0)
    assert said(engine.contains(words, none, none, params)) == []
    new, newly_set = engine.add(words, none, none, params)
    assert (said(new), newly_set) == ([], 0)
    assert not words.any()


@every_engine
@pytest.mark.parametrize(
    ("layout", "num_bits"),
    [("blocked", 2**32 + 512), *(("standard", 2**m + extra) for m, extra in ((32, 64), (33, -64)))],
)
def test_positions_beyond_32_bits(engine: Engine, seed: int, layout: Layout, num_bits: int) -> None:
    """In a filter of more than 2^32 bits every position has its own bit, the last one too."""
    params = FilterParams(10, 0.1, layout, num_bits, 6)
    words = zero_words(params.num_bits // 64)
    keys = [*zip(*(half.tolist() for half in crowd(np.random.default_rng(seed), 500)), strict=True)]
    edges = [(0, 0), (2**64 - 1, 2**64 - 1), (num_bits - 1, 0)]
    naive, batch = OneByOne(params), [*keys[:250], *edges]
    claimed = engine.claim(words, *split(batch), params)
    assert claimed.new.tolist() == [naive.add(key) for key in batch]
    assert engine.commit(words, claimed) == len(naive.held)
    assert max(naive.held) > num_bits - 512
    assert engine.contains(words, *split(keys), params).tolist() == [*map(naive.has, keys)]
    assert engine.add(words, *split(keys), params)[0].tolist() == [*map(naive.add, keys)]
    places, values = set_words(words)
    assert dict(zip(places.tolist(), values.tolist(), strict=True)) == naive.words_set()


@each_engine
@pytest.mark.parametrize("length", [1, 1000, (1 << 17) - 1, 1 << 17, (1 << 18) + 3])
def test_count_set(engine: Engine, seed: int, length: int) -> None:
    """The count of set bits is that of one large Python int, over any number of pieces."""
    words = np.random.default_rng(seed).integers(0, 2**64, length, np.uint64)
    assert engine.count_set(words) == number(words).bit_count()


# The reference's claim takes time in proportion to the square of the keys.
MANY = {"numpy": 2**17 + 345, "compiled": 2**20 + 12_345}


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_claim_of_many_keys(engine: Engine, seed: int, layout: Layout) -> None:
    """A claim has no largest size, and tells repeats at any distance, above 2^20 keys too."""
    n = MANY[engine.name]
    params = FilterParams(n, 0.1, layout, 512 * 2**12, 2)
    h1 = np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)
    h1[-(n // 2) :] = h1[: n // 2]  # the second half is the first again
    words, other = empty_words(params), empty_words(params)
    claimed = engine.claim(words, h1, h1, params)
    assert not words.any()
    assert not claimed.new[-(n // 2) :].any()
    assert claimed.new[0]
    pieces = [h1[start : start + 16_384] for start in range(0, n, 16_384)]
    answers = [NUMPY.add(other, piece, piece, params) for piece in pieces]
    assert (claimed.new == np.concatenate([new for new, _ in answers])).all()
    assert engine.commit(words, claimed) == sum(newly_set for _, newly_set in answers)
    assert (words == other).all()
    assert engine.contains(words, h1, h1, params).all()


WORD = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1]))


def number(words: Words) -> int:
    return int.from_bytes(words.astype("<u8").tobytes(), "little")


@hypothesis.given(st.lists(WORD, max_size=40), st.lists(WORD, max_size=40), st.data())
def test_union_is_the_or(here: list[int], there: list[int], data: st.DataObject) -> None:
    """The words from start on become the OR, all others stay, and the new bits are counted."""
    there = there[: len(here)]
    start = data.draw(st.integers(0, len(here) - len(there)))
    words, more = np.array(here, np.uint64), np.array(there, np.uint64)
    more.flags.writeable = False
    expected = number(words) | number(more) << 64 * start
    newly_set = union(words, start, more)
    assert number(words) == expected
    assert newly_set == expected.bit_count() - sum(map(int.bit_count, here))
    assert type(newly_set) is int
    assert more.tolist() == there


@pytest.mark.parametrize("start", [0, 1, 7, 63])
def test_union_of_all_ones(start: int) -> None:
    """Of a full array nothing is new; into an empty one every bit is, and nothing else is set."""
    ones = np.full(64 - start, 2**64 - 1, np.uint64)
    words = np.zeros(64, np.uint64)
    assert union(words, start, ones) == 64 * len(ones)
    assert union(words, start, ones) == 0
    assert not words[:start].any()
    assert (words[start:] == 2**64 - 1).all()


def test_union_of_a_file_and_of_nothing() -> None:
    """Words as `pread` gives them, aligned to nothing, will do; and no words at all."""
    raw = b"x" + np.arange(100, dtype="<u8").tobytes()
    more = np.frombuffer(raw, "<u8", offset=1)
    words = np.zeros(101, np.uint64)
    assert union(words, 1, more) == sum(map(int.bit_count, range(100)))
    assert words.tolist() == [0, *range(100)]
    assert union(words, 101, more[:0]) == 0
    assert union(words[:0], 0, more[:0]) == 0
