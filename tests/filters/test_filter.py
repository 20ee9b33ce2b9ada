"""BloomFilter as a whole: a set that never forgets, on disk, whoever asks and however."""

import os
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import hypothesis
import numpy as np
import pytest
from checks import (
    READS,
    WRITES,
    array_of,
    check_holds,
    check_raises,
    check_same_filter,
    check_settled,
    counters_of,
)
from hypothesis import strategies as st
from workers import PATIENCE, in_child

from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    CountingBloomFilter,
    FileChangedError,
    GrowingFilter,
    KeyTypeError,
    ReadOnlyError,
    RotatingFilter,
)
from mmbloom.sizing import Layout

Create = Callable[..., BloomFilter]
LAYOUTS = get_args(Layout)
KEY = st.one_of(
    st.binary(max_size=12), st.text(max_size=6), st.integers(-(2**63), 2**64 - 1), st.integers(0, 9)
)
with_files = hypothesis.settings(max_examples=40)


@contextmanager
def two_alike(folder: Path, **options: Any) -> Iterator[tuple[BloomFilter, BloomFilter]]:
    """Two empty filters of one seed, in a new folder that goes afterwards."""
    options = {"capacity": 500, "error_rate": 0.3, "seed": 99, **options}
    with (
        BloomFilter.create(folder / "one", **options) as one,
        BloomFilter.create(folder / "two", **options) as two,
    ):
        yield one, two
    shutil.rmtree(folder)


def as_bytes(key: bytes | str | int) -> bytes:
    """What a key is, by the format's text."""
    if isinstance(key, int):
        return key.to_bytes(8, "little", signed=key < 0)
    return key.encode() if isinstance(key, str) else key


@with_files
@hypothesis.given(st.lists(st.lists(KEY, max_size=60), max_size=5), st.sampled_from(LAYOUTS))
def test_like_a_set(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]], layout: Layout
) -> None:
    """Beside a set: never a false negative; what it calls new is new; reopened it is the same."""
    with two_alike(tmp_path_factory.mktemp("f"), layout=layout) as (seen, _):
        model: set[bytes] = set()
        for batch in batches:
            for key, new in zip(batch, seen.add_many(batch).tolist(), strict=True):
                assert not (new and as_bytes(key) in model), "called new twice"
                model.add(as_bytes(key))
            check_holds(seen, model)
        check_settled(seen.path)
        with BloomFilter.open(seen.path, "r") as again:
            check_holds(again, model)


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda keys: (key for key in keys),
    "bytes": lambda keys: [as_bytes(key) for key in keys],
    "mixed": lambda keys: [as_bytes(key) if i % 2 else key for i, key in enumerate(keys)],
}


