"""Closing a filter in shared memory amid other things: its keys are in the file when it returns."""

import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import in_thread
from copies import NEW, OLD, copies, left_behind, missing
from workers import PATIENCE, Child, ChildDiedError, in_child

import mmbloom
from mmbloom import BloomFilter, ReentryError, verify
from mmbloom._storage import unmapped, working_copy
from mmbloom._storage.moving import Place
from mmbloom._storage.share import Share
from mmbloom._system import memory
from mmbloom._system import memory as pages
from mmbloom.errors import DurabilityError, FileChangedError
from mmbloom.filters import file as file_module

MORE = np.arange(7000, 7100)


def before_call(
    patch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], object]
) -> None:
    """Do something once, before the first call of a function."""
    real = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        patch.setattr(owner, name, real)
        act()
        return real(*arguments, **options)

    patch.setattr(owner, name, call)


def after_call(
    patch: pytest.MonkeyPatch, owner: type, name: str, act: Callable[[], object]
) -> None:
    """Do something once, after the first call of a class method."""
    real = getattr(owner, name).__func__

    def call(*arguments: Any, **options: Any) -> Any:
        patch.setattr(owner, name, classmethod(real))
        found = real(*arguments, **options)
        act()
        return found

    patch.setattr(owner, name, classmethod(call))


def add_elsewhere(file: str, keys: Any) -> None:
    """Add keys in another process, which closes the filter."""

    def add() -> None:
        with BloomFilter.open(file) as other:
            other.add_many(keys)

    in_child(add)


def all_in_file(file: str, *keys: Any) -> None:
    """Make sure that the file alone has these keys, and nothing is left in shared memory."""
    assert copies() == []
    with BloomFilter.open(file, "r", resident=False) as seen:
        assert missing(seen, np.concatenate(keys)) == 0


