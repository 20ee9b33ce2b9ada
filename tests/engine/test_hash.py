"""Both engines hash every form of batch as others do, however its memory lies.

The others are mmh3, an independent SipHash in plain Python, published digests of SipHash-2-4 with
128 bits (which the same code gives with other rounds), and Python's own hash of bytes, which is
SipHash-1-3 with 64 bits under a key that `PYTHONHASHSEED` decides.
"""

import json
import os
import subprocess
import sys
from typing import Any

import hypothesis
import numpy as np
import pytest
from batches import BATCHES, FORMS, KEY, KEY_HASHES, TEXT, misaligned, views_of
from forms import MURMUR3, SIPHASH, bytes_of, hashed, octets_of
from hypothesis import strategies as st
from kernels import (
    ALL_ENGINES,
    NUMPY,
    OF_EACH_KIND,
    Engine,
    each_engine,
    each_hash,
    every_engine,
    needs_compiled,
)
from reference import siphash

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    HashedKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    TextKeys,
)
from mmbloom._engine.reference import hash as reference
from mmbloom._engine.reference.hash import hash_one
from mmbloom.sizing.params import KeyHash


def halves(engine: Engine, batch: KeyBatch, key_hash: KeyHash) -> list[tuple[int, int]]:
    """Hash halves as ints; they are arrays of their own."""
    h1, h2 = engine.hash_keys(batch, key_hash)
    for half in (h1, h2):
        assert half.dtype == np.uint64
        assert half.shape == (len(batch),)
        assert half.flags.c_contiguous
    assert not np.shares_memory(h1, h2) or not len(h1)
    return list(zip(h1.tolist(), h2.tolist(), strict=True))


def in_forms(keys: list[bytes]) -> list[KeyBatch]:
    """Give keys in the forms in which long ones are hashed in groups, and a form of text."""
    octets = octets_of(b"".join(keys))
    ends = np.cumsum([len(key) for key in keys])
    starts = ends - [len(key) for key in keys]
    narrow = starts.astype(np.int32), ends.astype(np.int32)
    texts: list[bytes | str] = [key.decode("latin-1") for key in keys]
    return [
        ByteKeys.of([*keys]),
        PackedKeys(octets, starts, ends),
        PackedKeys(octets, *narrow),
        PackedKeys(octets, starts.repeat(2)[::2], ends.repeat(2)[::2]),
        ByteKeys.of(texts),
    ]


@needs_compiled
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 300])
@pytest.mark.parametrize("longest", [40, 90, 700])
def test_keys_in_groups(longest: int, n: int, seed: int) -> None:
    """Long keys, which are taken in several at once, of any lengths beside each other."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(longest // 2, longest, n)
    lengths[::11], lengths[5::13], lengths[7::29] = 0, 2 * longest, longest // 2 + 8
    lengths[n // 2] = 5000
    batches = in_forms([chance.bytes(int(length)) for length in lengths])
    for batch in (*batches, IntegerKeys(chance.integers(-(2**63), 2**63 - 1, n))):
        expected = hashed(bytes_of(batch), SIPHASH)
        for engine in ALL_ENGINES if longest == 40 else OF_EACH_KIND:
            assert halves(engine, batch, SIPHASH) == expected, (engine, type(batch))


@pytest.mark.parametrize("form", FORMS)
@hypothesis.given(st.data())
def test_each_form(form: str, data: st.DataObject) -> None:
    """A batch of any form is the hash of its keys' bytes, by both engines, for every seed."""
    batch, key_hash = data.draw(FORMS[form]), data.draw(KEY_HASHES)
    expected = hashed(bytes_of(batch), key_hash)
    assert [hash_one(key, key_hash) for key in bytes_of(batch)] == expected
    for engine in ALL_ENGINES:
        assert halves(engine, batch, key_hash) == expected, engine


@hypothesis.given(BATCHES, KEY_HASHES, st.data())
def test_parts_of_a_batch(batch: KeyBatch, key_hash: KeyHash, data: st.DataObject) -> None:
    whole = hashed(bytes_of(batch), key_hash)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(batch))] * 2)))
    chosen = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    some = [pair for pair, wanted in zip(whole, chosen, strict=True) if wanted]
    for engine in ALL_ENGINES:
        assert halves(engine, batch[start:stop], key_hash) == whole[start:stop]
        assert halves(engine, batch[np.array(chosen, dtype=np.bool_)], key_hash) == some


