"""A crawler's queue that accepts each URL once: it enqueues a URL, then marks it as seen.

A URL is appended to the queue within the block of a claim, and marked when the block has succeeded.
Whatever happens in between, a URL may be queued twice but is never lost. The queue changes only
under the filter's write lock, so a queue that several processes share needs no lock of its own.
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

_VISITED = "the URL at the front of the queue is being visited: use visit instead of pop"

_NEEDS = ("append", "popleft", "__len__", "__iter__")


class Queue(Protocol[Url]):
    """The methods that a sieve needs; `collections.deque` and `diskcache.Deque` have them."""

    def append(self, url: Url, /) -> object:
        """Add a URL at the back; when this returns, the URL is in the queue."""

    def popleft(self) -> Url:
        """Remove the URL at the front and return it."""

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
    """A queue of URLs to visit that accepts each URL only once, across all runs.

    Parameters
    ----------
    filter : BloomFilter, GrowingFilter or RotatingFilter
        Knows which URLs have been enqueued, by this process or any other. At its error rate it
        reports a new URL as already seen, and that URL is dropped.
    queue : optional
        Holds the waiting URLs: any object with `append`, `popleft`, a length, and iteration from
        the front; by default an empty `collections.deque`. URLs that it already holds are not
        looked up in the filter. Its `append` must not block until there is room.

    Attributes
    ----------
    filter, queue
        The arguments.

    Raises
    ------
    ValueError
        If the queue has a `maxlen`: when full it would drop URLs that are marked as seen.
    TypeError
        If the queue does not have `append`, `popleft`, a length and iteration. A list, for example,
        has no `popleft`.

    Notes
    -----
    No URL is lost unless the queue is lost, because a URL is enqueued before it is marked. If a
    process dies or an `append` raises, some URLs may be in the queue but not marked; if they are
    pushed again, they are queued a second time. A queue in memory is lost with its process, while
    the filter still knows its URLs. If your process may be killed, use a persistent queue such as
    `diskcache.Deque`.

    Any thread or task may call any method; a task uses `visit` with ``async with``. Any number of
    processes may share one filter. Each has a queue of its own, or all open the same persistent
    queue. When several push the same URL, exactly one enqueues it. `push`, `push_many`, `pop` and
    `visit` wait for the filter's write lock, for at most its `lock_timeout`. A fork or a pickle
    copies a queue in memory, and both processes then visit the URLs in it.

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
                "queue has a maxlen: when full it would drop URLs that are marked as seen; pass a "
                "queue without a limit"
            )
        missing = [name for name in _NEEDS if queue is not None and not hasattr(queue, name)]
        if missing:
            raise TypeError(
                f"queue is a {type(queue).__name__} without {', '.join(missing)}, expected "
                "a queue such as collections.deque or diskcache.Deque"
            )
        self.filter = filter
        self.queue: Queue[Url] = deque() if queue is None else queue  # an empty one is false
        self.__visits = _Visits()

    def push(self, url: Url) -> bool:
        """Enqueue one URL, unless it has been seen before.

        Parameters
        ----------
        url : str, bytes or int
            The URL, as in `push_many`.

        Returns
        -------
        bool
            True if the URL was enqueued.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If the URL cannot be a key.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        Exception
            Any error from the queue's `append`. The URL is not marked then.
        """
        with self.filter.claim([coerce_one(url)]) as new:
            if new[0]:
                self.queue.append(_kept(url))
        return bool(new[0])

    def push_many(self, urls: Iterable[Url]) -> Bools:
        """Enqueue, in order, the URLs that have not been seen before.

        Parameters
        ----------
        urls : iterable of str, bytes or int
            The URLs, any number of them. They are read 1,024 at a time, outside the lock. They are
            returned as they were pushed, except that a bytearray or memoryview is returned as
            bytes, because it might change while it waits.

        Returns
        -------
        ndarray of bool, shape (n,)
            True for each URL that was enqueued; for equal URLs, only for the first.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a URL cannot be a key. The error names its position.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        Exception
            Any error from the queue's `append` or from the iterable.

        Notes
        -----
        After an error, the chunks of 1,024 URLs before it stay enqueued and marked; its own chunk
        and later ones are not. If `append` raised, the URLs of its chunk that were already appended
        stay in the queue, unmarked: if all are pushed again, these are queued twice.
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

        The URL leaves the queue at once: if the process is killed before the page is done, the page
        is lost. `visit` removes the URL only when the page is done.

        Returns
        -------
        str, bytes or int
            The URL, as it was pushed.

        Raises
        ------
        IndexError
            If no URL is waiting.
        ReentryError
            If that URL is being visited in a block of `visit`; it would be visited twice.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter's write lock cannot be taken.
        """
        with self.filter.locked():
            if len(self.queue) and next(iter(self.queue)) in self._visits.going_on:
                raise ReentryError(self.filter.path, _VISITED)
            return self.queue.popleft()

    def visit(self) -> _Visit[Url]:
        """Visit the URL that has waited longest, and remove it only if the block succeeds.

        If the block raises, or the process dies within it, the URL keeps its place in the queue.
        Inside the block, catch errors that must not stop the crawl. In an asyncio task use
        ``async with``: other tasks can then run while it waits for the filter's lock.

        Returns
        -------
        context manager
            Entering it, with ``with`` or ``async with``, returns the URL as it was pushed.

        Raises
        ------
        IndexError
            On entering, if no URL is waiting, or all waiting URLs are already being visited.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            On entering and leaving, if the filter's write lock cannot be taken.

        Notes
        -----
        Any number of threads and tasks may visit URLs of one sieve, each a different one. A URL
        that is done stays in the queue until all URLs before it are done. Processes that use
        `visit` each need a queue of their own; with a shared queue they would visit the same URL.
        If two processes share a queue by accident, say because one was thought to be dead, a page
        may be visited twice but none is lost. The lock is not held within the block.

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
        said = "all URLs in this sieve are being visited" if len(self.queue) else "it is empty"
        raise IndexError(f"no URL is waiting: {said}")

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
        """Return the number of waiting URLs."""
        return len(self.queue)

    def __iter__(self) -> Iterator[Url]:
        """Iterate over the waiting URLs from the front, without removing them."""
        return iter(self.queue)

    def __repr__(self) -> str:
        return f"<Sieve of {self.filter.path!r}, {len(self)} waiting>"


def _kept(url: Any) -> Any:
    """Return a copy of a URL that could change while it waits, and others as they are."""
    return bytes(url) if isinstance(url, (bytearray, memoryview)) else url
