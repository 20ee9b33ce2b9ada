"""What callers pass by mistake: a clear error with the right place, and nothing added."""

import ctypes
import math
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from checks import array_of, counters_of
from kinds import Kind, each_kind

from mmbloom import BloomFilter, CountingBloomFilter, KeyEncodingError, KeyTypeError, Sieve
from mmbloom._keys.coerce import coerce

Create = Callable[..., BloomFilter]
LONE = "\ud800"


def objects(*keys: Any) -> Any:
    """The keys as an array of Python objects."""
    array = np.empty(len(keys), object)
    array[:] = keys
    return array


def take_claim(seen: BloomFilter, keys: Any, **options: Any) -> Any:
    with seen.claim(keys, **options) as new:
        return new


CALLS: dict[str, Callable[..., Any]] = {
    "add_many": lambda seen, keys, **options: seen.add_many(keys, **options),
    "contains_many": lambda seen, keys, **options: seen.contains_many(keys, **options),
    "update": lambda seen, keys, **options: seen.update(keys, **options),
    "claim": take_claim,
}
each_call = pytest.mark.parametrize("call", CALLS)


def masked(keys: Any, *places: int) -> Any:
    """The keys as an array, with the items at these places masked."""
    array = np.ma.array(keys)
    array[list(places)] = np.ma.masked
    return array


# Keys, what `nulls` is, the error and the position it names.
WRONG: list[tuple[Any, str, type[Exception], int]] = [
    ([b"a", "b", LONE], "error", KeyEncodingError, 2),
    (["a", LONE, 5], "error", KeyEncodingError, 1),
    (["a", None, LONE], "error", KeyTypeError, 1),
    (["a", None, LONE], "skip", KeyEncodingError, 2),
    ([None, None, 1.5, LONE], "skip", KeyTypeError, 2),
    ([None, 5, None, LONE], "skip", KeyEncodingError, 3),
    ([None, 2**64], "skip", KeyTypeError, 1),
    (np.array(["a", "b", LONE]), "error", KeyEncodingError, 2),
    (np.array(["a", "b", LONE]), "skip", KeyEncodingError, 2),
    (np.array(["a"] * 16_384 + [LONE]), "skip", KeyEncodingError, 16_384),
    (masked(["a", "b", LONE], 0), "skip", KeyEncodingError, 2),
    (masked(["a", LONE, "b"], 2), "error", KeyTypeError, 2),
    (masked(["a", LONE, "b"]), "skip", KeyEncodingError, 1),
    (masked([1, 2, 3], 1), "error", KeyTypeError, 1),
    (masked(np.zeros((3, 2), dtype=np.uint8), 2), "error", KeyTypeError, 2),
    ([True], "skip", KeyTypeError, 0),
    ([None, True], "skip", KeyTypeError, 1),
    ([math.nan, "a", 1.5, LONE], "skip", KeyTypeError, 2),
    (["a", math.nan], "error", KeyTypeError, 1),
    (objects("a", None, LONE), "skip", KeyEncodingError, 2),
    (objects("a", None, LONE), "error", KeyTypeError, 1),
    (objects("a", 1.5), "skip", KeyTypeError, 1),
    (masked(objects("a", 1.5, "b"), 0), "skip", KeyTypeError, 1),
    (masked(objects("a", "b"), 1), "error", KeyTypeError, 1),
    ([None], "error", KeyTypeError, 0),
    ([np.float32(1)], "error", KeyTypeError, 0),
    ([["a"]], "error", KeyTypeError, 0),
    ([np.ma.masked], "skip", KeyTypeError, 0),
]


@each_call
@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: f"{one[1]} {one[3]} {one[0]!r:.30}")
def test_wrong_keys(
    create: Create, path: str, call: str, wrong: tuple[Any, str, type[Exception], int]
) -> None:
    """Each call names the position in what it was given, and adds nothing."""
    keys, nulls, error, position = wrong
    seen = create(1000)
    with pytest.raises(error, match=f"^key at position {position}: ") as caught:
        CALLS[call](seen, keys, nulls=nulls)
    assert caught.value.position == position  # type: ignore[attr-defined]
    assert not any(array_of(path))
    assert counters_of(path)["keys_added"] == 0


