"""A duplicate filter for Scrapy, in a file that crawlers share and that later runs read.

**A Bloom filter reports some new pages as seen, and these are never fetched**: one in a million by
default, and more once the filter is past its capacity. docs/scrapy.md lists the settings.

Needs the extra ``scrapy``; no other module of the package imports this one. Imports are absolute,
so ``import scrapy`` imports Scrapy here too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

from mmbloom.errors import FormatError, ParameterMismatchError
from mmbloom.filters.open import OfBits, open_of_bits, open_or_create
from mmbloom.filters.rotating import RotatingFilter
from mmbloom.format.folder import seconds_of

try:
    from scrapy.core.scheduler import Scheduler
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import RFPDupeFilter
    from scrapy.http import Request, Response
    from scrapy.settings import BaseSettings
    from scrapy.signals import item_scraped
    from scrapy.spiders import Spider
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.job import job_dir
    from scrapy.utils.request import RequestFingerprinterProtocol
    from twisted.internet.defer import Deferred
except ImportError as error:
    raise ImportError(
        f"mmbloom.crawl.scrapy needs Scrapy 2.13 or later: pip install 'mmbloom[scrapy]' ({error})"
    ) from error

__all__ = ["BloomDupeFilter", "ClaimScheduler", "ItemDupeFilter"]

_ERROR_RATE = 1e-6  # a page reported as seen is lost: one in a million, as with dedup's lines
_EVERY = "1d"
_ADVICE = "set it to the number of different requests to expect"
_OTHERWISE = (
    "To use the existing filter as it is, remove all mmbloom settings except MMBLOOM_FILE: the "
    "filter stores its own capacity and error rate."
)


class _FileDupeFilter(RFPDupeFilter):
    """A duplicate filter with its keys in a file; subclasses decide what to mark, and when."""

    def __init__(
        self,
        settings: BaseSettings,
        stats: StatsCollector,
        fingerprinter: RequestFingerprinterProtocol,
    ) -> None:
        debug = settings.getbool("DUPEFILTER_DEBUG")
        super().__init__(debug=debug, fingerprinter=fingerprinter)
        self._settings, self._stats = settings, stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create a duplicate filter for a crawler, as Scrapy does; nothing is opened yet.

        Parameters
        ----------
        crawler : Crawler
            The crawler, which has the settings.

        Returns
        -------
        the class that was called
        """
        assert crawler.stats is not None  # noqa: S101  for the type checker, and the next one too
        assert crawler.request_fingerprinter is not None  # noqa: S101
        return cls(crawler.settings, crawler.stats, crawler.request_fingerprinter)

    def open(self) -> None:
        """Open the filter, and create it if it does not exist.

        Raises
        ------
        ValueError
            If a setting is missing or wrong; the message says what to set. Settings are checked
            here because Scrapy would replace an earlier error with one of its own.
        FormatError, ParameterMismatchError
            If the path holds something else, or a filter with other parameters.
        OSError
            If the filter cannot be created or opened.
        """
        try:
            self.seen = _open_filter(self._settings)
        except (FormatError, ParameterMismatchError) as error:
            error.add_note(_OTHERWISE)
            raise

    def close(self, reason: str) -> None:
        """Close the filter, and record in the stats how full it is.

        Parameters
        ----------
        reason : str
            Why the spider closes.

        Raises
        ------
        DurabilityError, FileChangedError
            If the filter is held in shared memory and cannot be written to its file.
        """
        super().close(reason)
        if not hasattr(self, "seen"):  # opening it failed
            return
        # No flush: it would force the marks of all processes to the disk before Scrapy's queues,
        # which Scrapy leaves to the system. A power cut would then lose the requests that wait.
        with self.seen:
            self._stats.set_value("mmbloom/keys", self.seen.approx_count)
            self._stats.set_value("mmbloom/error_rate", self.seen.current_error_rate)


