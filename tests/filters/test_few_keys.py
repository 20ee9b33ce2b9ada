"""A few keys a call, many calls in a moment: answered as one by one, and by the file as it is.

With the compiled engine a list of a few plain keys goes from the call to the bits with no Python
in between, and so do arrays and columns as the list of their items; whatever else it is, and with
numpy's engine, all keys go the way of a large batch.
"""

import gc
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import counters_of
from naive import LAYOUTS

from mmbloom import BloomFilter, CountingBloomFilter, KeyEncodingError, KeyTypeError, ReentryError
from mmbloom._system.typing import HashName
from mmbloom.sizing import Layout

FEW = 256  # more go the way of a large batch
LETTERS = "ab\N{LATIN SMALL LETTER E WITH ACUTE}\N{SNOWMAN}\N{GRINNING FACE}"


@pytest.fixture
def seen(path: str) -> Iterator[BloomFilter]:
    """Make a filter that has just been looked at."""
    with BloomFilter.create(path, 100_000, seed=1) as seen:
        look(seen)
        yield seen


def look(seen: BloomFilter) -> None:
    seen.add("looked")
    assert "looked" in seen


def some_keys(rng: random.Random) -> list[Any]:
    """Plain keys of all lengths and kinds, some of them twice."""
    size = rng.choice([1, 2, 3, 16, 17, 50, FEW - 1, FEW, FEW + 1, 300])
    keys: list[Any] = []
    for _ in range(size):
        text = "".join(rng.choices(LETTERS, k=rng.choice([0, 1, 2, 3, 7, 8, 9, 40])))
        keys.append(text if rng.random() < 0.5 else text.encode())
    return keys


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rate", [0.1, 1e-4, 1e-9])
@pytest.mark.parametrize("name", ["siphash", "murmur3"])
def test_as_one_by_one(
    tmp_path: Path, layout: Layout, rate: float, name: HashName, seed: int
) -> None:
    """Answers, bits and counters are those of a filter to which each key is added alone."""
    rng = random.Random(seed)
    with (
        BloomFilter.create(tmp_path / "few", 5000, rate, layout=layout, hash=name) as few,
        BloomFilter.create(tmp_path / "one", like=few) as one,
    ):
        for _ in range(40):
            keys = some_keys(rng)
            absent = some_keys(rng)
            assert few.add_many(keys).tolist() == [one.add(key) for key in keys]
            for asked in (keys, absent):
                assert few.contains_many(asked).tolist() == [key in one for key in asked]
        paths = few.path, one.path
    octets = [Path(path).read_bytes()[4096:] for path in paths]
    assert octets[0] == octets[1]
    mine, theirs = map(counters_of, paths)
    for counter in ("keys_added", "positions_set"):
        assert mine[counter] == theirs[counter]
    assert mine["batches_begun"] == mine["batches_done"]


@pytest.mark.parametrize("call", ["contains_many", "add_many"])
def test_what_is_not_plain(seen: BloomFilter, call: str) -> None:
    """Rare keys and forms are what they are in a large batch."""

    class Text(str):
        __slots__ = ()

    ask: Callable[..., Any] = getattr(seen, call)
    seen.add_many([7, "x", b"y", "z" * 1000, "\N{SNOWMAN}" * 1000])
    new = call == "add_many"
    several: list[Any] = [
        [7],
        ["x", 7, bytearray(b"y")],
        [Text("x")],
        ("x", "y"),
        iter(["x", "y"]),
        ["z" * 1000, "\N{SNOWMAN}" * 1000],
        {"x": 1},
    ]
    for keys in several:
        answers = ask(keys)
        assert answers.dtype == bool
        assert (answers != new).all()
    assert ask([]).tolist() == []
    assert ask(["x", None], nulls="skip").tolist() == [not new, False]
    with pytest.raises(ValueError, match="nulls is 'some'"):
        ask(["x"], nulls="some")
    with pytest.raises(KeyTypeError, match="single str"):
        ask("x")
    assert ask(nulls="error", keys=["x"]).tolist() == [not new]


INTS = [0, 1, -1, 2**31, -(2**63), 2**63 - 1]
ARRAYS: dict[str, Any] = {
    "list of int": INTS,
    "list of larger int": [2**63, 2**64 - 1, 5],
    "mixed list": [1, "1", b"1", -1],
    "int64": np.array(INTS),
    "big-endian": np.array(INTS, ">i8"),
    "every other": np.array(INTS * 2)[::2],
    "backwards": np.array(INTS)[::-1],
    "uint64": np.array([0, 5, 2**63, 2**64 - 1], "u8"),
    "int8": np.array([1, -1, -128], "i1"),
    "one": np.array([3]),
    "none": np.array([], "i8"),
    "S": np.array([b"", b"a", b"a\0b", b"abc\0"]),
    "U": np.array(["", "a", "é", "\N{GRINNING FACE}", "a\0b"]),
    "big-endian U": np.array(["a", "é"]).astype(">U5"),
    "rows": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "masked": np.ma.array([1, 2, 3], mask=[False, False, False]),
    "objects": np.array(["a", 1, b"b"], object),
    "as many": np.arange(FEW),
    "too many": np.arange(FEW + 1),
}


