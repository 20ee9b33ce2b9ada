"""A crawler's queue that takes each URL once: first enqueue it, only then mark it as seen.

A URL is appended to the queue within the block of a claim, and marked when the block has
succeeded. Whatever happens in between, a URL can wait twice but is never missing. The queue is
changed under the filter's write lock only, so a queue that several processes share needs no
lock of its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import compress, islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mmbloom._keys.coerce import coerce_one, several
from mmbloom._typing import Bools
from mmbloom.errors import KeyEncodingError, KeyTypeError
from mmbloom.filters.base import Filter

# A bytearray or a memoryview can be pushed too, but comes out as bytes.
Url = TypeVar("Url", bound=bytes | str | int | np.integer[Any])

# URLs in one claim. A persistent queue takes them in a tenth of a second, for which all other
# writers wait; and after a kill at most so many wait twice.
_CHUNK = 1 << 10

_NEEDS = ("append", "popleft", "__len__", "__iter__")


class Queue(Protocol[Url]):
    """The methods that a sieve needs; `collections.deque` and `diskcache.Deque` have them."""

    def append(self, url: Url, /) -> object:
        """Add a URL at the back; when this returns, the URL is in the queue."""

    def popleft(self) -> Url:
        """Remove the URL at the front, and return it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Url]: ...


class Sieve(Generic[Url]):
    """A queue of URLs to visit that takes each URL only once, ever.

    Parameters
    ----------
    filter : BloomFilter, GrowingFilter or RotatingFilter
        Knows which URLs were enqueued before, by this process or any other. It also counts
        and warns, and at its error rate a new URL is taken for a known one and dropped.
    queue : optional
        Holds the URLs that wait: anything with `append`, `popleft`, a length and iteration
        from the front; by default an empty `collections.deque`. It may hold URLs already;
        the filter is not asked about these. Its `append` must not wait until somebody takes
        something out.

    Attributes
    ----------
    filter, queue
        As given.

    Raises
    ------
    ValueError
        If the queue has a `maxlen`: when full it would drop URLs that are marked as seen.
    TypeError
        If the queue lacks one of the four. A list, for instance, has no `popleft`.

    Notes
    -----
    No URL is lost unless the queue is lost: a URL is enqueued before it is marked. If a process
    dies, or an `append` raises, some URLs can be in the queue and not be marked; when they are
    pushed again, they wait a second time. A queue in memory dies with its process, while the
    filter still knows its URLs. If your process may be killed, use a persistent queue, such as
    `diskcache.Deque`.

    Threads and processes: any thread may call any method. Any number of processes may share
    one filter, each with a queue of its own or all with one persistent queue, which each of
    them opens. When several push the same URL, exactly one enqueues it. `push`, `push_many`,
    `pop` and `visit` wait for the filter's write lock, for at most its `lock_timeout`. A fork
    or a pickle copies a queue in memory: both processes then visit what waits in it.

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
            raise ValueError("the queue has a maxlen: full, it would drop URLs that are marked")
        lacks = [name for name in _NEEDS if queue is not None and not hasattr(queue, name)]
        if lacks:
            raise TypeError(
                f"queue is a {type(queue).__name__} without {', '.join(lacks)}, expected "
                "a collections.deque, diskcache.Deque or the like"
            )
        self.filter = filter
        self.queue: Queue[Url] = deque() if queue is None else queue  # an empty one is false

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
            If it cannot be a key.
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
            The URLs, any number of them; 1,024 at a time are taken, outside the lock. They come
            out as they went in, but a bytearray or memoryview comes out as bytes, because it
            may change while it waits.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the URL was enqueued; among equal URLs only for the first.

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
        it are neither. If `append` raised, nothing of its chunk is marked, but the URLs that
        were appended stay in the queue: when all are pushed again, these wait twice.
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
        page is lost. `visit` removes it afterwards.

        Returns
        -------
        str, bytes or int
            The URL, as it was pushed.

        Raises
        ------
        IndexError
            If no URL waits.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter's write lock cannot be taken.
        """
        with self.filter.locked():
            return self.queue.popleft()

    @contextmanager
    def visit(self) -> Iterator[Url]:
        """Give the URL that has waited longest, and remove it only if the block succeeds.

        If the block raises, or the process dies in it, the URL stays at the front of the queue.
        Catch errors that must not stop the crawl within the block.

        Yields
        ------
        str, bytes or int
            The URL, as it was pushed.

        Raises
        ------
        IndexError
            If no URL waits.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter's write lock cannot be taken.

        Notes
        -----
        A queue is for one visitor at a time: others would get the same URL. If there are two
        all the same (say, an old process that was thought dead), a page may be visited twice
        but none is lost: a visitor removes its URL only if it is still at the front. The lock
        is not held within the block.

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
        with self.filter.locked():
            url = self._front()
        yield url
        with self.filter.locked():
            if len(self.queue) and self._front() == url:
                self.queue.popleft()

    def _front(self) -> Url:
        for url in self.queue:
            return url
        raise IndexError("no URL waits in this sieve")

    def __len__(self) -> int:
        """Return how many URLs wait."""
        return len(self.queue)

    def __iter__(self) -> Iterator[Url]:
        """Iterate over the URLs that wait, from the front, without removing them."""
        return iter(self.queue)

    def __repr__(self) -> str:
        return f"<Sieve of {self.filter.path!r}, {len(self)} waiting>"


def _kept(url: Any) -> Any:
    """Copy a URL that could change while it waits."""
    return bytes(url) if isinstance(url, (bytearray, memoryview)) else url