class BloomDupeFilter(_FileDupeFilter):
    """A duplicate filter in a file, for any number of crawler processes and runs.

    **Some new pages are reported as seen and are never fetched**: by default one in a million, up
    to the capacity. Choose this filter with ``DUPEFILTER_CLASS =
    "mmbloom.crawl.scrapy.BloomDupeFilter"``.

    Parameters
    ----------
    settings : Settings
        The settings of the crawler; `open` reads them.
    stats : StatsCollector
        Receives ``mmbloom/keys`` and ``mmbloom/error_rate`` when the spider closes: the estimated
        number of requests that the filter knows, and the share of new requests that it now reports
        as seen.
    fingerprinter : RequestFingerprinterProtocol
        Returns the key of a request. Scrapy's own derives it from method, canonical URL and body;
        ``REQUEST_FINGERPRINTER_CLASS`` selects another.

    Attributes
    ----------
    seen : BloomFilter, GrowingFilter or RotatingFilter
        The filter; set by `open`.

    Notes
    -----
    The settings are

    - ``MMBLOOM_FILE``: the path of the filter; by default ``requests.bloom`` in ``JOBDIR``.
    - ``MMBLOOM_CAPACITY``: the number of different requests to expect (per period, if there are
      periods). Required to create the filter. Without it the filter must exist, and may be of any
      class.
    - ``MMBLOOM_ERROR_RATE``: the share of new requests that may be reported as seen; by default
      1e-6.
    - ``MMBLOOM_KEEP``: the time after which a page is crawled again, such as "30d". The path is
      then the folder of a rotating filter.
    - ``MMBLOOM_EVERY``: the length of its periods; by default "1d".

    Scrapy's own scheduler marks a request before it queues it; `ClaimScheduler` marks it
    afterwards. Duplicates are logged and counted (``dupefilter/filtered``) as with Scrapy's own
    filter.

    Examples
    --------
    In the ``settings.py`` of a project:

    >>> DUPEFILTER_CLASS = "mmbloom.crawl.scrapy.BloomDupeFilter"
    >>> SCHEDULER = "mmbloom.crawl.scrapy.ClaimScheduler"
    >>> MMBLOOM_FILE, MMBLOOM_CAPACITY = "seen.bloom", 10_000_000
    """

    _claimed: dict[bytes, bool]  # for each key that is being queued, whether it is new
    _locked: bool  # whether a claim is open

    def open(self) -> None:
        """Open the filter, and create it if it does not exist.

        Raises
        ------
        ValueError, OSError, FormatError, ParameterMismatchError
            If a setting is missing or wrong, or the filter cannot be created or opened.
        """
        self._claimed, self._locked = {}, False
        super().open()

    def request_seen(self, request: Request) -> bool:
        """Return whether a request has been seen before; mark it if not.

        Parameters
        ----------
        request : Request
            The request.

        Returns
        -------
        bool
            For a request claimed by `claiming`, the answer of that claim.

        Raises
        ------
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        """
        key = self.fingerprinter.fingerprint(request)
        if key in self._claimed:
            new, self._claimed[key] = self._claimed[key], False  # another one is a duplicate
            return not new
        # A lookup first: most links are known, and it takes no lock. In a rotating filter an add
        # would also restart the time of a known page, which then would never be crawled again.
        return key in self.seen or not self.seen.add(key)

    @contextmanager
    def claiming(self, request: Request) -> Iterator[None]:
        """Claim a request for a block that queues it, and mark it only if the block succeeds.

        Parameters
        ----------
        request : Request
            The request. If it is new, the filter's lock is held during the block.

        Yields
        ------
        None

        Raises
        ------
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        """
        key = self.fingerprinter.fingerprint(request)
        if key in self._claimed:  # by a block around this one, if a queue enqueues again
            yield
            return
        with ExitStack() as stack:
            new, within = key not in self.seen, self._locked
            if new and not within:
                new = bool(stack.enter_context(self.seen.claim([key]))[0])
                self._locked = True
                stack.callback(setattr, self, "_locked", False)
            self._claimed[key] = new
            stack.callback(self._claimed.pop, key)
            yield
            if new and within:  # the claim around has the lock, so it is still new
                self.seen.add(key)


