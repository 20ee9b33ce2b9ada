"""mmbloom.verify of filters that others write to, kill, truncate: no false alarm, no signal."""

import os
import random
import resource
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import has
import numpy as np
import pytest
from checks import set_counters
from damages import KEYS, MIB, at_pread, copy_over, filter_of, untouched
from maps import maps_made
from reference import NaiveFilter
from workers import Child, end, in_child, locked_elsewhere

from mmbloom import BloomFilter, FileChangedError, verify
from mmbloom._storage.opening import Counters
from mmbloom.filters import file as file_module
from mmbloom.format.header import MUTABLE_FIELDS


def add_batches(path: str, start: int) -> None:
    with BloomFilter.open(path) as seen:
        for batch in count():
            first = start + batch * 50
            seen.add_many(list(range(first, first + 50)))


def add_single_keys(path: str, start: int) -> None:
    with BloomFilter.open(path) as seen:
        for first in count(start, 500):
            with seen.locked():
                for key in range(first, first + 500):
                    seen.add(key)


def add_old_keys(path: str, start: int) -> None:
    with BloomFilter.open(path) as seen:
        while True:
            seen.add_many(list(KEYS))
            seen.add(KEYS[0])


WRITERS: dict[str, Callable[[str, int], None]] = {
    "batches": add_batches,
    "single": add_single_keys,
    "old": add_old_keys,
}


@pytest.mark.parametrize("num_hashes", [1, 7])
def test_no_problem_while_others_write(
    tmp_path: Path, seed: int, stress: int, num_hashes: int
) -> None:
    """Law 4: at full speed of 3 writers, and when they are killed, verify reports no problem."""
    path = filter_of(tmp_path / "a", 2 * MIB, num_hashes=num_hashes)
    writers = [
        Child(partial(writer, path, (seed << 8) + (number << 50)))
        for number, writer in enumerate(WRITERS.values())
    ]
    moved = number = 0
    try:
        # As long as it takes, on a busy machine, until a writer runs amid a look.
        while number < 60 * stress or not moved:
            number += 1
            found = verify(path, keys=list(KEYS))
            assert found.problems == (), (seed, number)
            moved += "being written to" in "".join(found.notes)
    finally:
        for writer in writers:
            end(writer)
    found = verify(path, keys=list(KEYS))
    assert found.problems == ()
    assert found.unfinished_batches <= 3


class KilledError(Exception):
    """Stands in for the end of a writer amid a batch."""


@pytest.mark.parametrize("counter", ["batches_begun", "keys_added", "positions_set"])
def test_between_any_two_counters(path: str, monkeypatch: pytest.MonkeyPatch, counter: str) -> None:
    """Law 5: a batch amid whose counting the counters are read, the array before it: no problem."""
    filter_of(path, MIB, num_hashes=1, keys=range(0))
    real, written = file_module.count, []

    def add_to(counters: Counters, place: int, by: int) -> int:
        now = real(counters, place, by)
        written.append(MUTABLE_FIELDS[place])
        if written[-1] == counter:
            raise KilledError
        return now

    def add() -> None:
        with pytest.raises(KilledError):
            seen.add_many(list(KEYS))

    with BloomFilter.open(path) as seen:
        monkeypatch.setattr(file_module, "count", add_to)
        at_pread(monkeypatch, 3, add)  # after header, counters and array: the counters again
        assert verify(path).problems == ()
    assert written[-1] == counter
    monkeypatch.undo()
    assert (verify(path).problems, verify(path).unfinished_batches) == ((), 1)


def test_after_killed_writers(path: str, seed: int) -> None:
    """Law 5: writers killed at any instant leave notes, not problems, and all acknowledged keys."""
    chance, acknowledged, unfinished = random.Random(seed), [*KEYS], 0
    filter_of(path, 64 * 1024)

    def write(start: int, report: int) -> None:
        with BloomFilter.open(path) as seen:
            for first in count(start, 20):
                seen.add_many(list(range(first, first + 20)))
                os.write(report, struct.pack("<q", first))

    for generation in range(1, 16):
        reports, report = os.pipe()
        child = Child(partial(write, generation << 32, report))
        os.close(report)
        said = os.read(reports, 8)
        time.sleep(chance.random() / 200)
        end(child)
        with open(reports, "rb") as stream:
            said += stream.read()
        for (first,) in struct.iter_unpack("<q", said):
            acknowledged += range(first, first + 20)
        found = verify(path, keys=acknowledged)
        assert found.problems == ()
        assert 0 <= found.unfinished_batches <= generation
        assert bool(found.notes) == (found.unfinished_batches > 0)
        unfinished = found.unfinished_batches
    with BloomFilter.open(path) as seen:
        seen.recount()
    assert verify(path, keys=acknowledged).notes == ()
    print(f"{unfinished} batches were interrupted")


