"""The naive filters: positions in a set or counted, one key at a time, and random scenes."""

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from hypothesis import strategies as st
from reference import positions_of

from mmbloom._system.typing import HashName, Words
from mmbloom.sizing import FilterParams, Layout

G = 0x9E3779B97F4A7C15
LAYOUTS = get_args(Layout)
# Layouts with the numbers of blocks a key that their code differs for.
SHAPES: list[tuple[Layout, int]] = [
    *(("standard", 1), ("blocked", 1), ("blocked", 2), ("blocked", 3), ("blocked", 8))
]
Hash = tuple[int, int]


def positions_by(params: FilterParams, h1: int, h2: int) -> tuple[int, ...]:
    """List the positions of a key in a filter of these parameters, by the independent reader."""
    blocks = params.blocks_per_key
    layout = 1 if params.layout == "standard" else 2 if blocks == 1 else 3
    return positions_of(h1, h2, layout, params.num_bits, params.num_hashes, blocks)


@dataclass
class OneByOne:
    """A set of positions."""

    params: FilterParams
    held: set[int] = field(default_factory=set)

    def positions(self, key: Hash) -> set[int]:
        return {*positions_by(self.params, *key)}

    def add(self, key: Hash) -> bool:
        positions = self.positions(key)
        new = not positions <= self.held
        self.held |= positions
        return new

    def has(self, key: Hash) -> bool:
        return self.positions(key) <= self.held

    def words_set(self) -> Counter[int]:
        words = Counter[int]()
        for position in self.held:
            words[position // 64] += 1 << position % 64
        return words

    def words(self) -> list[int]:
        words = self.words_set()
        return [words[place] for place in range(self.params.num_bits // 64)]


@dataclass
class CountedOneByOne(OneByOne):
    """How often each position is held, up to 15, which stays."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, key: Hash) -> bool:
        positions = self.positions(key)
        new = not all(self.counts[position] for position in positions)
        for position in positions:
            self.counts[position] = min(15, self.counts[position] + 1)
        return new

    def has(self, key: Hash) -> bool:
        return all(self.counts[position] for position in self.positions(key))

    def remove(self, key: Hash) -> bool:
        if not self.has(key):
            return False
        for position in self.positions(key):
            self.counts[position] -= self.counts[position] != 15
        return True

    def nonzero(self) -> int:
        return sum(count > 0 for count in self.counts.values())

    def words_set(self) -> Counter[int]:
        words = Counter[int]()
        for position, count in self.counts.items():
            words[position // 16] += count << 4 * (position % 16)
        return +words

    def words(self) -> list[int]:
        words = self.words_set()
        return [words[place] for place in range(self.params.num_bits // 16)]


SEEDED: list[tuple[int, HashName]] = [(2**127 + 3, "siphash"), (3, "murmur3")]
WORD = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3), st.just(2**64 - 1))
HASH = st.tuples(WORD, WORD)


def step_of(layout: Layout, blocks: int) -> int:
    if layout == "standard":
        return 64
    return 512 if blocks == 1 else 32768


@st.composite
def scenes(draw: st.DrawFn) -> tuple[FilterParams, list[list[Hash]]]:
    """Parameters of a small filter, and batches in which keys come again and again."""
    layout, blocks = draw(st.sampled_from(SHAPES))
    num_bits = step_of(layout, blocks) * draw(st.sampled_from([1, 1, 2, 3, 17]))
    seed, name = draw(st.sampled_from(SEEDED))
    num_hashes = blocks * draw(st.integers(1, 64 // blocks))
    params = FilterParams(10, 0.1, layout, num_bits, num_hashes, seed, name, blocks)
    pool = draw(st.lists(HASH, min_size=1, max_size=12))
    batch = st.lists(st.one_of(st.sampled_from(pool), HASH), max_size=30)
    return params, draw(st.lists(batch, min_size=1, max_size=4))


def crowd(chance: np.random.Generator, n: int) -> tuple[Words, Words]:
    """Draw hash halves of which about every second key comes again, near or far away."""
    some = chance.integers(0, 2**64, (2, max(1, n // 2)), np.uint64)
    h1, h2 = some[:, chance.integers(0, some.shape[1], n)]
    return np.ascontiguousarray(h1), np.ascontiguousarray(h2)


def random_words(params: FilterParams, chance: np.random.Generator, fill: float) -> Words:
    """Draw an array with about this share of its bits set."""
    bits = chance.random(params.num_bits, np.float32) < fill
    return np.packbits(bits, bitorder="little").view("<u8")


def split(batch: list[Hash]) -> tuple[Words, Words]:
    return (
        np.array([h1 for h1, _ in batch], dtype=np.uint64),
        np.array([h2 for _, h2 in batch], dtype=np.uint64),
    )


def empty_words(params: FilterParams) -> Words:
    return np.zeros(params.num_bits // 64, dtype="<u8")


def empty_counters(params: FilterParams) -> Words:
    return np.zeros(params.num_bits // 16, dtype="<u8")