class ItemDupeFilter(_FileDupeFilter):
    """A duplicate filter that skips pages from which an earlier run has scraped an item.

    **Some new pages are reported as known and are never fetched**, as with `BloomDupeFilter`, whose
    parameters and settings it has. A page is marked when an item from it has passed all pipelines.
    Pages without items, such as lists of links, are fetched once per run.

    Notes
    -----
    A page that is reached by a redirect is marked under its own URL. A link that redirects to it is
    followed once per run, but only as far as the redirect.

    After a kill, the next run fetches all pages that have not yielded an item yet. Scrapy's feeds
    are not pipelines: a kill can lose items that a feed still holds in memory, even though their
    pages are marked. It can also lose the later items of a page, which is marked with its first
    item.

    The requests of the current run are kept in memory, as in Scrapy's own filter, and not in
    ``JOBDIR``. Crawlers that run at the same time can fetch a page twice.

    It does not work with `ClaimScheduler`, which would mark a page before the page has yielded an
    item.

    Examples
    --------
    In the ``settings.py`` of a project:

    >>> DUPEFILTER_CLASS = "mmbloom.crawl.scrapy.ItemDupeFilter"
    >>> MMBLOOM_FILE, MMBLOOM_CAPACITY = "items.bloom", 10_000_000
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create a duplicate filter for a crawler, as Scrapy does, and connect it to the items.

        Parameters
        ----------
        crawler : Crawler
            The crawler, which has the settings and the signals.

        Returns
        -------
        the class that was called
        """
        made = super().from_crawler(crawler)
        crawler.signals.connect(made.mark, item_scraped)
        return made

    def request_seen(self, request: Request) -> bool:
        """Return whether a page has yielded an item, or was already requested in this run.

        Parameters
        ----------
        request : Request
            The request.

        Returns
        -------
        bool

        Raises
        ------
        FileChangedError, ClosedFilterError
            If the filter cannot be read.
        """
        return self.fingerprinter.fingerprint(request) in self.seen or super().request_seen(request)

    def mark(self, response: Response | None) -> None:
        """Mark the page that an item came from.

        Parameters
        ----------
        response : Response or None
            The page; None if the item was yielded by a spider's ``start``.

        Raises
        ------
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the filter cannot be written.
        """
        if response is not None and response.request is not None:
            self.seen.add(self.fingerprinter.fingerprint(response.request))


