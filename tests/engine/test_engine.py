"""The kernels of each engine answer exactly what a naive filter answers, one key at a time."""

from random import Random
from unittest import mock

import hypothesis
import numpy as np
import pytest
from forms import hashed
from hypothesis import strategies as st
from kernels import NUMPY, Engine, claim, each_engine
from naive import LAYOUTS, G, Hash, OneByOne, empty_words, scenes, split

from mmbloom._engine.reference import bits as _numpy
from mmbloom._keys.coerce import coerce_one
from mmbloom.sizing import FilterParams, Layout

Scene = tuple[FilterParams, list[list[Hash]]]


def check_updates(claimed: object) -> None:
    """Check the contract of numpy's `Claimed`: no word twice in one pair, or bits would be lost."""
    if isinstance(claimed, _numpy.Claimed):
        for index, mask in claimed.updates:
            assert len(np.unique(index)) == len(index) == len(mask)


@each_engine
@hypothesis.given(scenes())
def test_batches_answer_as_one_by_one(engine: Engine, scene: Scene) -> None:
    """Claim finds the naive filter's new keys and sets nothing; commit sets exactly their bits."""
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    for batch in batches:
        assert engine.contains(words, *split(batch), params).tolist() == [*map(naive.has, batch)]
        before, clear = words.copy(), len(naive.held)
        claimed = claim(engine, words, *split(batch), params)
        assert (words == before).all(), "claim sets nothing"
        assert claimed.new.dtype == np.bool_
        assert claimed.new.tolist() == (new := [naive.add(key) for key in batch])
        assert claimed.num_new == sum(new)
        check_updates(claimed)
        asked = [key for batch in batches for key in batch]
        found = engine.contains_with(words, claimed, *split(asked), params)
        assert found.dtype == np.bool_
        assert found.tolist() == [*map(naive.has, asked)]
        assert (words == before).all(), "nor does asking with it"
        assert engine.commit(words, claimed) == len(naive.held) - clear
        assert words.tolist() == naive.words()
        assert engine.count_set(words) == len(naive.held)


@each_engine
@hypothesis.given(scenes())
def test_add_is_claim_and_commit(engine: Engine, scene: Scene) -> None:
    """Add answers as one by one, sets exactly those bits, and says how many were clear."""
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    for batch in batches:
        clear = len(naive.held)
        new, newly_set = engine.add(words, *split(batch), params)
        assert new.dtype == np.bool_
        assert new.tolist() == [naive.add(key) for key in batch]
        assert newly_set == len(naive.held) - clear
        assert words.tolist() == naive.words()
        assert engine.contains(words, *split(batch), params).all()


@each_engine
@hypothesis.given(scenes(), st.lists(st.binary(max_size=9), max_size=60))
def test_scalar_path_is_the_batch_path(engine: Engine, scene: Scene, keys: list[bytes]) -> None:
    """One key at a time sets the same bits, gives the same answers, and counts each new key."""
    params, _ = scene
    naive, words, counters = OneByOne(params), empty_words(params), np.zeros(5, dtype=np.uint64)
    one, new_keys = engine.OneKey(words, counters, params, coerce_one), 0
    for key, halves in zip(keys, hashed(keys, params.key_hash), strict=True):
        assert one.contains(key) is naive.has(halves)
        new = naive.add(halves)
        assert one.add(key) is new
        assert one.contains(key) is True
        new_keys += new
        assert counters.tolist() == [new_keys, len(naive.held), new_keys, new_keys, 0]
    assert words.tolist() == naive.words()


@hypothesis.given(scenes(), st.integers(1, 9))
def test_claim_in_parts_answers_as_in_one(scene: Scene, size: int) -> None:
    """The reference cuts a claim into parts: what earlier ones will set is taken as set."""
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    words[0] = 0b1011  # and some bits are set for good already
    naive.held = {0, 1, 3}
    batch = [key for batch in batches for key in batch]
    with mock.patch.object(_numpy, "CHUNK_KEYS", size):
        claimed = claim(NUMPY, words, *split(batch), params)
    check_updates(claimed)
    assert claimed.new.tolist() == [naive.add(key) for key in batch]
    assert int(words[0]) == 0b1011
    assert _numpy.commit(words, claimed) == len(naive.held) - 3
    assert words.tolist() == naive.words()


@each_engine
@hypothesis.given(scenes(), st.randoms(use_true_random=False))
def test_order_of_commits_is_free(engine: Engine, scene: Scene, random: Random) -> None:
    """Commit counts bits and never clears one, whatever is committed, twice or out of order."""
    params, batches = scene
    naive, words = OneByOne(params), empty_words(params)
    claims = [claim(engine, words, *split(batch), params) for batch in batches] * 2
    random.shuffle(claims)
    for key in (key for batch in batches for key in batch):
        naive.add(key)
    assert sum(engine.commit(words, claimed) for claimed in claims) == len(naive.held)
    assert words.tolist() == naive.words()


