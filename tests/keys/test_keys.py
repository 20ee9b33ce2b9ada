"""The border: every accepted form is the same key, every other one is refused with its place.

What a batch means is what it hashes to, so forms are compared by mmh3 of the bytes that the
format gives them.
"""

import datetime as dt
import enum
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, cast
from unittest.mock import MagicMock

import hypothesis
import numpy as np
import pytest
from forms import SIPHASH, Halves, bytes_of, hashed, int_bytes
from hypothesis import strategies as st

from mmbloom import BloomFilter, KeyEncodingError, KeyTypeError
from mmbloom._engine import hash_keys
from mmbloom._engine.key_batch import IntegerKeys, RowKeys
from mmbloom._keys.batch import Batch
from mmbloom._keys.coerce import batches, coerce, coerce_one


def meaning(keys: Any) -> Halves:
    """Hash halves of a batch in any accepted form, by the engine that serves."""
    batch = coerce(keys)
    assert batch.present is None
    found: Halves = []
    for part in batch.parts:
        h1, h2 = hash_keys(part, SIPHASH)
        assert h1.dtype == h2.dtype == np.uint64
        found += zip(h1.tolist(), h2.tolist(), strict=True)
        assert found[len(found) - len(part) :] == hashed(bytes_of(part), SIPHASH)
    assert len(found) == batch.num_keys
    return found


def halves(keys: Iterable[bytes]) -> Halves:
    """Hash halves of the bytes that keys are."""
    return hashed(keys, SIPHASH)


class Colour(enum.IntEnum):
    """An int by descent that is a key like any other int."""

    RED = 7


BYTES = [b"a", b"", b"\x00\xff", "é".encode(), b"12345678"]


@pytest.mark.parametrize(
    "keys",
    [
        BYTES,
        tuple(BYTES),
        [bytearray(key) for key in BYTES],
        [memoryview(key) for key in BYTES],
        ["a", b"", bytearray(b"\x00\xff"), "é", memoryview(b"12345678")],
        [np.bytes_(b"a"), b"", b"\x00\xff", np.str_("é"), "12345678"],
        dict.fromkeys(BYTES),
        dict.fromkeys(BYTES).keys(),
        dict(enumerate(BYTES)).values(),
        OrderedDict.fromkeys(BYTES),
        np.array(BYTES, dtype="S8"),
        np.array(BYTES, dtype="S20"),
    ],
    ids=lambda keys: f"{type(keys).__name__} of {type(next(iter(keys))).__name__}",
)
def test_forms_of_bytes(keys: Any) -> None:
    """bytes, str and all that holds bytes, in any container, are the same keys."""
    assert meaning(keys) == halves(BYTES)


def test_iterators_and_sets() -> None:
    """Generators, iterators and sets are batches, in the order they yield."""
    assert meaning(key for key in BYTES) == halves(BYTES)
    assert meaning(map(bytes.upper, [b"a", b"b"])) == halves([b"A", b"B"])
    assert sorted(meaning(set(BYTES))) == sorted(halves(BYTES))
    assert meaning(range(-2, 3)) == halves(map(int_bytes, range(-2, 3)))


def test_memoryview_of_any_shape() -> None:
    view = memoryview(b"abcdef")
    assert meaning([view[::2], view[::-1], view[2:4]]) == halves([b"ace", b"fedcba", b"cd"])


@hypothesis.given(st.lists(st.one_of(st.binary(), st.text(), st.integers(-(2**63), 2**64 - 1))))
def test_mixed_batch(keys: list[bytes | str | int]) -> None:
    """A mixed batch is each key's bytes: str as UTF-8, int as 8 bytes; one at a time too."""
    expected = [
        key if isinstance(key, bytes) else key.encode() if isinstance(key, str) else int_bytes(key)
        for key in keys
    ]
    assert meaning(keys) == halves(expected)
    assert [coerce_one(key) for key in keys] == expected