class ClaimScheduler(Scheduler):
    """Scrapy's scheduler, except that it marks a request as seen only after queueing it.

    If the queue refuses a request, or the crawler is killed before it is queued, the request stays
    unmarked and the next link to it is followed. To use this scheduler together with
    `BloomDupeFilter`, set ``SCHEDULER = "mmbloom.crawl.scrapy.ClaimScheduler"``.

    Notes
    -----
    Scrapy's queues in ``JOBDIR`` write through a buffer. On a full disk, a queue may accept
    requests that it cannot write later, and these are marked.

    While one crawler queues a page, other crawlers that have found a new page wait: about 10 µs, or
    40 with ``JOBDIR``.

    Examples
    --------
    In the ``settings.py`` of a project, with those of `BloomDupeFilter`:

    >>> SCHEDULER = "mmbloom.crawl.scrapy.ClaimScheduler"
    """

    df: BloomDupeFilter  # or another that can claim: `open` checks that

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the queues and the duplicate filter.

        Parameters
        ----------
        spider : Spider
            The spider, passed by Scrapy.

        Returns
        -------
        Deferred or None
            What the duplicate filter's `open` returns.

        Raises
        ------
        ValueError
            If the duplicate filter is not a `BloomDupeFilter`, or if its `open` raises it.
        """
        if not hasattr(self.df, "claiming"):
            found = type(self.df)
            raise ValueError(
                f"DUPEFILTER_CLASS is {found.__module__}.{found.__qualname__}, which cannot claim: "
                "set it to 'mmbloom.crawl.scrapy.BloomDupeFilter', or use Scrapy's own SCHEDULER"
            )
        return super().open(spider)

    def enqueue_request(self, request: Request) -> bool:
        """Queue a request unless it has been seen; mark it once it is queued.

        Parameters
        ----------
        request : Request
            The request; with ``dont_filter`` it is queued without a lookup or a mark.

        Returns
        -------
        bool
            Whether the request was queued.

        Raises
        ------
        OSError, MmbloomError
            If the request cannot be queued, or the filter cannot be written. The request is not
            marked then.
        """
        if request.dont_filter:
            return super().enqueue_request(request)
        with self.df.claiming(request):
            return super().enqueue_request(request)


def _open_filter(settings: BaseSettings) -> OfBits:
    """Open the filter that the settings describe."""
    path = _path(settings)
    keep, every = (_duration(settings, name) for name in ("MMBLOOM_KEEP", "MMBLOOM_EVERY"))
    capacity, error_rate = _capacity(settings), _error_rate(settings)
    if every is not None and keep is None:
        raise ValueError(
            "MMBLOOM_EVERY is set but MMBLOOM_KEEP is not: set MMBLOOM_KEEP to the time after "
            "which a page is crawled again, such as '30d'"
        )
    if capacity is None:
        for name in ("MMBLOOM_ERROR_RATE", "MMBLOOM_KEEP"):
            if settings[name] is not None:
                raise ValueError(
                    f"{name} applies only when the filter is created, and MMBLOOM_CAPACITY is not "
                    f"set: {_ADVICE}"
                )
        try:
            return open_of_bits(path)
        except FileNotFoundError as error:
            raise ValueError(
                f"{path} does not exist, and MMBLOOM_CAPACITY is not set: {_ADVICE}"
            ) from error
    if keep is None:
        return open_or_create(path, capacity, error_rate)
    return RotatingFilter.create(
        path,
        keep=keep,
        every=_EVERY if every is None else every,
        capacity_per_period=capacity,
        error_rate=error_rate,
        exist_ok=True,
    )


def _path(settings: BaseSettings) -> str:
    given = settings["MMBLOOM_FILE"]
    if given is not None and not (isinstance(given, (str, os.PathLike)) and os.fspath(given)):
        raise ValueError(f"MMBLOOM_FILE is {given!r}, expected a path such as 'seen.bloom'")
    if given is not None:
        return os.fspath(given)
    folder = job_dir(settings)
    if not folder:
        raise ValueError(
            "neither MMBLOOM_FILE nor JOBDIR is set: set one of them to choose the filter's path"
        )
    return os.path.join(folder, "requests.bloom")


def _capacity(settings: BaseSettings) -> int | None:
    given = settings["MMBLOOM_CAPACITY"]
    if given is None:
        return None
    number = _number(given)
    if number is None or number < 1 or number != int(number):
        raise ValueError(f"MMBLOOM_CAPACITY is {given!r}, expected a whole number: {_ADVICE}")
    return int(number)


def _error_rate(settings: BaseSettings) -> float:
    given = settings.get("MMBLOOM_ERROR_RATE", _ERROR_RATE)
    number = _number(given)
    if number is None or not 0 < number < 1:
        raise ValueError(
            f"MMBLOOM_ERROR_RATE is {given!r}, expected more than 0 and less than 1: set it to the "
            "share of new pages that may be reported as seen, such as 1e-6"
        )
    return number


def _number(given: object) -> float | None:
    """Return a setting as a number, also from a str of the command line; None if it is none."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        return None
    try:
        number = float(given)
    except (ValueError, OverflowError):  # an int of hundreds of digits is too large for a float
        return None
    return number if abs(number) < 2**63 else None  # no NaN either


def _duration(settings: BaseSettings, name: str) -> int | None:
    given = settings[name]
    if given is None:
        return None
    try:
        return seconds_of(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
