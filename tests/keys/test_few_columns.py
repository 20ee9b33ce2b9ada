"""Columns of a few items: what they are in a large batch, though their items are taken."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mmbloom import BloomFilter, KeyTypeError
from mmbloom._keys.coerce import listed

TEXTS, NUMBERS = ["", "a", "é", "a" * 40], [0, 1, -1, 2**62]

COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "strings": (pa.array(TEXTS), TEXTS),
    "large strings": (pa.array(TEXTS, pa.large_string()), TEXTS),
    "views": (pa.array(TEXTS, pa.string_view()), TEXTS),
    "binary": (pa.array([b"", b"a"], pa.binary()), ["", "a"]),
    "fixed": (pa.array([b"ab", b"cd"], pa.binary(2)), ["ab", "cd"]),
    "integers": (pa.array(NUMBERS), NUMBERS),
    "larger integers": (pa.array([2**63, 2**64 - 1], pa.uint64()), [2**63, 2**64 - 1]),
    "dictionary": (pa.array(TEXTS).dictionary_encode(), TEXTS),
    "chunks": (pa.chunked_array([TEXTS[:1], TEXTS[1:]]), TEXTS),
    "uuid": (pa.array([b"0" * 16], pa.uuid()), [b"0" * 16]),
    "json": (pa.array(["{}"], pa.json_()), ["{}"]),
    "polars strings": (pl.Series(TEXTS), TEXTS),
    "polars integers": (pl.Series(NUMBERS), NUMBERS),
    "polars categories": (pl.Series(TEXTS, dtype=pl.Categorical), TEXTS),
    "pandas strings": (pd.Series(TEXTS), TEXTS),
    "pandas integers": (pd.Series(NUMBERS, index=["type", "b", "c", "d"]), NUMBERS),
    "pandas categories": (pd.Series(TEXTS, dtype="category"), TEXTS),
    "many": (pa.array(range(300)), list(range(300))),
}


@pytest.fixture
def seen(path: str) -> Iterator[BloomFilter]:
    """Make a filter that has just been looked at."""
    with BloomFilter.create(path, 10_000, 1e-9, seed=1) as seen:
        assert seen.add("looked")
        assert "looked" in seen
        yield seen


@pytest.mark.parametrize("form", COLUMNS)
def test_columns(seen: BloomFilter, form: str) -> None:
    """Asked and added again and again, they are the keys that they are one by one."""
    column, keys = COLUMNS[form]
    assert not seen.contains_many(column).any()
    assert seen.add_many(column).all()
    for _ in range(3):
        assert seen.contains_many(column).all()
        assert not seen.add_many(column).any()
        assert all(key in seen for key in keys)
    assert seen.keys_added == 1 + len(keys)


def test_nulls(seen: BloomFilter) -> None:
    """They are errors, or left out, as in a column that is read for the first time."""
    whole, column = pa.array(["a", "b"]), pa.array(["a", None])
    assert seen.add_many(whole).all()
    for _ in range(2):
        assert seen.contains_many(whole).all()
        with pytest.raises(KeyTypeError, match="null"):
            seen.contains_many(column)
        assert seen.contains_many(column, nulls="skip").tolist() == [True, False]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5]),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.duration("us")),
        pa.array([True]),
        pa.array([[1]]),
        pl.Series([1], dtype=pl.Int128),
        pl.Series([1], dtype=pl.Duration("us")),
        pl.DataFrame({"dtype": ["a"]}),
        pa.table({"type": ["a"]}),
        pd.Series(np.array([1], "M8[ns]")),
        pd.DataFrame({"dtype": [1]}),
    ],
    ids=lambda column: str(type(column)),
)
def test_what_is_no_column_of_keys(seen: BloomFilter, column: Any) -> None:
    """It is refused however often it comes, though the items of some are ints."""
    for _ in range(3):
        for call in (seen.contains_many, seen.add_many):
            with pytest.raises((KeyTypeError, ValueError)):
                call(column)
    assert seen.keys_added == 1


class Upper(pa.ExtensionType):  # type: ignore[misc]
    """UUIDs that Python has as text; the type has no hash."""

    def __init__(self) -> None:
        super().__init__(pa.binary(16), "arrow.uuid")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    def __arrow_ext_scalar_class__(self) -> Any:
        class Scalar(pa.ExtensionScalar):  # type: ignore[misc]
            def as_py(self, **_: object) -> str:
                return "text"

        return Scalar

    __hash__ = None  # type: ignore[assignment]


class Doubled(pd.Series):  # type: ignore[misc]
    """A column that returns other items than it has."""

    def to_list(self) -> list[Any]:
        return [item * 2 for item in super().to_list()]


class Exporter:
    """What has no more than the protocol asks for."""

    def __init__(self, keys: Any) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.keys.__arrow_c_array__(requested_schema)


NOT_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], "i4").tobytes()), pa.py_buffer(b"\xff")]
)
STRANGE: dict[str, tuple[Any, Any]] = {
    "extension": (
        pa.ExtensionArray.from_storage(Upper(), pa.array([b"0" * 16], pa.binary(16))),
        b"0" * 16,
    ),
    "subclass": (Doubled([7]), 7),
    "exporter": (Exporter(pa.array(["a"])), "a"),
    "text that is not UTF-8": (NOT_TEXT, b"\xff"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_has_other_items(seen: BloomFilter, what: str) -> None:
    """The keys are those of the column, whatever its items look like to Python."""
    column, key = STRANGE[what]
    assert seen.add_many(column).all()
    for _ in range(3):
        assert seen.contains_many(column).all()
        assert not seen.add_many(column).any()
    assert key in seen
    assert seen.keys_added == 2


def test_an_error_of_a_signal_handler_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the items are taken, and is no matter of the column."""

    class Column:
        dtype = "int64"

        def __len__(self) -> int:
            return 1

        def to_list(self) -> list[int]:
            raise TimeoutError("of a handler")

    monkeypatch.setattr(Column, "__module__", "polars.series")
    with pytest.raises(TimeoutError, match="of a handler"):
        listed(Column(), 10)
