"""Batches of every form for hypothesis, in all the ways in which their memory may lie."""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from forms import octets_of
from hypothesis import strategies as st

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    TextKeys,
    ViewKeys,
)
from mmbloom.sizing.params import KeyHash

_SEEDS = st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 8, 2**31, 2**32 - 1]))
_SECRETS = st.one_of(st.integers(0, 2**128 - 1), st.sampled_from([0, 1, 2**64, 2**128 - 1]))
KEY_HASHES = st.one_of(
    st.builds(KeyHash, st.just("murmur3"), _SEEDS), st.builds(KeyHash, st.just("siphash"), _SECRETS)
)
# Around the blocks of 16 bytes and the tails of 8 every length matters.
KEY = st.integers(0, 70).flatmap(lambda size: st.binary(min_size=size, max_size=size))
KEYS = st.lists(KEY, max_size=20)
# One for each width in which CPython keeps a str: ASCII, 1, 2 and 4 bytes a code point.
_ALPHABETS = [
    "ab\0\x7f",
    "a\x80é\xff",
    "a\u07ffΩ\u0800\ud7ff\ue000\uffff",
    "aé日\U00010000🌸\U0010ffff",
]
TEXT = st.sampled_from(_ALPHABETS).flatmap(lambda chars: st.text(chars, max_size=40)) | st.text()
STEPS = st.sampled_from([1, 2, 3, -1, -2])
INTEGER_DTYPES = [order + kind + width for kind in "iu" for width in "1248" for order in "<>"]


def misaligned(array: npt.NDArray[Any], offset: int) -> npt.NDArray[Any]:
    """The same array, contiguous, at an address that is `offset` bytes off a word's.

    It ends where its memory ends, so that the sanitizers see any read beyond.
    """
    space = np.zeros(offset + array.nbytes, dtype=np.uint8)
    found: npt.NDArray[Any] = space[offset:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


@st.composite
def strided(draw: st.DrawFn, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as it is, at an odd address, or as every n-th item of another, maybe backwards."""
    if draw(st.booleans()):
        array = misaligned(array, draw(st.integers(0, 15)))
    if draw(st.booleans()):
        array.setflags(write=False)
    return array[:: draw(STEPS)]


@st.composite
def byte_keys(draw: st.DrawFn) -> ByteKeys:
    return ByteKeys.of(draw(st.lists(KEY | TEXT, max_size=20)))


@st.composite
def integer_keys(draw: st.DrawFn) -> IntegerKeys:
    dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from(INTEGER_DTYPES)))
    limits = np.iinfo(dtype)
    edges = st.sampled_from([int(limits.min), 0, 1, 100, int(limits.max)])
    numbers = draw(st.lists(st.integers(int(limits.min), int(limits.max)) | edges, max_size=20))
    return IntegerKeys(draw(strided(np.array(numbers, dtype=dtype))))


@st.composite
def row_keys(draw: st.DrawFn) -> RowKeys:
    width, n = draw(st.integers(1, 40)), draw(st.integers(0, 8))
    octets = draw(st.binary(min_size=n * width, max_size=n * width))
    rows = draw(strided(octets_of(octets).reshape(n, width).copy()))
    return RowKeys(rows[:, :: draw(STEPS)], padded=False)


@st.composite
def fixed_keys(draw: st.DrawFn) -> RowKeys:
    """What becomes of a numpy S array: trailing NULs are padding, others are not."""
    keys = draw(st.lists(st.lists(st.sampled_from(b"ab\0\0"), max_size=40).map(bytes), max_size=9))
    width = max([1, *map(len, keys)]) + draw(st.integers(0, 9))
    array = draw(strided(np.array(keys, dtype=f"S{width}")))
    return RowKeys(array[:, np.newaxis].view(np.uint8), padded=True)


@st.composite
def text_keys(draw: st.DrawFn) -> TextKeys:
    texts = draw(st.lists(TEXT, min_size=1, max_size=12))
    width = max([1, *map(len, texts)]) + draw(st.integers(0, 3))
    array = np.array(texts, dtype=f"{draw(st.sampled_from('<>'))}U{width}")
    return TextKeys(draw(strided(array)))


@st.composite
def packed_keys(draw: st.DrawFn) -> PackedKeys:
    """Spans anywhere in a buffer: they may overlap, repeat, and be in any order."""
    octets = octets_of(b"x" * draw(st.integers(0, 7)) + b"".join(draw(KEYS)))
    octets = octets[draw(st.integers(0, 7)) :]
    place = st.integers(0, len(octets))
    spans = draw(st.lists(st.tuples(place, place).map(sorted), max_size=20))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    both = misaligned(np.array(spans, dtype=dtype).reshape(-1, 2), draw(st.sampled_from([0, 1, 8])))
    return PackedKeys(octets, both[:, 0], both[:, 1])


@st.composite
def offset_keys(draw: st.DrawFn) -> PackedKeys:
    """Offsets as Arrow has them: the end of a key is the start of the next."""
    keys = draw(KEYS)
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    offsets = np.cumsum([0, *map(len, keys)]).astype(dtype)
    return PackedKeys(octets_of(b"".join(keys)), offsets[:-1], offsets[1:])


def views_of(keys: list[bytes], buffers: int) -> ViewKeys:
    """The keys as Arrow keeps views: up to 12 bytes inside, longer ones in turn in the buffers."""
    data, views = [b"rest"] * buffers, b""
    for i, key in enumerate(keys):
        if len(key) <= 12:
            views += struct.pack("<I12s", len(key), key)
        else:
            views += struct.pack("<I4sII", len(key), key[:4], i % buffers, len(data[i % buffers]))
            data[i % buffers] += key
    return ViewKeys(octets_of(views).reshape(-1, 16), [octets_of(one) for one in data])


@st.composite
def view_keys(draw: st.DrawFn) -> ViewKeys:
    near = st.integers(10, 14).flatmap(lambda size: st.binary(min_size=size, max_size=size))
    batch = views_of(draw(st.lists(KEY | near, max_size=20)), draw(st.integers(1, 4)))
    return ViewKeys(draw(strided(batch.views)), batch.buffers)


@st.composite
def dictionary_keys(draw: st.DrawFn) -> DictionaryKeys:
    values = draw(PLAIN_BATCHES.filter(len))
    indices = draw(st.lists(st.integers(0, len(values) - 1), max_size=20))
    return DictionaryKeys(values, draw(strided(np.array(indices, dtype=np.intp))))


PLAIN_BATCHES: st.SearchStrategy[KeyBatch] = st.one_of(
    byte_keys(),
    integer_keys(),
    row_keys(),
    fixed_keys(),
    text_keys(),
    packed_keys(),
    offset_keys(),
    view_keys(),
)
BATCHES: st.SearchStrategy[KeyBatch] = PLAIN_BATCHES | dictionary_keys()
FORMS: dict[str, st.SearchStrategy[KeyBatch]] = {
    "list": byte_keys(),
    "integers": integer_keys(),
    "rows": row_keys(),
    "S array": fixed_keys(),
    "U array": text_keys(),
    "spans": packed_keys(),
    "offsets": offset_keys(),
    "views": view_keys(),
    "dictionary": dictionary_keys(),
}
