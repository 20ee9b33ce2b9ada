"""Who has a share in a copy: closers, forks, threads, signal handlers and other containers."""

import errno
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from copies import NEW, OLD, copies, left_behind, missing, name_in
from workers import PATIENCE, Child, in_child

from mmbloom import BloomFilter, ReentryError
from mmbloom._storage import moving, working_copy
from mmbloom._storage.share import Share
from mmbloom._system import memory
from mmbloom.errors import LockTimeoutError, MmbloomWarning, ReservationWarning

WORKERS, ROUNDS = 4, 40


def test_the_last_of_many_closers_brings_the_file_up_to_date(file: str) -> None:
    """Processes open, add and close at once, each many times: nothing is lost, nothing is left."""

    def work(worker: int) -> None:
        for number in range(ROUNDS):
            with BloomFilter.open(file, resident=True) as seen:
                assert seen.add(f"{worker} {number}")

    children = [Child(lambda worker=worker: work(worker)) for worker in range(WORKERS)]  # type: ignore[misc]
    for child in children:
        child.result()
    assert copies() == []
    assert name_in(file) == bytes(32)
    with BloomFilter.open(file, "r", resident=False) as seen:
        keys = [f"{worker} {number}" for worker in range(WORKERS) for number in range(ROUNDS)]
        assert seen.contains_many(keys).all()


