"""Tuples as keys, and columns side by side."""

import importlib
import itertools
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mmbloom
from mmbloom import BloomFilter, GrowingFilter, columns
from mmbloom._keys.coerce import coerce, coerce_one
from mmbloom.errors import KeyTypeError

SCALARS = st.one_of(
    st.binary(max_size=12),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(-(2**63), 2**64 - 1),
)
TUPLES = st.lists(SCALARS, max_size=4).map(tuple)


def read(octets: bytes) -> tuple[bytes, ...]:
    """Read the bytes of a tuple back, which can be done in one way only."""
    assert octets[0] == 0xFE
    items, rest = [], octets[1:]
    while rest:
        length = int.from_bytes(rest[:8], "little")
        assert len(rest) >= 8 + length
        items.append(rest[8 : 8 + length])
        rest = rest[8 + length :]
    return tuple(items)


@given(TUPLES)
@example(())
@example(("",))
@example(("", ""))
@example(("ab", "c"))
@example(("a", "bc"))
@example((b"\x00" * 8, "a"))
def test_no_two_tuples_are_one_key(key: tuple[Any, ...]) -> None:
    """From the bytes of a tuple its items can be read, each as the bytes of the key that it is."""
    assert read(coerce_one(key)) == tuple(map(coerce_one, key))


@given(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**63)), TUPLES)
def test_no_text_is_the_key_of_a_tuple(text: str | int, key: tuple[Any, ...]) -> None:
    """Nor is a number: a tuple of nothing has one byte, and any other at least nine."""
    assert coerce_one(text) != coerce_one(key)


class Named(NamedTuple):
    """A tuple by descent that is a key like any other tuple."""

    name: str
    number: int


def test_spelling() -> None:
    """As it is written down: 0xFE, and before each item its length in 8 bytes."""
    spelled = b"\xfe" + b"\x02" + bytes(7) + b"ab" + b"\x08" + bytes(7) + b"\x01" + bytes(7)
    assert coerce_one(("ab", 1)) == spelled
    alike: list[tuple[Any, ...]] = [(b"ab", np.uint8(1)), (bytearray(b"ab"), 1), Named("ab", 1)]
    for same in alike:
        assert coerce_one(same) == spelled


@pytest.mark.parametrize("make", [BloomFilter.create, GrowingFilter.create], ids=str)
def test_in_every_call(tmp_path: Path, make: Any) -> None:
    """One or many, listed or from an iterator, beside other keys, a tuple is the same key."""
    with make(tmp_path / "seen", 1000, error_rate=1e-9, seed=1) as seen:
        assert seen.add(("ann", 1))
        assert not seen.add(("ann", 1))
        assert ("ann", 1) in seen
        assert ("ann", 2) not in seen
        assert "ann" not in seen
        batch = [("ann", 1), "ann", ("ann", 2), ("ann", 1, ""), None]
        assert seen.add_many(batch, nulls="skip").tolist() == [False, True, True, True, False]
        assert seen.contains_many(batch[:4]).all()
        assert seen.update(zip(["ann", "bob"], [1, 1], strict=True)) == 1
        with seen.claim([("bob", 1), ("bob", 2)]) as new:
            assert new.tolist() == [False, True]
        seen.exclusions.add(("ann", 1))
        assert ("ann", 1) not in seen
    assert mmbloom.verify(tmp_path / "seen", keys=[("bob", 1), ("bob", 2)]).ok


NAMES, DAYS = ["ann", "bob", "ann"], [20260101, 20260101, 20260102]
FRAME = {"name": NAMES, "day": DAYS}


def frame_of(library: str) -> Any:
    """Make one, of a library that is not imported with the tests: forks would copy its memory."""
    return importlib.import_module(library).DataFrame(FRAME)


SIDES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "lists": lambda: (NAMES, DAYS),
    "numpy": lambda: (np.array(NAMES), np.array(DAYS, dtype="u4")),
    "bytes and memory": lambda: (np.array(NAMES, dtype="S"), memoryview(array("q", DAYS))),
    "pandas": lambda: (frame_of("pandas")["name"], frame_of("pandas")["day"]),
    "polars": lambda: (frame_of("polars")["name"], frame_of("polars")["day"]),
    "pyarrow": lambda: (pa.table(FRAME)["name"], pa.table(FRAME)["day"]),
    "iterators": lambda: (iter(NAMES), (day for day in DAYS)),
}


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_columns(side: Callable[[], tuple[Any, Any]]) -> None:
    """A row of columns of any kind is the tuple of its items."""
    made = [coerce_one(key) for key in columns(*side())]
    assert made == [coerce_one(key) for key in zip(NAMES, DAYS, strict=True)]


def test_columns_that_do_not_fit() -> None:
    """Of other lengths, of a table as a whole, of what is no column, and with nulls."""
    import pandas as pd
    import polars as pl

    with pytest.raises(ValueError, match=r"\[2, 3\] items"):
        columns(["a", "b"], DAYS)
    for table in (frame_of("pandas"), frame_of("polars"), pa.table(FRAME), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="one dimension"):
            columns(table)
    for wrong in ("ab", b"ab", 5):
        with pytest.raises(KeyTypeError, match="a batch was expected"):
            columns(wrong, NAMES)  # type: ignore[arg-type]
    for nulls in (pl.Series([1, None]), pd.Series([1, None]), np.ma.masked_equal([1, 2], 2)):
        with pytest.raises(KeyTypeError, match="position"):
            coerce(columns(["a", "b"], nulls))
    assert columns([], []) == columns() == []


def test_order_and_cut_matter() -> None:
    """What a separator or plain concatenation would confuse are different keys."""
    parts = ["a", "b", "ab", "", "a,b", "\0", "\x1f"]
    keys = [key for size in range(4) for key in itertools.product(parts, repeat=size)]
    assert len({coerce_one(key) for key in keys}) == len(keys)
