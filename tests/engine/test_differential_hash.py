"""Both engines hash every form of batch as others do, however its memory lies.

The others are mmh3, and the independent SipHash of the reference.
"""

import os
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
    BUILT,
    ENGINES,
    NUMPY,
    OF_EACH_KIND,
    Engine,
    each_hash,
    every_engine,
    needs_compiled,
)

import mmbloom
from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    TextKeys,
)
from mmbloom.sizing.params import KeyHash


def test_the_engine_that_is_asked_for_is_tested() -> None:
    """Where the environment asks for the compiled engine, nothing of it is skipped."""
    if os.environ.get("MMBLOOM_ENGINE") == "compiled":
        assert BUILT
    assert mmbloom.engine in [engine.name for engine in ENGINES]
    served = next(engine for engine in ENGINES if engine.name == mmbloom.engine)
    assert mmbloom._engine.hash_keys is served.hash_keys
    assert mmbloom._engine.find_lines is served.find_lines
    assert mmbloom._engine.OneKey is served.OneKey


def halves(engine: Engine, batch: KeyBatch, key_hash: KeyHash) -> list[tuple[int, int]]:
    """Hash halves as ints; they are arrays of their own."""
    h1, h2 = engine.hash_keys(batch, key_hash)
    for half in (h1, h2):
        assert half.dtype == np.uint64
        assert half.shape == (len(batch),)
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
@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 150])
@pytest.mark.parametrize("longest", [40, 90, 700])
def test_keys_in_groups(longest: int, n: int, seed: int) -> None:
    """Long keys, which are taken in several at once, of any lengths beside each other."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(longest // 2, longest, n)
    lengths[::11], lengths[5::13], lengths[7::29] = 0, 2 * longest, longest // 2 + 8
    for batch in in_forms([chance.bytes(int(length)) for length in lengths]):
        expected = hashed(bytes_of(batch), SIPHASH)
        for engine in OF_EACH_KIND:
            assert halves(engine, batch, SIPHASH) == expected, (engine, type(batch))


@pytest.mark.parametrize("form", FORMS)
@hypothesis.given(st.data())
def test_each_form(form: str, data: st.DataObject) -> None:
    """A batch of any form is the hash of its keys' bytes, by both engines, for every seed."""
    batch, key_hash = data.draw(FORMS[form]), data.draw(KEY_HASHES)
    expected = hashed(bytes_of(batch), key_hash)
    for engine in ALL_ENGINES:
        assert halves(engine, batch, key_hash) == expected, engine


@hypothesis.given(BATCHES, KEY_HASHES, st.data())
def test_parts_of_a_batch(batch: KeyBatch, key_hash: KeyHash, data: st.DataObject) -> None:
    """A slice or a choice of a batch hashes as those keys of it."""
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
def test_views_around_twelve_bytes(engine: Engine, key_hash: KeyHash) -> None:
    """Views of up to 12 bytes hold their key, longer ones point to it, in any of the buffers."""
    keys = [bytes(range(65, 65 + size)) for size in range(40)] * 3
    for buffers in (1, 2, 5):
        assert halves(engine, views_of(keys, buffers), key_hash) == hashed(keys, key_hash)


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


@every_engine
@each_hash
@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 4)])
def test_rows_of_nothing(engine: Engine, key_hash: KeyHash, shape: tuple[int, int]) -> None:
    """Rows of no width are empty keys; no rows are no keys."""
    for padded in (False, True):
        rows = RowKeys(np.zeros(shape, dtype=np.uint8), padded)
        assert halves(engine, rows, key_hash) == hashed([b""] * shape[0], key_hash)


@every_engine
def test_long_keys(engine: Engine) -> None:
    """A key of megabytes, ASCII or not, is one key."""
    keys: list[bytes | str] = ["é🌸" * 1_000_000, b"x" * 3_000_001, "日" * 999_999, "y" * 10**6]
    batch = ByteKeys.of(keys)
    assert halves(engine, batch, MURMUR3) == hashed(bytes_of(batch), MURMUR3)
    # Of SipHash both the reference and the numpy engine take a second a megabyte.
    batch = ByteKeys.of(["é🌸" * 20_000, b"x" * 60_001])
    assert halves(engine, batch, SIPHASH) == hashed(bytes_of(batch), SIPHASH)


class Text(str):
    """A str by descent."""

    __slots__ = ()


PLAIN: list[tuple[Any, bool]] = [
    (b"a", True),
    ("a", True),
    ("é日🌸", True),
    ("a\ud800", False),
    ("\udfff", False),
    (1, False),
    (None, False),
    (bytearray(b"a"), False),
    (np.bytes_(b"a"), False),
    (Text("a"), False),
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
    """Both engines take the same lists as they are."""
    for some in (items, [*items, 5], ["\ud83c", "\udf38", *items]):
        assert {engine.plain(some) for engine in OF_EACH_KIND} == {NUMPY.plain(some)}


@every_engine
def test_nothing_is_kept_or_changed(engine: Engine) -> None:
    """Hashing leaves its batch as it was, and no reference to a key behind."""
    key, array = b"a key of its own" * 2, np.arange(5, dtype=">i4")
    before, text = sys.getrefcount(key), np.array(["a", "é"])
    for _ in range(3):
        engine.hash_keys(ByteKeys.of([key]), SIPHASH)
        engine.hash_keys(IntegerKeys(array), SIPHASH)
        engine.hash_keys(TextKeys(text), SIPHASH)
    assert sys.getrefcount(key) == before
    assert (array == np.arange(5)).all()
    assert text.tolist() == ["a", "é"]


@hypothesis.given(st.lists(TEXT | st.text(st.characters(), max_size=5), min_size=1), st.data())
def test_first_text_without_utf_8(texts: list[str], data: st.DataObject) -> None:
    """The first item of a U array with a lone surrogate is named, or that there is none."""
    dtype = f"{data.draw(st.sampled_from('<>'))}U{max(1, *map(len, texts))}"
    array = np.array(texts, dtype=dtype)[:: data.draw(st.sampled_from([1, 2, -1]))]
    wrong = [i for i, text in enumerate(array) if any(0xD800 <= ord(c) <= 0xDFFF for c in text)]
    for engine in ALL_ENGINES:
        assert engine.first_unencodable(array) == (wrong[0] if wrong else -1), engine


@hypothesis.given(
    st.lists(st.sampled_from(["a", "\ud800", "\udfff"]), min_size=1), st.integers(0, 1), st.data()
)
def test_first_of_several_texts_without_utf_8(
    texts: list[str], far: int, data: st.DataObject
) -> None:
    """Of several items with a lone surrogate the first is named, however far from the start."""
    dtype = data.draw(st.sampled_from(["<U1", ">U1"]))
    array = np.array(["a"] * (17_000 * far) + texts, dtype=dtype)
    wrong = [i for i, text in enumerate(texts) if text != "a"]
    expected = 17_000 * far + wrong[0] if wrong else -1
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