@with_files
@hypothesis.given(
    st.lists(KEY, max_size=120),
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(LAYOUTS),
)
def test_any_batches_are_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    keys: list[Any],
    sizes: list[int],
    form: str,
    layout: Layout,
) -> None:
    """However keys are cut into batches and given, answers and bits are those of single adds."""
    with two_alike(tmp_path_factory.mktemp("f"), layout=layout) as (one, two):
        answers: list[bool] = []
        rest = keys
        for size in [*sizes, len(keys)]:
            answers += one.add_many(FORMS[form](rest[:size])).tolist()
            rest = rest[size:]
        assert answers == [two.add(key) for key in keys]
        check_same_filter(one.path, two.path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_batch_is_short_batches(create: Create, path: str, seed: int, layout: Layout) -> None:
    """A batch of several chunks, with repeats near and far, answers as batches of 1,000."""
    keys = np.random.default_rng(seed).integers(0, 40_000, 60_000)
    one = create(40_000, 0.3, layout=layout, seed=4)
    two = create(40_000, 0.3, layout=layout, seed=4, name="two")
    three = create(40_000, 0.3, layout=layout, seed=4, name="three")
    answers = one.add_many(keys)
    pieces = [two.add_many(keys[start : start + 1000]) for start in range(0, len(keys), 1000)]
    assert (np.concatenate(pieces) == answers).all()
    assert three.update(iter(keys.tolist())) == answers.sum()
    assert 0 < answers.sum() < len(set(keys.tolist()))  # some are false positives
    for other in (two, three):
        check_same_filter(one.path, other.path)
    assert one.contains_many(keys).all()


def test_update(create: Create, path: str) -> None:
    """Update counts the new keys of any iterable, empty ones and arrays too."""
    seen = create(1000, 1e-9)
    assert seen.update(key for key in ["a", "b", "a"]) == 2
    assert seen.update({"b": 1, "c": 2}) == 1
    assert seen.update([]) == seen.update(iter(())) == 0
    assert seen.update(np.arange(10)) == 10
    assert type(seen.update(["d"])) is int


def test_wrong_key_adds_nothing(create: Create, path: str) -> None:
    """A batch with a wrong key deep inside adds none of its keys."""
    seen = create(100_000)
    keys: list[Any] = [*range(40_000), "a", 1.5]
    for call in (seen.add_many, seen.update, seen.claim, seen.contains_many):
        with pytest.raises(KeyTypeError, match="position 40001: float") as caught:
            call(keys)
        assert caught.value.position == 40_001
    with pytest.raises(KeyTypeError):
        seen.add(cast("int", 1.5))
    assert not any(counters_of(path).values())
    assert not any(array_of(path))


def test_wrong_key_in_a_generator(create: Create) -> None:
    """Update of a generator keeps the chunks before the wrong key, and names its place."""
    seen = create(100_000, 1e-9)
    keys: list[Any] = [*range(20_000), None]
    with pytest.raises(KeyTypeError) as caught:
        seen.update(key for key in keys)
    assert caught.value.position == 20_000
    found = seen.contains_many(np.arange(20_000))
    assert found[:16_384].all()
    assert not found[16_384:].any()


def test_empty_key_is_a_key(create: Create) -> None:
    """b"" can be added and found, and "" is the same."""
    seen = create(100)
    assert b"" not in seen
    assert seen.add("")
    assert not seen.add(b"")
    assert "" in seen


def test_closed_filter(create: Create) -> None:
    """After close every call is ClosedFilterError; closing again, path and repr still work."""
    seen = create(1000)
    seen.add("a")
    assert not seen.closed
    for _ in range(2):
        seen.close()
        check_raises(READS | WRITES | {"flush": lambda seen: seen.flush()}, seen, ClosedFilterError)
    closed = seen.closed, "closed" in repr(seen), seen.params.capacity
    assert closed == (True, True, 1000)
    with pytest.raises(ClosedFilterError):
        pickle.dumps(seen)


def test_context_manager(path: str) -> None:
    """Leaving the block closes the filter, after an error too; the keys are in the file."""
    seen = BloomFilter.create(path, 100)
    seen.add("a")
    with pytest.raises(KeyError), seen:
        raise KeyError
    assert seen.closed
    with BloomFilter.open(path) as again:
        assert "a" in again


def test_close_waits_for_other_threads(create: Create) -> None:
    """A close waits for the block that another thread is in, whose adds still work."""
    seen, entered, leave, added = create(1000), threading.Event(), threading.Event(), []

    def hold_and_add() -> None:
        with seen.locked():
            entered.set()
            leave.wait(PATIENCE)
            added.append(seen.add("a"))

    holder, closer = threading.Thread(target=hold_and_add), threading.Thread(target=seen.close)
    holder.start()
    assert entered.wait(PATIENCE)
    closer.start()
    closer.join(0.05)
    assert closer.is_alive()
    leave.set()
    for thread in (holder, closer):
        thread.join(PATIENCE)
    assert seen.closed
    assert added == [True]


def test_repr(create: Create, path: str) -> None:
    """The repr tells path, plan and mode."""
    seen = create(1000, 0.02)
    assert repr(seen) == f"<BloomFilter {path!r} capacity=1000, error_rate=0.02 mode='r+'>"


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_pickle(create: Create, path: str, mode: Any) -> None:
    """A pickle is path and identity, under 1 KB whatever the size; it opens the same file."""
    create(10**6).add("a")
    with BloomFilter.open(path, mode, lock_timeout=1.5) as seen:
        raw = pickle.dumps(seen)
        assert len(raw) < 1024
        with pickle.loads(raw) as again:
            assert repr(again) == repr(seen)
            assert again.info() == seen.info()
            assert "a" in again
            if mode == "r":
                check_raises(WRITES, again, ReadOnlyError)
            else:
                assert again.add("b")
                assert "b" in seen
                assert again._shelf.newest.lock.timeout == 1.5


def test_pickle_of_a_replaced_file(create: Create, path: str) -> None:
    """If another filter is at the path, unpickling is FileChangedError; if none, FileNotFound."""
    raw = pickle.dumps(create(100))
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        pickle.loads(raw)
    create(100)
    with pytest.raises(FileChangedError, match="replaced by another filter") as caught:
        pickle.loads(raw)
    assert caught.value.path == path


def test_fork(create: Create, path: str) -> None:
    """A filter object works on both sides of a fork, and each side sees the other's keys."""
    seen = create(1000)
    seen.add("before")

    def child() -> list[bool]:
        answers = [seen.add("before"), seen.add("child")]
        with seen.claim(["claimed"]) as new:
            answers += new.tolist()
        seen.close()
        return answers

    assert in_child(child) == [False, True, True]
    assert seen.add_many(["child", "claimed", "after"]).tolist() == [False, False, True]
    check_settled(path)


def test_many_objects_of_one_file(create: Create, path: str) -> None:
    """Several open objects of one file are one filter; closing one leaves the others open."""
    first = create(1000)
    others = [BloomFilter.open(path) for _ in range(5)]
    for number, other in enumerate(others):
        assert other.add(number)
        assert number in first
        other.close()
    check_holds(first, range(5))
    check_settled(path)


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter, GrowingFilter, RotatingFilter])
@pytest.mark.parametrize("options", [{}, {"capacity": 1000}])
def test_constructor_says_what_to_call(kind: Any, options: dict[str, int]) -> None:
    """The class itself makes nothing, and says what does."""
    expected = rf"use {kind.__name__}\.create\(path, capacity\) or {kind.__name__}\.open\(path\)"
    with pytest.raises(TypeError, match=expected):
        kind("seen.bloom", **options)
