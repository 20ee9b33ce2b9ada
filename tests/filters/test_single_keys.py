"""Keys one or a few at a time, many in a moment: they check no file, and answer as if they did.

With the compiled engine a call that checked the files is trusted for a moment. All that may
change meanwhile is changed here amid a run of keys. With numpy's engine each key checks.
"""

import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import has
import numpy as np
import pytest
from checks import flock_is_free, run_threads, soon
from single_folders import Make, compiled, growing, long_ways, rotating
from workers import Child, end, in_child, together

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    FileChangedError,
    FilterFullError,
    ReentryError,
)
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.working_copy import WorkingCopy
from mmbloom._system.sections import outlast
from mmbloom._system.typing import OnFull
from mmbloom.filters.file import BitFile

MOMENT = 0.02  # seconds, after which everybody looks: the clock may go in steps of 10 ms
KEYS = [f"key {number}" for number in range(300)]
KEYS_OF_ALL = range(20_000 if mmbloom.engine == "compiled" else 2000)


def plain(path: Path, **options: Any) -> BloomFilter:
    """Make a file for 100,000 keys."""
    return BloomFilter.create(path, 100_000, 1e-6, seed=1, lock_timeout=0.2, **options)


every_kind = pytest.mark.parametrize("make", [plain, growing, rotating])


def trust(seen: Any) -> None:
    """Have a look at the files, and at the exclusions: what comes next may need none."""
    seen.add("trusted")
    assert "trusted" in seen
    assert "trusted" in seen


@pytest.fixture
def seen(path: str) -> Iterator[BloomFilter]:
    """Make a filter in which a key was just added and another asked for."""
    with plain(Path(path)) as seen:
        trust(seen)
        yield seen


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of shared memory."""
    if not has.WORKING_COPIES:
        pytest.skip("this system has no working copies")
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr("mmbloom._system.memory.SHARED", str(tmp_path / "shared"))
    return tmp_path / "shared"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Any, list[int]]]:
    """Count the looks at files: at a single one, and at which there are of a folder."""
    found = list[int]()

    def counted(look: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            found.append(1)
            return look(*given)

        return call

    for name in ("attend", "look"):  # of writers, and of readers
        monkeypatch.setattr(MappedFilter, name, counted(getattr(MappedFilter, name)))
    with long_ways() as of_folders:
        yield {plain: found, growing: of_folders, rotating: of_folders}


WAYS = ["in", "absent", "add", "there", "locked"]


@compiled
@pytest.mark.parametrize(
    ("make", "what"),
    # A batch looks at a file each time.
    [(make, what) for make in (plain, growing, rotating) for what in WAYS]
    + [(make, what) for make in (growing, rotating) for what in ("few", "add few")],
)
def test_few_looks(make: Make, tmp_path: Path, what: str, looks: dict[Any, list[int]]) -> None:
    """Of thousands of keys in a row some dozens look, as the clock goes on."""
    keys = [b"%d" % number for number in range(5000)]
    with make(tmp_path / "seen") as seen:
        if what in ("in", "there", "few"):
            seen.add_many(keys)
        looks[make].clear()
        begun = time.monotonic()
        if what in ("in", "absent"):
            assert all((key in seen) == (what == "in") for key in keys)
        elif what == "locked":
            with seen.locked():
                for key in keys * 10:  # once, they take less than a look is good for
                    seen.add(key)
        elif what in ("add", "there"):
            assert all(seen.add(key) == (what == "add") for key in keys)
        else:
            ask = seen.contains_many if what == "few" else seen.add_many
            assert all(ask(keys[at : at + 10]).all() for at in range(0, 5000, 10))
        # The files of a folder are looked for once in a block.
        assert (make is plain) < len(looks[make]) < 70 + 5000 * (time.monotonic() - begun)


def replace(path: str) -> None:
    Path(path + "2").write_bytes(Path(path).read_bytes())
    os.replace(path + "2", path)


CHANGES: dict[str, Callable[[str], object]] = {
    "cut": lambda path: os.truncate(path, 4096 + 64),
    "longer": lambda path: os.truncate(path, os.path.getsize(path) + 4096),
    "replaced": replace,
    "removed": os.unlink,
}
each_change = pytest.mark.parametrize("change", CHANGES)
# Single keys, which notice it after a moment; all else does so at once.
SINGLE = ("add", "in")
CALLS: dict[str, Callable[[BloomFilter], object]] = {
    "add": lambda seen: seen.add("a"),
    "in": lambda seen: "a" in seen,
    "add_many": lambda seen: seen.add_many(["a"]),
    "contains_many": lambda seen: seen.contains_many(["a"]),
    "locked": lambda seen: seen.locked().__enter__(),
}


@each_change
@pytest.mark.parametrize("call", CALLS)
def test_a_changed_file_is_noticed(seen: BloomFilter, change: str, call: str) -> None:
    """Law 16: however short ago the last look at it was."""
    CHANGES[change](seen.path)
    if call in SINGLE:
        time.sleep(MOMENT)
    for _ in range(2):
        with pytest.raises(FileChangedError):
            CALLS[call](seen)


@each_change
def test_a_changed_file_is_noticed_within_a_block(seen: BloomFilter, change: str) -> None:
    """Law 16: within the block too, a moment after the file was changed, `add` refuses."""
    with seen.locked():
        assert seen.add("a")
        CHANGES[change](seen.path)
        outlast()
        for key in ("a", "b"):
            with pytest.raises(FileChangedError):
                seen.add(key)
    with pytest.raises(FileChangedError):
        seen.add("c")


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_changed_amid_a_long_call(path: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that takes long after its look gives no grounds that are as old as that."""

    def work() -> None:
        with BloomFilter.create(path, 1000) as seen, BloomFilter.create(path + "2", 1000):
            seen.add("x")
            refresh = seen._exclusions.refresh

            def change() -> None:
                refresh()
                if how == "cut":
                    os.truncate(path, 0)
                else:
                    os.replace(path + "2", path)
                monkeypatch.undo()
                soon()

            monkeypatch.setattr(seen._exclusions, "refresh", change)
            soon()
            assert "x" in seen
            with pytest.raises(FileChangedError):
                seen.add("y")

    in_child(work)  # touching the map of a cut file would kill


