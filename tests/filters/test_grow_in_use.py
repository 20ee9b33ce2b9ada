"""Growing in use: a file becomes a folder while it is open, and whoever has it open follows."""

import os
import pickle
import random
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import pytest
from chains import InUse, files_of
from checks import claim
from descriptors import open_files
from workers import in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    DurabilityError,
    FileChangedError,
    Filter,
    FormatError,
    GrowingFilter,
    OtherKindError,
    RotatingFilter,
    grow,
    hash_many,
    verify,
)
from mmbloom._engine import Hold
from mmbloom._storage.atomic import sync_folder
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.opening import BITS
from mmbloom._system.sections import BLOCK, outlast
from mmbloom._system.typing import Words
from mmbloom.filters import growing
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import BitFile
from mmbloom.filters.growable import GrowableFile
from mmbloom.filters.growing import GrowingChain

OnFull = Literal["warn", "raise", "grow"]
OLD = range(100)


def full(path: Path) -> str:
    """Make a file with the keys that it is planned for, and an exclusion."""
    with BloomFilter.create(path, len(OLD), 1e-9) as seen:
        seen.add_many(OLD)
        seen.exclusions.add("aunt")
    return str(path)


def grow_and_add(path: str) -> None:
    """Make a folder of the file meanwhile, and two further files of it."""
    grow(path)
    with GrowingFilter.open(path) as grown:
        grown.add_many(range(100, 400))


def in_block(seen: Filter, key: str) -> bool:
    with seen.locked():
        return seen.add(key)


def by_hash(seen: Filter, key: str) -> bool:
    assert isinstance(seen, BloomFilter)
    seen.exclusions.discard("aunt")  # which are compared by the keys themselves
    return bool(seen.add_hashes(*hash_many([key], seen.params))[0])


