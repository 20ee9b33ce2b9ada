"""Keys one at a time, many in a moment: they look at no file, and answer as if they did.

With the compiled engine a call that looked at the file is trusted for a moment. All that may
change meanwhile is changed here amid a run of keys. With numpy's engine each key looks.
"""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import run_threads
from workers import Child, end, in_child, together

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
    FilterFullError,
    KeyEncodingError,
    KeyTypeError,
    LockTimeoutError,
    ReadOnlyError,
)
from mmbloom._storage.mapped import MappedFilter
from mmbloom._system.typing import OnFull

MOMENT = 0.02  # seconds, after which everybody looks: the clock may go in steps of 10 ms
KEYS = [f"key {number}" for number in range(300)]
KEYS_OF_ALL = range(20_000 if mmbloom.engine == "compiled" else 2000)


@pytest.fixture
def seen(path: str) -> Iterator[BloomFilter]:
    """Make a filter in which a key was just added and another asked for."""
    with BloomFilter.create(path, 100_000, lock_timeout=0.2) as seen:
        trust(seen)
        yield seen


def trust(seen: BloomFilter) -> None:
    """Have a look at the file, and at the exclusions: what comes next may need none."""
    seen.add("trusted")
    assert "trusted" in seen


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the looks at files."""
    found = list[int]()

    def counted(look: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            found.append(1)
            return look(*given)

        return call

    for name in ("attend", "look"):  # of writers, and of readers
        monkeypatch.setattr(MappedFilter, name, counted(getattr(MappedFilter, name)))
    return found


trusting = pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine looks for each key")


@trusting
@pytest.mark.parametrize("what", ["add", "add, there", "in", "in, absent", "locked"])
def test_few_looks(seen: BloomFilter, looks: list[int], what: str) -> None:
    """Thousands of keys in a row look at the file some dozen times."""
    keys, begun = [b"%d" % number for number in range(5000)], time.monotonic()
    if what in ("add, there", "in"):
        seen.add_many(keys)
        looks.clear()
    if what.startswith("in"):
        for key in keys:
            assert (key in seen) == (what == "in")
    elif what == "locked":
        with seen.locked():
            for key in keys * 10:  # once, they take less than a look is good for
                seen.add(key)
    else:
        for key in keys:
            seen.add(key)
    assert 1 < len(looks) < 100 + 3000 * (time.monotonic() - begun)


def test_keys_of_every_form(seen: BloomFilter) -> None:
    """What a key is does not depend on whether the file was looked at before it."""
    forms: list[tuple[Any, Any]] = [
        ("a", b"a"),
        ("ä", "ä".encode()),
        ("\N{GRINNING FACE}", "\N{GRINNING FACE}".encode()),
        (bytearray(b"ba"), b"ba"),
        (memoryview(b"mv"), b"mv"),
        (-1, 2**64 - 1),
        (7, np.int32(7)),
        (2**63, (2**63).to_bytes(8, "little")),
        ("", b""),
    ]
    for one, same in forms:
        trust(seen)
        assert one not in seen
        assert seen.add(one)
        assert same in seen
        assert not seen.add(same)
        assert seen.contains_many([one, same]).all()


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (1.5, KeyTypeError),
        (None, KeyTypeError),
        (True, KeyTypeError),
        ("\ud800", KeyEncodingError),
        (2**64, KeyTypeError),
    ],
)
def test_what_is_no_key(seen: BloomFilter, bad: Any, error: type[Exception]) -> None:
    """It is the same error as where the file is looked at first, and adds nothing."""
    said = []
    for wait in (0.0, MOMENT):
        trust(seen)
        time.sleep(wait)
        for call in (seen.add, seen.__contains__):
            with pytest.raises((error, ValueError)) as caught:
                call(bad)
            said.append(str(caught.value))
    assert len(set(said)) == 1
    assert seen.info().keys_added == 1


@pytest.mark.parametrize("call", ["add", "in"])
def test_closed(seen: BloomFilter, call: str) -> None:
    """A filter that was closed says so at the very next key."""
    seen.close()
    with pytest.raises(ClosedFilterError):
        _ = seen.add("x") if call == "add" else "x" in seen


@pytest.mark.parametrize("how", ["replaced", "removed", "cut"])
def test_changed_file(seen: BloomFilter, how: str) -> None:
    """A file that was replaced, removed or cut is noticed after a moment."""
    if how == "replaced":
        with BloomFilter.create(seen.path + "2", 1000):
            os.replace(seen.path + "2", seen.path)
    elif how == "removed":
        os.unlink(seen.path)
    else:
        os.truncate(seen.path, os.path.getsize(seen.path) - 4096)
    time.sleep(MOMENT)
    for call in (seen.add, seen.__contains__):
        with pytest.raises(FileChangedError):
            call("x")


def test_lock_of_others(seen: BloomFilter, path: str) -> None:
    """A key waits for whoever has the lock, and is not added if that takes too long."""
    read, write = os.pipe()

    def hold() -> None:
        with BloomFilter.open(path) as other, other.locked():
            os.write(write, b"x")
            signal.pause()

    holder = Child(hold)
    try:
        os.read(read, 1)
        trust_reading(seen)
        with pytest.raises(LockTimeoutError):
            seen.add("x")
        assert "x" not in seen
    finally:
        end(holder)
        os.close(read)
        os.close(write)
    assert seen.add("x")


def trust_reading(seen: BloomFilter) -> None:
    """Look at the file and the exclusions without the lock."""
    assert "trusted" in seen
    assert "trusted" in seen


def test_child_of_a_holder(seen: BloomFilter) -> None:
    """A forked child has no part in the lock that its parent holds."""

    def add() -> str:
        trust_reading(seen)
        try:
            seen.add("child")
        except LockTimeoutError:
            return "waited"
        return "added"

    with seen.locked():
        seen.add("parent")
        assert in_child(add) == "waited"
    assert "child" not in seen


@pytest.mark.laws("T11")
@pytest.mark.parametrize("held", [False, True])
def test_one_is_told(path: str, held: bool, tally: Callable[..., None]) -> None:
    """Of processes that add the same keys one at a time, one is told that a key is new."""
    keys = KEYS_OF_ALL
    BloomFilter.create(path, 100_000, 1e-9).close()

    def add() -> list[int]:
        with BloomFilter.open(path) as seen:
            if not held:
                return [key for key in keys if seen.add(key)]
            new = []
            for start in range(0, len(keys), 100):
                with seen.locked():
                    new += [key for key in keys[start : start + 100] if seen.add(key)]
            return new

    new = together([add] * 3)
    tally(keys=len(keys))
    assert sorted(key for of_one in new for key in of_one) == list(keys)
    with BloomFilter.open(path, "r") as seen:
        info = seen.info()
        assert (info.keys_added, info.unfinished_batches) == (len(keys), 0)
        recounted = int(np.unpackbits(np.fromfile(path, np.uint8)[4096:]).sum())
        assert info.positions_set == recounted


@pytest.mark.laws("T11")
def test_threads_of_one_object(path: str, tally: Callable[..., None]) -> None:
    """Threads that add the same keys through one object: each key is new once."""
    new: list[list[int]] = [[], []]
    with BloomFilter.create(path, 100_000) as seen:
        trust(seen)

        def add(number: int) -> None:
            new[number] += [key for key in KEYS_OF_ALL if seen.add(key)]

        run_threads(lambda: add(0), lambda: add(1))
        tally(keys=len(KEYS_OF_ALL))
        there = set(new[0]) & set(new[1])
        assert not there
        assert seen.contains_many(KEYS_OF_ALL).all()
        assert len(new[0]) + len(new[1]) == seen.info().keys_added - 1


def test_closed_by_another_thread(path: str) -> None:
    """Every key that was added before the filter was closed is there, and no key is after it."""
    for _ in range(10):
        added, new, closed = list[int](), list[bool](), threading.Event()
        with BloomFilter.create(path, 1_000_000) as seen:

            def add(
                seen: BloomFilter = seen, added: list[int] = added, new: list[bool] = new
            ) -> None:
                with suppress(ClosedFilterError):
                    for key in range(10_000_000):
                        new.append(seen.add(key))
                        added.append(key)

            def close(seen: BloomFilter = seen, closed: threading.Event = closed) -> None:
                time.sleep(0.01)
                seen.close()
                closed.set()

            run_threads(add, close)
        assert closed.is_set()
        assert len(added) < 10_000_000
        with BloomFilter.open(path, "r") as reader:
            assert reader.contains_many(added).all()
            # Where the other thread gets its turn late, some keys are false positives by then.
            assert sum(new) <= reader.info().keys_added <= sum(new) + 1
        os.unlink(path)


@pytest.mark.parametrize("on_full", ["warn", "raise"])
def test_full_at_the_same_key(path: str, on_full: OnFull) -> None:
    """Who goes past the plan is told at the same key, looked at or not."""
    told = []
    for wait in (False, True):
        with (
            BloomFilter.create(path, 64, 0.01, seed=1, on_full=on_full) as seen,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error", CapacityWarning)
            for key in range(1000):
                if wait and key > 60:
                    time.sleep(MOMENT)
                try:
                    seen.add(key)
                except (CapacityWarning, FilterFullError):
                    told.append((key, key in seen, seen.info().keys_added))
                    break
        os.unlink(path)
    assert len(told) == 2
    assert told[0] == told[1]


def test_failed_flush_is_final(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key after a flush that failed is refused, in the same moment."""
    trust(seen)

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(DurabilityError):
            seen.flush()
    with pytest.raises(DurabilityError):
        seen.add("x")
    assert "x" not in seen


