"""Batches on several threads: the answers of one, errors to the caller, and no thread left."""

import itertools
import mmap
import os
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import has
import numpy as np
import pytest
from checks import array_of, check_same_filter
from workers import PATIENCE, in_child

from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    CountingBloomFilter,
    FileChangedError,
    FilterFullError,
    GrowingFilter,
    KeyTypeError,
    RotatingFilter,
    _engine,
    hash_many,
)
from mmbloom._engine.key_batch import HashedKeys
from mmbloom._keys.batch import Batch
from mmbloom._system.threads import start

Create = Callable[..., BloomFilter]
FEW = 1 << 15  # keys of a thread at least
MANY = 5 * FEW + 77  # enough for threads, and no multiple of what one takes
THREADS = [1, 2, 3, 8]
threaded = pytest.mark.skipif(_engine.engine == "numpy", reason="numpy's engine uses one thread")


def repeating(seed: int) -> list[bytes]:
    """Keys with many repeats, within a piece and across pieces."""
    numbers = np.random.default_rng(seed).integers(0, MANY, MANY)
    return [b"key %d" % number for number in numbers.tolist()]


def claimed(seen: BloomFilter, keys: Any) -> Any:
    with seen.claim(keys) as new:
        return new.tolist()


Way = Callable[[BloomFilter, Any], Any]
WAYS: dict[str, Way] = {
    "add_many": lambda seen, keys: seen.add_many(keys).tolist(),
    "update": lambda seen, keys: seen.update(keys),
    "claim": claimed,
}
FORMS: dict[str, Callable[[list[bytes]], Any]] = {
    "list": lambda keys: keys,
    "S array": np.array,
    "ints": lambda keys: np.array([hash(key) for key in keys]),
    "skipped": lambda keys: [None if i % 7 == 0 else key for i, key in enumerate(keys)],
}


def in_small_chunks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_engine, "CHUNK_KEYS", FEW)


def with_large_and_small_chunks(patch: pytest.MonkeyPatch) -> Iterator[int]:
    yield 0
    in_small_chunks(patch)
    yield 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter, GrowingFilter, RotatingFilter])
def test_small_chunks_change_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, kind: Any, form: str
) -> None:
    """The answers and the keys that are there, excluded ones too, are those of one call."""
    keys = FORMS[form](repeating(seed))
    options = {"nulls": "skip"} if form == "skipped" else {}
    said = []
    for number in with_large_and_small_chunks(monkeypatch):
        with made(kind, tmp_path / f"{number}") as seen:
            excluded = next(key for key in keys if key is not None)
            seen.exclusions.add(excluded)
            new = seen.add_many(keys, **options)
            found = seen.contains_many(keys[::-1], **options)
            assert found.sum() > MANY // 2
            again = seen.add_many(keys, **options)
            said.append([new.tolist(), found.tolist(), again.tolist(), seen.approx_count])
            if kind is CountingBloomFilter:
                gone = [seen.remove_many(keys[::2], **options).tolist() for _ in range(3)]
                seen.exclusions.discard(excluded)  # which hashes are not compared with
                hashes = hash_many([b"%d" % i for i in range(MANY)], seen.params)
                said[-1] += [gone, seen.contains_hashes(*hashes).tolist(), seen.approx_count]
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_chunks_without_a_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Exclusions are checked where a key is found, and only there, whatever the chunks."""
    keys = np.arange(MANY)
    with made(kind, tmp_path / "seen") as seen:
        (tmp_path / "seen.exclusions").write_bytes(b"\xff damaged")
        for _ in with_large_and_small_chunks(monkeypatch):
            assert not seen.contains_many(keys).any()


def made(kind: Any, path: Path) -> Any:
    """Make a filter; a growing one has several files after the batch."""
    if kind is RotatingFilter:
        return kind.create(path, keep="7d", every="1d", capacity_per_period=MANY, seed=1)
    return kind.create(path, MANY // 5 if kind is GrowingFilter else MANY, seed=1)


def test_chunks_of_hashes(create: Create, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes are answered alike, and are copied: the caller's arrays may change meanwhile."""
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, MANY), np.uint64)
    said = []
    for number in with_large_and_small_chunks(monkeypatch):
        with create(MANY, 0.01, seed=1, name=f"{number}") as seen:
            new = seen.add_hashes(h1, h2).tolist()
            said.append([new, seen.contains_hashes(h1[::-1], h2[::-1]).tolist()])
            copied = _engine.hash_keys(HashedKeys(h1, h2), seen.params.key_hash, 2)
            np.testing.assert_array_equal(copied, [h1, h2])
            assert not np.shares_memory(copied[0], h1)
    assert said[0] == said[1]


