"""A file that changes under an open filter is noticed before the map is touched (law 16, T9).

Touching the map of a truncated file is SIGBUS, which nothing can catch: each test runs in a
child, where a signal ends the child alone and fails the test.
"""

import os
import pickle
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from checks import contents, flock_is_free, soon
from tally import Count
from workers import PATIENCE, ended_by, in_child

from mmbloom import BloomFilter, FileChangedError
from mmbloom._storage.mapped import MappedFilter
from mmbloom._system.typing import Mode

CAPACITY = 100_000


def run(*command: str | Path) -> None:
    """Do what an administrator does."""
    subprocess.run(command, check=True, timeout=PATIENCE)


def truncate_to(size: int) -> Callable[[Path], None]:
    return lambda path: in_child(partial(os.truncate, path, size))


def extend(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


def move_another_over(path: Path) -> None:
    with BloomFilter.open(path, "r") as seen:
        BloomFilter.create(path.with_name("other"), like=seen).close()
    run("mv", "-f", path.with_name("other"), path)


def copy_a_smaller_one_over(path: Path) -> None:
    BloomFilter.create(path.with_name("other"), 100).close()
    run("cp", path.with_name("other"), path)


def make_folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "truncate-to-nothing": truncate_to(0),
    "truncate-to-header": truncate_to(4096),
    "truncate-by-a-byte": lambda path: truncate_to(path.stat().st_size - 1)(path),
    "extend": extend,
    "move-over": move_another_over,
    "copy-over": copy_a_smaller_one_over,
    "unlink": Path.unlink,
    "rename": lambda path: run("mv", path, path.with_name("renamed")),
    "folder-instead": make_folder_instead,
}
KEYS = np.arange(1000)
CALLS: dict[str, Callable[[BloomFilter], object]] = {
    "in": lambda seen: "a" in seen,
    "contains_many": lambda seen: seen.contains_many(KEYS),
    "add": lambda seen: seen.add("a"),
    "add_many": lambda seen: seen.add_many(KEYS),
    "update": lambda seen: seen.update(iter(range(1000))),
    "claim": lambda seen: seen.claim(KEYS).__enter__(),
    "locked": lambda seen: seen.locked().__enter__(),
    "recount": lambda seen: seen.recount(),
    "flush": lambda seen: seen.flush(),
}
# These read the counters, in the first page of the map, and have no documented error.
READINGS: dict[str, Callable[[BloomFilter], object]] = {
    "info": lambda seen: seen.info(),
    "approx_count": lambda seen: seen.approx_count,
    "fill_ratio": lambda seen: seen.fill_ratio,
    "current_error_rate": lambda seen: seen.current_error_rate,
    "pickle": pickle.dumps,
}
every_change = pytest.mark.parametrize("change", CHANGES)


@contextmanager
def left(seen: BloomFilter) -> Iterator[BloomFilter]:
    """Close it in the end; in shared memory, which keeps the keys, a resized file is told of."""
    try:
        yield seen
    finally:
        try:
            seen.close()
        except FileChangedError as error:
            assert "its array stays in shared memory" in str(error)  # noqa: PT017  it may come
        assert seen.closed


# How a filter is opened that a change is noticed by, and which calls do so.
STATES: dict[str, tuple[Mode, list[str]]] = {
    "after an add": ("r+", [*CALLS]),
    "no lock taken yet": ("r+", ["add", "add_many", "claim", "locked", "flush"]),
    "read mode": ("r", ["in", "contains_many"]),
}


@pytest.mark.laws("T9")
@every_change
@pytest.mark.parametrize("state", STATES)
def test_change_is_noticed(tmp_path: Path, state: str, change: str, tally: Count) -> None:
    """Laws 14, 16: after any change a call is FileChangedError, kills nobody, writes nothing."""
    path = tmp_path / "seen.bloom"
    mode, calls = STATES[state]

    def change_and_call() -> None:
        BloomFilter.create(path, CAPACITY).close()
        with left(BloomFilter.open(path, mode)) as seen:
            if state == "after an add":
                seen.add_many(KEYS)
            CHANGES[change](path)
            before = contents(tmp_path)
            for name in calls:
                with pytest.raises(FileChangedError) as caught:
                    CALLS[name](seen)
                assert caught.value.path == str(path)
            assert contents(tmp_path) == before

    in_child(change_and_call)
    tally(changes=1, calls=len(calls))


@pytest.mark.laws("T9")
@pytest.mark.parametrize("reading", READINGS)
def test_readings_of_a_truncated_file_kill_nobody(
    tmp_path: Path, reading: str, tally: Count
) -> None:
    """Law 16: what reads the counters of a truncated file raises, or answers: no SIGBUS."""
    path = tmp_path / "seen.bloom"

    def truncate_and_read() -> None:
        with left(BloomFilter.create(path, CAPACITY)) as seen:
            os.truncate(path, 0)
            with pytest.raises(FileChangedError):
                READINGS[reading](seen)

    in_child(truncate_and_read)
    tally(changes=1, calls=1)


