"""`add` within `locked()`: quick, and still the owner's alone, on a file that is still there."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import check_settled, flock_is_free, in_thread
from workers import PATIENCE, in_child

from mmbloom import BloomFilter, ClosedFilterError, FileChangedError, LockTimeoutError
from mmbloom._system.sections import outlast

Create = Callable[..., BloomFilter]


def truncate(path: str) -> None:
    os.truncate(path, 4096 + 64)


def grow(path: str) -> None:
    os.truncate(path, os.path.getsize(path) + 4096)


def replace(path: str) -> None:
    Path(path + "2").write_bytes(Path(path).read_bytes())
    os.replace(path + "2", path)


def remove(path: str) -> None:
    os.remove(path)


CHANGES = [truncate, grow, replace, remove]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_noticed(
    create: Create, path: str, change: Callable[[str], None]
) -> None:
    """Law 16: within the block too, a moment after the file was changed, `add` refuses."""
    seen = create(1000)
    with seen.locked():
        assert seen.add("a")
        change(path)
        outlast()
        for key in ("a", "b"):
            with pytest.raises(FileChangedError):
                seen.add(key)
    with pytest.raises(FileChangedError):
        seen.add("c")


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_noticed_by_the_next_block(
    create: Create, path: str, change: Callable[[str], None]
) -> None:
    """A new block, and an add without one, look at once, however short ago the last look was."""
    seen = create(1000)
    with seen.locked():
        seen.add("a")
    change(path)
    with pytest.raises(FileChangedError):
        seen.locked().__enter__()
    with pytest.raises(FileChangedError):
        seen.add("b")


def test_many_keys_are_counted(create: Create, path: str) -> None:
    """Adds of one block are counted and kept as those without one."""
    seen = create(1000, seed=1)
    with seen.locked():
        assert [seen.add(number % 300) for number in range(600)] == [True] * 300 + [False] * 300
        with seen.locked():
            assert seen.add("inner")
        assert seen.add("after the inner block")
        assert not flock_is_free(path)
    assert flock_is_free(path)
    assert seen.info().keys_added == 302
    check_settled(path)


def test_another_thread_waits(create: Create, path: str) -> None:
    """The block is its thread's: another thread of the same object does not slip in."""
    seen = create(1000, lock_timeout=0.05)

    def add() -> str:
        try:
            seen.add("theirs")
        except LockTimeoutError:
            return "waited"
        return "slipped in"

    for ours in ("a", "b"):  # the second time after a release
        with seen.locked():
            seen.add(ours)
            assert in_thread(add) == "waited"
            assert "theirs" not in seen
            with seen.locked():
                assert in_thread(add) == "waited"
            assert in_thread(add) == "waited"
    assert in_thread(lambda: seen.add("theirs")) is True


def test_no_thread_keeps_what_it_gave_back(create: Create) -> None:
    """Who held the lock before is not its owner while another thread has it."""
    seen = create(1000, lock_timeout=0.05)
    entered, leave = threading.Event(), threading.Event()
    with seen.locked():
        seen.add("a")

    def hold() -> None:
        with seen.locked():
            seen.add("theirs")
            entered.set()
            leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert entered.wait(PATIENCE)
        with pytest.raises(LockTimeoutError):
            seen.add("b")
        assert "b" not in seen
    finally:
        leave.set()
        holder.join()
    assert seen.add("b")


@pytest.mark.stress
def test_threads_in_blocks_lose_nothing(create: Create, path: str, stress: int) -> None:
    """Threads that add in blocks and without: each key is new once, and counters are exact."""
    seen, new = create(100_000, 1e-9, seed=1), [0] * 4
    each = 4000 * stress

    def work(number: int) -> None:
        for start in range(0, each, 20):
            if start % 40:
                with seen.locked():
                    new[number] += sum(seen.add(key) for key in range(start, start + 20))
            else:
                new[number] += sum(seen.add(key) for key in range(start, start + 20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(new) == each
    assert seen.info().keys_added == each
    check_settled(path)


def test_a_forked_child_has_no_share_in_the_block(create: Create, path: str) -> None:
    """Law 3: a child forked within the block does not own the lock; it waits as anyone does."""
    seen = create(1000, lock_timeout=0.05)

    def add() -> str:
        assert not flock_is_free(path)
        try:
            seen.add("child")
        except LockTimeoutError:
            return "waited"
        return "slipped in"

    with seen.locked():
        seen.add("a")
        assert in_child(add) == "waited"
        assert "child" not in seen
        assert seen.add("b")
    assert in_child(lambda: seen.add("child")) is True
    assert "child" in seen


def test_closed_within_the_block(create: Create, path: str) -> None:
    """After close nothing can be added, and leaving the block is no error."""
    seen = create(1000)
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


def test_closed_by_another_thread(create: Create, path: str) -> None:
    """Another thread's close waits for the block to end."""
    seen = create(1000)
    closer = threading.Thread(target=seen.close)
    with seen.locked():
        closer.start()
        time.sleep(0.02)
        assert seen.add("a")
    closer.join(PATIENCE)
    assert seen.closed
    with BloomFilter.open(path, "r") as again:
        assert "a" in again