WAYS: dict[str, Callable[[Filter, str], bool]] = {
    "add": lambda seen, key: seen.add(key),
    "add_many": lambda seen, key: bool(seen.add_many([key])[0]),
    "update": lambda seen, key: bool(seen.update(iter([key]))),
    "claim": lambda seen, key: claim(seen, [key])[0],
    "block": in_block,
    "hashes": by_hash,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("on_full", ["warn", "raise", "grow"])
@pytest.mark.parametrize("first", [True, False], ids=["first write", "later"])
def test_writers_follow(tmp_path: Path, way: str, on_full: OnFull, first: bool) -> None:
    """Whatever the call, and how the file was opened: it goes on with the folder."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path, on_full=on_full) as seen:
        assert first or not seen.add(0)
        grow_and_add(path)
        assert WAYS[way](seen, "new")
        assert not WAYS[way](seen, "new")
        assert not seen.add_many(range(400)).any()
        assert len(mmbloom.open(path).info().files) == 3
    with GrowingFilter.open(path) as grown:
        assert "new" in grown
        assert [file.keys_added for file in grown.info().files] == [100, 200, 101]
    assert verify(path).ok


def test_a_writer_follows_while_the_file_is_the_only_one(tmp_path: Path) -> None:
    """It gives up the lock that it had of the file, which it could not take a second time."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path, lock_timeout=0.2) as seen:
        assert not seen.add(0)
        grow(path)
        assert not seen.add_many([0, 1]).any()
        with seen.locked():
            assert seen.add("new")


ASKED: dict[str, Callable[[BloomFilter], object]] = {
    "in": lambda seen: 399 in seen,
    "contains_many": lambda seen: seen.contains_many(range(400)).all(),
    "few": lambda seen: all(seen.contains_many([300, 399])),
    "keys_added": lambda seen: seen.keys_added == 400,
    "info": lambda seen: seen.info().as_dict()["kind"] == "growing",
    "key_rule": lambda seen: seen.key_rule is None,
    "excluded": lambda seen: list(seen.exclusions) == [b"aunt"],
    "pickle": lambda seen: 399 in pickle.loads(pickle.dumps(seen)),
    "rate": lambda seen: seen.fill_ratio > 0 and seen.current_error_rate < 1e-6,
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_readers_follow(tmp_path: Path, asked: str, mode: Literal["r", "r+"]) -> None:
    """Each question, as the first one after the change, is about the folder."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path, mode, on_full="grow" if asked == "pickle" else "warn") as seen:
        assert 99 in seen
        assert seen.capacity == 100
        grow_and_add(path)
        assert ASKED[asked](seen)
        assert "aunt" not in seen
        assert 399 in seen
        assert (seen.capacity, seen.params.capacity) == (700, 100)


AMID: dict[str, Callable[[BloomFilter], object]] = {
    **{name: ASKED[name] for name in ("in", "contains_many")},
    "grounds": lambda seen: seen._shelf.grounds(0, 16) is None,
    "add": lambda seen: not seen.add(399) and seen.add("new"),
    "add_many": lambda seen: seen.add_many([399, "new"]).tolist() == [False, True],
}


@pytest.mark.parametrize("use", AMID)
def test_a_call_while_the_object_becomes_a_folder(
    tmp_path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file has its new path, and the object does not know of the others yet.

    Another thread may call at that moment; here it is the same one, as from a signal handler.
    """
    path = full(tmp_path / "seen")
    rename, called = BitFile.rename, list[bool]()

    def renamed(*arguments: Any) -> None:
        rename(*arguments)
        if not called:
            called.append(False)
            called[0] = bool(AMID[use](seen))

    with BloomFilter.open(path) as seen:
        assert not seen.add(0)
        grow_and_add(path)
        monkeypatch.setattr(BitFile, "rename", renamed)
        assert 0 in seen
        assert called == [True]
        assert 399 in seen
    with GrowingFilter.open(path) as grown:
        assert grown.info().files[0].keys_added == 100


def test_a_handler_that_asks_while_the_file_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the folder, and so it is what makes the object one; the call goes on with that."""
    path, asked = full(tmp_path / "seen"), list[bool]()

    def interrupted() -> None:
        asked.append(99 in seen)  # as a signal handler does
        outlast()

    monkeypatch.setattr("mmbloom.filters.grow.outlast", interrupted)
    with BloomFilter.open(path, on_full="grow") as seen:
        assert seen.add_many(range(100, 400)).all()
        assert asked == [True]
        assert len(files_of(path)) == 3
        assert in_child(lambda: mmbloom.open(path, lock_timeout=1.0).add("theirs"))


@pytest.mark.parametrize("step", ["_storage.atomic.sync_folder", "_storage.lock.WriteLock.held"])
def test_a_block_goes_on_when_the_last_step_failed(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is at the path, and the block has its lock: that of the first file."""
    path = full(tmp_path / "seen")

    def refuse() -> None:
        raise OSError(5, "Input/output error")

    def fail(given: str | WriteLock, *_: object) -> Hold | None:
        if isinstance(given, WriteLock):
            return Hold(given.state, 0.0, BLOCK, refuse)
        sync_folder(given)
        if given == str(tmp_path):
            refuse()
        return None

    with BloomFilter.open(path, on_full="grow") as seen:
        with seen.locked():
            monkeypatch.setattr(f"mmbloom.{step}", fail)
            with pytest.raises(OSError, match="Input/output error"):
                seen.add("new")
            monkeypatch.undo()
            assert os.path.isdir(path)
            with pytest.raises(mmbloom.LockTimeoutError):
                in_child(lambda: mmbloom.open(path, lock_timeout=0.05).add("theirs"))
            assert [seen.add("new") for _ in range(2)] == [True, False]
        assert in_child(lambda: mmbloom.open(path, lock_timeout=1.0).add("theirs"))


def test_another_thread_closes_it_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits, and then closes the folder: each file, and not the first alone."""
    path, grown, others = full(tmp_path / "seen"), threading.Event(), list[bool]()

    def wait() -> None:
        grown.set()
        while closer.is_alive() and not others:  # until it waits, or has closed the file
            others.append(closer.is_alive())
            closer.join(0.05)
        outlast()

    def close() -> None:
        grown.wait()
        seen.close()

    closer = threading.Thread(target=close)
    monkeypatch.setattr("mmbloom.filters.grow.outlast", wait)
    with BloomFilter.open(path, on_full="grow") as seen:
        closer.start()
        assert seen.add_many(range(100, 200)).all()
        closer.join()
        assert seen.closed
        with pytest.raises(mmbloom.ClosedFilterError):
            seen.add(0)
        real = os.path.realpath(path)
        assert not [file for file in open_files().values() if file.startswith(real)]


def test_no_file_stays_open(tmp_path: Path) -> None:
    """Nor the lock of the file as it was, where nothing was added since."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        assert not seen.add(0)
        grow(path)
        assert 99 in seen
    first = files_of(path)[0].stat()
    assert not [fd for fd in open_files() if os.path.samestat(os.fstat(fd), first)]


@pytest.mark.parametrize("moment", ["manifest_of", "GrowingChain"])
def test_a_handler_closes_it_while_it_follows(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, place = full(tmp_path / "seen"), f"mmbloom.filters.growing.{moment}"
    original = getattr(growing, moment)

    def closing(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        seen.close()
        return original(*arguments, **options)

    with BloomFilter.open(path) as seen:
        assert 0 in seen
        grow(path)
        monkeypatch.setattr(place, closing)
        with pytest.raises(mmbloom.ClosedFilterError):
            seen.contains_many([0])
        assert seen.closed


@pytest.mark.parametrize("begun", ["add_one", "grounds"])
def test_it_becomes_a_folder_when_a_method_has_begun(tmp_path: Path, begun: str) -> None:
    """Another thread that asks may run before the first line of any method of the file."""
    path, followed = full(tmp_path / "seen"), list[bool]()

    def note(frame: FrameType, event: str, _: object) -> None:
        shelf = frame.f_locals.get("self")
        if (event, frame.f_code.co_name, type(shelf)) == ("call", begun, GrowableFile):
            sys.setprofile(None)
            grow(path)
            assert isinstance(shelf, GrowableFile)
            followed.append(shelf.follow())

    with BloomFilter.open(path) as seen:
        assert seen.add_many([0]).tolist() == [False]
        sys.setprofile(note)
        try:
            assert not seen.add(1)
            if not followed:  # the other engine trusts no check
                assert seen._grounds(0, 1) is None
        finally:
            sys.setprofile(None)
        assert followed == [True]
        assert seen.add("new")
        assert len(files_of(path)) == 2


@pytest.mark.parametrize("step", ["CapacityCheck", "WriteLock"])
def test_interrupted_while_it_follows(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call goes on, and the first file gets no key that goes past its plan."""
    path = full(tmp_path / "seen")
    place = {
        "CapacityCheck": "mmbloom.filters.file.CapacityCheck",
        "WriteLock": "mmbloom.filters.growing.WriteLock",
    }

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with BloomFilter.open(path) as seen:
        assert 0 in seen
        grow(path)
        monkeypatch.setattr(place[step], interrupt)
        with pytest.raises(KeyboardInterrupt):
            seen.contains_many([0])
        monkeypatch.undo()
        assert seen.add_many(range(100, 400)).all()
        assert [file.keys_added for file in mmbloom.open(path).info().files] == [100, 200, 100]


def test_a_union_as_the_first_write_after_it_has_grown(tmp_path: Path) -> None:
    """It needs the lock of the file, which others have, and is refused."""
    path = full(tmp_path / "seen")
    with (
        BloomFilter.open(path, lock_timeout=0.1) as seen,
        BloomFilter.create(tmp_path / "alike", like=seen) as alike,
    ):
        alike.add_many(range(100, 200))
        grow(path)
        with GrowingFilter.open(path) as grown, grown.locked():
            with pytest.raises(mmbloom.LockTimeoutError):
                in_child(lambda: seen.union_update(alike))
            assert not grown.contains_many(range(100, 200)).any()
        with pytest.raises(OtherKindError, match="growing"):
            seen.union_update(alike)
        assert not seen.contains_many(range(100, 200)).any()


def test_a_recount_as_the_first_write_after_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All counting is under the lock of the file."""
    path, count = full(tmp_path / "seen"), BITS.count_set
    tried: list[bool] = []

    def add() -> bool:
        with mmbloom.open(path, lock_timeout=0.05) as other:
            return other.add("theirs")

    def counted(words: Words) -> int:
        with pytest.raises(mmbloom.LockTimeoutError):
            in_child(add)
        tried.append(True)
        return count(words)

    with BloomFilter.open(path) as seen:
        set_before = seen.recount()
    with BloomFilter.open(path) as seen:
        grow(path)
        monkeypatch.setattr(BitFile, "kind", BITS._replace(count_set=counted))
        assert seen.recount() == set_before
        assert tried == [True]


def test_another_thread_follows_during_a_question(tmp_path: Path) -> None:
    path = full(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        shelf = seen._shelf
        grow(path)
        assert shelf.ask(lambda members: (99 in seen, len(members))) == (True, 1)
        assert isinstance(shelf, GrowingChain)


def test_an_excluded_key_while_the_file_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the exclusions is in the folder when the answer is corrected by it."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        seen.add("aunt")
    refresh = ExclusionList.refresh

    def later(exclusions: ExclusionList) -> None:
        monkeypatch.undo()
        grow(path)
        refresh(exclusions)

    with BloomFilter.open(path, "r") as seen:
        assert "aunt" not in seen
        monkeypatch.setattr(ExclusionList, "refresh", later)
        assert not seen.contains_many(["aunt"]).any()
        assert os.path.isdir(path)
        assert list(seen.exclusions) == [b"aunt"]


@pytest.mark.parametrize("batch", [1, 7, 64, 3000])
def test_each_key_is_new_once(tmp_path: Path, batch: int, seed: int) -> None:
    """In every way, with batches far beyond the plan: the answers are those of a set."""
    chance = random.Random(seed)
    known: set[int] = set()
    with InUse().create(tmp_path / "seen") as seen, BloomFilter.open(seen.path, "r") as reader:
        for _ in range(600 // batch + 3):
            keys = [chance.randrange(900) for _ in range(batch)]
            expected = [key not in known and not known.add(key) for key in keys]  # type: ignore[func-returns-value]
            way = chance.randrange(4)
            if way == 0:
                found = [seen.add(key) for key in keys]
            elif way == 1:
                found = seen.add_many(np.array(keys)).tolist()
            elif way == 2:
                with seen.locked():
                    found = [seen.add(key) for key in keys]
            else:
                with seen.claim(keys) as new:
                    found = new.tolist()
            assert found == expected
            assert reader.contains_many(keys).all()
            assert not reader.contains_many([key + 10_000 for key in keys]).any()
        assert seen.keys_added == len(known)
        files = seen.info().files if len(known) > 20 else []
        assert [file.capacity for file in files] == [20 << i for i in range(len(files))]
        assert all(file.keys_added == file.capacity for file in files[:-1])


def test_a_filter_that_stays_within_its_plan_stays_a_file(tmp_path: Path) -> None:
    """Also where a batch might have gone past it, and at exactly the last key."""
    path = tmp_path / "seen"
    with BloomFilter.create(path, 100, 1e-9, on_full="grow") as seen:
        seen.add_many(range(100))
        assert not seen.add_many([*range(100)] * 5).any()
        assert not seen.add(7)
        with seen.claim(range(100)) as new:
            assert not new.any()
        assert path.is_file()
        assert seen.add("one more")
        assert path.is_dir()


def test_what_a_block_claimed_is_marked_after_it_has_grown(tmp_path: Path) -> None:
    """The keys that a block adds take the room; one that raises marks only those."""
    path = tmp_path / "seen"
    with BloomFilter.create(path, 100, 1e-9, on_full="grow") as seen:
        with seen.claim(["a", "b"]) as new:
            assert new.all()
            assert path.is_file()
            assert seen.add_many(range(500)).all()
            assert path.is_dir()
            assert "a" not in seen
        assert not seen.add_many(["a", "b"]).any()
        with pytest.raises(KeyError), seen.claim(range(500, 5000)):
            raise KeyError
        assert seen.add_many(range(500, 5000)).all()


def test_a_block_keeps_the_lock_while_it_grows(tmp_path: Path) -> None:
    """Other processes add before it or after it."""
    path = str(tmp_path / "seen")

    def add() -> bool:
        with mmbloom.open(path, lock_timeout=0.05) as other:
            return other.add("theirs")

    with BloomFilter.create(path, 100, 1e-9, on_full="grow") as seen:
        with seen.locked():
            seen.add_many(range(99))
            for key in range(99, 400):
                seen.add(key)
                if key in (99, 100, 150, 300):
                    with pytest.raises(mmbloom.LockTimeoutError):
                        in_child(add)
        assert in_child(add)
        assert not seen.add("theirs")
        assert seen.recount() > 0  # of each file, by its new path


def test_programs_of_one_line(tmp_path: Path) -> None:
    """`create` with `exist_ok`, `open_or_create` and `open` work before it has grown and after."""
    path = str(tmp_path / "seen")
    opened: list[Callable[[], Filter]] = [
        partial(BloomFilter.create, path, 100, 1e-9, exist_ok=True, on_full="grow"),
        partial(mmbloom.open_or_create, path, 100, 1e-9, on_full="grow"),
        partial(mmbloom.open, path, on_full="grow"),
    ]
    keys = iter(range(10_000))
    for turn in range(6):
        for how in opened:
            with how() as seen:
                assert seen.add_many([next(keys) for _ in range(60)]).all(), turn
    with pytest.raises(mmbloom.ParameterMismatchError):
        BloomFilter.create(path, 200, 1e-9, exist_ok=True, on_full="grow")
    with pytest.raises(FormatError, match=r"mmbloom\.open opens a folder"):
        BloomFilter.open(path)


def test_what_is_about_one_file_is_refused_then(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    with (
        BloomFilter.create(path, 100, 1e-9, on_full="grow") as seen,
        BloomFilter.create(tmp_path / "alike", like=seen) as alike,
    ):
        seen.union_update(alike)
        seen.add_many(range(300))
        for name in ("union_update", "common_count", "jaccard", "isdisjoint", "issubset", "__eq__"):
            use = getattr(seen, name)
            with pytest.raises(OtherKindError, match="growing"):
                use(alike)
        with pytest.raises(OtherKindError, match="growing"):
            alike.union_update(seen)


def test_what_cannot_grow_is_refused_at_once(tmp_path: Path) -> None:
    """Before anything is made or added."""
    with pytest.raises(ValueError, match="a CountingBloomFilter cannot grow: pass on_full='warn'"):
        CountingBloomFilter.create(tmp_path / "new", 100, on_full="grow")
    with pytest.raises(ValueError, match="a RotatingFilter cannot grow"):
        RotatingFilter.create(tmp_path / "new", capacity_per_period=10, on_full="grow")
    for open_new in (BloomFilter.create, mmbloom.open_or_create):
        with pytest.raises(ValueError, match=r"new: cannot grow: .*that of the whole would be 1"):
            open_new(tmp_path / "new", 10, 0.5, on_full="grow")
    assert not os.listdir(tmp_path)
    BloomFilter.create(tmp_path / "half", 10, 0.5).close()
    with pytest.raises(ValueError, match=r"half: cannot grow: .*that of the whole would be 1"):
        BloomFilter.open(tmp_path / "half", on_full="grow")
    (tmp_path / "link").symlink_to(full(tmp_path / "seen"))
    with pytest.raises(FormatError, match="a symbolic link, expected the file itself"):
        BloomFilter.open(tmp_path / "link", on_full="grow")


def test_another_filter_at_the_path_is_an_error(tmp_path: Path) -> None:
    """A folder that did not grow out of this file is none that may be added to."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        os.rename(path, tmp_path / "away")
        GrowingFilter.create(path, 100).close()
        for _ in range(2):
            with pytest.raises(FileChangedError, match="replaced by a folder"):
                seen.add("new")
            with pytest.raises(FileChangedError, match="replaced by a folder"):
                seen.contains_many(["new"])


def test_a_failed_flush_is_final_in_the_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = full(tmp_path / "seen")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with BloomFilter.open(path) as seen:
        seen.add(0)
        monkeypatch.setattr("mmbloom._system.disk.sync", fail)
        with pytest.raises(DurabilityError):
            seen.flush()
        monkeypatch.undo()
        grow(path)
        assert 0 in seen
        with pytest.raises(DurabilityError):
            seen.add("new")


@pytest.mark.parametrize("on_full", ["warn", "raise", "grow"])
def test_a_pickle_of_before_opens_the_folder(tmp_path: Path, on_full: OnFull) -> None:
    with BloomFilter.create(tmp_path / "seen", 100, 1e-9, on_full=on_full) as seen:
        before: Any = pickle.dumps(seen)
        grow(seen.path)
        seen.add_many(range(500))
        with pickle.loads(before) as one, pickle.loads(pickle.dumps(seen)) as two:
            assert not one.add_many(range(500)).any()
            assert one.add("new")
            assert "new" in two
            assert type(one) is type(two) is BloomFilter
    os.rename(tmp_path / "seen", tmp_path / "away")
    GrowingFilter.create(tmp_path / "seen", 100).close()
    with pytest.raises(FileChangedError, match="replaced by another filter"):
        pickle.loads(before)


def test_a_disk_that_is_full_marks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call says so; the file grows at a later one."""
    path = full(tmp_path / "seen")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with BloomFilter.open(path, on_full="grow") as seen:
        monkeypatch.setattr("mmbloom._storage.folder.draft_manifest", fail)
        with pytest.raises(OSError, match="No space left"):
            seen.add_many(["new"])
        assert "new" not in seen
        assert os.path.isfile(path)
        monkeypatch.undo()
        assert seen.add_many(["new"]).all()
        assert len(files_of(path)) == 2
    assert os.listdir(tmp_path) == ["seen"]


def test_a_flush_that_waited_while_the_file_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps out a close by another thread, which has the lock of the folder's file."""
    path, kept_out = full(tmp_path / "seen"), list[bool]()
    own_threads = WriteLock.own_threads

    def grown_meanwhile(lock: WriteLock) -> AbstractContextManager[object]:
        monkeypatch.undo()
        grow(path)
        assert 0 in seen
        (file,) = seen._shelf.members
        array, force = file.storage.array, file.storage.array.flush

        def flush(*arguments: Any) -> None:
            threads: Any = file.lock.state.threads
            kept_out.append(threads._is_owned())
            force(*arguments)

        monkeypatch.setattr(array, "flush", flush)
        return own_threads(lock)

    with BloomFilter.open(path) as seen:
        assert not seen.add(0)
        monkeypatch.setattr(WriteLock, "own_threads", grown_meanwhile)
        seen.flush()
        monkeypatch.undo()
        assert kept_out == [True]