def spelled(keys: Any) -> list[Any]:
    """Return the keys of an array as objects, by which each is added alone."""
    if isinstance(keys, np.ndarray) and keys.ndim == 2:
        return [row.tobytes() for row in keys]
    return keys if isinstance(keys, list) else list(keys.tolist())


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("name", ["siphash", "murmur3"])
def test_arrays_and_lists(tmp_path: Path, form: str, name: HashName) -> None:
    """The items of an array are the keys that they are one by one; asked and added again, too."""
    keys = ARRAYS[form]
    with (
        BloomFilter.create(tmp_path / "few", 5000, hash=name) as few,
        BloomFilter.create(tmp_path / "one", like=few) as one,
    ):
        look(few)
        one.add("looked")
        for _ in range(2):
            assert few.contains_many(keys).tolist() == [key in one for key in spelled(keys)]
            assert few.add_many(keys).tolist() == [one.add(key) for key in spelled(keys)]
            assert few.contains_many(keys).all()
        paths = few.path, one.path
    octets = [Path(path).read_bytes()[4096:] for path in paths]
    assert octets[0] == octets[1]


@pytest.mark.parametrize("call", ["contains_many", "add_many"])
@pytest.mark.parametrize(
    "wrong",
    [
        np.array([True]),
        np.array([1.0]),
        np.array([1], "M8[ns]"),  # whose items Python has as ints
        np.array([1], "m8[ns]"),
        np.array([[1]]),
        np.array(["\ud800"]),
        np.ma.array([1, 2], mask=[True, False]),
        [1, True],
        [2**64],
        [-(2**63) - 1],
        [1, None],
    ],
    ids=str,
)
def test_arrays_that_hold_no_keys(seen: BloomFilter, call: str, wrong: Any) -> None:
    """They are refused however few their items are, and nothing is added."""
    with pytest.raises((KeyTypeError, KeyEncodingError, ValueError)):
        getattr(seen, call)(wrong)
    assert seen.info().keys_added == 1


@pytest.mark.parametrize("does", ["flush", "close", "add"])
def test_what_a_finalizer_does(path: str, does: str) -> None:
    """Garbage that is collected amid a call may close the filter, flush it, or add to it."""

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            with suppress(ReentryError):  # amid a call that has the lock
                done.append(seen.add(number) if does == "add" else getattr(seen, does)())

    done, known = list[Any](), [f"key {i}" for i in range(5)]
    with BloomFilter.create(path, 10_000, seed=1) as made:
        made.add_many(known)
    thresholds = gc.get_threshold()
    try:
        for number in range(60):
            seen = BloomFilter.open(path)
            look(seen)
            gc.collect()
            gc.disable()
            Cycle()
            gc.set_threshold(gc.get_count()[0] + number, *thresholds[1:])
            gc.enable()
            try:
                for _ in range(4):
                    assert seen.contains_many(known).all()
                    assert not seen.add_many(known).any()
                    assert known[0] in seen
                    seen._look_again()
            except (ValueError, RuntimeError):
                assert seen.closed
            finally:
                gc.set_threshold(*thresholds)
                gc.enable()
                gc.collect()
                seen.close()
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert 20 < len(done) <= 60
    with BloomFilter.open(path) as seen:
        assert seen.contains_many(known).all()
        assert sum(number in seen for number in range(60)) == (len(done) if does == "add" else 0)


@pytest.mark.parametrize("name", ["add", "add_many", "contains_many"])
def test_methods_are_described(name: str) -> None:
    """Help and signatures are those of any filter, and what is no filter is refused."""
    method = getattr(BloomFilter, name)
    plain = getattr(CountingBloomFilter, name)
    assert inspect.signature(method) == inspect.signature(plain)
    assert inspect.getdoc(method) == inspect.getdoc(plain)
    assert method.__name__ == name
    for wrong in ("text", None, 1):
        with pytest.raises((TypeError, AttributeError)):
            method(wrong, ["x"])


def test_words_of_keys_and_calls(seen: BloomFilter) -> None:
    """Keys and options are given by name as well."""
    assert seen.add(key="named")
    assert seen.contains_many(keys=["named"]).all()
    assert not seen.add_many(keys=["named"]).any()
    with pytest.raises(TypeError):
        seen.add()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        seen.add("a", "b")  # type: ignore[call-arg]


def test_a_run_of_many_calls(seen: BloomFilter) -> None:
    """More keys than one look is good for: every call answers right, and all is counted."""
    numbers = range(0, 6000, 30)
    for start, stop in pairwise(numbers):
        keys = [f"run {number}" for number in range(start, stop)]
        assert not seen.contains_many(keys).any()
        assert seen.add_many(keys).all()
        assert seen.contains_many(keys).all()
    assert seen.info().keys_added == numbers[-1] + 1
    assert seen.info().unfinished_batches == 0