@pytest.mark.parametrize("make", [growing, rotating])
@pytest.mark.parametrize("how", ["removed", "moved", "another"])
def test_the_folder_is_another_at_once(make: Make, tmp_path: Path, how: str) -> None:
    """A folder that is gone, or in whose place there is another, is noticed by the next key."""
    path = tmp_path / "seen"
    with make(path) as seen:
        for _ in range(3):
            trust(seen)
        if how == "removed":
            shutil.rmtree(path)
        else:
            path.rename(tmp_path / "elsewhere")
        if how == "another":
            make(path).close()
        for ask in (seen.__contains__, seen.add):
            with pytest.raises(FileChangedError):
                ask("a")


@pytest.mark.parametrize("make", [growing, rotating])
def test_a_file_of_a_folder_that_is_cut(make: Make, tmp_path: Path) -> None:
    """It is noticed within a moment, and is no fatal signal then."""

    def work() -> None:
        with make(tmp_path / "seen") as seen:
            seen.add("a")
            (file,) = (tmp_path / "seen").glob("*.bloom")
            os.truncate(file, 0)
            time.sleep(0.05)
            with pytest.raises(FileChangedError):
                "a" in seen  # noqa: B015

    in_child(work)


@every_kind
def test_within_a_block_and_in_a_child(make: Make, tmp_path: Path) -> None:
    """Keys added in blocks, and by a child forked amid trust, are there and counted."""
    with make(tmp_path / "seen") as seen:
        with seen.locked():
            assert [seen.add(key % 300) for key in range(600)] == [True] * 300 + [False] * 300
            with seen.locked():
                assert seen.add("inner")
            assert [seen.add(key) for key in ("a", "b", "a")] == [True, True, False]
            assert seen.add_many(["b", "c"]).tolist() == [False, True]
            for number in range(50):
                assert seen.add_many([f"{number}", f"{number} more"]).all()
            assert seen.contains_many(["0", "49 more", "50"]).tolist() == [True, True, False]
        assert in_child(lambda: seen.add("d") and "a" in seen and not seen.add("d"))
        assert "d" in seen
        assert [seen.add(key) for key in ("c", "d", "e")] == [False, False, True]
        assert seen.keys_added == 300 + 1 + 3 + 100 + 2
    assert mmbloom.verify(tmp_path / "seen").ok


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
        assert not set(new[0]) & set(new[1])
        assert seen.contains_many(KEYS_OF_ALL).all()
        assert len(new[0]) + len(new[1]) == seen.info().keys_added - 1


def test_closed_by_another_thread(path: str) -> None:
    """Every key that was added before the filter was closed is there, and no key is after it."""

    def add(seen: BloomFilter) -> None:
        with suppress(ClosedFilterError):
            for key in range(10_000_000):
                new.append(seen.add(key))
                added.append(key)

    def close(seen: BloomFilter) -> None:
        time.sleep(0.01)
        seen.close()

    for _ in range(10):
        added, new = list[int](), list[bool]()
        with BloomFilter.create(path, 1_000_000) as seen:
            run_threads(partial(add, seen), partial(close, seen))
        assert seen.closed
        assert len(added) < 10_000_000
        with BloomFilter.open(path, "r") as reader:
            assert reader.contains_many(added).all()
            # Where the other thread gets its turn late, some keys are false positives by then.
            assert sum(new) <= reader.info().keys_added <= sum(new) + 1
        os.unlink(path)