def test_overwritten_while_keys_come(path: str, tmp_path: Path) -> None:
    """Law 16: keys of which some are looked up in another filter are not called missing."""
    filter_of(path, MIB)
    other = Path(filter_of(tmp_path / "other", MIB, keys=range(0))).read_bytes()

    def keys() -> Iterator[int]:
        yield from KEYS
        copy_over(path, other)()

    with pytest.raises(FileChangedError, match="overwritten by another filter"):
        verify(path, keys=keys())


def test_truncated_for_real(path: str) -> None:
    """Law 16: a file that is cut and grown all the time by another process kills nobody."""
    filter_of(path, MIB)
    whole = Path(path).read_bytes()

    def cut() -> None:
        while True:
            os.truncate(path, 5000)
            Path(path).write_bytes(whole)

    def look() -> int:
        looks = changed = 0
        while looks < 100 or not changed:  # on a busy machine the other process runs later
            looks += 1
            try:
                verify(path)
            except (FileChangedError, ValueError):  # FormatError: cut when it was opened
                changed += 1
        return changed

    child = Child(cut)
    try:
        assert in_child(look) > 0
    finally:
        end(child)


def test_neither_map_nor_lock_nor_change(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws 10, 16: verify maps nothing, waits for no lock, and no byte or time changes."""
    filter_of(path, MIB)
    maps = maps_made(monkeypatch)
    with BloomFilter.open(path) as seen, seen.locked():
        assert maps
    maps.clear()
    with untouched(path):
        assert verify(path, keys=list(KEYS)).ok
    assert not maps
    with locked_elsewhere(path):
        assert verify(path).ok


def test_file_that_nobody_may_write(path: str) -> None:
    """Law 14: a file with mode 400 is verified as any other."""
    filter_of(path, 4096)
    os.chmod(path, 0o400)
    assert verify(path, keys=list(KEYS)).ok


@pytest.mark.parametrize(("num_hashes", "keys"), [(1, 2_200_000), (7, 400_000), (64, 70_000)])
def test_many_keys(path: str, num_hashes: int, keys: int) -> None:
    """Law 17: keys for several passes over the file are counted exactly, in bounded memory."""
    filter_of(path, MIB, num_hashes=num_hashes, keys=range(0))
    with BloomFilter.open(path) as seen:
        seen.add_many(np.arange(2000))
        absent = int((~seen.contains_many(np.arange(keys))).sum())
    tracemalloc.start()
    try:
        found = verify(path, keys=np.arange(keys))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.keys_checked, found.keys_missing) == (keys, absent)
    assert found.problems == (f"{absent} of {keys} keys are not found",)
    assert peak < 240 * MIB


@pytest.mark.skipif(not has.PROC, reason="this system does not say how much memory is in use")
def test_large_file_in_little_memory(tmp_path: Path) -> None:
    """Law 17: a file larger than the memory that is left is verified, sealed pieces and all."""
    path = filter_of(tmp_path / "a", 96 * MIB)

    def look() -> bool:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, used + 64 * MIB))
        return verify(path, keys=list(KEYS)).ok

    assert in_child(look)


def test_many_small_batches(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that come one by one are gathered: the file is read once for many of them."""
    filter_of(path, MIB)
    reads: list[int] = []
    real = os.pread

    def counted(fd: int, size: int, start: int) -> bytes:
        reads.append(size)
        return real(fd, size, start)

    monkeypatch.setattr(os, "pread", counted)
    monkeypatch.setattr("mmbloom._keys.coerce._SLICE", 1)
    assert verify(path, keys=iter(KEYS)).keys_checked == len(KEYS)
    assert len(reads) < 30


def test_agrees_with_an_independent_count(path: str, seed: int) -> None:
    """What is missing is counted key by key as an independent reader does, repeats included."""
    filter_of(path, 8192, keys=range(3000))
    naive, chance = NaiveFilter(Path(path).read_bytes()), random.Random(seed)
    keys = [chance.randrange(6000) for _ in range(2000)]
    expected = sum(key not in naive for key in keys)
    assert expected > 100
    assert verify(path, keys=keys).keys_missing == expected
    forms = [np.array(keys), iter(keys), (key for key in keys), tuple(keys)]
    assert {verify(path, keys=form).keys_missing for form in forms} == {expected}
    texts = [str(key).encode() for key in keys]
    assert verify(path, keys=texts).keys_missing == sum(key not in naive for key in texts)
    set_counters(path, keys_added=0)
    assert verify(path, keys=[]).keys_checked == 0