def test_read_only(seen: BloomFilter, path: str) -> None:
    """A reader is asked, and never added to."""
    with BloomFilter.open(path, "r") as reader:
        for _ in range(3):
            assert "trusted" in reader
            with pytest.raises(ReadOnlyError):
                reader.add("x")
        seen.add("x")
        assert "x" in reader


def test_exclusions(seen: BloomFilter, path: str) -> None:
    """What this process excludes counts at once, what another excludes after a moment."""
    trust(seen)
    seen.exclusions.add("trusted")
    assert "trusted" not in seen
    assert seen.add("trusted")
    seen.exclusions.discard("trusted")
    assert "trusted" in seen
    assert not seen.add("trusted")

    def exclude() -> None:
        with BloomFilter.open(path) as other:
            other.exclusions.add("trusted")

    in_child(exclude)
    time.sleep(MOMENT)
    assert "trusted" not in seen
    assert seen.add("trusted")


def test_verified_keys(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With verify_after_add every key is tested again."""
    tested = []
    with BloomFilter.create(path, 1000, verify_after_add=True) as seen:
        file = type(seen._shelf.newest)
        real = file._test_one

        def test_one(*arguments: Any) -> None:
            tested.append(1)
            real(*arguments)

        monkeypatch.setattr(file, "_test_one", test_one)
        for key in KEYS:
            seen.add(key)
    assert len(tested) == len(KEYS)


def test_moved_array(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process moves the array to shared memory and back amid a run of keys."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr("mmbloom._system.memory.SHARED", str(shared))

    def move() -> None:
        for number in range(20):
            with BloomFilter.open(path, resident=True) as other:
                other.add(f"other {number}")

    with BloomFilter.create(path, 1_000_000, 1e-6, resident=False) as seen:
        mover, added = Child(move), list[int]()
        try:
            begun = time.monotonic()
            while time.monotonic() - begun < 0.5 or not added:
                for key in range(len(added), len(added) + 200):
                    assert seen.add(key)
                    assert key in seen
                    added.append(key)
            mover.result()
        finally:
            end(mover)
    with BloomFilter.open(path, "r", resident=False) as reader:
        assert reader.contains_many(added).all()
        assert all(f"other {number}" in reader for number in range(20))
        assert reader.info().unfinished_batches == 0
