"""Arrow data that is no key, or is broken, is refused in words; null rows may hold anything."""

import ctypes
import datetime as dt
import decimal
import errno
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from arrow_made import Made, MadeStream, Release, column_of, strings

from mmbloom import KeyTypeError
from mmbloom._keys.arrow import read

INT32, INT64 = np.int32, np.int64
FAR = 20_000  # a row beyond the first slice of rows that are checked together


def view(length: int, place: int = 0, start: int = 0) -> list[int]:
    """Make a view of a string by hand."""
    return [length, 0, place, start]


def views(rows: Sequence[list[int]], *buffers: bytes, sizes: list[int] | None = None) -> Made:
    """Make a column of string views by hand."""
    ends = np.array([len(one) for one in buffers] if sizes is None else sizes, INT64)
    return Made(b"vu", len(rows), [None, np.array(rows, INT32), *buffers, ends])


def spans(offsets: Sequence[int], *, kind: bytes = b"u", octets: bytes = b"abcdef") -> Made:
    """Make a column of strings by hand, from its offsets."""
    width = INT32 if kind == b"u" else INT64
    return Made(kind, len(offsets) - 1, [None, np.array(offsets, width), octets])


def dictionary(indices: Any, *values: bytes, kind: bytes = b"i") -> Made:
    """Make a dictionary-encoded column of strings by hand."""
    return Made(kind, len(indices), [None, indices], dictionary=strings(*values))


def with_nulls(made: Made, bits: bytes, null_count: int = -1) -> Made:
    """Give a column made by hand a bitmap of what is valid."""
    made.hold(0, bits)
    made.array.null_count = null_count
    return made


def changed(made: Made, struct: str, **fields: Any) -> Made:
    """Make fields of a column's schema or array wrong."""
    for field, value in fields.items():
        setattr(getattr(made, struct), field, value)
    return made


def far_off(offset: int, bits: bytes) -> Made:
    """Make a column whose rows begin past the end of all addresses, with nulls or without."""
    made = changed(Made(b"l", 1, [None, np.zeros(1, INT64)]), "array", offset=offset)
    return with_nulls(made, bits) if bits else made


DAY = dt.date(2024, 1, 1)
NOON = dt.datetime(2024, 1, 1, 12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pa.array([True]), "bool cannot hold keys; cast it"),
        (lambda: pa.array([1.5], pa.float16()), "float16"),
        (lambda: pa.array([1.5], pa.float32()), "float32"),
        (lambda: pa.array([1.5]), "float64 cannot hold keys; cast it to integers or strings"),
        (lambda: pa.array([decimal.Decimal("1.5")]), "decimals"),
        (lambda: pa.array([DAY]), "dates"),
        (lambda: pa.array([NOON.time()]), "times of day"),
        (lambda: pa.array([NOON]), "timestamps"),
        (lambda: pa.array([NOON - NOON]), "durations"),
        (lambda: pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "intervals"),
        (lambda: pa.array([["a"]]), "of lists cannot hold keys; flatten it"),
        (lambda: pa.array([["a"]], pa.large_list(pa.string())), "large lists"),
        (lambda: pa.array([["a"]], pa.list_view(pa.string())), "list views"),
        (lambda: pa.array([["a"]], pa.large_list_view(pa.string())), "large list views"),
        (lambda: pa.array([["a"]], pa.list_(pa.string(), 1)), "fixed-size lists"),
        (lambda: pa.array([{"a": 1}]), r"a table\) cannot hold keys; pass one column"),
        (lambda: pa.record_batch({"a": [1]}), r"a table\) cannot hold keys; pass one column"),
        (lambda: pa.table({"a": [1]}), r"a table\) cannot hold keys; pass one column"),
        (
            lambda: pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            "maps cannot hold keys; pass its keys",
        ),
        (lambda: pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "unions"),
        (lambda: pa.RunEndEncodedArray.from_arrays([1], ["a"]), "run-end encoded.*decode it"),
        (lambda: pa.array([1.5]).dictionary_encode(), "float64"),
        (lambda: pa.chunked_array([], pa.float64()), "float64"),
        (lambda: Made(b"\xff", 0, []), r"format '\\\\xff'"),
        (
            lambda: Made(b"c", 0, [None, None], dictionary=dictionary(np.zeros(0, INT32))),
            "dictionary of dictionaries",
        ),
    ],
)
def test_other_types(make: Callable[[], Any], words: str) -> None:
    """What is no key is named in words, with what to pass instead."""
    with pytest.raises(KeyTypeError, match=words) as caught:
        read(make())
    assert caught.value.position is None