# Arrays that hold no keys at all: no position is named.
WRONG_AS_A_WHOLE: list[tuple[Any, str]] = [
    (masked([1.5, 2.5], 0), "skip"),
    (np.array([1.0]), "skip"),
    (np.array([True]), "error"),
    (np.array([1j]), "error"),
    (np.array([5], dtype="m8[s]"), "error"),
    (np.array([5], dtype="M8[s]"), "error"),
    (np.array([(1, 2)], dtype="i4,i4"), "error"),
    (np.array([b"a"], dtype="V3"), "error"),
    (np.ma.array([1.5]), "error"),
    (np.ma.array([True, True], mask=[False, False]), "error"),
]


@each_call
@pytest.mark.parametrize(
    ("keys", "nulls"), WRONG_AS_A_WHOLE, ids=lambda one: f"{getattr(one, 'dtype', one)}"
)
def test_wrong_arrays(create: Create, path: str, call: str, keys: Any, nulls: str) -> None:
    """Each call says what the array is, without a position, and adds nothing."""
    seen = create(1000)
    said = re.escape(f"an array of dtype {keys.dtype} cannot hold keys; cast")
    with pytest.raises(KeyTypeError, match=f"^{said}") as caught:
        CALLS[call](seen, keys, nulls=nulls)
    assert caught.value.position is None
    assert not any(array_of(path))
    assert counters_of(path)["keys_added"] == 0


def test_advice_is_possible(create: Create) -> None:
    """nulls='skip' is advised to calls of several keys only; add and `in` do not take it."""
    seen = create(1000)
    advice = "key at position 1: None is a null; pass nulls='skip' to leave nulls out, where the"
    for call in CALLS.values():
        with pytest.raises(KeyTypeError, match=f"^{advice} call accepts it$"):
            call(seen, ["a", None])
    single: Any = None
    for alone in (seen.add, seen.__contains__):
        with pytest.raises(KeyTypeError, match=r"^None cannot be a key; a key is") as caught:
            alone(single)
        assert "nulls" not in str(caught.value)
    array, column = masked([1, 2], 1), pa.array([1, None])
    for keys, what in ((array, "a masked item is a null"), (column, "a null")):
        with pytest.raises(KeyTypeError, match=f"^key at position 1: {what}; pass nulls='skip'"):
            seen.add_many(keys)


@each_kind
def test_several_keys_for_a_call_of_one(kind: Kind, path: str) -> None:
    """A list, an array or an iterator in the place of a key: the error names the call for them."""
    with kind.create(path) as seen:
        calls: dict[Any, str] = {
            seen.add: "add_many",
            seen.__contains__: "contains_many",
            seen.exclusions.add: "update",
            seen.exclusions.discard: "difference_update",
            seen.exclusions.__contains__: "contains_many",
            Sieve(seen).push: "push_many",
        }
        if isinstance(seen, CountingBloomFilter):
            calls[seen.remove] = "remove_many"
        for call, several in calls.items():
            for keys in (["a"], [], {"a"}, np.array([1, 2]), pa.array(["a"]), iter("a")):
                name = type(keys).__name__
                advice = f"^{name} cannot be a key; a key is .* to pass several keys, call .*\\b"
                with pytest.raises(KeyTypeError, match=advice + several):
                    call(keys)
        assert seen.keys_added == len(seen.exclusions) == 0


def test_advice_works(create: Create) -> None:
    """What the errors of arrays, single keys and columns advise is taken by the same call."""
    seen = create(1000, 1e-9, seed=1)
    with pytest.raises(KeyTypeError, match=r"\.astype\('int64'\) or \.astype\('str'\)$"):
        seen.add_many(np.array([7.0, 8.0]))
    assert seen.add_many(np.array([7.0, 8.0]).astype("int64")).all()
    assert seen.add_many(np.array([7.0, 8.0]).astype("str")).all()
    with pytest.raises(KeyTypeError, match=r"; pass a list of keys, an array or a column$"):
        seen.add_many("abc")
    assert seen.add_many(["abc"]).all()


