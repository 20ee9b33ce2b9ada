"""BloomFilter: a set that never forgets, on disk; what it writes, when, and when it warns."""

import itertools
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import hypothesis
import numpy as np
import pytest
from checks import (
    READS,
    WRITES,
    array_of,
    change_header,
    check_holds,
    check_raises,
    check_same_filter,
    check_settled,
    counters_of,
    flock_is_free,
    set_counters,
)
from hypothesis import strategies as st

from mmbloom import BloomFilter, CapacityWarning, KeyTypeError, ReadOnlyError, verify
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


def test_repr(create: Create, path: str) -> None:
    seen = create(1000, 0.02)
    assert repr(seen) == f"<BloomFilter {path!r} capacity=1000 error_rate=0.02 mode='r+'>"


@pytest.mark.parametrize("number", [0, 1, 16_383, 16_384, 16_385, 50_000])
def test_contains_many_over_chunks(create: Create, number: int) -> None:
    """The answers of a long batch are those of its keys one by one, in the order given."""
    seen = create(100_000, 1e-9)
    seen.update(range(0, 50_000, 3))
    keys = np.arange(number)
    found = seen.contains_many(keys)
    assert (found.dtype, found.shape) == (np.dtype(bool), (number,))
    assert found.tolist() == (keys % 3 == 0).tolist()
    for key in range(max(0, number - 3), number):
        assert (key in seen) == found[key]


@pytest.mark.parametrize("flag", [2, 2**63])
def test_unknown_read_only_compatible_flag(path: str, flag: int) -> None:
    """A flag of a later version that allows reading makes the filter read-only."""
    with BloomFilter.create(path, 100) as made:
        made.add("a")
    change_header(path, 96, "<Q", flag)
    with BloomFilter.open(path) as seen:
        assert "a" in seen
        check_raises(WRITES, seen, ReadOnlyError, "newer mmbloom")


def test_unknown_compatible_flag(path: str) -> None:
    """A compatible flag of a later version is ignored: the filter is read and written."""
    BloomFilter.create(path, 100).close()
    change_header(path, 88, "<Q", 2**63)
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


def test_counters_count(create: Create, path: str) -> None:
    """New keys, set bits and batches are counted; what brings nothing new is no batch."""
    seen = create(1000)
    seen.add_many(["a", "b", "a"])
    seen.add("c")
    counters = counters_of(path)
    assert (counters["keys_added"], counters["batches_begun"], counters["batches_done"]) == (
        3,
        2,
        2,
    )
    assert counters["positions_set"] == int.from_bytes(array_of(path), "little").bit_count()
    before = Path(path).read_bytes()
    for _ in range(3):
        assert not seen.add_many(["a", "b", "a"]).any()
        assert not seen.add("c")
        with seen.claim(["a"]):
            pass
        seen.add_many([])
    assert Path(path).read_bytes() == before