def test_other_types_of_other_libraries() -> None:
    """The same of polars and pandas."""
    import pandas as pd
    import polars as pl

    frames = (pl.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}))
    refused = [(frame, r"a table\) cannot hold keys; pass one column") for frame in frames]
    refused += [
        (pl.Series([1], dtype=pl.Int128), "format '_pli128'"),
        (pd.Series([1.5]), "float64"),
    ]
    for keys, words in refused:
        with pytest.raises(KeyTypeError, match=words):
            read(keys)


def test_dictionary_of_itself() -> None:
    """A schema whose dictionaries never end is not followed for ever."""
    endless = Made(b"c", 0, [None, None])
    endless.schema.dictionary = ctypes.addressof(endless.schema)
    with pytest.raises(KeyTypeError, match="dictionary of dictionaries"):
        read(endless)


def test_type_is_checked_before_data() -> None:
    stream = MadeStream([Made(b"+s", 0, [None])], codes=[errno.EIO])
    with pytest.raises(KeyTypeError, match="pass one column"):
        read(stream)
    assert stream.freed == 1


BROKEN: list[tuple[Callable[[], Made], str]] = [
    (lambda: changed(strings(b"a"), "schema", format=None), "no format"),
    (lambda: changed(strings(b"a"), "array", length=-1), "length is -1"),
    (lambda: changed(strings(b"a"), "array", offset=-3), "offset is -3"),
    (lambda: changed(strings(b"a"), "array", n_buffers=-1), "n_buffers is -1"),
    (lambda: changed(strings(b"a"), "array", n_buffers=2), "2 buffers, expected 3 for 'u'"),
    (lambda: changed(strings(b"a"), "array", n_buffers=4), "4 buffers, expected 3"),
    (lambda: changed(strings(b"a"), "array", n_buffers=0), "0 buffers"),
    (lambda: changed(strings(b"a"), "array", buffers=None), "buffer is missing"),
    (lambda: changed(strings(b"a"), "array", length=2**62), "larger than memory"),
    (lambda: changed(strings(b"a"), "array", offset=2**63 - 1), "larger than memory"),
    *(
        (lambda offset=offset, bits=bits: far_off(offset, bits), "larger than memory")
        for offset in (2**63 - 1, 2**63 - 9, 2**62, 2**61, 2**60, 2**59)
        for bits in (b"", b"\xff")
    ),
    (lambda: changed(strings(b"a"), "array", null_count=1), "null count but no validity bitmap"),
    (lambda: Made(b"i", 1, [None, None]), "buffer is missing"),
    (lambda: Made(b"i", 1, [None]), "1 buffers, expected 2"),
    (lambda: Made(b"w:4", 1, [None, None]), "buffer is missing"),
    (lambda: Made(b"w:4", 1, [None, b"abcd", None]), "3 buffers, expected 2"),
    (lambda: Made(b"w:-4", 0, [None, None]), "format 'w:-4'"),
    (lambda: Made(b"w:", 0, [None, None]), "format 'w:'"),
    (lambda: Made(b"u", 1, [None, None, b"abc"]), "buffer is missing"),
    (lambda: Made(b"u", 1, [None, np.array([0, 3], INT32), None]), "buffer is missing"),
    (lambda: spans([-1, 2]), "negative offset at row 0"),
    (lambda: spans([0, 3, 2, 4]), "offsets that decrease at row 1"),
    (lambda: spans([0, 3, 5, -1], kind=b"U"), "offsets that decrease at row 2"),
    (lambda: spans([*[1] * FAR, 0, 0]), f"offsets that decrease at row {FAR - 1}"),
    (lambda: spans([*[1] * 2**14, 0]), f"offsets that decrease at row {2**14 - 1}"),
    (lambda: changed(spans([0, 5, 3, 2]), "array", length=2, offset=1), "decrease at row 0"),
    # Null or not, there is no telling where the next row begins.
    (lambda: with_nulls(spans([0, 9, 2]), b"\x02"), "offsets that decrease at row 1"),
    (lambda: Made(b"vu", 1, [None, np.array([view(2)], INT32)]), "2 buffers, expected 3"),
    (lambda: Made(b"vu", 1, [None, None, None]), "buffer is missing"),
    (lambda: Made(b"vu", 0, [None, None, b"abc", None]), "buffer is missing"),
    (lambda: views([view(-1)]), "a view out of bounds at row 0"),
    (lambda: views([view(12), view(13)]), "a view out of bounds at row 1"),
    (lambda: views([view(13, -1)], b"a" * 13), "a view out of bounds at row 0"),
    (lambda: views([view(13, 1)], b"a" * 13), "a view out of bounds at row 0"),
    (lambda: views([view(13, 0, -1)], b"a" * 13), "a view out of bounds at row 0"),
    (lambda: views([view(13, 0, 1)], b"a" * 13), "a view out of bounds at row 0"),
    (lambda: views([view(2**31 - 1, 0, 2**31 - 1)], b"a" * 13), "a view out of bounds at row 0"),
    (lambda: views([view(13, 1)], b"a" * 13, b"a" * 12), "a view out of bounds at row 0"),
    (lambda: views([*[view(13)] * FAR, view(14)], b"a" * 13), f"out of bounds at row {FAR}"),
    (lambda: views([view(1)], b"a", sizes=[-1]), "buffer of negative size"),
    (lambda: dictionary(np.array([0, 2], INT32), b"a", b"b"), "outside the dictionary at row 1"),
    (lambda: dictionary(np.array([0, -1], INT32), b"a"), "outside the dictionary at row 1"),
    (lambda: dictionary(np.array([0], INT32)), "outside the dictionary at row 0"),
    (lambda: dictionary(np.array([2**64 - 1], np.uint64), b"a", kind=b"L"), "outside the dict"),
    (lambda: dictionary(np.array([*[0] * FAR, 1], INT32), b"a"), f"at row {FAR}"),
    (lambda: dictionary(np.array([0], INT32), b"a", kind=b"u"), "dictionary indices of format 'u'"),
    (lambda: dictionary(np.array([0], INT32), b"a", kind=b"+s"), "dictionary indices of format"),
    (
        lambda: changed(dictionary(np.array([0], INT32), b"a"), "array", dictionary=None),
        "its dictionary is missing",
    ),
    (
        lambda: Made(b"c", 1, [None, b"\0"], dictionary=spans([0, 1, 0])),
        "offsets that decrease at dictionary value 1",
    ),
    (
        lambda: Made(b"c", 1, [None, b"\0"], dictionary=changed(strings(), "array", length=-1)),
        "length is -1",
    ),
    (
        lambda: Made(
            b"c", 1, [None, b"\0"], dictionary=changed(strings(b"a"), "array", release=Release())
        ),
        "released before it was read",
    ),
    (
        lambda: Made(
            b"c", 1, [None, b"\0"], dictionary=changed(strings(b"a"), "schema", release=Release())
        ),
        "schema: it was released",
    ),
]