def test_a_large_batch_that_does_not_fit(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_full="raise" the error counts the first keys that fit; none is added."""
    in_small_chunks(monkeypatch)
    with create(MANY // 2, 1e-6, seed=1, on_full="raise") as seen:
        before = array_of(seen.path)
        with pytest.raises(FilterFullError) as caught:
            seen.add_many(np.arange(MANY))
        assert caught.value.fits == MANY // 2
        assert array_of(seen.path) == before
        assert seen.add_many(np.arange(MANY // 2)).all()


@pytest.mark.parametrize("form", ["list", "S array", "ints"])
@pytest.mark.parametrize("way", WAYS)
def test_number_of_threads_changes_nothing(create: Create, seed: int, way: str, form: str) -> None:
    """Whatever the number of threads: equal answers, and equal files, count for count."""
    keys, running = FORMS[form](repeating(seed)), threading.active_count()
    answers, paths = [], []
    for threads in THREADS:
        seen = create(MANY, 0.01, seed=1, threads=threads, name=f"{threads}")
        answers.append([WAYS[way](seen, keys), seen.contains_many(keys[::-1]).tolist()])
        assert all(answers[-1][1])
        assert not seen.add_many(keys).any()
        paths.append(seen.path)
        assert threading.active_count() == running, "threads end with the call"
    assert all(answer == answers[0] for answer in answers)
    for path in paths:
        check_same_filter(path, paths[0])


@pytest.mark.parametrize("threads", THREADS)
def test_nulls_keep_their_places(create: Create, seed: int, threads: int) -> None:
    keys = FORMS["skipped"](repeating(seed))
    seen = create(MANY, 1e-9, seed=1, threads=threads)
    firsts = {key: i for i, key in reversed([*enumerate(keys)])}
    expected = [key is not None and firsts[key] == i for i, key in enumerate(keys)]
    assert seen.add_many(keys, nulls="skip").tolist() == expected
    found = seen.contains_many(keys, nulls="skip").tolist()
    assert found == [key is not None for key in keys]


@threaded
@pytest.mark.skipif(not has.PROC, reason="this system has no /proc to count threads in")
def test_threads_are_used_and_bounded(create: Create) -> None:
    """A large batch has as many threads as asked for, a small one the caller's alone."""
    seen, ended, most = create(MANY, threads=3), threading.Event(), [0]
    keys = np.arange(1 << 20)

    def count() -> None:
        while not ended.is_set():
            most[0] = max(most[0], len(os.listdir("/proc/self/task")))

    watcher = threading.Thread(target=count)
    watcher.start()
    try:
        before = most[0] = len(os.listdir("/proc/self/task"))
        for _ in range(300):
            seen.contains_many(keys[: 2 * FEW - 1])
        assert most[0] == before
        deadline = time.monotonic() + PATIENCE
        while most[0] < before + 2 and time.monotonic() < deadline:
            seen.contains_many(keys)
        assert most[0] == before + 2
    finally:
        ended.set()
        watcher.join()


@threaded
@pytest.mark.skipif(not has.PROC, reason="this system has no /proc to read a size in")
@pytest.mark.parametrize("way", WAYS)
def test_no_thread_to_be_had(create: Create, seed: int, way: str) -> None:
    """Where the system starts no more threads, the caller does all of the work."""
    keys = np.random.default_rng(seed).integers(0, MANY, MANY)
    expected = WAYS[way](create(MANY, seed=1, threads=1, name="one"), keys)
    several = create(MANY, seed=1, threads=3, name="several")

    def in_little_memory() -> bool:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * mmap.PAGESIZE + (6 << 20)  # less than the stack of a thread
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # Those that have ended have left their stacks for others.
        while start(threading.Thread(target=threading.Event().wait, daemon=True)):
            pass
        return bool(WAYS[way](several, keys) == expected)

    assert in_child(in_little_memory)


def unaligned(keys: Any) -> Any:
    octets = np.empty(keys.nbytes + 1, np.uint8)[1:]
    octets[:] = keys.view(np.uint8)
    return octets.view(keys.dtype)


def read_only(keys: Any) -> Any:
    keys = keys.copy()
    keys.flags.writeable = False
    return keys


ODD: dict[str, Callable[[Any], Any]] = {
    "unaligned": unaligned,
    "read-only": read_only,
    "byte-swapped": lambda keys: keys.astype(keys.dtype.newbyteorder()),
    "backwards": lambda keys: keys[::-1].copy()[::-1],
    "of every second item": lambda keys: np.repeat(keys, 2)[::2],
    "none": lambda keys: keys[:0],
    "one": lambda keys: keys[:1],
}


@threaded
@pytest.mark.parametrize("dtype", ["i8", "i4", "S9", "U9"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_arrays(create: Create, odd: str, dtype: str) -> None:
    """However an array lies in memory, threads read the keys that it has, or none."""
    keys = np.arange(MANY) if dtype[0] == "i" else np.char.mod("k %d", np.arange(MANY))
    keys = keys.astype(dtype)
    seen = create(MANY, 1e-9, seed=1, threads=3)
    seen.add_many(keys[:-1])
    found = seen.contains_many(ODD[odd](keys))
    expected = np.ones(len(ODD[odd](keys)), np.bool_)
    if len(expected) == MANY:
        expected[-1] = False
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(seen.add_many(ODD[odd](keys)), ~expected)


@threaded
@pytest.mark.parametrize("form", ["ints", "S array", "U array", "hashes"])
def test_arrays_that_change_meanwhile(path: str, seed: int, form: str) -> None:
    """Whatever keys the threads then read, all is in its place, and no bit is lost."""
    numbers = np.random.default_rng(seed).integers(0, 2**63, (2, 2, 3 * MANY), np.uint64)
    of_keys = {"ints": "i8", "S array": "S", "U array": "U"}
    states = [
        [*halves] if form == "hashes" else [halves[0].astype(of_keys[form])] for halves in numbers
    ]
    arrays = [array.copy() for array in states[0]]

    def add() -> bool:
        ended = threading.Event()

        def change() -> None:
            for state in itertools.cycle(states):
                for array, other in zip(arrays, state, strict=True):
                    np.copyto(array, other)
                if ended.is_set():
                    break

        changing = threading.Thread(target=change)
        # 290 MB: so large that the threads of a call add in regions of their own.
        with BloomFilter.create(path, 240_000_000, seed=1, threads=3, reserve="fallocate") as seen:
            changing.start()
            for _ in range(8):
                (seen.add_hashes if form == "hashes" else seen.add_many)(*arrays)
            ended.set()
            changing.join()
            return seen.info().positions_set == seen.recount()

    try:
        assert in_child(add)
    finally:
        os.unlink(path)  # pytest keeps the folders of the last runs


@pytest.mark.parametrize("more", [1, 5, 12])
def test_list_whose_last_part_is_short(create: Create, more: int) -> None:
    """A list is read in parts: nothing is asked for beyond the last, however short it is."""
    keys = [b"%d" % i for i in range(FEW + more)]
    seen = create(len(keys), 1e-9, seed=1, threads=1)
    assert seen.add_many(keys).all()
    assert seen.contains_many([key.decode() for key in keys]).all()


def truncate(seen: BloomFilter) -> None:
    os.truncate(seen.path, 8192)


def replace(seen: BloomFilter) -> None:
    shutil.copy(seen.path, seen.path + "2")
    os.replace(seen.path + "2", seen.path)


@pytest.mark.parametrize(
    ("happen", "error", "threads"),
    [
        # Not by one thread while others work: between a look and a touch it is a signal.
        (truncate, FileChangedError, 1),
        *((replace, FileChangedError, threads) for threads in (1, 3)),
        *((BloomFilter.close, ClosedFilterError, threads) for threads in (1, 3)),
    ],
)
@pytest.mark.parametrize("way", ["add_many", "contains_many", "claim"])
def test_what_happens_during_a_batch_reaches_the_caller(
    create: Create,
    monkeypatch: pytest.MonkeyPatch,
    happen: Callable[[BloomFilter], None],
    error: type[Exception],
    threads: int,
    way: str,
) -> None:
    seen, chunks, real = create(10**6, threads=threads), [0], Batch.cut
    running = threading.active_count()

    def cut(batch: Batch) -> Iterator[Any]:
        for chunk in real(batch):
            chunks[0] += 1
            if chunks[0] == 3:
                happen(seen)
            yield chunk

    in_small_chunks(monkeypatch)
    monkeypatch.setattr(Batch, "cut", cut)
    with pytest.raises(error):
        (WAYS | {"contains_many": BloomFilter.contains_many})[way](seen, np.arange(MANY))
    assert chunks[0] >= 3
    assert threading.active_count() == running
    seen.close()


def test_a_wrong_key_among_many_adds_nothing(create: Create, path: str) -> None:
    seen = create(MANY, threads=3)
    keys: list[Any] = ["a"] * MANY + [1.5]
    with pytest.raises(KeyTypeError) as caught:
        seen.add_many(keys)
    assert caught.value.position == MANY
    assert not any(array_of(path))


def test_fork_while_threads_work(create: Create, seed: int) -> None:
    """A child forked during a threaded call of another thread can use the filter."""
    seen, stop = create(30 * MANY, 1e-6, seed=1, threads=3), threading.Event()
    keys = np.random.default_rng(seed).integers(0, 2**62, MANY)

    def work() -> None:
        while not stop.is_set():
            seen.add_many(keys)
            seen.contains_many(keys)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for number in range(10):

            def use(number: int = number) -> bool:
                new = seen.add_many(np.arange(MANY) + 2**62 + number * MANY)
                return seen.add(f"child {number}") and bool(new.all())

            assert in_child(use)
            assert f"child {number}" in seen
    finally:
        stop.set()
        worker.join()
    assert seen.contains_many(keys).all()
    assert seen.contains_many(np.arange(10 * MANY) + 2**62).all()
