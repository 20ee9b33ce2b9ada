"""Hashes of each engine are MurmurHash3_x64_128, one by one, in batches, and of arrays."""

from typing import Any

import hypothesis
import numpy as np
import pytest
from forms import SIPHASH, bytes_of, hashed
from hypothesis import strategies as st
from kernels import Engine, each_engine

from mmbloom._engine.key_batch import ByteKeys, HashedKeys, IntegerKeys, KeyBatch
from mmbloom._engine.reference import hash as reference
from mmbloom._engine.reference.hash import hash_one
from mmbloom.sizing.params import KeyHash

SEEDS = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 8, 2**31, 2**32 - 1]))
EDGES = [0, 1, 255, 256, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
WORDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from(EDGES))


@each_engine
@hypothesis.given(st.lists(WORDS, max_size=50), SEEDS)
def test_array_version_is_mmh3(engine: Engine, words: list[int], seed: int) -> None:
    """The vectorised hash of 8-byte keys is mmh3's of the same 8 bytes, for every seed."""
    array = np.array(words, dtype="<u8")
    h1, h2 = engine.hash_keys(IntegerKeys(array), KeyHash("murmur3", seed))
    expected = hashed((word.to_bytes(8, "little") for word in words), KeyHash("murmur3", seed))
    assert list(zip(h1.tolist(), h2.tolist(), strict=True)) == expected
    assert array.tolist() == words  # the caller's array is not changed


@each_engine
@hypothesis.given(st.lists(st.one_of(st.binary(max_size=70), st.text(max_size=40))), SEEDS)
def test_batch_is_one_by_one(engine: Engine, keys: list[bytes | str], seed: int) -> None:
    """A batch of bytes and str hashes as its keys alone; str as its UTF-8."""
    batch = ByteKeys.of(keys)
    h1, h2 = engine.hash_keys(batch, KeyHash("murmur3", seed))
    raw = bytes_of(batch)
    expected = hashed(raw, KeyHash("murmur3", seed))
    assert list(zip(h1.tolist(), h2.tolist(), strict=True)) == expected
    assert [hash_one(key, KeyHash("murmur3", seed)) for key in raw] == expected


# From the tests of Guava, which computed them with the C++ original.
GUAVA = [
    (b"hell", 0, 0x629942693E10F867, 0x92DB0B82BAEB5347),
    (b"hello", 1, 0xA78DDFF5ADAE8D10, 0x128900EF20900135),
    (b"hello ", 2, 0x8A486B23F422E826, 0xF962A2C58947765F),
    (b"hello w", 3, 0x2EA59F466F6BED8C, 0xC610990ACC428A17),
    (b"hello wo", 4, 0x79F6305A386C572C, 0x46305AED3483B94E),
    (b"hello wor", 5, 0xC2219D213EC1F1B5, 0xA1D8E2E0A52785BD),
]


@each_engine
@pytest.mark.parametrize(("key", "seed", "h1", "h2"), GUAVA)
def test_known_vectors(engine: Engine, key: bytes, seed: int, h1: int, h2: int) -> None:
    """Values published for the C++ original come out of all three ways."""
    assert hash_one(key, KeyHash("murmur3", seed)) == (h1, h2)
    ways = [engine.hash_keys(ByteKeys.of([key]), KeyHash("murmur3", seed))]
    if len(key) == 8:
        ways.append(
            engine.hash_keys(IntegerKeys(np.frombuffer(key, dtype="<u8")), KeyHash("murmur3", seed))
        )
    for one, two in ways:
        assert (one.tolist(), two.tolist()) == ([h1], [h2])


@each_engine
@pytest.mark.parametrize("keys", [ByteKeys.of([]), ByteKeys.of([b"a"]), IntegerKeys(np.arange(2))])
def test_a_hash_of_another_name_is_refused(engine: Engine, keys: KeyBatch) -> None:
    """No engine hashes by one of the hashes what asks for a third."""
    third: Any = "xxh3"
    with pytest.raises(AssertionError, match="xxh3"):
        engine.hash_keys(keys, KeyHash(third, 7))
    with pytest.raises(AssertionError, match="xxh3"):
        hash_one(b"a", KeyHash(third, 7))


@each_engine
def test_smhasher_verification_value(engine: Engine) -> None:
    """The author's own check of an implementation, 0x6384BA69 for MurmurHash3_x64_128."""

    def digest(key: bytes, seed: int) -> bytes:
        h1, h2 = engine.hash_keys(ByteKeys.of([key]), KeyHash("murmur3", seed))
        assert (int(h1[0]), int(h2[0])) == hash_one(key, KeyHash("murmur3", seed))
        return h1.astype("<u8").tobytes() + h2.astype("<u8").tobytes()

    table = b"".join(digest(bytes(range(i)), 256 - i) for i in range(256))
    assert int.from_bytes(digest(table, 0)[:4], "little") == 0x6384BA69


@each_engine
def test_batch_hashes_are_separate_arrays(engine: Engine) -> None:
    """The halves are contiguous, native uint64 arrays: views would keep both alive."""
    for keys in (ByteKeys.of([b"a", b"b"]), IntegerKeys(np.arange(2, dtype="<u8"))):
        for half in engine.hash_keys(keys, SIPHASH):
            assert half.flags.c_contiguous
            assert half.dtype == np.uint64
            assert half.shape == (2,)


@each_engine
@pytest.mark.parametrize("key_hash", [SIPHASH, KeyHash("murmur3", 7)])
def test_keys_that_are_hashed(engine: Engine, key_hash: KeyHash, seed: int) -> None:
    """Hashes as a form of keys are their own hashes, whichever is asked for; no bytes are known."""
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, 9), np.uint64)
    part = HashedKeys(h1, h2)[2:5]
    assert [half.tolist() for half in engine.hash_keys(part, key_hash)] == [
        h1[2:5].tolist(),
        h2[2:5].tolist(),
    ]
    with pytest.raises(ValueError, match="only the hashes"):
        reference.bytes_of(part)