@pytest.mark.parametrize(("make", "words"), BROKEN, ids=[words for _, words in BROKEN])
def test_broken_arrays(make: Callable[[], Made], words: str) -> None:
    """What can be seen to be wrong is an error that says what, and where; and all is freed."""
    made = make()
    with pytest.raises(ValueError, match=words) as caught:
        read(made)
    assert not isinstance(caught.value, KeyTypeError)
    del caught
    assert made.freed == made.schemas_freed == 1


def test_position_is_that_of_the_whole_stream() -> None:
    """The second array of a stream counts on where the first one ends."""
    with pytest.raises(ValueError, match="decrease at row 4"):
        read(MadeStream([strings(b"a", b"b", b"c"), spans([0, 2, 1])]))


@pytest.mark.parametrize(
    ("made", "keys"),
    [
        (strings(b"a", b""), [b"a", b""]),
        (strings(b"", b""), [b"", b""]),
        (Made(b"u", 0, [None, None, None]), []),
        (Made(b"u", 0, [None, None, None], offset=5, null_count=1), []),
        (Made(b"i", 0, [None, None], null_count=-1), []),
        (Made(b"vu", 0, [None, None, None]), []),
        (Made(b"w:0", 3, [None, None]), [b"", b"", b""]),
        (Made(b"w:0", 3, [b"\x05", None], null_count=1), [b"", None, b""]),
        (Made(b"c", 0, [None, None], dictionary=Made(b"u", 0, [None, None, None])), []),
        (Made(b"z", 2, [None, np.array([2, 3, 5], INT32), b"abcde"]), [b"c", b"de"]),
        (Made(b"C", 2, [None, b"\1\2"], null_count=-1), [b"\1" + b"\0" * 7, b"\2" + b"\0" * 7]),
        # The bitmap is not looked at when there are no nulls to be found in it.
        (with_nulls(strings(b"a"), b"\0", null_count=0), [b"a"]),
        (with_nulls(strings(b"a", b"b"), b"\x07"), [b"a", b"b"]),
        # What null rows hold is not looked at either, but must not be followed.
        (with_nulls(views([view(-1), view(2), view(99, 7, -7)]), b"\x02"), [None, b"\0\0", None]),
        (with_nulls(dictionary(np.array([-1, 0, 7], INT32), b"a"), b"\x02"), [None, b"a", None]),
        (with_nulls(dictionary(np.array([5, -9], INT32)), b"\0"), [None, None]),
        (with_nulls(dictionary(np.array([5, 0], INT64), b"a", kind=b"l"), b"\2"), [None, b"a"]),
        (
            Made(
                b"c", 2, [None, b"\0\1"], dictionary=with_nulls(views([view(1), view(99)]), b"\1")
            ),
            [b"\0", None],
        ),
    ],
)
def test_odd_but_right(made: Made, keys: list[bytes | None]) -> None:
    """Buffers that nobody needs may be missing, and null rows may hold anything."""
    assert column_of(made) == keys
    assert made.freed == made.schemas_freed == 1


def test_safe_null_rows_far_away() -> None:
    rows = np.tile(np.array(view(13), INT32), (2 * FAR, 1))
    rows[::FAR] = view(50, 3)
    bits = np.packbits(np.arange(2 * FAR) % FAR != 0, bitorder="little")
    made = Made(b"vz", len(rows), [bits, rows, b"a" * 13, np.array([13])], null_count=2)
    keys = column_of(made)
    assert keys == [None if i % FAR == 0 else b"a" * 13 for i in range(2 * FAR)]
    assert rows[0, 0] == 50, "the producer's memory is not written to"


def test_unaligned_buffers() -> None:
    offsets = np.frombuffer(b"\0" + np.array([0, 1, 3], INT32).tobytes(), np.uint8)[1:]
    assert column_of(Made(b"u", 2, [None, offsets, b"abc"])) == [b"a", b"bc"]
