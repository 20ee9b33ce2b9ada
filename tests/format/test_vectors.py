"""The keys worked out in the format's docstrings: both engines and the independent reader agree."""

import ast
import re

import numpy as np
import pytest
from kernels import Engine, each_engine
from naive import empty_words
from reference import Fields, Key, NaiveFilter

from mmbloom._keys.coerce import coerce
from mmbloom.format import header, positions
from mmbloom.sizing import FilterParams, Layout
from mmbloom.sizing.params import KeyHash

SEED = 7
HASH_KEY = int.from_bytes(bytes(range(16)), "little")
Row = tuple[Key, int, list[str]]


def table(docstring: str | None) -> list[Row]:
    """The rows of the table that begins with a key and the id of a hash."""
    rows = re.findall(r"^(\S.*?)  +([12])  +(\S.*)$", docstring or "", re.MULTILINE)
    keys = [(ast.literal_eval(key), int(hash_id), rest) for key, hash_id, rest in rows]
    return [(key, hash_id, re.split("  +", rest)) for key, hash_id, rest in keys]


HASHES = table(header.__doc__)
POSITIONS = table(positions.__doc__)
# Layout id, m, k and b, as the docstring of positions.py says.
SHAPES = [(1, 6400, 3, 0), (2, 5120, 3, 0), (3, 98304, 4, 2)]


def hash_of(hash_id: int) -> KeyHash:
    return KeyHash("murmur3", SEED) if hash_id == 1 else KeyHash("siphash", HASH_KEY)


def halves(engine: Engine, key: Key, hash_id: int) -> tuple[int, int]:
    (batch,) = coerce([key]).parts
    h1, h2 = engine.hash_keys(batch, hash_of(hash_id))
    return int(h1[0]), int(h2[0])


def test_every_layout_and_hash_has_examples() -> None:
    """The tables are found, with the same keys, of every kind, in both."""
    assert [row[:2] for row in HASHES] == [row[:2] for row in POSITIONS]
    assert {type(key) for key, _, _ in HASHES} == {bytes, str, int, tuple}
    assert {hash_id for _, hash_id, _ in HASHES} == {1, 2}
    assert all(len(columns) == len(SHAPES) for _, _, columns in POSITIONS)


@each_engine
@pytest.mark.parametrize(("key", "hash_id", "expected"), HASHES)
def test_hashes(engine: Engine, key: Key, hash_id: int, expected: list[str]) -> None:
    """A key has the h1 and h2 that the docstring of header.py gives."""
    assert [f"{half:016x}" for half in halves(engine, key, hash_id)] == expected


@each_engine
@pytest.mark.parametrize(("key", "hash_id", "columns"), POSITIONS)
def test_positions(engine: Engine, key: Key, hash_id: int, columns: list[str]) -> None:
    """A key has the positions of positions.py: by the formulas, and as bits that an engine sets."""
    h1, h2 = halves(engine, key, hash_id)
    for (layout_id, m, k, b), column in zip(SHAPES, columns, strict=True):
        expected = [int(position) for position in column.split(", ")]
        layout: Layout = "standard" if layout_id == 1 else "blocked"
        params = FilterParams(10, 0.1, layout, m, k, blocks_per_key=b or 1)
        assert [*positions.positions(h1, h2, params)] == expected
        words = empty_words(params)
        engine.add(words, np.array([h1], np.uint64), np.array([h2], np.uint64), params)
        set_bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        assert set_bits.tolist() == sorted({*expected})
        seed = SEED if hash_id == 1 else HASH_KEY
        naive = NaiveFilter.empty(Fields(m, k, layout_id, seed, hash_id=hash_id, blocks=b))
        assert naive.positions(key) == expected