def test_same_key_across_forms() -> None:
    """ "a" is b"a", 5 is 5 in any dtype, and -1 is 2**64 - 1."""
    five = [5, np.int8(5), np.uint64(5), np.int64(5), np.uint16(5), int_bytes(5)]
    assert len(set(meaning(five))) == 1
    assert {coerce_one(cast("int", key)) for key in five} == {b"\x05\0\0\0\0\0\0\0"}
    minus = [-1, 2**64 - 1, np.int8(-1), np.uint64(2**64 - 1), b"\xff" * 8]
    assert len(set(meaning(minus))) == 1
    assert coerce_one(Colour.RED) == coerce_one(7)
    assert meaning([Colour.RED]) == halves([int_bytes(7)])
    assert coerce_one(np.str_("é")) == coerce_one(np.bytes_("é".encode())) == "é".encode()


class Lies(str):
    """A text that says it encodes to something else."""

    said: Any = None

    def encode(self, *_: object) -> Any:
        return self.said

    def __str__(self) -> str:
        return "lies"


class LyingBytes(bytes):
    """Bytes that say they are others."""

    def __bytes__(self) -> bytes:
        return b"lies"

    def __iter__(self) -> Any:
        return iter(b"lies")


class LyingNumber(int):
    """A number that says it is another."""

    def __int__(self) -> int:
        return 7

    def __index__(self) -> int:
        return 7

    def to_bytes(self, *_: object, **_options: object) -> Any:
        return None


@pytest.mark.parametrize("said", [None, 5, "text", [], b"lies", bytearray(b"lies"), LyingBytes()])
def test_a_key_that_lies_is_what_it_holds(path: str, said: Any) -> None:
    """Whatever the methods of a subclass say: nothing but the bytes that it holds is hashed."""
    text = Lies("é")
    text.said = said
    lies: list[Any] = [text, LyingBytes(b"truth"), LyingNumber(5)]
    truth = ["é".encode(), b"truth", int_bytes(5)]
    assert meaning(lies) == halves(truth)
    assert [coerce_one(key) for key in lies] == truth
    assert {type(coerce_one(key)) for key in lies} == {bytes}
    with BloomFilter.create(path, 1000, 1e-9) as seen:
        assert [seen.add(key) for key in lies] == [True] * 3
        assert seen.contains_many(truth).all()
        assert all(key in seen for key in lies)
        assert not seen.contains_many([b"lies", b"", "text", 7]).any()


@pytest.mark.parametrize("spec", [str, bytes, bytearray, memoryview, int, np.int64])
def test_a_mock_is_no_key(path: str, spec: type) -> None:
    """It gives itself out for what it stands for, and holds nothing."""
    mock: Any = MagicMock(spec=spec)
    assert issubclass(mock.__class__, spec)
    with BloomFilter.create(path, 1000) as seen:
        calls: list[Callable[[], object]] = [
            lambda: seen.add(mock),
            lambda: mock in seen,
            lambda: seen.add_many([mock]),
        ]
        for call in calls:
            with pytest.raises(KeyTypeError, match="MagicMock cannot be a key"):
                call()
        assert seen.approx_count == 0