def test_closed_within_the_block(seen: BloomFilter, path: str) -> None:
    """After close nothing can be added, and leaving the block is no error."""
    with seen.locked():
        assert seen.add("a")
        seen.close()
        for _ in range(2):
            with pytest.raises(ClosedFilterError):
                seen.add("b")
            outlast()
    assert flock_is_free(path)
    with pytest.raises(ClosedFilterError):
        seen.add("c")
    with BloomFilter.open(path) as again:
        assert "a" in again
        assert "b" not in again
        assert again.add("b")


@compiled
@every_kind
def test_closed_amid_the_look(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is in, and whose filter another thread closes then, is no error of its add."""

    def close(*_: object) -> None:
        monkeypatch.undo()
        made.close()
        raise ClosedFilterError("seen")

    with make(tmp_path / "seen") as made:
        soon()
        monkeypatch.setattr(BitFile, "leave_room", close)
        assert made.add("a")
        assert made.closed
    with mmbloom.open(tmp_path / "seen") as again:
        assert "a" in again


@compiled
def test_what_is_raised_amid_a_renewal(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a signal handler raises after the key is added is raised, whatever it is."""

    class StopError(ValueError):
        """As a handler raises it that has closed the filter."""

    def stop(*_: int) -> None:
        seen.close()
        raise StopError

    soon()
    monkeypatch.setattr(seen, "_grounds", stop)
    with pytest.raises(StopError):
        seen.add("x")
    monkeypatch.undo()
    with BloomFilter.open(seen.path) as again:
        assert "x" in again


def test_asyncio_forbidden(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where asyncio may not be imported there are no tasks, and blocks are as ever."""
    monkeypatch.setitem(sys.modules, "asyncio", None)
    with seen.locked():
        assert seen.add("in a block")
    assert "in a block" in seen


@pytest.mark.parametrize("on_full", ["warn", "raise"])
def test_full_at_the_same_key(path: str, on_full: OnFull) -> None:
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


def test_a_large_batch_after_single_keys_is_told(path: str) -> None:
    """Keys that went past the writer count: who goes past the plan is told before the batch."""
    few = [[f"{start} {number}" for number in range(240)] for start in range(4)]
    many = [f"many {number}" for number in range(2265)]
    with BloomFilter.create(path, 3000, 0.01, seed=1) as seen, warnings.catch_warnings():
        warnings.simplefilter("error", CapacityWarning)
        soon()
        seen.add("looked")
        for keys in few:
            seen.add_many(keys)
        with pytest.raises(CapacityWarning):
            seen.add_many(many)
        assert seen.info().keys_added < 1000


@every_kind
def test_exclusions(make: Make, tmp_path: Path) -> None:
    """What this process excludes counts at once, what another excludes after a moment."""
    path = tmp_path / "seen"
    with make(path) as seen:
        for key in ("a", "b", "trusted"):
            seen.add(key)
            assert key in seen
            seen.exclusions.add(key)
            assert key not in seen
            assert not seen.contains_many([key]).any()
            assert seen.add(key)
            seen.exclusions.discard(key)
            assert key in seen
            assert not seen.add(key)

        def exclude() -> None:
            with mmbloom.open(path) as other:
                other.exclusions.add("trusted")

        in_child(exclude)
        time.sleep(MOMENT)
        assert "trusted" not in seen
        assert seen.add("trusted")


def test_verified_keys(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_moved_array(path: str, shared: Path) -> None:
    """Another process moves the array to shared memory and back amid a run of keys."""

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


def test_a_moved_array_is_let_go(path: str, shared: Path) -> None:
    """A copy in shared memory that is gone is mapped no longer than until the next batch."""
    writer = BloomFilter.create(path, 1_000_000, resident=True)
    with BloomFilter.open(path, "r") as reader:
        writer.add("x")
        for _ in range(2):
            assert "x" in reader
        assert str(shared) in Path("/proc/self/maps").read_text()
        writer.close()
        assert reader.contains_many(["x"]).all()
        assert str(shared) not in Path("/proc/self/maps").read_text()


def test_a_handler_amid_a_move(path: str, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a signal handler adds while the array is read into memory is refused, and not lost."""
    BloomFilter.create(path, 10_000, 1e-6, resident=False).close()
    refused = list[bool]()
    with BloomFilter.open(path, resident=True) as seen:
        load = WorkingCopy._load

        def handle(*_: Any) -> None:
            with suppress(ReentryError):
                seen.add("of a handler")
                return
            refused.append(True)

        def loaded(*arguments: Any) -> int:
            found = load(*arguments)
            signal.raise_signal(signal.SIGALRM)
            return found

        monkeypatch.setattr(WorkingCopy, "_load", loaded)
        before = signal.signal(signal.SIGALRM, handle)
        soon()
        try:
            assert "old" not in seen  # a look that is good for the handler, too
            with seen.locked():
                seen.add("in a block")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert ("of a handler" in seen) != bool(refused)
    with BloomFilter.open(path) as again:
        assert ("of a handler" in again) != bool(refused)
        assert "in a block" in again
