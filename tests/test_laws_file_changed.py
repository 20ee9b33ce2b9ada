"""A file that changes under an open filter is noticed before the map is touched (law 16, T9).

Touching the map of a truncated file is SIGBUS, which nothing can catch: each test runs in a
child, where a signal ends the child alone and fails the test.
"""

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from workers import in_child

from mmbloom import BloomFilter, FileChangedError

CAPACITY = 100_000


def truncate_to(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, size)


def extend(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


def move_another_over(path: Path) -> None:
    with BloomFilter.open(path, "r") as seen:
        BloomFilter.create(path.with_name("other"), like=seen).close()
    path.with_name("other").replace(path)


def copy_a_smaller_one_over(path: Path) -> None:
    BloomFilter.create(path.with_name("other"), 100).close()
    path.write_bytes(path.with_name("other").read_bytes())


def make_folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "truncate-to-nothing": truncate_to(0),
    "truncate-to-header": truncate_to(4096),
    "truncate-by-a-byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "extend": extend,
    "move-over": move_another_over,
    "copy-over": copy_a_smaller_one_over,
    "unlink": Path.unlink,
    "rename": lambda path: path.rename(path.with_name("renamed")),
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


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@every_change
def test_change_is_noticed_by_every_call(tmp_path: Path, change: str) -> None:
    """Law 16, T9: after any change every call is FileChangedError, kills nobody, writes nothing."""
    path = tmp_path / "seen.bloom"

    def change_and_call() -> dict[str, str]:
        found = {}
        with BloomFilter.create(path, CAPACITY) as seen:
            seen.add_many(KEYS)
            CHANGES[change](path)
            before = contents(tmp_path)
            for name, call in CALLS.items():
                with pytest.raises(FileChangedError) as caught:
                    call(seen)
                found[name] = caught.value.path
            assert contents(tmp_path) == before
        return found

    assert in_child(change_and_call) == dict.fromkeys(CALLS, str(path))


@every_change
def test_change_is_noticed_by_the_first_write(tmp_path: Path, change: str) -> None:
    """Law 16, T9: also by an object that wrote nothing yet, whose lock is not open yet."""
    path = tmp_path / "seen.bloom"

    def change_and_add() -> None:
        with BloomFilter.create(path, CAPACITY) as seen:
            CHANGES[change](path)
            for name in ("add", "add_many", "claim", "locked", "flush"):
                with pytest.raises(FileChangedError):
                    CALLS[name](seen)

    in_child(change_and_add)


@every_change
def test_change_is_noticed_in_read_mode(tmp_path: Path, change: str) -> None:
    """Laws 14, 16, T9: queries of a filter opened with mode r notice it as well."""
    path = tmp_path / "seen.bloom"

    def change_and_ask() -> None:
        BloomFilter.create(path, CAPACITY).close()
        with BloomFilter.open(path, "r") as seen:
            CHANGES[change](path)
            for name in ("in", "contains_many"):
                with pytest.raises(FileChangedError):
                    CALLS[name](seen)

    in_child(change_and_ask)


@pytest.mark.parametrize("reading", READINGS)
def test_readings_of_a_truncated_file_kill_nobody(tmp_path: Path, reading: str) -> None:
    """Law 16, T9: what reads the counters of a truncated file raises, or answers: no SIGBUS."""
    path = tmp_path / "seen.bloom"

    def truncate_and_read() -> None:
        with BloomFilter.create(path, CAPACITY) as seen:
            os.truncate(path, 0)
            with pytest.raises(FileChangedError):
                READINGS[reading](seen)

    in_child(truncate_and_read)


def test_change_within_locked_is_noticed(tmp_path: Path) -> None:
    """Law 16, T9: within locked() every batch is checked anew."""
    path = tmp_path / "seen.bloom"

    def change_while_locked() -> None:
        with BloomFilter.create(path, CAPACITY) as seen, seen.locked():
            seen.add_many(KEYS)
            os.truncate(path, 4096)
            time.sleep(0.002)  # single keys are one batch, looked after every millisecond
            for name in ("in", "contains_many", "add", "add_many", "claim"):
                with pytest.raises(FileChangedError):
                    CALLS[name](seen)

    in_child(change_while_locked)


@every_change
def test_change_within_claim_is_noticed_before_marking(tmp_path: Path, change: str) -> None:
    """Law 16, T9: a file changed while the caller works is noticed before the keys are marked."""
    path = tmp_path / "seen.bloom"

    def change_while_claimed() -> None:
        with BloomFilter.create(path, CAPACITY) as seen:
            claim = seen.claim(KEYS)
            claim.__enter__()
            CHANGES[change](path)
            before = contents(tmp_path)
            with pytest.raises(FileChangedError):
                claim.__exit__(None, None, None)
            assert contents(tmp_path) == before

    in_child(change_while_claimed)


def test_lock_is_free_after_a_change(tmp_path: Path) -> None:
    """Laws 2, 16: FileChangedError under the lock gives the lock back."""
    path = tmp_path / "seen.bloom"

    def change_and_restore() -> None:
        with BloomFilter.create(path, CAPACITY) as seen, BloomFilter.open(path) as other:
            seen.add("first")
            path.rename(tmp_path / "away")
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
    with BloomFilter.create(path, CAPACITY) as seen:
        pickled = pickle.dumps(seen)
        move_another_over(path)
    with pytest.raises(FileChangedError, match="another filter"):
        pickle.loads(pickled)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_open_and_query_change_no_byte_and_no_time(tmp_path: Path, mode: str) -> None:
    """Law 10: opening, asking and closing change no byte, no size and no time of the file."""
    path = tmp_path / "seen.bloom"
    BloomFilter.create(path, CAPACITY).close()
    before, status = path.read_bytes(), path.stat()
    time.sleep(0.02)
    with BloomFilter.open(path, mode) as seen:  # type: ignore[arg-type]
        assert not seen.contains_many(KEYS).any()
        assert "a" not in seen
        assert seen.info().keys_added == 0
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["seen.bloom"]
