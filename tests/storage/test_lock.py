"""One holder at a time, among all threads, objects and processes; and none that is forgotten."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from checks import flock_is_free, in_thread, run_threads
from descriptors import is_file_open
from workers import PATIENCE, in_child

import mmbloom
from mmbloom import ClosedFilterError, FileChangedError, LockTimeoutError
from mmbloom._storage import lock as lock_module
from mmbloom._storage.lock import DescriptorLock, WriteLock

NewLock = Callable[[], WriteLock]
SHORT = 0.05


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data"
    file.write_bytes(b"precious")
    return file


def lock_of(path: Path, timeout: float = SHORT) -> WriteLock:
    status = os.stat(path)
    return WriteLock(str(path), (status.st_dev, status.st_ino), timeout)


def close(lock: WriteLock) -> None:
    with lock.closing():
        pass


@pytest.fixture
def new_lock(data: Path) -> Iterator[NewLock]:
    made: list[WriteLock] = []

    def make() -> WriteLock:
        made.append(lock_of(data))
        return made[-1]

    yield make
    for lock in made:
        close(lock)
    assert data.read_bytes() == b"precious"


def take(lock: WriteLock, timeout: float | None = 0) -> None:
    with lock.held(timeout):
        pass


def is_free(lock: WriteLock) -> bool:
    try:
        take(lock)
    except LockTimeoutError:
        return False
    return True


def test_two_objects_exclude_each_other(new_lock: NewLock) -> None:
    one, other = new_lock(), new_lock()
    for first, second in ((one, other), (other, one)):
        with first.held(SHORT):
            assert not is_free(second)
        assert is_free(second)


def test_reentrant(new_lock: NewLock) -> None:
    """The holding thread takes it again for free; the outermost block gives it up, or an error."""
    lock, other = new_lock(), new_lock()
    with lock.held(SHORT):
        with lock.held(0):
            take(lock)
        assert not is_free(other)
    assert is_free(other)
    with pytest.raises(KeyError), lock.held(0), lock.held(0):
        raise KeyError
    assert is_free(other)


@pytest.mark.parametrize("with_its_lock", [False, True])
def test_block_that_is_dropped(new_lock: NewLock, data: Path, *, with_its_lock: bool) -> None:
    """What was never left gives the lock back, also as garbage together with the lock."""
    other, lock = new_lock(), lock_of(data)
    hold = lock.held(SHORT)
    hold.__enter__()
    assert not is_free(other)
    if with_its_lock:
        garbage: list[object] = [lock, hold]
        garbage.append(garbage)
        del lock, hold, garbage
        gc.collect()
        assert is_free(other)
        return
    del hold
    if mmbloom.engine == "numpy":  # where that is when this thread wants it again
        take(lock)
    assert is_free(other)
    assert lock.state.depth == 0
    close(lock)


@pytest.mark.parametrize("shared", [True, False])
def test_no_lost_update(new_lock: NewLock, stress: int, *, shared: bool) -> None:
    """Read-modify-write under the lock loses nothing among threads, with one object or several."""
    number, each, total = 4, 50 * stress, 0
    common, barrier = new_lock(), threading.Barrier(4)
    locks = [common if shared else new_lock() for _ in range(number)]

    def work(lock: WriteLock) -> None:
        nonlocal total
        barrier.wait(PATIENCE)
        for _ in range(each):
            with lock.held(PATIENCE):
                seen = total
                time.sleep(0)  # lets another thread run here, if it may
                total = seen + 1

    run_threads(*(partial(work, lock) for lock in locks))
    assert total == number * each


@pytest.mark.parametrize("seconds", [0, 0.001, SHORT, -1])
def test_timeout(new_lock: NewLock, data: Path, seconds: float) -> None:
    holder, waiter = new_lock(), new_lock()

    def wait() -> LockTimeoutError:
        start = time.monotonic()
        with pytest.raises(LockTimeoutError) as caught:
            take(waiter, seconds)
        assert time.monotonic() - start >= seconds
        return caught.value

    with holder.held(None):
        error = wait()
        assert (error.path, error.seconds) == (str(data), seconds)
    assert in_thread(lambda: is_free(waiter)) is True, "nothing is left held by the wait"


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_waits_until_it_is_free(new_lock: NewLock, timeout: float | None) -> None:
    """A waiter with time gets the lock when the holder leaves it; None waits for ever."""
    holder, waiter, got = new_lock(), new_lock(), threading.Event()

    def wait() -> None:
        take(waiter, timeout)
        got.set()

    thread = threading.Thread(target=wait)
    with holder.held(None):
        thread.start()
        assert not got.wait(SHORT), "taken while another held it"
    thread.join(PATIENCE)
    assert got.is_set()


def test_closed_lock(new_lock: NewLock) -> None:
    lock, other = new_lock(), new_lock()
    take(lock)
    close(lock)
    close(lock)
    with pytest.raises(ClosedFilterError):
        take(lock)
    assert is_free(other)


def test_closing_within_a_block(new_lock: NewLock) -> None:
    lock, other = new_lock(), new_lock()
    with lock.held(SHORT):
        close(lock)
        assert is_free(other)
    assert is_free(other)


def test_child_gets_it_after_the_parent(new_lock: NewLock) -> None:
    lock = new_lock()
    reader, writer = os.pipe()
    with lock.held(SHORT):
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                with lock.held(PATIENCE):
                    os.write(writer, b"got")
            finally:
                os._exit(0)
        os.close(writer)
        time.sleep(SHORT)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the child waits"
    with open(reader, "rb") as pipe:
        assert pipe.read() == b"got"
    os.waitpid(pid, 0)


def test_child_does_not_keep_the_descriptor(data: Path) -> None:
    """A child closes what it inherits: else a killed parent's lock would stay with it (law 2)."""
    lock = lock_of(data)

    def keeps() -> bool:
        return is_file_open(data)

    with lock.held(SHORT):
        assert keeps()
        assert in_child(keeps) is False
    close(lock)