DTYPES = [order + kind + width for kind in "iu" for width in "1248" for order in "<>"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_integer_arrays(dtype: str) -> None:
    """Integer arrays of all widths and byte orders, any stride, read-only, are their ints."""
    limits = np.iinfo(dtype)
    numbers = [int(limits.min), 0, 1, 5, 100, int(limits.max)]
    array = np.array(numbers, dtype=dtype)
    assert meaning(array) == halves(map(int_bytes, numbers))
    assert meaning(array[::-1]) == halves(map(int_bytes, numbers[::-1]))
    assert meaning(array[1::2]) == halves(map(int_bytes, numbers[1::2]))
    assert meaning(np.stack([array, array])[:, 2]) == halves(map(int_bytes, [1, 1]))
    assert meaning(list(array)) == meaning(array)  # numpy scalars
    array.setflags(write=False)
    before = array.tobytes()
    assert meaning(array) == halves(map(int_bytes, numbers))
    assert array.tobytes() == before


def test_no_copy_where_none_is_needed() -> None:
    """A contiguous 64-bit array is not copied on its way to the engine."""
    for dtype in ("<i8", "<u8"):
        array = np.arange(10, dtype=dtype)
        (batch,) = coerce(array).parts
        assert isinstance(batch, IntegerKeys)
        assert np.shares_memory(batch.items, array)


@pytest.mark.parametrize("step", [1, 4, -4])
def test_rows_that_overlap(step: int) -> None:
    """Rows of uint8 may share memory, as n-grams of token ids do: each is its bytes, uncopied."""
    octets = np.arange(400, dtype="<u4").view(np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(octets, 52)[::step]
    (batch,) = coerce(rows).parts
    assert isinstance(batch, RowKeys)
    assert np.shares_memory(batch.rows, octets)
    raw = octets.tobytes()
    begins = range(len(raw) - 51)[::step]
    assert meaning(rows) == halves(raw[begin : begin + 52] for begin in begins)


@pytest.mark.parametrize("dtype", ["S3", ">U3", "<U3"])
@pytest.mark.parametrize("part", [slice(None), slice(None, None, 2), slice(None, None, -3)])
def test_string_arrays(dtype: str, part: slice) -> None:
    """S and U arrays of any stride and byte order are their items; trailing NULs are padding."""
    texts = ["", "a", "ab", "abc", "a\0b", "x"]
    array = np.array(texts, dtype=dtype)[part]
    assert meaning(array) == halves(text.encode() for text in texts[part])


def test_unicode_array_beyond_ascii() -> None:
    """U items are the UTF-8 of the string, also outside the basic plane."""
    texts = ["é", "日本", "🌸"]
    assert meaning(np.array(texts)) == halves(text.encode() for text in texts)


def test_empty_batches() -> None:
    """Nothing is a batch of no keys, and the empty key is a key."""
    nothing: list[Any] = [[], (), {}, iter(()), np.array([], dtype="<i8"), np.array([], dtype="S")]
    for keys in nothing:
        assert coerce(keys).num_keys == 0
        assert meaning(keys) == []
    assert meaning([""]) == meaning([b""]) == halves([b""])


WRONG_KEYS: list[tuple[Any, str]] = [
    (True, "bool cannot be a key"),
    (np.bool_(True), "bool(_)? cannot be a key"),
    (1.0, "float cannot be a key"),
    (np.float64(1), "float64 cannot be a key"),
    (np.timedelta64(5, "s"), "timedelta64 cannot be a key"),
    (np.datetime64(5, "s"), "datetime64 cannot be a key"),
    (dt.date(2026, 1, 1), "date cannot be a key"),
    (("a", ("b",)), "a tuple within a tuple cannot be a key"),
    (("a", None), "None within a tuple cannot be a key"),
    (("a", 1.0), "float within a tuple cannot be a key"),
    (("a", float("nan")), "float within a tuple cannot be a key"),
    (("a", True), "bool within a tuple cannot be a key"),
    (("a", ["b"]), "list within a tuple cannot be a key"),
    (("a", 2**64), "int 18446744073709551616 does not fit int64 or uint64"),
    (("a", "\ud800"), "a str with a lone surrogate"),
    (np.array([1]), "ndarray cannot be a key"),
    (2**64, "int 18446744073709551616 does not fit int64 or uint64"),
    (-(2**63) - 1, "int -9223372036854775809 does not fit int64 or uint64"),
    # Python refuses to write an int of thousands of digits: it is named by its bits.
    (-(10**5000), "an int of 16610 bits does not fit int64 or uint64"),
    ("\ud800", "a str with a lone surrogate"),
    ("a\udfffb", "a str with a lone surrogate"),
    (np.str_("\udc80"), "a str with a lone surrogate"),
]


@pytest.mark.parametrize(("key", "message"), WRONG_KEYS, ids=[said for _, said in WRONG_KEYS])
def test_wrong_key_is_named_with_its_position(key: Any, message: str) -> None:
    """Text without UTF-8 is a KeyEncodingError, anything else a KeyTypeError."""
    error: Any = KeyEncodingError if "lone surrogate" in message else KeyTypeError
    with pytest.raises(error, match=f"^{message}") as alone:
        coerce_one(key)
    assert alone.value.position is None
    assert error is KeyEncodingError or "; a key is bytes, str, an int" in str(alone.value)
    ways: list[Any] = ["error", "skip"]
    for fill, place, nulls in itertools.product((b"a", "a", 5, 2**63), (0, 3), ways):
        keys: list[Any] = [fill] * 5
        keys[place] = key
        with pytest.raises(error, match=f"^key at position {place}: {message}") as caught:
            coerce(keys, nulls)
        assert caught.value.position == place
    if isinstance(key, str):
        with pytest.raises(error) as caught:
            coerce(np.array(["a", key]))
        assert caught.value.position == 1


def test_halves_of_a_pair_in_two_keys() -> None:
    """A surrogate pair split over two keys is not a character: the first half is refused."""
    with pytest.raises(KeyEncodingError) as caught:
        coerce(["a", "\ud83c", "\udf38"])
    assert caught.value.position == 1


@pytest.mark.parametrize("wrong", [1.5, "\ud800", 2**64])
@pytest.mark.parametrize("place", [16_383, 16_384, 40_000])
def test_position_beyond_a_chunk(wrong: Any, place: int) -> None:
    """Positions count from the start of the batch, past the first 16,384 keys too."""
    for rest in (["a", "b"], ["a", None]):  # checked piece by piece, and one by one
        keys: list[Any] = ["a"] * place + [wrong, *rest]
        with pytest.raises((KeyTypeError, KeyEncodingError), match=f"^key at position {place}: "):
            coerce(keys)


@pytest.mark.parametrize("take", [coerce, lambda keys: list(batches(keys))], ids=["all", "pieces"])
@pytest.mark.parametrize("single", ["abc", b"abc", bytearray(b"a"), memoryview(b"a"), 5, None])
def test_single_key_instead_of_batch(take: Callable[[Any], object], single: Any) -> None:
    """A lone key where a batch belongs is refused, not taken for its letters."""
    with pytest.raises(KeyTypeError, match=f"a batch was expected, got .*{type(single).__name__}"):
        take(single)


def test_batches_are_bounded_and_complete() -> None:
    """An iterator is taken 16,384 keys at a time, in order, and no further than asked."""
    taken = []

    def numbers() -> Iterable[int]:
        for number in range(40_000):
            taken.append(number)
            yield number

    pieces = batches(numbers())
    first = next(pieces)
    assert (first.num_keys, len(taken)) == (16_384, 16_384)
    rest = list(pieces)
    assert [piece.num_keys for piece in rest] == [16_384, 40_000 - 2 * 16_384]
    keys = [key for piece in (first, *rest) for part in piece.parts for key in bytes_of(part)]
    assert keys == [int_bytes(number) for number in range(40_000)]


def test_batches_count_positions_in_the_whole() -> None:
    """A wrong key deep in a generator is named by its place in all that was yielded."""
    keys: list[Any] = ["a"] * 20_000 + [1.5]
    pieces = batches(key for key in keys)
    assert next(pieces).num_keys == 16_384
    with pytest.raises(KeyTypeError) as caught:
        next(pieces)
    assert caught.value.position == 20_000


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        *(([], []), ([0], []), ([1], [1]), ([10], [10])),
        *(([11], [6, 5]), ([20], [10, 10]), ([21, 0, 3], [7, 7, 7, 3])),
    ],
)
def test_chunks_of_a_part_have_one_size(sizes: list[int], expected: list[int]) -> None:
    """None is larger than asked for, and the last is not much smaller than the others."""
    parts = [IntegerKeys(np.arange(size)) for size in sizes]
    chunks: list[Any] = [*Batch([*parts], sum(sizes)).cut(10)]
    assert [*map(len, chunks)] == expected
    given, cut = ([key for part in each for key in part.items.tolist()] for each in (parts, chunks))
    assert cut == given
