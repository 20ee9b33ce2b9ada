"""Batches on several threads: the answers of one, errors to the caller, and no thread left."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import array_of, check_same_filter, in_thread
from workers import in_child

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
from mmbloom._system.threads import ReadAhead, in_order

Create = Callable[..., BloomFilter]
MANY = 5 * _engine.CHUNK_KEYS + 77  # enough for threads, and no multiple of a piece
THREADS = [1, 2, 3, 8]


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


def in_large_chunks(patch: pytest.MonkeyPatch) -> None:

    def half(_params: object, keys: int, _width: int = 1) -> int:
        return max(-(-keys // 2), _engine.CHUNK_KEYS)

    patch.setattr(_engine, "chunk_keys", half)


def with_small_and_large_chunks(patch: pytest.MonkeyPatch) -> Iterator[int]:
    yield 0
    in_large_chunks(patch)
    yield 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter, GrowingFilter, RotatingFilter])
def test_large_chunks_change_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, kind: Any, form: str
) -> None:
    """The answers and the keys that are there, excluded ones too, are those of small chunks."""
    keys = FORMS[form](repeating(seed))
    options = {"nulls": "skip"} if form == "skipped" else {}
    said = []
    for number in with_small_and_large_chunks(monkeypatch):
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
def test_large_chunks_without_a_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """Exclusions are checked where a key is found, and only there, as with small chunks."""
    keys = np.arange(MANY)
    with made(kind, tmp_path / "seen") as seen:
        (tmp_path / "seen.exclusions").write_bytes(b"\xff damaged")
        for _ in with_small_and_large_chunks(monkeypatch):
            assert not seen.contains_many(keys).any()


def made(kind: Any, path: Path) -> Any:
    """Make a filter; a growing one has several files after the batch."""
    if kind is RotatingFilter:
        return kind.create(path, keep="7d", every="1d", capacity_per_period=MANY, seed=1)
    return kind.create(path, MANY // 5 if kind is GrowingFilter else MANY, seed=1)


def test_large_chunks_of_hashes(create: Create, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes are answered alike in large chunks, which are copies of the caller's arrays."""
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, MANY), np.uint64)
    said = []
    for number in with_small_and_large_chunks(monkeypatch):
        with create(MANY, 0.01, seed=1, name=f"{number}") as seen:
            new = seen.add_hashes(h1, h2).tolist()
            said.append([new, seen.contains_hashes(h1[::-1], h2[::-1]).tolist()])
            batch = Batch([HashedKeys(h1, h2)], MANY)
            (chunk,) = batch.hashed(seen.params.key_hash, 2, size=MANY)
            assert not np.shares_memory(chunk.hashes[0], h1)
    assert said[0] == said[1]


def test_a_large_batch_that_does_not_fit(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_full="raise" the error counts the first keys that fit; none is added."""
    in_large_chunks(monkeypatch)
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


def test_threads_are_used_and_bounded(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large batch is hashed by other threads, at most so many; a small one by the caller."""
    names: set[str] = set()
    real = _engine.hash_keys

    def watch(*args: Any) -> Any:
        names.add(threading.current_thread().name)
        return real(*args)

    monkeypatch.setattr(_engine, "hash_keys", watch)
    seen = create(MANY, threads=3)
    seen.add_many(np.arange(4 * _engine.CHUNK_KEYS - 1))
    assert names == {threading.current_thread().name}
    names.clear()
    seen.contains_many(np.arange(4 * _engine.CHUNK_KEYS))
    assert 1 <= len(names) <= 3
    assert all(name.startswith("mmbloom") for name in names)


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
    seen, pieces, real = create(10**6, threads=threads), [0], _engine.hash_keys
    lock, running = threading.Lock(), threading.active_count()

    def hash_keys(*args: Any) -> Any:
        with lock:
            pieces[0] += 1
            if pieces[0] == 3:
                happen(seen)
        return real(*args)

    monkeypatch.setattr(_engine, "hash_keys", hash_keys)
    with pytest.raises(error):
        (WAYS | {"contains_many": BloomFilter.contains_many})[way](seen, np.arange(MANY))
    assert pieces[0] >= 3
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


@pytest.mark.parametrize("threads", THREADS)
def test_in_order(threads: int) -> None:
    """Results come in the order of the items, whatever takes longest; as `map` does."""

    def work(item: int) -> int:
        time.sleep(0.001 * (item % 3))
        return -item

    assert list(in_order(work, range(50), threads)) == [-item for item in range(50)]
    assert list(in_order(work, [], threads)) == []


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_threads_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    """If no more threads can be started, the existing ones and the caller do the work."""
    begun, start = list[threading.Thread](), threading.Thread.start

    def start_some(thread: threading.Thread) -> None:
        if len(begun) == allowed:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    def work(item: int) -> int:
        time.sleep(0.001)  # no thread is free when the next one is wanted
        return -item

    monkeypatch.setattr(threading.Thread, "start", start_some)
    assert list(in_order(work, range(20), 3)) == [-item for item in range(20)]
    assert len(begun) <= allowed
    assert not any(thread.is_alive() for thread in begun)


@pytest.mark.parametrize("threads", [1, 3])
def test_in_order_takes_few_items_ahead(threads: int) -> None:
    """Items are taken as results are asked for, a few ahead, never all (law 17)."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            yield item

    results = in_order(abs, items(), threads)
    for asked in range(1, 20):
        next(results)
        assert len(taken) <= asked + threads + 1
    running = threading.active_count()
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() <= running
    assert len(taken) < 50


@pytest.mark.parametrize("threads", [1, 3])
def test_error_in_order(threads: int) -> None:
    """An error comes in its place, after the results before it, and ends all threads."""

    def work(item: int) -> int:
        if item == 7:
            raise ZeroDivisionError
        return item

    results, running = in_order(work, range(100), threads), threading.active_count()
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert threading.active_count() == running
    assert in_thread(lambda: list(ReadAhead(in_order(abs, [1], threads)))) == [1]
