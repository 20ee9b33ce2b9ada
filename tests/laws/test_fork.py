"""A filter across processes, forked, spawned, pickled: a lock never crosses (laws 2, 3, T10)."""

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import NaiveFilter
from tally import Count
from workers import PATIENCE, Child, add_range, end, in_child, locked_elsewhere, together, wait_for

from mmbloom import BloomFilter, LockTimeoutError
from mmbloom._storage.lock import DescriptorLock

STEP = 3000


@pytest.mark.laws("T10")
def test_filter_opened_in_the_parent_works_in_forked_children(path: str, tally: Count) -> None:
    """Law 3: opened once, used by parent and 4 forked children: no key lost, none twice."""
    with BloomFilter.create(path, 100_000, 1e-7) as seen:
        seen.add("before the fork")  # so that the parent's lock is open
        adders = [partial(add_range, seen, i * STEP, (i + 1) * STEP) for i in range(4)]
        assert together(adders) == [STEP] * 4
        assert together([partial(add_range, seen, 0, 4 * STEP)] * 2) == [0, 0]
        assert add_range(seen, 4 * STEP, 5 * STEP) == STEP
        assert seen.contains_many(np.arange(5 * STEP)).all()
        assert seen.info().keys_added == 5 * STEP + 1
    assert "before the fork" in NaiveFilter(Path(path).read_bytes())
    tally(forks=6, keys=5 * STEP + 1)


@pytest.mark.laws("T10")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_filter_is_an_argument_of_process_and_pool(path: str, method: str, tally: Count) -> None:
    """Law 3: a filter is passed to Process, and pickled to Pool, by every start method."""

    def use() -> list[int]:  # in a child, whose end takes multiprocessing's helpers with it
        context: Any = multiprocessing.get_context(method)
        with BloomFilter.create(path, 100_000, 1e-7) as seen:
            process = context.Process(target=add_range, args=(seen, 0, STEP))
            process.start()
            with context.Pool(2) as pool:
                new = pool.starmap(
                    add_range, [(seen, i * STEP, (i + 1) * STEP) for i in range(1, 4)]
                )
                pool.close()
                pool.join()
            process.join()
            assert process.exitcode == 0
            assert seen.contains_many(np.arange(4 * STEP)).all()
            assert seen.info().keys_added == 4 * STEP
            return list(new)

    assert in_child(use) == [STEP] * 3
    tally(workers=3, keys=4 * STEP)


@pytest.mark.laws("T10")
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_pickle_is_small_and_shares_the_file(path: str, mode: str, tally: Count) -> None:
    """Law 3: the pickle of a 12 MB filter is under 1 KB, and gives the same filter."""
    with BloomFilter.create(path, 10_000_000) as seen:
        other: BloomFilter
        with BloomFilter.open(path, mode) as opened:  # type: ignore[arg-type]
            pickled = pickle.dumps(opened)
        assert len(pickled) < 1024
        with pickle.loads(pickled) as other:
            assert seen.add("a")
            assert "a" in other
            assert other.info().uuid == seen.info().uuid
            assert bool(other.info().read_only) == (mode == "r")
            if mode == "r+":
                assert other.add("b")
                assert "b" in seen
    tally(pickles=1, pickled_bytes=len(pickled))


@pytest.mark.laws("T10")
def test_child_that_leaves_the_block_keeps_the_parents_lock(path: str, tally: Count) -> None:
    """Law 3: a child forked within locked() leaves the block: the parent holds on."""
    BloomFilter.create(path, 1000).close()

    def leave_within_child() -> None:
        with BloomFilter.open(path) as seen:
            block = seen.locked()
            block.__enter__()
            in_child(lambda: block.__exit__(None, None, None))

            def try_from_outside() -> None:
                with (
                    BloomFilter.open(path, lock_timeout=0.05) as other,
                    pytest.raises(LockTimeoutError),
                ):
                    other.add("a")

            in_child(try_from_outside)
            assert seen.add("b")
            block.__exit__(None, None, None)
            with BloomFilter.open(path, lock_timeout=10) as other:
                assert other.add("a")

    in_child(leave_within_child)
    tally(forks=2)


@pytest.mark.laws("T10")
def test_child_does_not_mark_the_parents_claim(path: str, tally: Count) -> None:
    """Laws 3, 6: a child forked within claim() leaves the block: the keys stay unmarked."""
    with BloomFilter.create(path, 1000) as seen:
        claim = seen.claim(["a"])
        claim.__enter__()
        in_child(lambda: claim.__exit__(None, None, None))
        assert "a" not in seen
        claim.__exit__(None, None, None)
        assert "a" in seen
    tally(forks=1)


