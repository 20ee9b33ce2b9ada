"""A crawler's queue that takes each URL once: it enqueues a URL first, and then marks it as seen.

A URL is appended to the queue within the block of a claim, and marked when the block has
succeeded. Whatever happens in between, a URL can wait twice but is never missing. The queue
changes only under the filter's write lock, so a queue that several processes share needs no lock
of its own.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import compress, islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mmbloom._keys.coerce import coerce_one, several
from mmbloom._system.typing import Bools
from mmbloom.errors import KeyEncodingError, KeyTypeError, ReentryError
from mmbloom.filters.base import Filter

# A bytearray or a memoryview can be pushed too, but comes out as bytes.
Url = TypeVar("Url", bound=bytes | str | int | np.integer[Any])

# URLs in one claim. A persistent queue takes a tenth of a second for them, while all other writers
# wait. After a kill at most so many URLs wait twice.
_CHUNK = 1 << 10

_VISITED = "the URL that has waited longest is being visited: use visit instead of pop"

_NEEDS = ("append", "popleft", "__len__", "__iter__")


class Queue(Protocol[Url]):
    """The methods that a sieve needs; `collections.deque` and `diskcache.Deque` have them."""

    def append(self, url: Url, /) -> object:
        """Add a URL at the back; when this returns, the URL is in the queue."""

    def popleft(self) -> Url:
        """Remove the URL at the front, and return it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Url]: ...