@every_engine
@each_hash
def test_every_length_at_every_address(engine: Engine, key_hash: KeyHash) -> None:
    """Keys of 0 to 70 bytes are hashed right from any address, and nothing beyond them matters."""
    data = bytes(range(1, 100))
    for offset in range(17):
        for beyond in (b"\0", b"\xff"):
            octets = misaligned(octets_of(data[:70] + beyond * 40), offset)
            ends = np.arange(71)
            batch = PackedKeys(octets, np.zeros(71, dtype=np.int64), ends)
            assert halves(engine, batch, key_hash) == hashed((data[:end] for end in ends), key_hash)


@every_engine
@each_hash
def test_offsets_of_more_than_32_bits(engine: Engine, key_hash: KeyHash) -> None:
    """Offsets of 64 bits may be of any integer type that holds them; 2^31 is no edge."""
    octets = octets_of(b"abcdef")
    for dtype in ("i4", ">i4", "i8", ">i8", "u4", "u8", "i2"):
        starts, ends = np.array([0, 2], dtype=dtype), np.array([2, 6], dtype=dtype)
        batch = PackedKeys(octets, starts, ends)
        assert halves(engine, batch, key_hash) == hashed([b"ab", b"cdef"], key_hash)
    mixed = PackedKeys(octets, np.array([0], dtype=np.int32), np.array([2], dtype=np.int64))
    assert halves(engine, mixed, key_hash) == hashed([b"ab"], key_hash)


@every_engine
def test_dictionary_keeps_hashes_by_hash(engine: Engine) -> None:
    """The values of a dictionary are hashed once for each hash and seed, and shared."""
    batch = DictionaryKeys(ByteKeys.of([b"a", "é"]), np.array([1, 0, 1, 1]))
    other = KeyHash("siphash", MURMUR3.seed)
    for key_hash in (SIPHASH, MURMUR3, other, SIPHASH):
        expected = hashed([b"a", "é".encode(), "é".encode()], key_hash)
        assert halves(engine, batch[1:], key_hash) == expected
    assert set(batch.hashes) == {SIPHASH, MURMUR3, other}


VIEWED = [bytes(range(65, 65 + size)) for size in range(40)] * 3
CASES: list[tuple[KeyBatch, list[bytes]]] = [
    # Views of up to 12 bytes hold their key, longer ones point to it, in any of the buffers.
    *((views_of(VIEWED, buffers), VIEWED) for buffers in (1, 2, 5)),
    # Rows of no width are empty keys; no rows are no keys.
    *(
        (RowKeys(np.zeros(shape, dtype=np.uint8), padded), [b""] * shape[0])
        for shape in ((0, 0), (3, 0), (0, 4))
        for padded in (False, True)
    ),
]


@every_engine
@each_hash
@pytest.mark.parametrize(("batch", "keys"), CASES)
def test_batches_by_hand(
    engine: Engine, key_hash: KeyHash, batch: KeyBatch, keys: list[bytes]
) -> None:
    assert halves(engine, batch, key_hash) == hashed(keys, key_hash)


@every_engine
def test_long_keys(engine: Engine) -> None:
    keys: list[bytes | str] = ["é🌸" * 1_000_000, b"x" * 3_000_001, "日" * 999_999, "y" * 10**6]
    batch = ByteKeys.of(keys)
    assert halves(engine, batch, MURMUR3) == hashed(bytes_of(batch), MURMUR3)
    # Of SipHash both the reference and the numpy engine take a second a megabyte.
    batch = ByteKeys.of(["é🌸" * 20_000, b"x" * 60_001])
    assert halves(engine, batch, SIPHASH) == hashed(bytes_of(batch), SIPHASH)


class Text(str):
    __slots__ = ()


PLAIN: list[tuple[Any, bool]] = [
    *((item, True) for item in (b"a", "a", "é日🌸")),
    *((item, False) for item in ("a\ud800", "\udfff", 1, None)),
    *((item, False) for item in (bytearray(b"a"), np.bytes_(b"a"), Text("a"))),
]


@every_engine
@pytest.mark.parametrize(("item", "expected"), PLAIN, ids=repr)
def test_plain(engine: Engine, item: Any, expected: bool) -> None:
    """Plain are exact bytes, and exact str that encode, wherever in the list the others are."""
    assert engine.plain([]) is True
    for before in (0, 1, 20, 16_384):
        for after in (0, 20):
            fill: list[Any] = [b"a", "é"] * before
            assert engine.plain([*fill, item, *fill[:after]]) is expected


