"""The kernels answer exactly what a naive filter answers, one key at a time."""

from dataclasses import dataclass, field
from random import Random
from typing import get_args

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from mmbloom import _engine
from mmbloom._engine import Claimed, Words
from mmbloom.sizing import FilterParams, Layout

G = 0x9E3779B97F4A7C15
LAYOUTS = get_args(Layout)
Hash = tuple[int, int]


@dataclass
class OneByOne:
    """The naive filter: a set of positions, and the formulas of the format in Python ints."""

    params: FilterParams
    held: set[int] = field(default_factory=set)

    def positions(self, key: Hash) -> set[int]:
        (h1, h2), m, k = key, self.params.num_bits, self.params.num_hashes
        if self.params.layout == "standard":
            return {(h1 + i * h2) % 2**63 % m for i in range(k)}
        block = ((h1 >> 32) * (m // 512)) >> 32
        return {512 * block + (h2 * G ** (i + 1) % 2**64 >> 55) for i in range(k)}

    def add(self, key: Hash) -> bool:
        new = not self.positions(key) <= self.held
        self.held |= self.positions(key)
        return new

    def has(self, key: Hash) -> bool:
        return self.positions(key) <= self.held

    def words(self) -> list[int]:
        number = sum(1 << position for position in self.held)
        return [number >> start & 2**64 - 1 for start in range(0, self.params.num_bits, 64)]


WORD = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3), st.just(2**64 - 1))
KEYS = st.lists(st.tuples(WORD, WORD), max_size=40)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[FilterParams, list[list[Hash]]]:
    """Parameters of a small filter, and batches in which keys come again and again."""
    layout: Layout = draw(st.sampled_from(LAYOUTS))
    step = 512 if layout == "blocked" else 64
    num_bits = step * draw(st.sampled_from([1, 1, 2, 3, 17]))
    params = FilterParams(10, 0.1, layout, num_bits, draw(st.integers(1, 64)))
    pool = draw(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=12))
    batch = st.lists(st.one_of(st.sampled_from(pool), st.tuples(WORD, WORD)), max_size=30)
    return params, draw(st.lists(batch, min_size=1, max_size=4))


def split(batch: list[Hash]) -> tuple[Words, Words]:
    return (
        np.array([h1 for h1, _ in batch], dtype=np.uint64),
        np.array([h2 for _, h2 in batch], dtype=np.uint64),
    )


def check_updates(claimed: Claimed) -> None:
    """Check the contract of `Claimed`: no word twice in one pair, or bits would be lost."""
    for index, mask in claimed.updates:
        assert len(np.unique(index)) == len(index) == len(mask)


