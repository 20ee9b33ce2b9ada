"""Who has a share in a copy: closers, forks, threads, signal handlers and other containers."""

import errno
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from checks import run_threads
from copies import NEW, OLD, check_saved, copies, left_behind, missing, name_in
from steps import Refused, at_next_call, interrupt
from workers import PATIENCE, Child, in_child, together

from mmbloom import BloomFilter
from mmbloom._storage import moving, working_copy
from mmbloom._storage.lock import WriteLock
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

    together([partial(work, worker) for worker in range(WORKERS)])
    assert name_in(file) == bytes(32)
    check_saved(
        file, [f"{worker} {number}" for worker in range(WORKERS) for number in range(ROUNDS)]
    )


def test_a_thread_that_follows_late_changes_nothing(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader found its map out of date and was overtaken by a writer, which moves the array."""
    with BloomFilter.open(file, resident=True) as seen:
        array = seen._storage.array

        def overtaken() -> None:
            before = array.mapped
            run_threads(array._find_array)
            assert array.mapped is before

        at_next_call(monkeypatch, working_copy.WorkingCopy, "make", overtaken)
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


def test_opener_amid_a_leave(file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has found a copy that is given up before it has a share in it takes the file."""
    at_next_call(monkeypatch, moving, "Share", seen.close)
    with BloomFilter.open(file) as other:
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

        run_threads(*(partial(work, 10_000 * n) for n in range(1, 4)))
        keys = np.concatenate([np.arange(10_000 * n, 10_000 * n + 2000) for n in range(1, 4)])
        assert seen.contains_many(keys).all()
    check_saved(file, keys)


def test_handler_amid_a_move(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called amid a move is refused: its key could be left behind in the file."""
    real, refused = working_copy._pieces, list[Refused]()

    def pieces(*arguments: int) -> Iterator[object]:
        for piece in real(*arguments):  # type: ignore[arg-type]
            yield piece
            for call in (lambda: seen.add("amid"), lambda: seen.add_many(["amid"])):
                refused.append(Refused(call))
                refused[-1]()

    with BloomFilter.open(file, resident=True) as seen:
        with monkeypatch.context() as patch:
            patch.setattr(working_copy, "_pieces", pieces)
            with seen.locked():  # in which a handler may add, otherwise
                assert seen.add("outer")
        assert refused
        assert seen.info().resident
        assert "amid" not in seen
        assert seen.add("amid")
    check_saved(file, ["outer"])


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
                    with pytest.raises(OSError, match="other processes use it") as caught:
                        BloomFilter.open(file, mode)
                    assert caught.value.errno == errno.EBUSY
    with monkeypatch.context() as patch:  # given up in order: the file counts
        patch.setattr(memory, "SHARED", str(there))
        with BloomFilter.open(file, "r") as seen:
            assert "x" in seen


def test_reader_of_a_lost_copy_sees_that_others_use_it(file: str) -> None:
    copy = left_behind(file)
    away = copy.with_name("elsewhere")
    copy.rename(away)
    with pytest.warns(MmbloomWarning, match="the file is used"):
        reader = BloomFilter.open(file, "r")
    with reader:
        assert missing(reader, OLD) == 0
        fd = os.open(file, os.O_RDWR)
        share = Share(fd, file)  # as the writer there takes it
        with pytest.raises(OSError, match="other processes use it"):
            reader.contains_many(OLD)
        away.rename(copy)
        assert missing(reader, NEW) == 0
        share.close()
        os.close(fd)


def test_who_gives_up_is_waited_for(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An opener waits while a copy is given up, and takes the file; not for ever."""
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
        with pytest.warns(
            ReservationWarning, match="a copy there cannot have its access control list"
        ):
            seen.add("x")
        assert not seen.info().resident
    assert copies() == []


@pytest.mark.parametrize(
    ("where", "name"),
    [(working_copy, "count_set"), (memory, "populate"), (moving.Place, "name")],
)
def test_interrupted_move(
    file: str, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    """Whatever ends a move leaves no copy, no share and no lock; the next key moves it."""
    with BloomFilter.open(file, resident=True) as seen:
        at_next_call(monkeypatch, where, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            seen.add("x")
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
    check_saved(file, OLD, ["x", "y"])


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


def use_share(fd: int, file: str) -> None:
    Share(fd, file).close()


def use_lock(_: int, file: str) -> None:
    status = os.stat(file)
    lock = WriteLock(file, (status.st_dev, status.st_ino), 1.0)
    with lock.held(1.0):
        pass
    with lock.closing():
        pass


def fork() -> None:
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        os._exit(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(("outer", "inner"), [(use_share, use_lock), (use_lock, use_share)])
def test_opens_one_amid_the_other(
    file: str, outer: Callable[[int, str], None], inner: Callable[[int, str], None]
) -> None:
    """What a child must not share is opened, in a finalizer perhaps, as a thread forks: no hang."""

    def act() -> bool:
        forker, fd = threading.Thread(target=fork, daemon=True), os.open(file, os.O_RDWR)

        def be_interrupted() -> None:
            forker.start()
            time.sleep(0.2)  # it waits, or has forked, by then
            inner(fd, file)

        at_next_call(pytest.MonkeyPatch(), os, "open", be_interrupted)
        outer(fd, file)
        os.close(fd)
        forker.join(PATIENCE)
        return not forker.is_alive()

    assert in_child(act)