SHAPES: list[Any] = [
    np.array(5),
    np.array("a"),
    np.array([["a", "b"]]),
    np.array([[b"a"]]),
    np.zeros((0, 2), dtype=np.int64),
    np.zeros((2, 3), dtype=np.int64),
    np.zeros((2, 3), dtype=np.int8),
    np.zeros((2, 3, 4), dtype=np.uint8),
    np.zeros((2, 3), dtype=bool),
    np.ma.zeros((2, 3, 4), dtype=np.uint8),
    np.ma.array(5),
]


@each_call
@pytest.mark.parametrize("wrong", SHAPES, ids=lambda one: f"{one.dtype}{one.shape}")
def test_arrays_of_wrong_shape(create: Create, path: str, call: str, wrong: Any) -> None:
    """An array has one dimension, or two of uint8: others are a ValueError that says so."""
    seen = create(1000)
    for nulls in ("error", "skip"):
        said = (
            f"one dimension, or two with dtype uint8.*one has {wrong.ndim} with dtype {wrong.dtype}"
        )
        with pytest.raises(ValueError, match=f"an array of keys has {said}"):
            CALLS[call](seen, wrong, nulls=nulls)
    assert not any(array_of(path))


@each_call
@pytest.mark.parametrize("nulls", ["none", "", None, True])
def test_what_to_do_with_nulls(create: Create, call: str, nulls: Any) -> None:
    """`nulls` is one of two words, and is checked whether there are any or not."""
    with pytest.raises(ValueError, match="expected 'error' or 'skip'"):
        CALLS[call](create(1000), ["a"], nulls=nulls)


# Keys with nulls, and the keys that are left, each in its place.
NULLS: list[tuple[Any, list[Any]]] = [
    ([None, "a", None, b"b"], [None, "a", None, b"b"]),
    ([None, 5, -1], [None, 5, -1]),
    ([None, None], [None, None]),
    ([None, 2**63, "é", bytearray(b"x")], [None, 2**63, "é", b"x"]),
    ([math.nan, "a", np.float32("nan"), np.float64("nan")], [None, "a", None, None]),
    ([math.nan, 5, -1], [None, 5, -1]),
    (objects("a", None, math.nan, 5), ["a", None, None, 5]),
    (objects("a", b"b"), ["a", b"b"]),
    (objects(), []),
    (masked(objects("a", "b", None), 0), [None, "b", None]),
    (masked([1, 2, 3], 0, 2), [None, 2, None]),
    (masked(["a", "é", LONE], 2), ["a", "é", None]),
    (masked([b"a", b"b"], 0), [None, b"b"]),
    (masked(np.arange(6, dtype=np.uint8).reshape(3, 2), 1), [b"\0\1", None, b"\4\5"]),
    (masked([1, 2]), [1, 2]),
    (masked([1, 2], 0, 1), [None, None]),
    (np.ma.array([], dtype=np.int64), []),
    (np.ma.zeros((0, 4), dtype=np.uint8), []),
    (np.ma.zeros((3, 0), dtype=np.uint8), [b"", b"", b""]),
]


# The same of pandas, which is imported when the test is run.
NULLS_OF_PANDAS: list[tuple[Callable[[Any], Any], list[Any]]] = [
    (lambda pd: ["a", pd.NA, pd.NaT], ["a", None, None]),
    (lambda pd: [pd.NA, 5, -1], [None, 5, -1]),
    (
        lambda pd: pd.Series(["a", pd.NA, None, math.nan], dtype=object).to_numpy(),
        ["a"] + [None] * 3,
    ),
    (lambda pd: pd.Series(["a", None], dtype="str").to_numpy(), ["a", None]),
    (lambda pd: pd.array([7, None], dtype="Int64"), [7, None]),
    (lambda pd: pd.array(["a", None], dtype="string"), ["a", None]),
    (lambda pd: pd.Series([0, 0, 7], dtype="Sparse[int64]"), [0, 0, 7]),
    (lambda pd: pd.Series(["a", None, "b"], dtype=pd.SparseDtype(object)), ["a", None, "b"]),
]


