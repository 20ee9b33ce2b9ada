"""A filter used across processes: forked, spawned, pickled; a lock never crosses (law 3, T10)."""

import ctypes
import multiprocessing
import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import NaiveFilter
from tally import Count
from workers import add_range, in_child, locked_elsewhere, together

from mmbloom import BloomFilter, LockTimeoutError

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
    """Law 2: one file under several names has one lock, and no second file is made."""
    path, hard, soft = (tmp_path / name for name in ("seen.bloom", "hard", "soft"))
    BloomFilter.create(path, 1000).close()
    os.link(path, hard)
    soft.symlink_to(path)
    with locked_elsewhere(hard):
        for name in (path, hard, soft):
            with BloomFilter.open(name, lock_timeout=0.01) as seen, pytest.raises(LockTimeoutError):
                seen.add("a")
    assert sorted(os.listdir(tmp_path)) == ["hard", "seen.bloom", "soft"]