@hypothesis.given(scenes())
def test_batches_answer_as_one_by_one(scene: tuple[FilterParams, list[list[Hash]]]) -> None:
    """Claim finds the naive filter's new keys and sets nothing; commit sets exactly their bits."""
    params, batches = scene
    naive, words = OneByOne(params), np.zeros(params.num_bits // 64, dtype=np.uint64)
    for batch in batches:
        assert _engine.contains(words, *split(batch), params).tolist() == [*map(naive.has, batch)]
        before, clear = words.copy(), len(naive.held)
        claimed = _engine.claim(words, *split(batch), params)
        assert (words == before).all(), "claim sets nothing"
        assert claimed.new.dtype == np.bool_
        assert claimed.new.tolist() == [naive.add(key) for key in batch]
        check_updates(claimed)
        assert _engine.commit(words, claimed.updates) == len(naive.held) - clear
        assert words.tolist() == naive.words()
        assert _engine.count_set(words) == len(naive.held)


@hypothesis.given(scenes())
def test_scalar_path_is_the_batch_path(scene: tuple[FilterParams, list[list[Hash]]]) -> None:
    """One key at a time sets the same bits and gives the same answers as the naive filter."""
    params, batches = scene
    naive, octets = OneByOne(params), memoryview(bytearray(params.num_bits // 8))
    for key in (key for batch in batches for key in batch):
        assert _engine.contains_one(octets, *key, params) == naive.has(key)
        clear = len(naive.held)
        assert naive.add(key) == (_engine.set_one(octets, *key, params) > 0)
        assert int.from_bytes(octets, "little").bit_count() == len(naive.held) > clear - 1
        assert _engine.contains_one(octets, *key, params)
    assert np.frombuffer(octets, dtype="<u8").tolist() == naive.words()


@hypothesis.given(scenes())
def test_pending_positions_count_as_set(scene: tuple[FilterParams, list[list[Hash]]]) -> None:
    """A claim in parts answers as in one piece: what earlier parts will set is taken as set."""
    params, batches = scene
    naive, words = OneByOne(params), np.zeros(params.num_bits // 64, dtype=np.uint64)
    words[0] = 0b1011  # and some bits are set for good already
    naive.held = {0, 1, 3}
    pending, claims = None, []
    for batch in batches:
        h1, h2 = split(batch)
        claimed = _engine.claim(words, h1, h2, params, pending)
        check_updates(claimed)
        assert claimed.new.tolist() == [naive.add(key) for key in batch]
        pending = _engine.pending_positions(pending, h1, h2, params)
        assert (np.diff(pending) > 0).all(), "sorted, none twice"
        claims.append(claimed)
    assert int(words[0]) == 0b1011
    committed = sum(_engine.commit(words, claimed.updates) for claimed in claims)
    assert committed == len(naive.held) - 3
    assert words.tolist() == naive.words()


@hypothesis.given(scenes(), st.randoms(use_true_random=False))
def test_order_of_commits_is_free(
    scene: tuple[FilterParams, list[list[Hash]]], random: Random
) -> None:
    """Commit counts bits and never clears one, whatever is committed, twice or out of order."""
    params, (batch, *_) = scene
    naive, words = OneByOne(params), np.zeros(params.num_bits // 64, dtype=np.uint64)
    updates = _engine.claim(words, *split(batch), params).updates * 2
    random.shuffle(updates)
    for key in batch:
        naive.add(key)
    assert _engine.commit(words, updates) == len(naive.held)
    assert words.tolist() == naive.words()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_hashes", [1, 7, 64])
def test_a_batch_of_one_key_many_times(layout: Layout, num_hashes: int) -> None:
    """Of a key given 5,000 times in a batch the first is new, and the others are not."""
    params = FilterParams(10, 0.1, layout, 1024, num_hashes)
    words = np.zeros(16, dtype=np.uint64)
    same = np.full(5000, 0xDEADBEEF12345678, dtype=np.uint64)
    claimed = _engine.claim(words, same, same, params)
    assert claimed.new.tolist() == [True] + [False] * 4999
    assert _engine.commit(words, claimed.updates) == len(
        OneByOne(params).positions((int(same[0]),) * 2)
    )
    assert not _engine.claim(words, same, same, params).new.any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_filter_has_nothing_new(layout: Layout) -> None:
    """When all bits are set every key is found, none is new, and nothing is left to commit."""
    params = FilterParams(10, 0.1, layout, 512, 5)
    words = np.full(8, 2**64 - 1, dtype=np.uint64)
    h1 = h2 = np.arange(100, dtype=np.uint64) * np.uint64(G)
    claimed = _engine.claim(words, h1, h2, params)
    assert not claimed.new.any()
    assert _engine.commit(words, claimed.updates) == 0
    assert _engine.contains(words, h1, h2, params).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty_batch(layout: Layout) -> None:
    """No keys, no answers, no change."""
    params = FilterParams(10, 0.1, layout, 512, 5)
    words, none = np.zeros(8, dtype=np.uint64), np.zeros(0, dtype=np.uint64)
    claimed = _engine.claim(words, none, none, params)
    assert (len(claimed.new), _engine.commit(words, claimed.updates)) == (0, 0)
    assert len(_engine.contains(words, none, none, params)) == 0
    assert len(_engine.pending_positions(None, none, none, params)) == 0
    assert not _engine.claim(words, none, none, params, pending=none).new.any()


@pytest.mark.parametrize(
    ("layout", "num_bits"), [("blocked", 2**32 + 512), ("standard", 2**33 + 64)]
)
def test_positions_beyond_32_bits(seed: int, layout: Layout, num_bits: int) -> None:
    """In a filter of more than 2^32 bits every position has its own bit, the last one too."""
    params = FilterParams(10, 0.1, layout, num_bits, 6)
    words = np.zeros(num_bits // 64, dtype=np.uint64)  # sparse: 1 GB, hardly touched
    random = np.random.default_rng(seed)
    batch = [(int(h1), int(h2)) for h1, h2 in random.integers(0, 2**64, (150, 2), np.uint64)]
    batch += [(2**64 - 1, 2**64 - 1), (num_bits - 1, 0), batch[7]]
    naive = OneByOne(params)
    claimed = _engine.claim(words, *split(batch), params)
    assert claimed.new.tolist() == [naive.add(key) for key in batch]
    assert _engine.commit(words, claimed.updates) == len(naive.held)
    assert max(naive.held) > num_bits - 512
    held = np.array(sorted(naive.held), dtype=np.uint64)
    set_there = words[held // np.uint64(64)] >> (held % np.uint64(64)) & np.uint64(1)
    assert set_there.all()
    octets = words.data.cast("B")
    assert all(_engine.contains_one(octets, *key, params) for key in batch)
    absent = [(int(h1), int(h2)) for h1, h2 in random.integers(0, 2**64, (150, 2), np.uint64)]
    answers = _engine.contains(words, *split(absent), params).tolist()
    assert answers == [naive.has(key) for key in absent]


@pytest.mark.parametrize("length", [1, 1000, (1 << 17) - 1, 1 << 17, (1 << 18) + 3])
def test_count_set(seed: int, length: int) -> None:
    """The count of set bits is that of one large Python int, over any number of pieces."""
    words = np.random.default_rng(seed).integers(0, 2**64, length, np.uint64)
    assert _engine.count_set(words) == int.from_bytes(words.tobytes(), "little").bit_count()


def test_largest_batch(seed: int) -> None:
    """At the documented 2^20 keys in a batch no index of a key runs into its position."""
    n = 2**20
    params = FilterParams(n, 0.1, "blocked", 512 * 2**12, 2)
    h1 = np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)
    h1[n // 2 :] = h1[: n // 2]  # the second half is the first again
    words = np.zeros(params.num_bits // 64, dtype=np.uint64)
    claimed = _engine.claim(words, h1, h1, params)
    assert not claimed.new[n // 2 :].any()
    assert claimed.new[0]
    _engine.commit(words, claimed.updates)
    assert _engine.contains(words, h1, h1, params).all()
