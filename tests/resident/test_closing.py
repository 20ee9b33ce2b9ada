"""Closing a filter in shared memory amid other things: its keys are in the file when it returns."""

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import in_thread
from copies import COPY_OFFSET, NEW, OLD, check_saved, copies, left_behind, missing, name_in
from faults import fail_with
from steps import Refused, at_next_call, calls_of, interrupt, kill
from workers import PATIENCE, Child, ChildDiedError, in_child

import mmbloom
from mmbloom import BloomFilter, verify
from mmbloom._storage import unmapped, working_copy
from mmbloom._storage.share import Share
from mmbloom._system import disk, memory
from mmbloom.errors import DurabilityError, FileChangedError
from mmbloom.filters import file as file_module

MORE = np.arange(7000, 7100)
FORK = multiprocessing.get_context("fork")
KEPT: list[BloomFilter] = []  # as long as a worker lives


def add_elsewhere(file: str, keys: Any) -> None:

    def add() -> None:
        with BloomFilter.open(file) as other:
            other.add_many(keys)

    in_child(add)


def test_amid_the_first_add_of_a_thread(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread moves the array, which takes long: close waits, and saves its keys."""
    moving, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        moving.set()
        assert go_on.wait(PATIENCE)

    at_next_call(monkeypatch, working_copy, "sweep", wait)
    seen = BloomFilter.open(file, resident=True)
    added = threading.Thread(target=seen.add_many, args=(NEW,))
    added.start()
    assert moving.wait(PATIENCE)
    closed = threading.Thread(target=seen.close)
    closed.start()
    closed.join(0.1)
    assert closed.is_alive()
    go_on.set()
    added.join()
    closed.join()
    check_saved(file, OLD, NEW)


@contextmanager
def flushing(seen: BloomFilter) -> Iterator[None]:
    """Have a thread flush for as long as the block takes; it has written the array by then."""
    writing, go_on = threading.Event(), threading.Event()
    real = working_copy.WorkingCopy.write_to

    def slow(*arguments: Any) -> None:
        real(*arguments)
        writing.set()
        assert go_on.wait(PATIENCE)

    flushed = threading.Thread(target=seen.flush)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working_copy.WorkingCopy, "write_to", slow)
        flushed.start()
        assert writing.wait(PATIENCE)
    try:
        yield
    finally:
        go_on.set()
        flushed.join()


def waiting(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread


def test_amid_the_queries_of_a_thread(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread asks while close gives the share up: it takes none, and is not taken for company."""
    found: list[bool] = []

    def ask() -> None:
        found.append(in_thread(lambda: bool(seen.contains_many(NEW).all())) is True)

    at_next_call(monkeypatch, Share, "has_company", ask)
    seen.close()
    assert found == [True]
    check_saved(file, OLD, NEW)


def test_amid_the_flush_of_a_thread(file: str, seen: BloomFilter) -> None:
    """A thread flushes, and another process adds: close waits, and saves those keys too."""
    with flushing(seen):
        add_elsewhere(file, MORE)
        closed = waiting(seen.close)
    closed.join()
    check_saved(file, OLD, NEW, MORE)


def test_in_a_handler_amid_a_flush(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused: the flush would go on writing to whatever gets the descriptor next."""
    close = Refused(seen.close)
    at_next_call(monkeypatch, working_copy, "write_at", close)
    seen.flush()
    assert close.times == 1
    seen.add_many(MORE)
    seen.close()
    check_saved(file, OLD, NEW, MORE)


def test_in_a_handler_amid_an_add(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close that is refused has given nothing up: others who close leave the copy to it."""
    close = Refused(seen.close)
    other = BloomFilter.open(file)
    assert other.info().resident
    at_next_call(monkeypatch, file_module.BitFile, "_finish", close)
    seen.add_many(MORE)
    assert close.times == 1
    other.close()
    assert len(copies()) == 1
    seen.close()
    check_saved(file, OLD, NEW, MORE)


def test_again_after_an_interrupt(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close that was interrupted can be repeated, and until then the filter is open."""
    at_next_call(monkeypatch, working_copy.WorkingCopy, "write_to", interrupt)
    with pytest.raises(KeyboardInterrupt):
        seen.close()
    seen.add_many(MORE)
    seen.close()
    check_saved(file, OLD, NEW, MORE)


def test_after_a_writer_was_killed_amid_a_batch(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch is never done: the file is written all the same, once, and the copy goes."""

    def die() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        at_next_call(pytest.MonkeyPatch(), file_module.BitFile, "_finish", kill)
        seen.add_many(MORE)

    with pytest.raises(ChildDiedError):
        in_child(die)
    assert len(copies()) == 1
    written = calls_of(monkeypatch, working_copy.WorkingCopy, "write_to")
    with BloomFilter.open(file) as seen:
        assert seen.info().unfinished_batches == 1
    assert len(written) == 1
    check_saved(file, OLD, NEW, MORE)


def test_while_visitors_come_and_go(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others add while the last one writes is saved as well, however often they come."""
    real, visits = working_copy.WorkingCopy.write_to, list[Any]()

    def write_to(*arguments: Any) -> None:
        real(*arguments)
        if len(visits) < 2:
            visits.append(MORE + 100 * len(visits))
            add_elsewhere(file, visits[-1])

    monkeypatch.setattr(working_copy.WorkingCopy, "write_to", write_to)
    seen.close()
    assert len(visits) == 2
    check_saved(file, OLD, NEW, *visits)


def test_worker_of_multiprocessing(file: str) -> None:
    """A worker that ends in order has its keys in the file, closed or not, opened or inherited."""
    inherited = BloomFilter.open(file, resident=True)

    def work() -> None:
        KEPT.append(BloomFilter.open(file, resident=True))
        KEPT[-1].add_many(NEW)

    for target, keys in ((work, NEW), (partial(inherited.add_many, MORE), MORE)):
        process = FORK.Process(target=target)
        process.start()
        process.join()
        assert process.exitcode == 0
        check_saved(file, OLD, keys)
    inherited.close()


def test_worker_that_found_the_copy_there(file: str) -> None:
    opened, closed = FORK.Event(), FORK.Event()
    first = BloomFilter.open(file, resident=True)
    first.add_many(MORE)

    def work() -> None:
        KEPT.append(BloomFilter.open(file, resident=True))
        opened.set()
        closed.wait()
        KEPT[-1].add_many(NEW)

    process = FORK.Process(target=work)
    process.start()
    opened.wait()
    first.close()
    closed.set()
    process.join()
    assert process.exitcode == 0
    check_saved(file, OLD, MORE, NEW)


def test_parent_that_goes_first(file: str) -> None:
    """The child of a process that went without closing, as daemons do, is the last one."""
    told, tell = os.pipe()

    def go() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:
            pass
        seen.close()
        os.write(tell, b"x")
        os._exit(0)

    Child(go).wait()
    os.close(tell)
    assert os.read(told, 1) == b"x"
    os.close(told)
    check_saved(file, OLD, NEW)


@pytest.mark.parametrize("change", [1, -1])
def test_file_that_was_resized(file: str, seen: BloomFilter, change: int) -> None:
    """Close says so, and keeps the copy: when the file has its size again, it has the keys."""
    size = os.path.getsize(file)
    os.truncate(file, size + change)
    with pytest.raises(FileChangedError, match="its array stays in shared memory"):
        seen.close()
    assert seen.closed
    assert len(copies()) == 1
    os.truncate(file, size)
    BloomFilter.open(file).close()
    check_saved(file, OLD, NEW)


def test_fsync_that_fails_once(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says once that something did not get to the disk: the next flush writes all."""
    seen.flush()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync", fail_with(errno.EIO))
        with pytest.raises(DurabilityError):
            seen.flush()
    copy = seen._storage.array.place.copy
    assert copy is not None
    assert not copy.is_written(seen._storage.counters["batches_begun"])
    seen.close()
    BloomFilter.open(file).close()
    check_saved(file, OLD, NEW)


def lost(file: str) -> None:
    """Let the header name a copy that is not there any more, of another boot."""
    copy = left_behind(file)
    copy.unlink()
    assert name_in(file).startswith(memory.boot_id())
    with Path(file).open("r+b") as raw:
        raw.seek(COPY_OFFSET)
        raw.write(b"of another start")


def test_stale_look_of_a_thread(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that found the file, before another moved the array, does not go back to it."""
    lost(file)
    found, go_on = threading.Event(), threading.Event()
    seen = BloomFilter.open(file, resident=True)

    def wait() -> None:
        found.set()
        go_on.wait(0.3)  # the mover waits for this thread, or this thread for the mover

    def look() -> None:
        at_next_call(monkeypatch, working_copy.WorkingCopy, "find", wait, after=True)
        assert 5 in seen

    with BloomFilter.open(file, resident=False) as other:
        other.add("forgets what was lost")
    reader, real = threading.Thread(target=look), time.sleep

    def sleep(seconds: float) -> None:  # as whoever has moved the array does
        if threading.current_thread() is threading.main_thread():
            go_on.set()
            reader.join(PATIENCE)
        real(seconds)

    reader.start()
    assert found.wait(PATIENCE)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        seen.add_many(NEW)
    reader.join()
    assert missing(seen, NEW) == 0
    with BloomFilter.open(file, "r") as other:
        assert missing(other, NEW) == 0
    seen.close()
    check_saved(file, OLD, NEW)


def test_handler_that_adds_while_the_array_is_looked_for(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and nothing is moved twice."""
    lost(file)
    seen = BloomFilter.open(file, resident=True)
    with BloomFilter.open(file, resident=False) as other:
        other.add("forgets what was lost")
    add = Refused(lambda: seen.add("handler"))
    before = signal.signal(signal.SIGUSR1, add)
    handle = partial(signal.raise_signal, signal.SIGUSR1)
    try:
        at_next_call(monkeypatch, working_copy.WorkingCopy, "find", handle, after=True)
        seen.add_many(NEW)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert add.times == 1
    assert "handler" not in seen
    seen.close()
    check_saved(file, OLD, NEW)


def test_verify_amid_moves(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted meanwhile is not taken for lost, whichever way the array goes."""

    def close_and_add() -> None:
        BloomFilter.open(file).close()
        with BloomFilter.open(file, resident=False) as seen:
            seen.add_many(MORE)

    for act in (lambda: left_behind(file), lambda: in_child(close_and_add)):
        with monkeypatch.context() as patch:
            at_next_call(patch, unmapped.UnmappedFilter, "header_first", act)
            assert verify(file).problems == ()
    mmbloom.copy(file, tmp_path / "copy")
    with BloomFilter.open(tmp_path / "copy", "r") as made:
        assert missing(made, MORE) == 0


def test_at_the_end_amid_the_flush_of_a_thread(file: str, seen: BloomFilter) -> None:
    """A program ends while a daemon thread flushes: its filter is saved when that is done."""
    with flushing(seen):
        left = waiting(seen._shelf.newest._left)  # as the interpreter calls it
    left.join()
    check_saved(file, OLD, NEW)
    seen.close()


def test_added_while_it_is_asked_whether_all_is_written(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of another process that comes between two looks at the counters is in the file."""
    seen.flush()
    other = BloomFilter.open(file, resident=True)
    add = partial(other.add_many, MORE)
    at_next_call(monkeypatch, working_copy.WorkingCopy, "is_written", add, after=True)
    seen.flush()
    seen.close()
    other.close()
    check_saved(file, OLD, NEW, MORE)


def test_a_handler_amid_a_close_does_not_wait(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = BloomFilter.open(file, resident=True, lock_timeout=30)
    assert seen._shelf.newest.lock.state.descriptor is not None or seen.add("first")
    seen.flush()
    seen.close()
    seen = BloomFilter.open(file, resident=True, lock_timeout=30)
    add = Refused(lambda: seen.add("late"))  # and no LockTimeoutError after a wait
    assert seen.add_many(NEW).any()
    seen._shelf.newest.lock.retire()  # as where nothing was written since it was opened
    at_next_call(monkeypatch, type(seen._storage.array), "give_back", add)
    seen.close()
    assert add.times == 1
    check_saved(file, OLD, NEW)
