"""The sieve: each URL waits once, as it was given, and is marked after it is enqueued."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import hypothesis
import numpy as np
import pytest
from checks import array_of, check_settled, flock_is_free
from diskcache import Deque
from hypothesis import strategies as st

from mmbloom import (
    BloomFilter,
    FileChangedError,
    KeyEncodingError,
    KeyTypeError,
    LockTimeoutError,
    ReadOnlyError,
    Sieve,
)

Create = Callable[..., BloomFilter]
CHUNK = 1024  # of push_many, as its docstring says


class Breaks(deque[Any]):
    """A queue whose append raises, before or after it has appended, once `good` have been."""

    def __init__(self, good: int, *, after: bool = False) -> None:
        super().__init__()
        self.good, self.after = good, after

    def append(self, url: Any, /) -> None:
        self.good -= 1
        if self.good >= 0 or self.after:
            super().append(url)
        if self.good < 0:
            raise OSError(28, "No space left on device")


def test_takes_each_once_in_order(create: Create) -> None:
    urls: Sieve[str] = Sieve(create(1000))
    assert not urls
    assert urls.push("/a") is True
    new = urls.push_many(["/b", "/a", "/c", "/b"])
    assert new.tolist() == [True, False, True, False]
    assert new.dtype == np.bool_
    assert (len(urls), bool(urls), list(urls), len(urls)) == (3, True, ["/a", "/b", "/c"], 3)
    assert [urls.pop(), urls.pop()] == ["/a", "/b"]
    assert urls.push("/a") is False
    assert urls.pop() == "/c"
    for empty in (urls.pop, urls.visit().__enter__):
        with pytest.raises(IndexError):
            empty()
    assert flock_is_free(urls.filter.path)


@hypothesis.settings(
    max_examples=30, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(st.lists(st.lists(st.text(max_size=2) | st.binary(max_size=2), max_size=20)))
def test_is_add_many_and_a_queue(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[str | bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("sieve")
    with (
        BloomFilter.create(folder / "one", 1000, seed=1) as one,
        BloomFilter.create(folder / "two", 1000, seed=1) as two,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("mmbloom.crawl.sieve._CHUNK", 3)
        urls: Sieve[str | bytes] = Sieve(one)
        expected: list[str | bytes] = []
        for batch in batches:
            answer = two.add_many(batch).tolist()
            assert urls.push_many(batch).tolist() == answer
            expected += [url for url, new in zip(batch, answer, strict=True) if new]
        assert list(urls) == expected
        assert array_of(one.path) == array_of(two.path)
        check_settled(one.path)
    shutil.rmtree(folder)


def test_comes_out_as_it_went_in(create: Create, tmp_path: Any) -> None:
    """Of each key its own type and value, from a deque and from a persistent one."""
    given = ["/é", b"/\xff\x00", 7, -(2**63), 2**64 - 1, ""]
    queue = Deque(directory=str(tmp_path / "queue"))
    for name, made in (("one", None), ("two", queue)):
        urls: Sieve[Any] = Sieve(create(name=name), made)
        assert urls.push_many(given).all()
        out = [urls.pop() for _ in given]
        assert out == given
        assert list(map(type, out)) == list(map(type, given))
    queue.cache.close()


def test_buffer_that_changes_while_it_waits(create: Create) -> None:
    """A bytearray that the caller uses again, or a view of it, is in the queue as it was."""
    urls: Sieve[Any] = Sieve(create(1000))
    buffer = bytearray(b"/a")
    urls.push(buffer)
    buffer[:] = b"/b"
    urls.push_many([memoryview(buffer)])
    buffer[:] = b"/c"
    assert list(urls) == [b"/a", b"/b"]


def test_iterator_of_any_length(create: Create) -> None:
    """A one-shot iterator is taken a chunk at a time, unlocked, and enqueued before the next."""
    urls: Sieve[int] = Sieve(create(20_000, 1e-9))
    ahead = []

    def endless() -> Iterator[int]:
        for number in range(10 * CHUNK + 7):
            ahead.append(number - len(urls))
            if number % CHUNK == 0:
                assert flock_is_free(urls.filter.path)
            yield number

    assert urls.push_many(endless()).sum() == len(urls) == 10 * CHUNK + 7
    assert max(ahead) == CHUNK - 1
    assert not urls.push_many(endless()).any()
    assert urls.push_many(iter([])).shape == (0,)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("good", [0, 1, 2, CHUNK, CHUNK + 5])
def test_queue_that_raises(create: Create, good: int, *, after: bool) -> None:
    """Nothing of the chunk that failed is marked; pushed again all wait, some of them twice."""
    queue = Breaks(good, after=after)
    urls: Sieve[int] = Sieve(create(20_000, 1e-9), queue)
    given = list(range(3 * CHUNK))
    with pytest.raises(OSError, match="No space left"):
        urls.push_many(iter(given))
    enqueued = good + after
    assert list(urls) == given[:enqueued]
    marked = good // CHUNK * CHUNK
    assert urls.filter.contains_many(given).tolist() == [url < marked for url in given]
    assert flock_is_free(urls.filter.path)
    queue.good = len(given)
    assert urls.push_many(given).tolist() == [url >= marked for url in given]
    assert list(urls) == given[:enqueued] + given[marked:]


def test_queue_that_raises_at_push(create: Create) -> None:
    urls: Sieve[str] = Sieve(create(1000), queue := Breaks(0))
    with pytest.raises(OSError, match="No space left"):
        urls.push("/a")
    queue.good = 1
    assert urls.push("/a") is True


def test_unmarked_until_enqueued(create: Create) -> None:
    seen = create(1000)

    class Looks(deque[str]):
        def append(self, url: str, /) -> None:
            assert url not in seen
            assert not flock_is_free(seen.path)
            super().append(url)

    urls: Sieve[str] = Sieve(seen, Looks())
    assert urls.push("/a")
    assert urls.push_many(["/b", "/c"]).all()
    assert seen.contains_many(["/a", "/b", "/c"]).all()


@pytest.mark.parametrize("wrong", [None, 1.5, True, 2**64, "\ud800"])
def test_wrong_url(create: Create, wrong: Any) -> None:
    """A URL that is no key is named by its position in the whole; its chunk is not enqueued."""
    urls: Sieve[Any] = Sieve(create(20_000, 1e-9))
    given = [*range(CHUNK + 3), wrong]
    with pytest.raises((KeyTypeError, KeyEncodingError)) as caught:
        urls.push_many(given)
    assert caught.value.position == CHUNK + 3  # type: ignore[attr-defined]
    assert len(urls) == CHUNK
    assert CHUNK not in urls.filter
    with pytest.raises((KeyTypeError, KeyEncodingError)) as caught:
        urls.push(wrong)
    assert caught.value.position is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", ["/a", b"/a", bytearray(b"/a"), memoryview(b"/a"), 5, None])
def test_single_url_is_no_batch(create: Create, wrong: Any) -> None:
    urls: Sieve[Any] = Sieve(create(1000))
    with pytest.raises(KeyTypeError, match="a batch was expected"):
        urls.push_many(wrong)
    assert not urls


def test_iterator_that_raises(create: Create) -> None:
    """What an iterator gave before its error is marked only where it was enqueued."""
    urls: Sieve[int] = Sieve(create(20_000, 1e-9))
    with pytest.raises(ZeroDivisionError):
        urls.push_many(1 // (1500 - number) + number for number in range(2000))
    assert len(urls) == CHUNK == urls.filter.contains_many(range(2000)).sum()


def test_read_only_filter(create: Create, path: str) -> None:
    create(1000).close()
    with BloomFilter.open(path, "r") as seen:
        urls = Sieve(seen, deque(["/a"]))
        for refused in (lambda: urls.push("/b"), lambda: urls.push_many(iter(["/b"])), urls.pop):
            with pytest.raises(ReadOnlyError):
                refused()
        assert list(urls) == ["/a"]


def test_lock_of_others(create: Create, path: str) -> None:
    holder = create(1000)
    with BloomFilter.open(path, lock_timeout=0.01) as seen, holder.locked():
        urls = Sieve(seen, deque(["/a"]))
        for waits in (lambda: urls.push("/b"), urls.pop, urls.visit().__enter__):
            with pytest.raises(LockTimeoutError):
                waits()
        assert list(urls) == ["/a"]


def test_marks_that_fail(create: Create, path: str) -> None:
    """Where the filter has gone while a URL was enqueued, it waits, and the error says so."""

    class Removes(deque[str]):
        def append(self, url: str, /) -> None:
            super().append(url)
            shutil.move(path, path + ".old")

    urls: Sieve[str] = Sieve(create(1000), Removes())
    with pytest.raises(FileChangedError):
        urls.push("/a")
    assert list(urls) == ["/a"]


def test_empty_queue_is_kept(create: Create) -> None:
    queue: deque[str] = deque()
    urls = Sieve(create(1000), queue)
    urls.push("/a")
    assert urls.queue is queue == deque(["/a"])
    assert Sieve(urls.filter, queue).pop() == "/a"


def test_full_queue_that_drops_is_refused(create: Create, tmp_path: Any) -> None:
    persistent = Deque(directory=str(tmp_path / "queue"))
    Sieve(create(1000), persistent)
    persistent.maxlen = 5
    bounded: deque[str] = deque(maxlen=5)
    for number, queue in enumerate([persistent, bounded]):
        with pytest.raises(ValueError, match="maxlen"):
            Sieve(create(name=f"{number}"), queue)
    persistent.cache.close()


@pytest.mark.parametrize(
    "queue", [[], "abc", SimpleQueue()], ids=lambda queue: type(queue).__name__
)
def test_no_queue(create: Create, queue: Any) -> None:
    with pytest.raises(TypeError, match=r"popleft.*, expected a queue such as collections\.deque"):
        Sieve(create(1000), queue)
