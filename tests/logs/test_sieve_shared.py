"""The sieve: visits that end with their page's work, and several threads and processes."""

import asyncio
import pickle
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from checks import flock_is_free, run_threads
from diskcache import Deque
from workers import in_child, together

from mmbloom import BloomFilter, ReentryError, Sieve

Create = Callable[..., BloomFilter]


def test_visit_removes_after_the_block(create: Create) -> None:
    urls: Sieve[str] = Sieve(create(1000))
    urls.push_many(["/a", "/b"])
    with urls.visit() as url:
        assert (url, list(urls)) == ("/a", ["/a", "/b"])
        assert flock_is_free(urls.filter.path)
        assert urls.push_many(["/b", "/c"]).tolist() == [False, True]
    assert list(urls) == ["/b", "/c"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_visit_that_raises_removes_nothing(create: Create, error: type[BaseException]) -> None:
    urls: Sieve[str] = Sieve(create(1000))
    urls.push_many(["/a", "/b"])
    with pytest.raises(error), urls.visit():
        raise error
    with urls.visit() as url:
        assert url == "/a"


def test_two_visitors_lose_nothing(create: Create) -> None:
    """Who finds another URL, or none, at the front after the block removes nothing."""
    urls: Sieve[str] = Sieve(create(1000))
    again: Sieve[str] = Sieve(urls.filter, urls.queue)  # as another process has it
    urls.push_many(["/a", "/b"])
    with urls.visit() as one, again.visit() as other:
        assert one == other == "/a"
    assert list(urls) == ["/b"]
    with urls.visit():
        assert again.pop() == "/b"
    assert not urls


def test_visitors_of_one_sieve(create: Create) -> None:
    """Each gets another URL; what is done stays until what waits before it is done."""
    urls: Sieve[str] = Sieve(create(1000))
    urls.push_many(["/a", "/b", "/c"])
    with urls.visit() as one:
        with urls.visit() as other:
            assert (one, other) == ("/a", "/b")
            with pytest.raises(ReentryError, match="use visit"):
                urls.pop()
        assert list(urls) == ["/a", "/b", "/c"]
        with suppress(KeyError), urls.visit() as failed:
            assert failed == "/c"
            raise KeyError
        with urls.visit(), pytest.raises(IndexError, match="being visited"):
            urls.visit().__enter__()
    assert not urls


def test_tasks_that_visit(create: Create) -> None:
    urls: Sieve[str] = Sieve(create(1000))
    urls.push_many(map(str, range(8)))
    visited = list[str]()

    async def work() -> None:
        with suppress(IndexError):
            while True:
                async with urls.visit() as url:
                    await asyncio.sleep(0.001 * (int(url) % 3))
                    visited.append(url)
                    urls.push(str((int(url) + 8) % 12))

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(3)))

    asyncio.run(main())
    assert sorted(map(int, visited)) == list(range(12))
    assert not urls


def test_a_forked_child_visits_nothing(create: Create) -> None:
    """What its parent visits is free to it; so it is to what a pickle becomes."""
    urls: Sieve[str] = Sieve(create(1000))
    urls.push("/a")
    with urls.visit():
        assert in_child(lambda: urls.visit().__enter__()) == "/a"
        again: Sieve[str] = pickle.loads(pickle.dumps(urls))
        with again.filter, again.visit() as url:
            assert url == "/a"


def test_end_of_a_visit_is_one_step(create: Create) -> None:
    """Nobody takes the URL between the look at the front and its removal: both are locked."""
    seen = create(1000)

    class Looks(deque[str]):
        def popleft(self) -> str:
            assert not flock_is_free(seen.path)
            return super().popleft()

    urls: Sieve[str] = Sieve(seen, Looks())
    urls.push_many(["/a", "/b"])
    with urls.visit():
        pass
    assert urls.pop() == "/b"


def test_threads(create: Create) -> None:
    urls: Sieve[int] = Sieve(create(20_000, 1e-9))
    popped: list[list[int]] = [[] for _ in range(4)]

    def crawl(mine: list[int], start: int) -> None:
        for number in range(300):
            urls.push_many(range(start + number, start + number + 30))
            urls.push(number)
            with suppress(IndexError):  # the others were faster
                mine.append(urls.pop())

    actions = [partial(crawl, mine, 50 * start) for start, mine in enumerate(popped)]
    run_threads(*actions)
    assert Counter(chain(urls, *popped)) == Counter(range(50 * 3 + 299 + 30))


def test_processes_with_a_queue_each(create: Create, path: str) -> None:
    create(20_000, 1e-9).close()

    def crawl(start: int) -> list[int]:
        with BloomFilter.open(path) as seen:
            urls: Sieve[int] = Sieve(seen)
            for number in range(start, 3000, 100):
                urls.push_many(range(number, number + 500))
            for number in range(3000, 3200):
                urls.push(number)
            return [urls.pop() for _ in range(len(urls))]

    queues = together([partial(crawl, start) for start in (0, 50, 75)])
    assert Counter(chain(*queues)) == Counter(range(max(chain(*queues)) + 1))  # one may get none
    for queue in queues:
        assert queue == sorted(queue)


def test_processes_that_share_a_queue(create: Create, path: str, tmp_path: Path) -> None:
    create(20_000, 1e-9).close()
    folder = str(tmp_path / "queue")
    Deque(directory=folder).cache.close()

    def crawl(start: int) -> list[int]:
        queue = Deque(directory=folder)
        popped = []
        with BloomFilter.open(path) as seen:
            urls: Sieve[int] = Sieve(seen, queue)
            for number in range(start, 300, 3):
                urls.push_many(range(number, number + 20))
                with suppress(IndexError):
                    popped.append(urls.pop())
        queue.cache.close()
        return popped

    popped = together([partial(crawl, start) for start in range(3)])
    left = Deque(directory=folder)
    assert Counter(chain(left, *popped)) == Counter(range(299 + 20))
    left.cache.close()


def test_pickles_as_filter_and_queue(create: Create, tmp_path: Path) -> None:
    """A sieve that has travelled pushes to the same filter, and to the same persistent queue."""
    queue = Deque(directory=str(tmp_path / "queue"))
    urls: Sieve[str] = Sieve(create(1000), queue)
    again: Any = pickle.loads(pickle.dumps(urls))
    assert again.push("/a") is True
    assert urls.push("/a") is False
    assert urls.pop() == "/a"
    again.filter.close()
    for one in (queue, again.queue):
        one.cache.close()