def test_batch_is_begun_before_its_first_bit(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While bits are being set the batch is begun and not done: a kill there can be told.

    Of a single key `test_kill_while_one_key_is_added` tells the same.
    """
    seen, during = create(1000), []

    def watch(*_: object) -> int:
        during.append(counters_of(path))
        raise MemoryError  # as good as a kill

    for name in ("mmbloom._engine.add", "mmbloom._engine.commit"):
        monkeypatch.setattr(name, watch)
    with pytest.raises(MemoryError):
        seen.add_many(["a"])
    with pytest.raises(MemoryError), seen.claim(["b"]):
        pass
    assert [(one["batches_begun"], one["batches_done"]) for one in during] == [(1, 0), (2, 0)]
    assert seen.info().unfinished_batches == 2
    assert flock_is_free(path)
    monkeypatch.undo()
    assert seen.add("a")
    seen.recount()
    assert seen.info().unfinished_batches == 0
    check_settled(path)


def test_recount_mends(create: Create, path: str) -> None:
    """Recount makes the counters tell what the array holds, returns the bits, keeps the array."""
    seen = create(1000)
    seen.update(range(500))
    array, true = array_of(path), counters_of(path)
    set_counters(path, positions_set=1, batches_begun=9, batches_done=4, keys_added=10**6)
    assert seen.recount() == true["positions_set"]
    assert 450 < counters_of(path)["keys_added"] < 550  # by an estimate
    assert verify(path).ok
    assert array_of(path) == array
    check_settled(path)
    assert counters_of(path)["batches_done"] == 9


@pytest.mark.filterwarnings("ignore:.* bits are set, but:mmbloom.MmbloomWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [2**64 - 1, 2**63])
@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
def test_damaged_counters_are_harmless(
    create: Create, path: str, layout: Layout, value: int
) -> None:
    """Counters of any value change no answer and crash nothing; recount mends them."""
    seen = create(1000, layout=layout)
    seen.update(range(100))
    damage = dict.fromkeys(counters_of(path), value)
    for wrong in (damage, damage | {"batches_done": 0}, damage | {"positions_set": 0}):
        set_counters(path, **wrong)
        for action in (READS | WRITES).values():
            action(seen)
        info = seen.info()
        assert 0 <= info.fill_ratio <= 1
        assert 0 <= info.current_error_rate <= 1
        assert 0 <= info.positions_set <= info.num_bits
        assert info.unfinished_batches >= 0
        set_counters(path, **wrong)
        assert not seen.add_many([50, 99]).any()
        check_holds(seen, range(100))
    seen.recount()
    assert (
        counters_of(path)["positions_set"] == int.from_bytes(array_of(path), "little").bit_count()
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_capacity_warning_once(create: Create, path: str, layout: Layout) -> None:
    """A filter object that is filled past its plan warns once, and keeps its word still."""
    seen = create(10_000, layout=layout, seed=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen.update(range(9_000))
        assert caught == []
        for start in range(9_000, 15_000, 500):
            seen.add_many(range(start, start + 500))
            seen.add(-start)
    assert [one.category for one in caught] == [CapacityWarning]
    message = str(caught[0].message)
    assert path in message
    assert "has a capacity of 10000; its error rate rises above 0.01" in message
    check_holds(seen, range(15_000))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_planned_number_of_keys_gets_no_warning(create: Create, layout: Layout) -> None:
    warned = []
    for capacity, seed in itertools.product([1, 2, 10, 1000], range(20)):
        seen = create(capacity, layout=layout, seed=seed, name=f"{capacity}-{seed}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seen.add_many(range(capacity))
        warned += [(capacity, seed)] * len(caught)
        seen.close()
    assert warned == []


OVERFILL: dict[str, Callable[[BloomFilter], object]] = {
    "add_many": lambda seen: seen.add_many(range(5000)),
    "update": lambda seen: seen.update(range(5000)),
    "add": lambda seen: [seen.add(number) for number in range(5000)],
}


@pytest.mark.parametrize("way", OVERFILL)
def test_capacity_warning_names_the_caller(create: Create, way: str) -> None:
    """The warning points at the line that added too many, not into the package."""
    with pytest.warns(CapacityWarning) as caught:
        OVERFILL[way](create(1000))
    assert caught[0].filename == __file__


def test_capacity_warning_counts_the_batch(create: Create) -> None:
    """It comes before the marks, and says what will hold after them."""
    with pytest.warns(CapacityWarning, match=r"about 5000 keys .* about (9\d|100) % of new"):
        create(100).add_many(range(5000))


def test_capacity_warning_as_error_loses_nothing(create: Create, path: str) -> None:
    """Where warnings are errors, nothing of the batch is in: the next try answers and marks."""
    seen = create(100)
    before = array_of(path), counters_of(path)
    with pytest.raises(CapacityWarning):
        seen.add_many(range(1000))
    assert (array_of(path), counters_of(path)) == before
    assert flock_is_free(path)
    assert seen.add_many(range(1000))[:50].sum() >= 48  # once said is enough; false positives
    check_holds(seen, range(1000))
    check_settled(path)


def test_flush_notes_the_time(create: Create, path: str) -> None:
    """A successful flush writes its time, and changes no bit and no other counter."""
    seen = create(1000)
    seen.add("a")
    array, before, start = array_of(path), counters_of(path), time.time_ns()
    seen.flush()
    after = counters_of(path)
    assert start <= after.pop("flushed_ns") == seen.info().flushed_ns <= time.time_ns()
    assert before.pop("flushed_ns") == 0
    assert (after, array_of(path)) == (before, array)


def test_or_in_place(two: list[str]) -> None:
    """`filter |= other` is union_update and keeps the object; what is no filter is a TypeError."""
    same = seen = BloomFilter.open(two[0])
    other = BloomFilter.open(two[1], "r")
    with seen, other:
        seen |= other
        assert seen is same
        assert seen.contains_many(range(500)).all()
        with pytest.raises(TypeError):
            seen |= two[1]
        with pytest.raises(ReadOnlyError):
            other |= seen