@pytest.mark.laws("T10")
def test_child_waits_for_the_parents_lock(path: str, tally: Count) -> None:
    """Law 3: a child forked within locked() has no part in it: its writes wait."""
    with BloomFilter.create(path, 1000, lock_timeout=0.05) as seen:

        def try_to_add() -> None:
            with pytest.raises(LockTimeoutError):
                seen.add("child")

        with seen.locked():
            seen.add("parent")
            in_child(try_to_add)
        assert in_child(lambda: seen.add("child"))
        assert "child" in seen
    tally(forks=2)


@pytest.mark.laws("T10")
def test_fork_without_python_handlers_keeps_the_lock_apart(path: str, tally: Count) -> None:
    """Law 3: a fork by C code runs no handler of Python; the pid tells parent from child."""
    with BloomFilter.create(path, 1000, lock_timeout=0.05) as seen, seen.locked():
        seen.add("parent")
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            try:
                seen.add("child")
            except LockTimeoutError:
                os._exit(42)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
        assert "child" not in seen
        assert in_child(lambda: "parent" in seen)
    tally(forks=2)


@pytest.mark.laws("T10")
def test_closing_in_a_child_is_the_childs_alone(path: str, tally: Count) -> None:
    """Law 3: a child that closes an inherited filter takes neither map nor lock away."""
    with BloomFilter.create(path, 1000) as seen:
        with seen.locked():
            in_child(seen.close)
            assert seen.add("a")

            def try_to_lock() -> None:
                with BloomFilter.open(path) as other, pytest.raises(LockTimeoutError):
                    other.locked(timeout=0.05).__enter__()

            in_child(try_to_lock)
        assert "a" in seen
    tally(forks=2)


def test_lock_follows_links_and_names(tmp_path: Path) -> None:
    """Law 2: one file under several names is one filter with one lock, and no second file."""
    path, hard, soft = (tmp_path / name for name in ("seen.bloom", "hard", "soft"))
    BloomFilter.create(path, 1000).close()
    os.link(path, hard)
    soft.symlink_to(path)
    with locked_elsewhere(hard):
        for name in (path, hard, soft):
            with BloomFilter.open(name, lock_timeout=0.01) as seen, pytest.raises(LockTimeoutError):
                seen.add("a")
    for name in (hard, soft):
        with BloomFilter.open(name) as seen, BloomFilter.open(path) as other:
            assert seen.add(name.name)
            assert name.name in other
    assert sorted(os.listdir(tmp_path)) == ["hard", "seen.bloom", "soft"]


def fork_before(seen: BloomFilter, bystander: Callable[[], None]) -> None:
    """Have the lock's descriptor open, fork, then take the lock and wait to be killed."""
    seen.add("opens the lock")
    bystander()
    with seen.locked():
        Path(seen.path + ".held").touch()
        time.sleep(600)


def fork_within(seen: BloomFilter, bystander: Callable[[], None], *, claim: bool = False) -> None:
    """Take the lock, fork, and wait to be killed."""
    with seen.claim(["claimed"]) if claim else seen.locked():
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
@pytest.mark.parametrize("hold", [fork_before, fork_within, partial(fork_within, claim=True)])
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
@pytest.mark.parametrize(
    ("hold", "code"), [(close_amid_a_fork, 0), (hold_opened_amid_a_fork, -signal.SIGKILL)]
)
def test_lock_is_free_though_another_thread_forked(
    tmp_path: Path, hold: Callable[[Path, Path], None], code: int, tally: Count
) -> None:
    """Laws 2, 3: a fork when the lock's descriptor is opened or closed keeps no copy of it."""
    path, pid_file = tmp_path / "seen.bloom", tmp_path / "pid"
    BloomFilter.create(path, 1000).close()
    with ended_afterwards(pid_file):
        holder = Child(partial(hold, path, pid_file))
        try:
            if code:
                wait_for(tmp_path / "seen.bloom.held")
                holder.kill()
            assert holder.wait() == code
        finally:
            end(holder)
        os.kill(int(pid_file.read_text()), 0)  # the bystander lives
        with BloomFilter.open(path, lock_timeout=5) as seen:
            assert seen.add("a")
    tally(**{"kills" if code else "forks": 1})
