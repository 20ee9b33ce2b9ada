"""The lock of a killed holder is free, whatever children of it live on (laws 2 and 3, T10)."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tally import Count
from workers import PATIENCE, Child, end, wait_for

from mmbloom import BloomFilter, LockTimeoutError
from mmbloom._storage.lock import DescriptorLock


def fork_before(seen: BloomFilter, bystander: Callable[[], None]) -> None:
    """Have the lock's descriptor open, fork, then take the lock and wait to be killed."""
    seen.add("opens the lock")
    bystander()
    with seen.locked():
        Path(seen.path + ".held").touch()
        time.sleep(600)


def fork_within(seen: BloomFilter, bystander: Callable[[], None]) -> None:
    """Take the lock, fork, and wait to be killed."""
    with seen.locked():
        bystander()
        Path(seen.path + ".held").touch()
        time.sleep(600)


def fork_within_claim(seen: BloomFilter, bystander: Callable[[], None]) -> None:
    with seen.claim(["claimed"]):
        bystander()
        Path(seen.path + ".held").touch()
        time.sleep(600)


def forked_bystander(pid_file: Path) -> None:
    """Start a process that does nothing but live, with all that it inherited."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    pid_file.write_text(str(pid))


def executed_bystander(pid_file: Path) -> None:
    """The same by fork and exec, with no descriptor closed by hand."""
    process = subprocess.Popen(["sleep", "600"], close_fds=False)
    pid_file.write_text(str(process.pid))


@contextlib.contextmanager
def ended_afterwards(pid_file: Path) -> Iterator[None]:
    """Kill the bystander, who is nobody's child any more, when the test is over."""
    try:
        yield
    finally:
        if pid_file.exists():
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


@pytest.mark.laws("T10")
@pytest.mark.parametrize("start", [forked_bystander, executed_bystander])
@pytest.mark.parametrize("hold", [fork_before, fork_within, fork_within_claim])
def test_lock_of_a_killed_holder_is_free_though_its_child_lives(
    tmp_path: Path, hold: Callable[..., None], start: Callable[[Path], None], tally: Count
) -> None:
    """Laws 2, 3: kill -9 the holder of the lock while a child of it is alive: it is free."""
    path, pid_file = tmp_path / "seen.bloom", tmp_path / "pid"
    BloomFilter.create(path, 1000).close()

    def hold_lock() -> None:
        hold(BloomFilter.open(path), partial(start, pid_file))

    with ended_afterwards(pid_file):
        holder = Child(hold_lock)
        try:
            wait_for(tmp_path / "seen.bloom.held")
            with BloomFilter.open(path, lock_timeout=0.05) as seen:
                with pytest.raises(LockTimeoutError):  # it is held indeed
                    seen.add("a")
                holder.kill()
                assert holder.wait() == -signal.SIGKILL
                os.kill(int(pid_file.read_text()), 0)  # the child lives
                with seen.locked(timeout=PATIENCE):
                    assert seen.add("a")
                assert "claimed" not in seen
        finally:
            end(holder)
    tally(kills=1)


def hold_opened_amid_a_fork(path: Path, pid_file: Path) -> None:
    """Take the lock for the first time while another thread forks; wait to be killed."""
    real = os.fstat
    forker = threading.Thread(target=forked_bystander, args=(pid_file,))

    def fstat(fd: int) -> os.stat_result:
        os.fstat = real
        forker.start()  # the descriptor of the lock has just been opened
        forker.join(1)  # a guard may make it wait until the lock knows its descriptor
        return real(fd)

    with BloomFilter.open(path) as seen:
        os.fstat = fstat
        with seen.locked():
            forker.join()
            Path(f"{path}.held").touch()
            time.sleep(600)


def close_amid_a_fork(path: Path, pid_file: Path) -> None:
    """Close a filter within a block while another thread forks."""
    real = DescriptorLock.close
    forker = threading.Thread(target=forked_bystander, args=(pid_file,))

    def close(lock: DescriptorLock) -> None:
        forker.start()  # nothing names the descriptor any more, which is still open
        forker.join(1)  # a guard may make it wait until it is closed
        real(lock)

    seen = BloomFilter.open(path)
    with pytest.MonkeyPatch.context() as patch, seen.locked():
        patch.setattr(DescriptorLock, "close", close)
        seen.close()
    forker.join()


@pytest.mark.laws("T10")
def test_lock_closed_while_another_thread_forks_is_free(tmp_path: Path, tally: Count) -> None:
    """Laws 2, 3: a fork at the moment when the lock's descriptor is closed keeps no copy."""
    path, pid_file = tmp_path / "seen.bloom", tmp_path / "pid"
    BloomFilter.create(path, 1000).close()
    with ended_afterwards(pid_file):
        closer = Child(partial(close_amid_a_fork, path, pid_file))
        try:
            wait_for(pid_file)
            assert closer.wait() == 0
        finally:
            end(closer)
        os.kill(int(pid_file.read_text()), 0)  # the bystander lives
        with BloomFilter.open(path, lock_timeout=5) as seen:
            assert seen.add("a")
    tally(forks=1)


@pytest.mark.laws("T10")
def test_lock_opened_while_another_thread_forks_is_free_after_a_kill(
    tmp_path: Path, tally: Count
) -> None:
    """Laws 2, 3: a fork at the moment when the lock's descriptor is opened keeps no copy."""
    path, pid_file = tmp_path / "seen.bloom", tmp_path / "pid"
    BloomFilter.create(path, 1000).close()
    with ended_afterwards(pid_file):
        holder = Child(partial(hold_opened_amid_a_fork, path, pid_file))
        try:
            wait_for(tmp_path / "seen.bloom.held")
            holder.kill()
            assert holder.wait() == -signal.SIGKILL
            with BloomFilter.open(path, lock_timeout=5) as seen:
                assert seen.add("a")
        finally:
            end(holder)
    tally(kills=1)
