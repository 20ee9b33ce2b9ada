"""A crawler's queue that drops what it had before: enqueue, and only then mark (law 6).

A URL is appended to the queue within the block of a claim, and marked as seen when the block
has succeeded: whatever happens in between, it can wait twice, and can never be missing. All
changes of the queue are made under the filter's write lock (law 7), so that a queue which
several processes share needs no lock for what this file does.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import compress, islice
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mmbloom._keys.coerce import at_position, coerce_one
from mmbloom._typing import Key
from mmbloom.errors import KeyEncodingError, KeyTypeError
from mmbloom.filters.base import Filter

Url = TypeVar("Url", bound=Key)


# How many URLs one claim holds: a persistent queue takes a tenth of a second for them, in which
# all other writers wait, and as many wait twice at most after a kill.
_CHUNK = 1 << 10


_NEEDS = ("append", "popleft", "__len__", "__iter__")


class Queue(Protocol[Url]):
    """What a sieve asks of a queue; `collections.deque` and `diskcache.Deque` have it."""

    def append(self, url: Url, /) -> object:
        """Add at the back; what it has returned from is in the queue."""

    def popleft(self) -> Url:
        """Remove from the front, and return it."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Url]: ...


class Sieve(Generic[Url]):
    """A queue of URLs to visit that takes each only once, ever.

    Parameters
    ----------
    filter : BloomFilter, GrowingFilter or RotatingFilter
        What was enqueued before, by this process or any other. Error rate, counts and
        warnings are its matter: a new URL is dropped at the rate of its false positives.
    queue : optional
        Where URLs wait: anything with `append`, `popleft`, a length and iteration from the
        front; an empty `collections.deque` by default. It may hold URLs already, which are
        not looked at. Its `append` must not wait for somebody to take something out.

    Attributes
    ----------
    filter, queue
        As given.

    Raises
    ------
    ValueError
        If the queue has a `maxlen`: a full one would drop URLs that are marked as seen.
    TypeError
        If it lacks one of the four: a list would take URLs and give none back.

    Notes
    -----
    Never lost, as long as the queue is not: a URL is enqueued before it is marked. A process
    that dies, or an `append` that raises, can leave URLs in the queue that are not marked;
    when they are pushed again they wait a second time. A queue in memory dies with its
    process, and the filter still knows what was in it: who may be killed takes a persistent
    queue, as `diskcache.Deque`.

    Threads and processes: any thread may call any method. Any number of processes may share
    one filter, each with a queue of its own, or with a persistent queue that they share (each
    opens it itself): of all that push a URL, one enqueues it. Push, pop and the end of a
    visit wait for the filter's write lock, for as long as its `lock_timeout`. A fork or a
    pickle copies a queue in memory: what waits in it is then visited by both.

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
        """Enqueue one URL unless it was seen; True if it was enqueued.

        Raises what `push_many` raises.
        """
        with self.filter.claim([coerce_one(url)]) as new:
            if new[0]:
                self.queue.append(_kept(url))
        return bool(new[0])

    def push_many(self, urls: Iterable[Url]) -> npt.NDArray[np.bool_]:
        """Enqueue those URLs that were not seen, in their order, of an iterable of any length.

        Parameters
        ----------
        urls : iterable of str, bytes or int
            Come out as they went in; a bytearray or memoryview, which may change while it
            waits, as bytes. Taken 1,024 at a time, outside the lock.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the URL was enqueued; of equal URLs only for the first.

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a URL cannot be a key; names its position.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        Exception
            Whatever the queue's `append` or the iterable raises.

        Notes
        -----
        Of the chunks of 1,024 URLs, those before an error stay enqueued and marked; those
        after it are neither. Of the chunk in which `append` raised nothing is marked, and
        what it had enqueued stays: push all again, and these wait twice.
        """
        if isinstance(urls, (str, bytes, bytearray, memoryview)):
            raise KeyTypeError(f"a batch was expected, got a single {type(urls).__name__}")
        if not isinstance(urls, Iterable):
            raise KeyTypeError(f"a batch was expected, got {type(urls).__name__}")
        rest, done = iter(urls), 0
        answers = [np.zeros(0, np.bool_)]
        while chunk := [_kept(url) for url in islice(rest, _CHUNK)]:
            try:
                claim = self.filter.claim(chunk)
            except (KeyTypeError, KeyEncodingError) as error:  # its position in the whole
                raise at_position(error, done + (error.position or 0)) from None
            with claim as new:
                for url in compress(chunk, new):
                    self.queue.append(url)
            answers.append(new)
            done += len(chunk)
        return np.concatenate(answers)

    def pop(self) -> Url:
        """Remove the URL that waits longest, and return it; IndexError where none does.

        It is gone from the queue at once: who is killed before its page is done has lost
        that page. `visit` removes it afterwards.
        """
        with self.filter.locked():
            return self.queue.popleft()

    @contextmanager
    def visit(self) -> Iterator[Url]:
        """Give the URL that waits longest, and remove it only if the block succeeds.

        A block that raises, or a process that dies in it, leaves the URL at the front of the
        queue; catch within the block what shall not stop the crawl. IndexError where none
        waits.

        Notes
        -----
        For one visitor a queue: others would get the same URL. Should there be two all the
        same (an old process that was thought dead), a page is visited twice and none is lost:
        who finds another URL at the front afterwards removes nothing. No lock is held within
        the block.

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
        """How many URLs wait."""
        return len(self.queue)

    def __iter__(self) -> Iterator[Url]:
        """Go over the URLs that wait, from the front, without removing them."""
        return iter(self.queue)

    def __repr__(self) -> str:
        return f"<Sieve of {self.filter.path!r}, {len(self)} waiting>"


def _kept(url: Any) -> Any:
    """Give a URL that stays what it is while it waits."""
    return bytes(url) if isinstance(url, (bytearray, memoryview)) else url