def test_amid_the_first_add_of_a_thread(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread moves the array, which takes long: close waits, and saves its keys."""
    moving, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        moving.set()
        assert go_on.wait(PATIENCE)

    before_call(monkeypatch, working_copy, "sweep", wait)
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
    all_in_file(file, OLD, NEW)


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
    """Make a call in a thread, which has to wait there."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread


def test_amid_the_queries_of_a_thread(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread asks while close gives the share up: it takes none, and is not taken for company."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    found: list[bool] = []

    def ask() -> None:
        found.append(in_thread(lambda: bool(seen.contains_many(NEW).all())) is True)

    before_call(monkeypatch, Share, "has_company", ask)
    seen.close()
    assert found == [True]
    all_in_file(file, OLD, NEW)


def test_amid_the_flush_of_a_thread(file: str) -> None:
    """A thread flushes, and another process adds: close waits, and saves those keys too."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    with flushing(seen):
        add_elsewhere(file, MORE)
        closed = waiting(seen.close)
    closed.join()
    all_in_file(file, OLD, NEW, MORE)


def test_in_a_handler_amid_a_flush(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused: the flush would go on writing to whatever gets the descriptor next."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    refused = list[ReentryError]()

    def close() -> None:
        with pytest.raises(ReentryError) as caught:
            seen.close()
        refused.append(caught.value)

    before_call(monkeypatch, working_copy, "write_at", close)
    seen.flush()
    assert len(refused) == 1
    seen.add_many(MORE)
    seen.close()
    all_in_file(file, OLD, NEW, MORE)


def test_in_a_handler_amid_an_add(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that is refused has given nothing up: others who close leave the copy to it."""
    seen, refused = BloomFilter.open(file, resident=True), list[ReentryError]()
    seen.add_many(NEW)
    other = BloomFilter.open(file)
    assert other.info().resident

    def close() -> None:
        with pytest.raises(ReentryError) as caught:
            seen.close()
        refused.append(caught.value)

    before_call(monkeypatch, file_module.BitFile, "_finish", close)
    seen.add_many(MORE)
    assert len(refused) == 1
    other.close()
    assert len(copies()) == 1
    seen.close()
    all_in_file(file, OLD, NEW, MORE)


def test_again_after_an_interrupt(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that was interrupted can be repeated, and until then the filter is open."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    before_call(monkeypatch, working_copy.WorkingCopy, "write_to", interrupt)
    with pytest.raises(KeyboardInterrupt):
        seen.close()
    seen.add_many(MORE)
    seen.close()
    all_in_file(file, OLD, NEW, MORE)


def test_after_a_writer_was_killed_amid_a_batch(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch is never done: the file is written all the same, once, and the copy goes."""

    def die() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        before_call(
            pytest.MonkeyPatch(), file_module.BitFile, "_finish", lambda: os.kill(os.getpid(), 9)
        )
        seen.add_many(MORE)

    with pytest.raises(ChildDiedError):
        in_child(die)
    assert len(copies()) == 1
    written, real = list[int](), working_copy.WorkingCopy.write_to

    def count(*arguments: Any) -> None:
        written.append(1)
        real(*arguments)

    monkeypatch.setattr(working_copy.WorkingCopy, "write_to", count)
    with BloomFilter.open(file) as seen:
        assert seen.info().unfinished_batches == 1
    assert written == [1]
    all_in_file(file, OLD, NEW, MORE)


def test_while_visitors_come_and_go(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others add while the last one writes is saved as well, however often they come."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    real, visits = working_copy.WorkingCopy.write_to, list[Any]()

    def write_to(*arguments: Any) -> None:
        real(*arguments)
        if len(visits) < 2:
            visits.append(MORE + 100 * len(visits))
            add_elsewhere(file, visits[-1])

    monkeypatch.setattr(working_copy.WorkingCopy, "write_to", write_to)
    seen.close()
    assert len(visits) == 2
    all_in_file(file, OLD, NEW, *visits)


def test_worker_of_multiprocessing(file: str) -> None:
    """A worker that ends in order has its keys in the file, closed or not, opened or inherited."""
    context = multiprocessing.get_context("fork")
    inherited = BloomFilter.open(file, resident=True)

    def work() -> None:
        global kept  # noqa: PLW0603  as long as the process lives
        kept = BloomFilter.open(file, resident=True)
        kept.add_many(NEW)

    def work_on_inherited() -> None:
        inherited.add_many(MORE)

    for target, keys in ((work, NEW), (work_on_inherited, MORE)):
        process = context.Process(target=target)
        process.start()
        process.join()
        assert process.exitcode == 0
        all_in_file(file, OLD, keys)
    inherited.close()


def test_worker_that_found_the_copy_there(file: str) -> None:
    """A worker that opened the file when its copy was there, and is the last, writes the file."""
    context = multiprocessing.get_context("fork")
    opened, closed = context.Event(), context.Event()
    first = BloomFilter.open(file, resident=True)
    first.add_many(MORE)

    def work() -> None:
        global kept  # noqa: PLW0603  as long as the process lives
        kept = BloomFilter.open(file, resident=True)
        opened.set()
        closed.wait()
        kept.add_many(NEW)

    process = context.Process(target=work)
    process.start()
    opened.wait()
    first.close()
    closed.set()
    process.join()
    assert process.exitcode == 0
    all_in_file(file, OLD, MORE, NEW)


kept: BloomFilter


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
    all_in_file(file, OLD, NEW)


@pytest.mark.parametrize("change", [1, -1])
def test_file_that_was_resized(file: str, change: int) -> None:
    """Close says so, and keeps the copy: when the file has its size again, it has the keys."""
    size = os.path.getsize(file)
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    os.truncate(file, size + change)
    with pytest.raises(FileChangedError, match="its array kept in shared memory"):
        seen.close()
    assert seen.closed
    assert len(copies()) == 1
    os.truncate(file, size)
    BloomFilter.open(file).close()
    all_in_file(file, OLD, NEW)


def test_fsync_that_fails_once(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says once that something did not get to the disk: the next flush writes all."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    seen.flush()

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(DurabilityError):
            seen.flush()
    copy = seen._storage.array.place.copy
    assert copy is not None
    assert not copy.is_written(seen._storage.counters["batches_begun"])
    seen.close()
    BloomFilter.open(file).close()
    all_in_file(file, OLD, NEW)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("where", "name"), [(pages, "populate"), (Place, "name")])
def test_move_that_is_interrupted_late(
    file: str, monkeypatch: pytest.MonkeyPatch, where: object, name: str
) -> None:
    """A copy that was made and is not used leaves no name, in the header or in shared memory."""
    with BloomFilter.open(file, resident=True) as seen:
        before_call(monkeypatch, where, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            seen.add("x")
        assert copies() == []
        assert seen.add("x")
    all_in_file(file, OLD)


def lost(file: str) -> None:
    """Let the header name a copy that is not there any more, of another boot."""
    copy = left_behind(file)
    copy.unlink()
    boot = memory.boot_id()
    with Path(file).open("r+b") as raw:
        raw.seek(2088)
        assert raw.read(16) == boot
        raw.seek(2088)
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
        after_call(monkeypatch, working_copy.WorkingCopy, "find", wait)
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
    all_in_file(file, OLD, NEW)


def test_handler_that_adds_while_the_array_is_looked_for(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and nothing is moved twice."""
    lost(file)
    seen = BloomFilter.open(file, resident=True)
    with BloomFilter.open(file, resident=False) as other:
        other.add("forgets what was lost")
    refused = list[ReentryError]()

    def add(*_: object) -> None:
        with pytest.raises(ReentryError) as caught:
            seen.add("handler")
        refused.append(caught.value)

    before = signal.signal(signal.SIGUSR1, add)
    try:
        after_call(
            monkeypatch,
            working_copy.WorkingCopy,
            "find",
            lambda: signal.raise_signal(signal.SIGUSR1),
        )
        seen.add_many(NEW)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(refused) == 1
    assert "handler" not in seen
    seen.close()
    all_in_file(file, OLD, NEW)


def test_verify_amid_moves(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted meanwhile is not taken for lost, whichever way the array goes."""

    def close_and_add() -> None:
        BloomFilter.open(file).close()
        with BloomFilter.open(file, resident=False) as seen:
            seen.add_many(MORE)

    for act in (lambda: left_behind(file), lambda: in_child(close_and_add)):
        with monkeypatch.context() as patch:
            before_call(patch, unmapped.UnmappedFilter, "header_first", act)
            assert verify(file).problems == ()
    mmbloom.copy(file, tmp_path / "copy")
    with BloomFilter.open(tmp_path / "copy", "r") as made:
        assert missing(made, MORE) == 0


def test_at_the_end_amid_the_flush_of_a_thread(file: str) -> None:
    """A program ends while a daemon thread flushes: its filter is saved when that is done."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    with flushing(seen):
        left = waiting(seen._shelf.newest._left)  # as the interpreter calls it
    left.join()
    all_in_file(file, OLD, NEW)
    seen.close()


def test_added_while_it_is_asked_whether_all_is_written(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of another process that comes between two looks at the counters is in the file."""
    seen = BloomFilter.open(file, resident=True)
    seen.add_many(NEW)
    seen.flush()
    other = BloomFilter.open(file, resident=True)
    after_instance_call(monkeypatch, "is_written", lambda: other.add_many(MORE))
    seen.flush()
    seen.close()
    other.close()
    all_in_file(file, OLD, NEW, MORE)


def after_instance_call(patch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Do something once, after the first call of a method of a copy."""
    real = getattr(working_copy.WorkingCopy, name)

    def call(*arguments: Any) -> Any:
        patch.setattr(working_copy.WorkingCopy, name, real)
        found = real(*arguments)
        act()
        return found

    patch.setattr(working_copy.WorkingCopy, name, call)


def test_a_handler_amid_a_close_does_not_wait(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler adds while close saves the file is refused at once, or added."""
    seen = BloomFilter.open(file, resident=True, lock_timeout=30)
    assert seen._shelf.newest.lock.state.descriptor is not None or seen.add("first")
    seen.flush()
    seen.close()
    seen = BloomFilter.open(file, resident=True, lock_timeout=30)
    refused: list[ReentryError] = []

    def handle() -> None:
        with pytest.raises(ReentryError) as caught:  # and no LockTimeoutError after a wait
            seen.add("late")
        refused.append(caught.value)

    assert seen.add_many(NEW).any()
    seen._shelf.newest.lock.retire()  # as where nothing was written since it was opened
    before_call(monkeypatch, type(seen._storage.array), "give_back", handle)
    seen.close()
    assert len(refused) == 1
    all_in_file(file, OLD, NEW)
