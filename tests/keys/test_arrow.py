"""Arrow columns of pyarrow, polars and pandas are the keys that their Python values are."""

import ctypes
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from arrow_made import column_of, strings
from hypothesis import strategies as st

from mmbloom import BloomFilter
from mmbloom._engine import key_batch
from mmbloom._keys.arrow import is_arrow, read
from mmbloom._keys.coerce import coerce, columns
from mmbloom.errors import KeyTypeError

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
STRINGS = [pa.string(), pa.large_string(), pa.string_view()]
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view()]
PLAIN = [*INTEGERS, *UNSIGNED, *STRINGS, *BINARY, pa.binary(3), pa.binary(0)]
TYPES = [*PLAIN, *(pa.dictionary(pa.int8(), one) for one in PLAIN)]


def expected(keys: Sequence[Any]) -> list[bytes | None]:
    """Bytes that the format gives to keys, None where there is none."""
    return [None if key is None else bytes_of(key) for key in keys]


def bytes_of(key: Any) -> bytes:
    if isinstance(key, int):
        return (key % 2**64).to_bytes(8, "little")
    return key.encode() if isinstance(key, str) else bytes(key)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an Arrow type, or null; views short and long, and the boundary between."""
    if pa.types.is_dictionary(kind):
        return values_of(kind.value_type)
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        least = -(2 ** (kind.bit_width - 1)) if signed else 0
        return st.none() | st.integers(least, least + 2**kind.bit_width - 1)
    if pa.types.is_fixed_size_binary(kind):
        return st.none() | st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if kind in STRINGS:
        return st.none() | st.text(max_size=8) | st.text("ab", min_size=11, max_size=14)
    return st.none() | st.binary(max_size=8) | st.binary(min_size=11, max_size=14)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=min(40, hypothesis.settings().max_examples))
def test_any_slices_of_any_column(kind: Any, data: st.DataObject) -> None:
    """Each type, with and without nulls, sliced anywhere and in any number of chunks."""
    keys = data.draw(st.lists(values_of(kind), max_size=40))
    array = pa.array(keys, kind.value_type).dictionary_encode() if kind not in PLAIN else None
    array = pa.array(keys, kind) if array is None else array.cast(kind)
    assert column_of(array) == expected(keys)
    cuts = data.draw(st.lists(st.tuples(*[st.integers(0, len(keys))] * 2), max_size=4))
    chunks = [array[min(cut) : max(cut)] for cut in cuts]
    pieces = [key for cut in cuts for key in keys[min(cut) : max(cut)]]
    assert column_of(pa.chunked_array(chunks, kind)) == expected(pieces)
    for chunk in chunks:
        assert column_of(chunk) == expected(chunk.to_pylist())


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (lambda: pa.array([-1, 300], pa.int16()), key_batch.IntegerKeys),
        (lambda: pa.array(["a"]), key_batch.PackedKeys),
        (lambda: pa.array([b"a"], pa.large_binary()), key_batch.PackedKeys),
        (lambda: pa.array(["a"], pa.string_view()), key_batch.ViewKeys),
        (lambda: pa.array([b"a"], pa.binary(1)), key_batch.RowKeys),
        (lambda: pa.array(["a"]).dictionary_encode(), key_batch.DictionaryKeys),
        (lambda: pa.array([], pa.string()), key_batch.PackedKeys),
        (lambda: pa.array([], pa.binary(2)), key_batch.RowKeys),
    ],
)
def test_forms(make: Callable[[], Any], form: type) -> None:
    """Each type has its form, also without rows; fixed-size binary keeps its trailing NULs."""
    array = make()
    ((batch, valid),) = read(array)
    assert type(batch) is form
    assert valid is None
    assert column_of(array) == expected(array.to_pylist())
    assert column_of(pa.array([b"a\0\0", None], pa.binary(3))) == [b"a\0\0", None]


def test_nothing_is_copied() -> None:
    """The batch is the producer's memory, at the place where the slice begins; read-only."""
    text = pa.array(["a" * 20, "b" * 20, None, "d" * 20])
    ((packed, _),) = read(text[1:])
    assert isinstance(packed, key_batch.PackedKeys)
    assert packed.octets.ctypes.data == text.buffers()[2].address
    assert packed.starts.ctypes.data == text.buffers()[1].address + 4
    assert packed.ends.ctypes.data == text.buffers()[1].address + 8
    ((views, _),) = read(text.cast(pa.string_view()))
    assert isinstance(views, key_batch.ViewKeys)
    assert not views.views.flags.writeable
    assert not views.views.flags.owndata
    number = pa.array([1, 2, None, 4], pa.int16())
    ((integers, _),) = read(number[2:])
    assert isinstance(integers, key_batch.IntegerKeys)
    assert integers.items.ctypes.data == number.buffers()[1].address + 4
    with pytest.raises(ValueError, match="read-only"):
        integers.items[0] = 3


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.int64()], ids=str)
def test_bounded_memory(kind: Any) -> None:
    """Half a million rows are checked with less memory than their offsets take."""
    array = pa.array(map(str, range(500_000)), pa.string()).cast(kind)
    for column in (array, array.dictionary_encode().cast(pa.dictionary(pa.int64(), kind))):
        tracemalloc.start()
        batches = read(column)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(batches[0][0]) == 500_000
        assert peak < 3_000_000