def test_a_thread_that_follows_late_changes_nothing(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader found its map out of date and was overtaken by a writer, which moves the array."""
    make = working_copy.WorkingCopy.make
    with BloomFilter.open(file, resident=True) as seen:
        array = seen._storage.array

        def overtaken(*arguments: Any, **options: Any) -> object:
            before = array.mapped
            thread = threading.Thread(target=array._find_array)
            thread.start()
            thread.join()
            assert array.mapped is before
            return make(*arguments, **options)

        monkeypatch.setattr(working_copy.WorkingCopy, "make", overtaken)
        assert seen.add("x")
        assert seen.info().resident


def test_two_who_both_think_that_they_are_the_last(file: str) -> None:
    """Of two that have written the file, and come to give the copy up, the second one does."""
    with BloomFilter.open(file, resident=True) as one, BloomFilter.open(file) as other:
        one.add("x")
        assert other.info().resident
        one.flush()
        for seen in (one, other):
            assert len(copies()) == 1
            with seen._shelf.newest.lock.held(1.0):
                assert seen._storage.array.give_back()
        assert copies() == []


def test_opener_amid_a_leave(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has found a copy that is given up before it has a share in it takes the file."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)

    def share_too_late(*arguments: Any) -> Share:
        seen.close()
        patch.undo()
        return Share(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(moving, "Share", share_too_late)
        other = BloomFilter.open(file)
    with other:
        assert not other.info().resident
        assert missing(other, NEW) == 0
        assert other.add("x")


def test_readers_follow_both_ways(file: str) -> None:
    """A reader that asks all the while misses no key, while writers come and go."""
    told, write = os.pipe()

    def read() -> None:
        os.close(write)
        asked = 0
        with BloomFilter.open(file, "r") as seen, os.fdopen(told, "rb") as pipe:
            while key := pipe.read(8):
                assert int.from_bytes(key, "little") in seen
                asked += 1
        assert asked == 3 * ROUNDS

    child = Child(read)
    os.close(told)
    for number in range(0, 3 * ROUNDS, 3):
        with BloomFilter.open(file, resident=True) as seen:
            for key in range(number + 7_000, number + 7_003):
                seen.add(key)
                os.write(write, key.to_bytes(8, "little"))
    os.close(write)
    child.result()


def test_idle_child_keeps_nothing(file: str) -> None:
    """A forked child that does not use the filter does not keep its parent from writing it."""
    done, end = os.pipe()
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    child = Child(lambda: os.read(done, 1))
    seen.close()
    assert copies() == []
    with BloomFilter.open(file, "r", resident=False) as again:
        assert missing(again, NEW) == 0
    os.write(end, b"x")
    child.result()
    os.close(done)
    os.close(end)


def test_child_that_uses_it_keeps_it(file: str) -> None:
    """Its parent, which closes first, leaves the copy to it."""
    used, say_used = os.pipe()
    done, end = os.pipe()
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)

    def use() -> None:
        assert seen.add("child")
        os.write(say_used, b"x")
        os.read(done, 1)
        assert seen.add("later")
        seen.close()

    child = Child(use)
    os.read(used, 1)
    seen.close()
    assert len(copies()) == 1
    os.write(end, b"x")
    child.result()
    assert copies() == []
    with BloomFilter.open(file, "r", resident=False) as again:
        assert "child" in again
        assert "later" in again
    for fd in (used, say_used, done, end):
        os.close(fd)


def test_threads_of_one_object(file: str) -> None:
    """Threads add, ask and flush while the array is moved; all of them find what they added."""
    with BloomFilter.open(file, resident=True) as seen:

        def work(first: int) -> None:
            for start in range(first, first + 2000, 100):
                keys = np.arange(start, start + 100)
                seen.add_many(keys)
                assert seen.contains_many(keys).all()
                if start % 500 == 0:
                    seen.flush()

        threads = [threading.Thread(target=work, args=(10_000 * n,)) for n in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = np.concatenate([np.arange(10_000 * n, 10_000 * n + 2000) for n in range(1, 4)])
        assert seen.contains_many(keys).all()
    with BloomFilter.open(file, "r", resident=False) as again:
        assert again.contains_many(keys).all()
    assert copies() == []


def test_handler_amid_a_move(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called amid a move is refused: its key could be left behind in the file."""
    real, refused = working_copy._pieces, list[BaseException]()

    def pieces(*arguments: int) -> Iterator[object]:
        for piece in real(*arguments):  # type: ignore[arg-type]
            yield piece
            for call in (lambda: seen.add("amid"), lambda: seen.add_many(["amid"])):
                with pytest.raises(ReentryError) as caught:
                    call()
                refused.append(caught.value)

    with BloomFilter.open(file, resident=True) as seen:
        with monkeypatch.context() as patch:
            patch.setattr(working_copy, "_pieces", pieces)
            with seen.locked():  # in which a handler may add, otherwise
                assert seen.add("outer")
        assert refused
        assert seen.info().resident
        assert "amid" not in seen
        assert seen.add("amid")
    with BloomFilter.open(file, "r", resident=False) as again:
        assert "outer" in again


def test_other_container(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the copy cannot be found, a filter that others use is refused, whatever the boot."""
    there = tmp_path / "other"
    there.mkdir()
    with BloomFilter.open(file, resident=True) as seen:
        seen.add("x")
        for boot in (memory.boot_id(), b"another kernel's"):
            with monkeypatch.context() as patch:
                patch.setattr(memory, "SHARED", str(there))
                patch.setattr(memory, "boot_id", lambda boot=boot: boot)
                for mode in ("r", "r+"):
                    with pytest.raises(OSError, match="others use it") as caught:
                        BloomFilter.open(file, mode)
                    assert caught.value.errno == errno.EBUSY
    with monkeypatch.context() as patch:  # given up in order: the file counts
        patch.setattr(memory, "SHARED", str(there))
        with BloomFilter.open(file, "r") as seen:
            assert "x" in seen


def test_reader_of_a_lost_copy_sees_that_others_use_it(file: str) -> None:
    """A reader that took a copy for lost is told when another container turns out to have it."""
    copy = left_behind(file)
    away = copy.with_name("elsewhere")
    copy.rename(away)
    with pytest.warns(MmbloomWarning, match="the file is used"):
        reader = BloomFilter.open(file, "r")
    with reader:
        assert missing(reader, OLD) == 0
        fd = os.open(file, os.O_RDWR)
        share = Share(fd, file)  # as the writer there takes it
        with pytest.raises(OSError, match="others use it"):
            reader.contains_many(OLD)
        away.rename(copy)
        assert missing(reader, NEW) == 0
        share.close()
        os.close(fd)


def test_who_gives_up_is_waited_for(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An opener waits while a copy is given up, and takes the file; not for ever."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    share = seen._storage.array.place.share
    assert share is not None
    with share.alone() as alone:
        assert alone
        opened = list[bool]()

        def open_it() -> None:
            with BloomFilter.open(file) as other:
                opened.append(missing(other, NEW) == 0)

        opener = threading.Thread(target=open_it)
        opener.start()
        opener.join(0.1)
        assert opener.is_alive()
    opener.join(PATIENCE)
    assert opened == [True]
    with share.alone(), monkeypatch.context() as patch:
        patch.setattr("mmbloom._storage.share._PATIENCE", 0.05)
        with pytest.raises(LockTimeoutError):
            BloomFilter.open(file)
    seen.close()
    assert copies() == []


def test_access_list_stays_with_the_file(file: str) -> None:
    """Whom an access control list lets in could not use a copy: the file is changed itself."""
    entries = ((1, 6, -1), (2, 6, 12345), (4, 0, -1), (16, 6, -1), (32, 0, -1))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", packed)
    except OSError:
        pytest.skip("this file system has no access control lists")
    with BloomFilter.open(file, resident=True) as seen:
        with pytest.warns(ReservationWarning, match="its access control list cannot be given"):
            seen.add("x")
        assert not seen.info().resident
    assert copies() == []


def test_interrupted_move(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends a move leaves no copy, no share and no lock; the next key moves it."""

    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    with BloomFilter.open(file, resident=True) as seen:
        with monkeypatch.context() as patch:
            patch.setattr(working_copy, "count_set", interrupt)
            with suppress(KeyboardInterrupt):
                seen.add("x")
                pytest.fail("nothing was raised")
        assert copies() == []

        def other() -> None:
            with BloomFilter.open(file, resident=True, lock_timeout=1.0) as again:
                assert again.add("y")
                assert again.info().resident

        in_child(other)
        assert copies() == []
        assert seen.add("x")
        assert seen.info().resident
        assert "y" in seen


def test_closing_waits_for_nobody_who_has_a_share(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer closes at once while another one holds the lock: that one will be the last."""
    seen = BloomFilter.open(file, resident=True)
    seen.add("x")
    with BloomFilter.open(file) as other, other.locked():
        assert other.add("y")
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
            seen.close()
    assert copies() == []