@pytest.mark.laws("T9")
def test_change_within_locked_is_noticed(tmp_path: Path, tally: Count) -> None:
    """Law 16: within locked() every batch is checked anew."""
    path = tmp_path / "seen.bloom"

    def change_while_locked() -> None:
        with left(BloomFilter.create(path, CAPACITY)) as seen, seen.locked():
            seen.add_many(KEYS)
            os.truncate(path, 4096)
            time.sleep(0.002)  # single keys are one batch, looked after every millisecond
            for name in ("in", "contains_many", "add", "add_many", "claim"):
                with pytest.raises(FileChangedError):
                    CALLS[name](seen)

    in_child(change_while_locked)
    tally(changes=1, calls=5)


@pytest.mark.laws("T9")
@every_change
def test_change_within_claim_is_noticed_before_marking(
    tmp_path: Path, change: str, tally: Count
) -> None:
    """Law 16: a file changed while the caller works is noticed before the keys are marked."""
    path = tmp_path / "seen.bloom"

    def change_while_claimed() -> None:
        with left(BloomFilter.create(path, CAPACITY)) as seen:
            claim = seen.claim(KEYS)
            claim.__enter__()
            CHANGES[change](path)
            before = contents(tmp_path)
            with pytest.raises(FileChangedError):
                claim.__exit__(None, None, None)
            assert contents(tmp_path) == before

    in_child(change_while_claimed)
    tally(changes=1, calls=1)


@pytest.mark.laws("T9")
@pytest.mark.parametrize("call", ["contains_many", "add_many", "add", "claim"])
def test_truncation_after_the_look_is_a_signal_and_no_more(
    tmp_path: Path, call: str, tally: Count
) -> None:
    """Law 16: who truncates between look and touch kills that process, as documented.

    The lock is free, and nothing grows the file again.
    """
    path = tmp_path / "seen.bloom"
    BloomFilter.create(path, CAPACITY).close()

    def truncate_after_the_look() -> None:
        look = MappedFilter.check_unchanged

        def look_and_truncate(self: MappedFilter) -> None:
            look(self)
            os.truncate(path, 0)

        with BloomFilter.open(path) as seen:
            MappedFilter.check_unchanged = look_and_truncate  # type: ignore[method-assign]
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
            CALLS[call](seen)

    ended_by(signal.SIGBUS, truncate_after_the_look)
    assert path.stat().st_size == 0
    assert flock_is_free(path)
    tally(changes=1, signals=1)


@pytest.mark.laws("T9")
def test_filter_copied_over_by_one_of_its_size_is_read_as_that(
    tmp_path: Path, tally: Count
) -> None:
    """Law 16: cp of a filter of the same size is not noticed: the map is the new one, as told.

    Where the array was in shared memory it is noticed, and nothing is left there.
    """
    path, other = tmp_path / "seen.bloom", tmp_path / "other"

    def copy_over() -> None:
        with BloomFilter.create(path, CAPACITY, 1e-6, seed=1) as seen:
            seen.add_many(KEYS)
            with BloomFilter.create(other, CAPACITY, 1e-6, seed=1) as new:
                new.add_many(KEYS + 1000)
            resident = seen.info().resident
            run("cp", other, path)
            if resident:
                for call in (lambda: seen.contains_many(KEYS), lambda: seen.add("a")):
                    with pytest.raises(FileChangedError, match="overwritten"):
                        call()
                return
            assert not seen.contains_many(KEYS).all()
            assert seen.contains_many(KEYS + 1000).all()
            assert seen.add("a")
        assert path.stat().st_size == other.stat().st_size

    in_child(copy_over)
    tally(changes=1, calls=3)


def test_lock_is_free_after_a_change(tmp_path: Path) -> None:
    """Laws 2, 16: FileChangedError under the lock gives the lock back."""
    path = tmp_path / "seen.bloom"

    def change_and_restore() -> None:
        with BloomFilter.create(path, CAPACITY) as seen, BloomFilter.open(path) as other:
            seen.add("first")
            path.rename(tmp_path / "away")
            soon()
            with pytest.raises(FileChangedError):
                seen.add("a")
            (tmp_path / "away").rename(path)
            with other.locked(timeout=10):
                assert "a" not in other
            assert seen.add("a")

    in_child(change_and_restore)


def test_replaced_file_is_refused_by_a_pickle(tmp_path: Path) -> None:
    """Laws 3, 16: a pickle opens the filter it was made of and no other at the same path."""
    path = tmp_path / "seen.bloom"
    with left(BloomFilter.create(path, CAPACITY)) as seen:
        pickled = pickle.dumps(seen)
        move_another_over(path)
    with pytest.raises(FileChangedError, match="another filter"):
        pickle.loads(pickled)