def test_all_null_and_odd_slices() -> None:
    """Validity is read at any bit, from the right byte, and None when the slice has no null."""
    keys = [None if i % 3 == 0 else str(i) for i in range(50)]
    array = pa.array(keys)
    for start in range(20):
        for stop in range(start, 50, 7):
            assert column_of(array[start:stop]) == expected(keys[start:stop])
    assert column_of(pa.array([None] * 9, pa.string())) == [None] * 9
    assert read(array[1:3])[0][1] is None


def test_dictionaries() -> None:
    """A row is null if its index is, or if the value it points to is."""
    values = pa.array(["a", None, "c"])
    indices = [0, 1, None, 2, 1, 0]
    for kind in INTEGERS + UNSIGNED:
        array = pa.DictionaryArray.from_arrays(pa.array(indices, kind), values)
        assert column_of(array) == [b"a", None, None, b"c", None, b"a"]
        assert column_of(array[3:]) == [b"c", None, b"a"]
    # The only null of the dictionary is not pointed to, so no row is.
    array = pa.DictionaryArray.from_arrays(pa.array([0, 2]), values)
    assert read(array)[0][1] is None
    empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], "str"))
    assert column_of(empty) == [None, None]
    sliced = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "b", "c"])[1:])
    assert column_of(sliced) == [b"b", b"c"]


def test_many_variadic_buffers() -> None:
    """Long views may lie in any number of buffers; 12 bytes are in the view, 13 are not."""
    keys = [f"{i:>{12 + i % 2}}" for i in range(60)]
    pieces = [pa.array([key], pa.string_view()) for key in keys]
    array = pa.concat_arrays(pieces)
    ((batch, _),) = read(array)
    assert isinstance(batch, key_batch.ViewKeys)
    assert len(batch.buffers) >= 30
    assert column_of(array) == expected(keys)
    import polars as pl

    assert column_of(pl.Series(keys)) == expected(keys)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (["a", None, "", "twelve bytes", "thirteen byte", "é" * 20], "String"),
        ([b"a", None, b"", b"\0\xff" * 20], "Binary"),
        ([1, None, -5, 2**62], "Int64"),
        ([1, None, 255], "UInt8"),
        (["a", None, "b" * 20, "a"], "Categorical"),
        (["a", None, "b", "a"], "Enum"),
        ([None, None], "String"),
        ([], "String"),
        ([], "Null"),
    ],
)
def test_polars(keys: list[Any], kind: str) -> None:
    """Series of polars, whole, sliced, and of several chunks."""
    import polars as pl

    dtype = pl.Enum(["b", "a"]) if kind == "Enum" else getattr(pl, kind)
    series = pl.Series(keys, dtype=dtype)
    assert column_of(series) == expected(keys)
    assert column_of(series[1:3]) == expected(keys[1:3])
    assert column_of(series.append(series[1:])) == expected(keys + keys[1:])


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (["a", None, "", "é" * 20], "str"),
        (["a", None, "b" * 20], "string_view"),
        ([b"a", None, b"\0\xff"], object),
        ([1, 2, -3], "int16"),
        ([1, None, 2**64 - 1], "UInt64"),
        (["a", None, "b", "a"], "category"),
        ([], object),
        ([], "category"),
        ([], "int64"),
    ],
)
def test_pandas(keys: list[Any], kind: Any) -> None:
    import pandas as pd

    dtype = pd.ArrowDtype(pa.string_view()) if kind == "string_view" else kind
    series = pd.Series(keys, dtype=dtype)
    assert column_of(series) == expected(keys)
    assert column_of(series[1:3]) == expected(keys[1:3])