@pytest.mark.parametrize(("make", "expected"), NULLS_OF_PANDAS)
def test_nulls_of_pandas(create: Create, make: Callable[[Any], Any], expected: list[Any]) -> None:
    """What pandas writes for a missing key is a null, wherever it stands."""
    import pandas as pd

    keys = make(pd)
    test_nulls_left_out(create, (keys, expected))
    if None in expected:
        with pytest.raises(
            KeyTypeError, match=r"^key at position \d: .* is a null; pass"
        ) as caught:
            coerce(keys)
        assert caught.value.position == expected.index(None)


@pytest.mark.parametrize("given", NULLS, ids=lambda one: f"{one[0]!r:.40}")
def test_nulls_left_out(create: Create, given: tuple[Any, list[Any]]) -> None:
    """A null is no key: answered False in its place, and the others as if it were not there."""
    keys, expected = given
    answers = []
    for name, call in CALLS.items():
        seen = create(1000, 1e-9, seed=1, name=name)
        answers.append(call(seen, keys, nulls="skip"))
        present = [key for key in expected if key is not None]
        if name == "contains_many":
            seen.add_many(present)
            found = seen.contains_many(keys, nulls="skip").tolist()
            assert found == [key is not None for key in expected]
        assert all(key in seen for key in present)
        assert seen.info().keys_added == len(set(map(repr, present)))
    firsts = [key is not None and expected.index(key) == i for i, key in enumerate(expected)]
    assert answers[0].tolist() == answers[3].tolist() == firsts
    assert answers[1].tolist() == [False] * len(expected)
    assert answers[2] == sum(firsts)


def test_a_list_that_shrinks(create: Create) -> None:
    """A list that another thread changes meanwhile: an error or answers, and never a crash."""
    seen = create(2_000_000, seed=1, threads=3)
    keys: list[Any] = [b"%d" % i for i in range(70_000)]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            del keys[50_000:]
            keys.extend(f"é{i}" for i in range(20_000))

    thread = threading.Thread(target=change)
    # A call gives up the global lock often: each time it would wait for that thread, five
    # milliseconds. As many calls meet a change.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    thread.start()
    try:
        for number in range(20):
            try:
                answer = (seen.contains_many if number % 2 else seen.add_many)(keys)
            except (ValueError, IndexError, TypeError):
                continue
            assert 50_000 <= len(answer) <= 70_000
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert seen.add_many(keys[:50_000]).sum() == 0


def legacy_str(text: str) -> Any:
    """A str as C code could make it: its size first, its characters later, by a pointer."""
    make, pointer = ctypes.pythonapi.PyUnicode_FromUnicode, ctypes.pythonapi.PyUnicode_AsUnicode
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_ssize_t]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object]
    made = make(None, len(text))
    raw = ctypes.create_unicode_buffer(text)
    ctypes.memmove(pointer(made), raw, ctypes.sizeof(raw) - ctypes.sizeof(ctypes.c_wchar))
    return made


def test_a_legacy_str(create: Create) -> None:
    """Before Python 3.12 C code could make a str that is not laid out yet: it is its text."""
    if not hasattr(ctypes.pythonapi, "PyUnicode_FromUnicode"):
        pytest.skip("Python has no such str any more")
    seen = create(1000, 1e-9, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one, two, three, four = map(legacy_str, ["one", "two", "drei é", "vier"])
    assert seen.add_many([one, "one", ""]).tolist() == [True, False, True]
    assert two not in seen
    assert seen.add(three)
    assert "drei é" in seen
    with seen.claim(["x", four]) as new:
        assert new.tolist() == [True, True]
    assert seen.contains_many(["vier", "two"]).tolist() == [True, False]