@needs_compiled
@hypothesis.given(st.lists(KEY | TEXT | st.text(st.characters()), max_size=30))
def test_plain_is_the_same_in_both(items: list[Any]) -> None:
    for some in (items, [*items, 5], ["\ud83c", "\udf38", *items]):
        assert {engine.plain(some) for engine in OF_EACH_KIND} == {NUMPY.plain(some)}


@every_engine
def test_nothing_is_kept_or_changed(engine: Engine) -> None:
    key, array = b"a key of its own" * 2, np.arange(5, dtype=">i4")
    before, text = sys.getrefcount(key), np.array(["a", "é"])
    for _ in range(3):
        engine.hash_keys(ByteKeys.of([key]), SIPHASH)
        engine.hash_keys(IntegerKeys(array), SIPHASH)
        engine.hash_keys(TextKeys(text), SIPHASH)
    assert sys.getrefcount(key) == before
    assert (array == np.arange(5)).all()
    assert text.tolist() == ["a", "é"]


@hypothesis.given(
    st.lists(TEXT | st.text(st.characters(), max_size=5) | st.sampled_from("a\ud800"), min_size=1),
    st.sampled_from([0, 17_000]),
    st.data(),
)
def test_first_text_without_utf_8(texts: list[str], far: int, data: st.DataObject) -> None:
    """The first item of a U array with a lone surrogate is named, however far from the start."""
    dtype = f"{data.draw(st.sampled_from('<>'))}U{max(1, *map(len, texts))}"
    array = np.array(["a"] * far + texts, dtype=dtype)[:: data.draw(st.sampled_from([1, 2, -1]))]
    wrong = (i for i, text in enumerate(array) if any(0xD800 <= ord(c) <= 0xDFFF for c in text))
    expected = next(wrong, -1)
    for engine in ALL_ENGINES:
        assert engine.first_unencodable(array) == expected, engine


@every_engine
@pytest.mark.parametrize("left", [0, 1, 5, 9])
@pytest.mark.parametrize("part", [slice(None), slice(3, 10), slice(9, 10)], ids=str)
def test_list_that_shrinks_in_use(engine: Engine, left: int, part: slice) -> None:
    """A list that somebody shortens after it was looked at gives no answers of another length."""
    items: list[bytes | str] = [b"%d" % i for i in range(10)]
    keys = ByteKeys(items=items, start=0, stop=10)[part]
    del items[left:]
    with pytest.raises(ValueError, match="the list of keys changed its size while in use"):
        engine.hash_keys(keys, SIPHASH)


@every_engine
@pytest.mark.parametrize("point", [0xD7FF, 0xD800, 0xDFFF, 0xE000, 0x10FFFF, 0x110000, 2**32 - 1])
def test_edges_of_unicode(engine: Engine, point: int) -> None:
    """Surrogates, and numbers beyond Unicode, have no UTF-8, wherever in the array they are."""
    wrong = 0xD800 <= point <= 0xDFFF or point > 0x10FFFF
    for place in (0, 1, 20_000):
        points = np.full((20_001, 3), 97, dtype=np.uint32)
        points[place, 2] = point
        array = points.view("U3").reshape(-1)
        assert engine.first_unencodable(array) == (place if wrong else -1)


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
    key_hash, batches = KeyHash("murmur3", seed), list[KeyBatch]([ByteKeys.of([key])])
    if len(key) == 8:
        batches.append(IntegerKeys(np.frombuffer(key, dtype="<u8")))
    assert hash_one(key, key_hash) == (h1, h2)
    for batch in batches:
        assert halves(engine, batch, key_hash) == [(h1, h2)]


@each_engine
@pytest.mark.parametrize("keys", [ByteKeys.of([]), ByteKeys.of([b"a"]), IntegerKeys(np.arange(2))])
def test_a_hash_of_another_name_is_refused(engine: Engine, keys: KeyBatch) -> None:
    third: Any = "xxh3"
    with pytest.raises(AssertionError, match="xxh3"):
        engine.hash_keys(keys, KeyHash(third, 7))
    with pytest.raises(AssertionError, match="xxh3"):
        hash_one(b"a", KeyHash(third, 7))