def test_objects_of_pandas(path: str) -> None:
    """A column of mixed objects is the list of them; what pandas takes for missing is a null."""
    import pandas as pd

    objects = ["a", b"b", 3, None, float("nan"), pd.NA, pd.NaT, np.str_("é"), 2**64 - 1]
    column = pd.Series(objects, dtype=object)
    listed: list[Any] = [None if pd.isna(key) else key for key in objects]
    with BloomFilter.create(path, 1000, 1e-9) as seen:
        answers = seen.add_many(listed, nulls="skip")
        assert answers.tolist() == [key is not None for key in listed]
        assert (seen.contains_many(column, nulls="skip") == answers).all()
        assert not seen.add_many(column, nulls="skip").any()
        with pytest.raises(KeyTypeError, match="null") as caught:
            seen.add_many(column)
        assert caught.value.position == 3
        with pytest.raises(KeyTypeError, match="float cannot be a key") as caught:
            seen.add_many(pd.Series(["a", None, 1.5], dtype=object), nulls="skip")
        assert caught.value.position == 2


def nulls_of_polars(rows: int) -> Any:
    """Make a column of polars' own type of nothing."""
    import polars as pl

    return pl.Series([None]).new_from_index(0, rows)


@pytest.mark.parametrize(
    "make",
    [
        pa.nulls,
        lambda rows: pa.chunked_array([pa.nulls(rows)]),
        lambda rows: pa.nulls(rows, pa.int8()),
        nulls_of_polars,
    ],
    ids=["nulls", "chunked", "integers", "polars"],
)
def test_nulls_take_a_byte_a_row(make: Callable[[int], Any]) -> None:
    """Beyond the answer itself, which is as long: nothing is made of rows that hold nothing."""
    rows = 4_000_000
    column = make(rows)
    tracemalloc.start()
    try:
        batch = coerce(column, "skip")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (batch.num_keys, batch.present is not None and int(batch.present.sum())) == (0, 0)
    assert rows <= peak < 1.1 * rows


ONE = b"0123456789abcdef"


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pa.array([ONE, None], pa.uuid()), [ONE, None]),
        (pa.chunked_array([pa.array([ONE], pa.uuid())] * 2), [ONE, ONE]),
        (pa.DictionaryArray.from_arrays([0, 0], pa.array([ONE], pa.uuid())), [ONE, ONE]),
        (pa.array(['{"a": 1}', None], pa.json_()), [b'{"a": 1}', None]),
    ],
)
def test_extension_types_that_are_their_storage(column: Any, keys: list[bytes | None]) -> None:
    """A column of UUIDs is one of 16 bytes each, and one of JSON is text."""
    import pandas as pd
    import polars as pl

    assert column_of(column) == keys
    if not pa.types.is_dictionary(column.type):
        assert (
            column_of(pd.Series(pd.array(column.to_pylist(), pd.ArrowDtype(column.type)))) == keys
        )
        assert column_of(pl.Series(column)) == keys


def months() -> Any:
    import pandas as pd

    return pd.Series(pd.period_range("1970-01", periods=3, freq="M"))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (months, "pandas.period"),
        (lambda: months().astype("category"), "pandas.period"),
        (lambda: pa.array(months()), "pandas.period"),
        (lambda: pa.chunked_array([pa.array(months())]), "pandas.period"),
        (lambda: pa.table({"month": pa.array(months())})["month"], "pandas.period"),
        (lambda: pa.DictionaryArray.from_arrays([0, 1], pa.array(months())), "pandas.period"),
        (
            lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())),
            "arrow.bool8",
        ),
        (
            lambda: pa.ExtensionArray.from_storage(
                pa.opaque(pa.binary(), "point", "postgis"), pa.array([b"a"])
            ),
            "arrow.opaque",
        ),
    ],
)
def test_extension_types_that_are_more(make: Callable[[], Any], name: str) -> None:
    """Where the storage may not be the value, the column is refused by the name of its type."""
    words = f"^an Arrow column of the extension type {name} cannot hold keys; cast it to strings, "
    with pytest.raises(KeyTypeError, match=words) as caught:
        read(make())
    assert caught.value.position is None