def test_failing_system_call_frees_the_threads(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the lock call itself goes through and leaves no thread locked out."""

    class Failing(DescriptorLock):
        native = -1  # not in C

        def try_acquire(self) -> bool:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(lock_module, "DescriptorLock", Failing)
    lock = lock_of(data)

    def fails() -> bool:
        with pytest.raises(OSError, match="Input/output error"):
            is_free(lock)
        return True

    assert fails()
    assert in_thread(fails) is True
    close(lock)


@pytest.mark.parametrize("held", [True, False])
def test_replaced_file_is_not_locked(data: Path, *, held: bool) -> None:
    """If another file is at the path, it is refused, not locked; the mapped one's lock stays."""
    lock = lock_of(data)
    if held:
        take(lock)
    os.rename(data, data.with_name("moved"))
    data.write_bytes(b"another")
    if held:
        with lock.held(0):  # its descriptor goes with the file
            assert flock_is_free(data)
            assert not flock_is_free(data.with_name("moved"))
    else:
        for _ in range(2):
            with pytest.raises(FileChangedError, match="replaced by another file"):
                take(lock)
    close(lock)


def test_pauses_stay_short(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter polls after 0.1 ms, never sleeps over 10 ms, and oversleeps by a tenth at most."""
    pauses: list[float] = []

    class Busy(DescriptorLock):
        native = -1  # not in C

        def try_acquire(self) -> bool:
            return False

    monkeypatch.setattr(lock_module, "DescriptorLock", Busy)
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(pauses))
    lock = lock_of(data, 1)
    with pytest.raises(LockTimeoutError):
        take(lock, 1)
    close(lock)
    pauses.pop()  # cut to what was left
    assert (pauses[0], max(pauses)) == (0.0001, 0.01)
    assert all(pause <= 0.0001 + sum(pauses[:i]) / 10 for i, pause in enumerate(pauses))


def test_retired_lock_can_be_taken_again(new_lock: NewLock) -> None:
    """It is as a lock that was never taken; one that is held is not retired."""
    one, other = new_lock(), new_lock()
    with one.held(SHORT):
        one.retire()
        assert not is_free(other)
    one.retire()
    assert one.state.descriptor is None
    with other.held(SHORT):
        assert not is_free(one)
    with one.held(SHORT):
        assert not is_free(other)