@hypothesis.given(scenes(), st.randoms(use_true_random=False))
def test_order_of_updates_is_free(scene: Scene, random: Random) -> None:
    """The pairs within the reference's claim may be committed in any order, some of them twice."""
    params, (batch, *_) = scene
    naive, words = OneByOne(params), empty_words(params)
    claimed = claim(NUMPY, words, *split(batch), params)
    updates = claimed.updates * 2
    random.shuffle(updates)
    for key in batch:
        naive.add(key)
    assert _numpy.commit(words, claimed._replace(updates=updates)) == len(naive.held)
    assert words.tolist() == naive.words()


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_hashes", [1, 7, 64])
def test_a_batch_of_one_key_many_times(engine: Engine, layout: Layout, num_hashes: int) -> None:
    """Of a key given 5,000 times in a batch the first is new, and the others are not."""
    params = FilterParams(10, 0.1, layout, 1024, num_hashes)
    words = empty_words(params)
    same = np.full(5000, 0xDEADBEEF12345678, dtype=np.uint64)
    claimed = claim(engine, words, same, same, params)
    assert claimed.new.tolist() == [True] + [False] * 4999
    expected = len(OneByOne(params).positions((int(same[0]),) * 2))
    assert engine.commit(words, claimed) == expected
    assert not claim(engine, words, same, same, params).new.any()
    new, newly_set = engine.add(empty_words(params), same, same, params)
    assert (new.tolist(), newly_set) == ([True] + [False] * 4999, expected)


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_filter_has_nothing_new(engine: Engine, layout: Layout) -> None:
    """When all bits are set every key is found, none is new, and nothing is left to commit."""
    params = FilterParams(10, 0.1, layout, 512, 5)
    words = np.full(8, 2**64 - 1, dtype=np.uint64)
    h1 = h2 = np.arange(100, dtype=np.uint64) * np.uint64(G)
    claimed = claim(engine, words, h1, h2, params)
    assert not claimed.new.any()
    assert engine.commit(words, claimed) == 0
    new, newly_set = engine.add(words, h1, h2, params)
    assert not new.any()
    assert newly_set == 0
    assert engine.contains(words, h1, h2, params).all()


@each_engine
@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_batch(engine: Engine, layout: Layout) -> None:
    """No keys, no answers, no change."""
    params = FilterParams(10, 0.1, layout, 512, 5)
    words, none = empty_words(params), np.zeros(0, dtype=np.uint64)
    claimed = claim(engine, words, none, none, params)
    assert (len(claimed.new), engine.commit(words, claimed)) == (0, 0)
    assert len(engine.contains(words, none, none, params)) == 0
    new, newly_set = engine.add(words, none, none, params)
    assert (len(new), newly_set) == (0, 0)
    assert new.dtype == np.bool_
    assert not words.any()


@each_engine
@pytest.mark.parametrize(
    ("layout", "num_bits"), [("blocked", 2**32 + 512), ("standard", 2**33 + 64)]
)
def test_positions_beyond_32_bits(engine: Engine, seed: int, layout: Layout, num_bits: int) -> None:
    """In a filter of more than 2^32 bits every position has its own bit, the last one too."""
    params = FilterParams(10, 0.1, layout, num_bits, 6)
    words = empty_words(params)  # sparse: 1 GB, hardly touched
    random = np.random.default_rng(seed)
    batch = [(int(h1), int(h2)) for h1, h2 in random.integers(0, 2**64, (150, 2), np.uint64)]
    batch += [(2**64 - 1, 2**64 - 1), (num_bits - 1, 0), batch[7]]
    naive = OneByOne(params)
    claimed = claim(engine, words, *split(batch), params)
    assert claimed.new.tolist() == [naive.add(key) for key in batch]
    assert engine.commit(words, claimed) == len(naive.held)
    assert max(naive.held) > num_bits - 512
    held = np.array(sorted(naive.held), dtype=np.uint64)
    set_there = words[held // np.uint64(64)] >> (held % np.uint64(64)) & np.uint64(1)
    assert set_there.all()
    assert not engine.add(words, *split(batch), params)[0].any()
    keys = [b"%d" % i for i in range(50)]
    one = engine.OneKey(words, np.zeros(5, dtype=np.uint64), params, coerce_one)
    for key, halves in zip(keys, hashed(keys, params.key_hash), strict=True):
        assert one.contains(key) == naive.has(halves)
        assert one.add(key) == naive.add(halves)
    absent = [(int(h1), int(h2)) for h1, h2 in random.integers(0, 2**64, (150, 2), np.uint64)]
    batch = [*batch, *absent, *hashed(keys, params.key_hash)]
    answers = engine.contains(words, *split(batch), params).tolist()
    assert answers == [naive.has(key) for key in batch]


@each_engine
@pytest.mark.parametrize("length", [1, 1000, (1 << 17) - 1, 1 << 17, (1 << 18) + 3])
def test_count_set(engine: Engine, seed: int, length: int) -> None:
    """The count of set bits is that of one large Python int, over any number of pieces."""
    words = np.random.default_rng(seed).integers(0, 2**64, length, np.uint64)
    assert engine.count_set(words) == int.from_bytes(words.tobytes(), "little").bit_count()


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
    claimed = claim(engine, words, h1, h1, params)
    assert not words.any()
    assert not claimed.new[-(n // 2) :].any()
    assert claimed.new[0]
    pieces = [h1[start : start + 16_384] for start in range(0, n, 16_384)]
    answers = [NUMPY.add(other, piece, piece, params) for piece in pieces]
    assert (claimed.new == np.concatenate([new for new, _ in answers])).all()
    assert engine.commit(words, claimed) == sum(newly_set for _, newly_set in answers)
    assert (words == other).all()
    assert engine.contains(words, h1, h1, params).all()