def test_months_are_no_days(path: str) -> None:
    """Months and days with one number were one key; as strings they are what they are."""
    import pandas as pd

    days = pd.Series(pd.period_range("1970-01-01", periods=3, freq="D"))
    with BloomFilter.create(path, 1000, 1e-9) as seen:
        for periods in (months(), days):
            with pytest.raises(KeyTypeError, match=r"pandas\.period"):
                seen.add_many(periods)
            with pytest.raises(KeyTypeError, match="Period within a tuple cannot be a key"):
                seen.add_many(columns(periods, periods))
        assert seen.add_many(months().astype("str")).all()
        assert seen.add_many(days.astype("str")).all()
        assert "1970-01" in seen


def test_metadata_that_names_no_extension() -> None:
    """Other metadata of a column is passed over, and a name may be anything."""
    field = pa.field("url", pa.string(), metadata={"unit": "", "a": "b" * 1000})
    batch = pa.record_batch([pa.array(["a"])], schema=pa.schema([field]))
    assert column_of(batch.column(0)) == [b"a"]
    for octets, words in (
        (metadata((b"k", b"v" * 300), (b"", b"")), ""),
        (metadata(), ""),
        (metadata((b"k", b"v"), (b"ARROW:extension:name", b"\xff")), r"extension type \\xff can"),
        (np.int32(-1).tobytes(), "broken Arrow schema: metadata of length -1"),
        (np.array([1, -5], np.int32).tobytes(), "broken Arrow schema: metadata of length -5"),
    ):
        kept = ctypes.create_string_buffer(octets, len(octets))
        made = strings(b"a")
        made.schema.metadata = ctypes.addressof(kept)
        if words:
            with pytest.raises((KeyTypeError, ValueError), match=words):
                read(made)
        else:
            assert column_of(made) == [b"a"]


def metadata(*pairs: tuple[bytes, bytes]) -> bytes:
    """Write metadata as the specification has it."""
    flat = [part for pair in pairs for part in pair]
    return np.int32(len(pairs)).tobytes() + b"".join(
        np.int32(len(part)).tobytes() + part for part in flat
    )


def test_empty_streams() -> None:
    assert read(pa.chunked_array([], pa.string())) == []
    assert column_of(pa.chunked_array([[], ["a"], []], pa.string())) == [b"a"]
    assert column_of(pa.array([], pa.null())) == []
    assert column_of(pa.array([None, None])) == [None, None]


def test_stream_is_preferred() -> None:
    """An object with both methods is asked for the stream: its array may be one of several."""

    class Both:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.chunked_array([["a"], ["b"]]).__arrow_c_stream__()

        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            raise AssertionError("there are two arrays")

    assert column_of(Both()) == [b"a", b"b"]


def test_is_arrow() -> None:
    """What exports Arrow data is known by its methods."""
    import pandas as pd
    import polars as pl

    for make in (pa.array, pl.Series, pd.Series, pa.chunked_array):
        assert is_arrow(make([["a"]])), make
    assert not any(map(is_arrow, (["a"], "a", b"a", 7, np.array(["a"]), None, {"a"})))


def test_none_of_the_producers_is_imported() -> None:
    """Their columns can be read, but nobody waits for their import."""
    code = (
        "import sys, mmbloom._keys.arrow\n"
        "print(*{'pyarrow', 'polars', 'pandas'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(("chunks", "position"), [([["a", None]], 1), ([["a"], ["b", None]], 2)])
def test_null_of_a_later_chunk(chunks: list[list[str | None]], position: int) -> None:
    """A null that is an error is named by its place in the whole column, not in its chunk."""
    column = pa.chunked_array([[], ["x", "y"], *chunks], pa.string())
    with pytest.raises(KeyTypeError, match=f"position {position + 2}") as caught:
        coerce(column)
    assert caught.value.position == position + 2
    assert coerce(column, "skip").num_keys == position + 2