class _Visits:
    """The URLs of one sieve that this process visits; changed under the filter's lock."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.going_on: set[Any] = set()
        self.done: set[Any] = set()  # and not at the front yet


class _Visit(Generic[Url]):
    """The context manager that `Sieve.visit` returns."""

    def __init__(self, sieve: Sieve[Url]) -> None:
        self._sieve = sieve
        self._url: Url | None = None

    def __enter__(self) -> Url:
        with self._sieve.filter.locked():
            self._url = self._sieve._begin_visit()  # noqa: SLF001  of this file
            return self._url

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None and self._url is not None:
                with self._sieve.filter.locked():
                    self._sieve._end_visit(self._url)  # noqa: SLF001
        finally:
            self._forget()

    async def __aenter__(self) -> Url:
        async with self._sieve.filter.claim([]):  # without keys, only for the lock
            self._url = self._sieve._begin_visit()  # noqa: SLF001
            return self._url

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None and self._url is not None:
                async with self._sieve.filter.claim([]):
                    self._sieve._end_visit(self._url)  # noqa: SLF001
        finally:
            self._forget()

    def _forget(self) -> None:
        self._sieve._visits.going_on.discard(self._url)  # noqa: SLF001
        self._url = None


class Sieve(Generic[Url]):
    """A queue of URLs to visit that takes each URL only once, ever.

    Parameters
    ----------
    filter : BloomFilter, GrowingFilter or RotatingFilter
        Knows which URLs were enqueued before, by this process or any other. It also counts
        and warns. At its error rate it reports a new URL as known, and the URL is dropped.
    queue : optional
        Holds the URLs that wait: anything with `append`, `popleft`, a length and iteration
        from the front; by default an empty `collections.deque`. It may hold URLs already, which
        are not looked up in the filter. Its `append` must not wait for a free place.

    Attributes
    ----------
    filter, queue
        As given.

    Raises
    ------
    ValueError
        If the queue has a `maxlen`: when full it would drop URLs that are marked as seen.
    TypeError
        If the queue does not have these four. A list, for instance, has no `popleft`.

    Notes
    -----
    No URL is lost unless the queue is lost: a URL is enqueued before it is marked. If a process
    dies, or an `append` raises, some URLs can be in the queue and not be marked; when they are
    pushed again, they wait a second time. A queue in memory dies with its process, while the
    filter still knows its URLs. If your process may be killed, use a persistent queue, such as
    `diskcache.Deque`.

    Any thread or task may call any method; a task uses `visit` with ``async with``. Any number of
    processes may share one filter, each with a queue of its own or all with one persistent queue,
    which each of them opens. When several push the same URL, exactly one enqueues it. `push`,
    `push_many`, `pop` and `visit` wait for the filter's write lock, for at most its `lock_timeout`.
    A fork or a pickle copies a queue in memory: both processes then visit what waits in it.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
    ...     urls = Sieve(seen)
    ...     print(urls.push("/"), urls.push_many(["/a", "/", "/a"]), len(urls))
    ...     while urls:
    ...         print(urls.pop(), urls.push("/"))
    True [ True False False] 2
    / False
    /a False
    """

    def __init__(
        self,
        filter: Filter,  # noqa: A002  what it is; the builtin is not needed here
        queue: Queue[Url] | None = None,
    ) -> None:
        if getattr(queue, "maxlen", None) not in (None, math.inf):
            raise ValueError(
                "the queue has a maxlen: when full it would drop URLs that are marked; pass one "
                "without a limit"
            )
        missing = [name for name in _NEEDS if queue is not None and not hasattr(queue, name)]
        if missing:
            raise TypeError(
                f"queue is a {type(queue).__name__} without {', '.join(missing)}, expected "
                "a collections.deque, diskcache.Deque or the like"
            )
        self.filter = filter
        self.queue: Queue[Url] = deque() if queue is None else queue  # an empty one is false
        self.__visits = _Visits()

    def push(self, url: Url) -> bool:
        """Enqueue one URL, unless it was seen before.

        Parameters
        ----------
        url : str, bytes or int
            The URL, as in `push_many`.

        Returns
        -------
        bool
            True if it was enqueued.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If the URL cannot be a key.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        Exception
            Whatever the queue's `append` raises. The URL is not marked then.
        """
        with self.filter.claim([coerce_one(url)]) as new:
            if new[0]:
                self.queue.append(_kept(url))
        return bool(new[0])

    def push_many(self, urls: Iterable[Url]) -> Bools:
        """Enqueue the URLs that were not seen before, in their order.

        Parameters
        ----------
        urls : iterable of str, bytes or int
            The URLs, any number of them; they are read 1,024 at a time, outside the lock. They come
            out as they went in, but a bytearray or memoryview comes out as bytes, because it
            may change while it waits.

        Returns
        -------
        ndarray of bool, shape (n,)
            True if the URL was enqueued; among equal URLs, only for the first.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a URL cannot be a key. The error names its position.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        Exception
            Whatever the queue's `append` or the iterable raises.

        Notes
        -----
        After an error, the chunks of 1,024 URLs before it stay enqueued and marked; those after
        it are neither. If `append` raised, no URL of its chunk is marked, but those that were
        appended stay in the queue: when all are pushed again, these wait twice.
        """
        rest, done = iter(several(urls)), 0
        answers = [np.zeros(0, np.bool_)]
        while chunk := [_kept(url) for url in islice(rest, _CHUNK)]:
            try:
                claim = self.filter.claim(chunk)
            except (KeyTypeError, KeyEncodingError) as error:
                raise error.at(done + (error.position or 0)) from None
            with claim as new:
                for url in compress(chunk, new):
                    self.queue.append(url)
            answers.append(new)
            done += len(chunk)
        return np.concatenate(answers)

    def pop(self) -> Url:
        """Remove the URL that has waited longest, and return it.

        The URL leaves the queue at once: if the process is killed before the page is done, that
        page is lost. With `visit` it leaves the queue afterwards.

        Returns
        -------
        str, bytes or int
            The URL, as it was pushed.

        Raises
        ------
        IndexError
            If no URL waits.
        ReentryError
            If a block of `visit` has the URL, which would then be visited twice.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter's write lock cannot be taken.
        """
        with self.filter.locked():
            if len(self.queue) and next(iter(self.queue)) in self._visits.going_on:
                raise ReentryError(self.filter.path, _VISITED)
            return self.queue.popleft()

    def visit(self) -> _Visit[Url]:
        """Visit the URL that has waited longest, and remove it only if the block succeeds.

        If the block raises, or the process dies in it, the URL stays in its place in the queue.
        Catch errors that must not stop the crawl within the block. In a task of asyncio use
        ``async with``: other tasks go on while it waits for the filter's lock.

        Returns
        -------
        context manager
            Entering it, with ``with`` or ``async with``, returns the URL as it was pushed.

        Raises
        ------
        IndexError
            On entering, if all waiting URLs are being visited already, or none waits.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            On entering and leaving, if the filter's write lock cannot be taken.

        Notes
        -----
        Any number of threads and tasks may visit the URLs of one sieve, each a different one. A
        URL that is done while one before it is not stays in the queue until that is done, too.
        Processes that visit each need a queue of their own, or they would get the same URL. If two
        processes share one by accident (say, with one that was thought dead), a page may be
        visited twice but none is lost. The lock is not held within the block.

        Examples
        --------
        >>> import tempfile, os
        >>> from mmbloom import BloomFilter
        >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
        >>> with BloomFilter.create(path, capacity=1000, seed=1) as seen:
        ...     urls = Sieve(seen)
        ...     urls.push("/")
        ...     with urls.visit() as url:
        ...         print(url, len(urls))
        ...     print(len(urls))
        True
        / 1
        0
        """
        return _Visit(self)

    def _begin_visit(self) -> Url:
        """Return a URL that nobody visits; the caller holds the lock."""
        here = self._visits
        for url in self.queue:
            if url not in here.going_on and url not in here.done:
                here.going_on.add(url)
                return url
        said = " that is not being visited" if len(self.queue) else ""
        raise IndexError(f"no URL waits in this sieve{said}")

    def _end_visit(self, url: Url) -> None:
        """Remove a URL that is done, and done ones behind it; the caller holds the lock."""
        here = self._visits
        here.done.add(url)
        while len(self.queue):
            front = next(iter(self.queue))
            if front not in here.done:
                return
            self.queue.popleft()
            here.done.discard(front)
        here.done.clear()

    @property
    def _visits(self) -> _Visits:
        """The visits of this process; a forked child does not continue those of its parent."""
        if self.__visits.pid != os.getpid():
            self.__visits = _Visits()
        return self.__visits

    def __getstate__(self) -> dict[str, object]:
        return {"filter": self.filter, "queue": self.queue}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __len__(self) -> int:
        """Return how many URLs wait."""
        return len(self.queue)

    def __iter__(self) -> Iterator[Url]:
        """Iterate over the URLs that wait, from the front, without removing them."""
        return iter(self.queue)

    def __repr__(self) -> str:
        return f"<Sieve of {self.filter.path!r}, {len(self)} waiting>"


def _kept(url: Any) -> Any:
    """Return a copy of a URL that could change while it waits, and others as they are."""
    return bytes(url) if isinstance(url, (bytearray, memoryview)) else url