@each_engine
def test_smhasher_verification_value(engine: Engine) -> None:
    """The author's own check of an implementation, 0x6384BA69 for MurmurHash3_x64_128."""

    def digest(key: bytes, seed: int) -> bytes:
        ((h1, h2),) = halves(engine, ByteKeys.of([key]), KeyHash("murmur3", seed))
        assert (h1, h2) == hash_one(key, KeyHash("murmur3", seed))
        return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")

    table = b"".join(digest(bytes(range(i)), 256 - i) for i in range(256))
    assert int.from_bytes(digest(table, 0)[:4], "little") == 0x6384BA69


# Of the inputs 00, 00 01, 00 01 02 ... by length, with the key 00 01 ... 0f; from the vectors.h
# of the authors' reference code.
PUBLISHED_KEY = int.from_bytes(bytes(range(16)), "little")
PUBLISHED = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    4: "f88164c12d9c8faf7d0f6e7c7bcd5579",
    5: "1368875980776f8854527a07690e9627",
    6: "14eeca338b208613485ea0308fd7a15e",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    10: "00110dc378146956c95447d3f3d0fbba",
    11: "0151c568386b6677a2b4dc6f81e5dc18",
    12: "d626b266905ef35882634df68532c125",
    13: "9869e247e9c08b10d029934fc4b952f7",
    14: "31fcefac66d7de9c7ec7485fe4494902",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    17: "473d06e8738db89854c066c47ae47740",
    18: "a426e5e423bf4885294da481feaef723",
    19: "78017731cf65fab074d5208952512eb1",
    20: "9e25fc833f2290733e9344a5e83839eb",
    21: "568e495abe525a218a2214cd3e071d12",
    22: "4a29b54552d16b9a469c10528eff0aae",
    23: "c9d184ddd5a9f5e0cf8ce29a9abf691c",
    63: "5150d1772f50834a503e069a973fbd7c",
}


@every_engine
@pytest.mark.parametrize("length", PUBLISHED)
def test_published_digests(engine: Engine, length: int) -> None:
    """With 2 and 4 rounds each of the implementations gives the authors' digests."""
    data, digest = bytes(range(length)), bytes.fromhex(PUBLISHED[length])
    h1, h2 = engine.siphash(data, PUBLISHED_KEY, 2, 4)
    assert h1.to_bytes(8, "little") + h2.to_bytes(8, "little") == digest
    assert siphash(data, PUBLISHED_KEY, 2, 4) == int.from_bytes(digest, "little")


def key_of(seed: int) -> int:
    """The key of Python's hash: zero for seed 0, else the bytes of a linear generator."""
    state, key = seed, b""
    for _ in range(16 if seed else 0):
        state = (state * 214013 + 2531011) % 2**32
        key += bytes([state >> 16 & 255])
    return int.from_bytes(key, "little")


@pytest.mark.skipif(
    sys.hash_info.algorithm != "siphash13", reason="this Python's hash of bytes is no SipHash-1-3"
)
@pytest.mark.parametrize("seed", [0, 1, 42, 2**32 - 1])
def test_rounds_are_those_of_python(seed: int) -> None:
    """The reference with 64 bits is Python's own hash of bytes; its rounds are those of 128."""
    code = "import json; print(json.dumps([hash(bytes(range(n))) % 2**64 for n in range(256)]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    by_python = json.loads(done.stdout)
    key = key_of(seed)
    by_reference = [siphash(bytes(range(length)), key, bits=64) for length in range(256)]
    assert by_python[1:] == by_reference[1:]  # that of no bytes is 0, by rule


@every_engine
@pytest.mark.parametrize("key", [0, 7, 2**64, SIPHASH.seed, 2**128 - 1])
def test_one_key_is_the_reference(engine: Engine, key: int) -> None:
    for length in (*range(70), 255, 256, 1000):
        data = bytes(i * 7 % 256 for i in range(length))
        halves = engine.siphash(data, key)
        assert halves[0] | halves[1] << 64 == siphash(data, key)
        assert halves == hash_one(data, KeyHash("siphash", key))


@every_engine
def test_every_bit_of_the_key_counts(engine: Engine) -> None:
    """Keys that differ in one bit of 128 give hashes that have nothing in common."""
    found = {engine.siphash(b"some key", SIPHASH.seed ^ 1 << bit) for bit in range(128)}
    assert len({half for halves in found for half in halves}) == 256


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
