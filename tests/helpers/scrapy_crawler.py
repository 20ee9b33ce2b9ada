"""A crawler that follows every link, as a program: python -m scrapy_crawler URL SETTINGS.

SETTINGS are Scrapy's, as JSON, but for those of `OURS`. It prints its statistics as JSON.
"""

import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import DropItem
from scrapy.http import Response, TextResponse
from scrapy.squeues import LifoMemoryQueue

from mmbloom import RotatingFilter

OURS = {
    "spiders": 1,  # how many in one process
    "items": False,
    "ask_for_start": False,  # without `dont_filter`, as the start of a SitemapSpider
    "clock_ahead": 0,  # seconds; of a rotating filter only
}


class Follower(Spider):
    """Follows every link; with `items`, pages whose number is a multiple of 3 give one."""

    name = "follower"
    allowed_domains = ("127.0.0.1",)
    items = False
    ask_for_start = False

    async def start(self) -> AsyncIterator[Request]:
        """Begin at the start pages."""
        for url in self.start_urls:
            yield Request(url, dont_filter=not self.ask_for_start)

    def parse(self, response: Response, **_: Any) -> Iterator[Request | dict[str, str]]:
        assert isinstance(response, TextResponse)
        page = urlsplit(response.url).path
        if self.items and int(page[1:]) % 3 == 0:
            yield {"page": page}
        yield from response.follow_all(css="a")


class Dropping:
    """A pipeline that drops the items of pages whose name ends in 9."""

    def process_item(self, item: dict[str, str], *_: Spider) -> dict[str, str]:
        if item["page"].endswith("9"):
            raise DropItem(item["page"])
        return item


class RefusingQueue(LifoMemoryQueue):  # type: ignore[misc, valid-type]
    """A queue that refuses pages whose name ends in 7, the first time, as a full disk would."""

    refused: set[str] = set()  # noqa: RUF012  of all queues of the process: one a priority

    def push(self, request: Request) -> None:
        if urlsplit(request.url).path.endswith("7") and request.url not in self.refused:
            self.refused.add(request.url)
            raise OSError(28, "No space left on device")
        super().push(request)


class DeadlyQueue(LifoMemoryQueue):  # type: ignore[misc, valid-type]
    def push(self, request: Request) -> None:
        if urlsplit(request.url).path == "/17":
            os.kill(os.getpid(), signal.SIGKILL)
        super().push(request)


def main() -> None:
    url, given = sys.argv[1], json.loads(sys.argv[2])
    ours = {name: given.pop(name, value) for name, value in OURS.items()}
    if ours["clock_ahead"]:
        ahead = partial(RotatingFilter.create, clock=lambda: time.time() + ours["clock_ahead"])
        RotatingFilter.create = ahead  # type: ignore[method-assign]
    process = CrawlerProcess({"TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "INFO", **given})
    crawlers = [process.create_crawler(Follower) for _ in range(ours["spiders"])]
    for crawler in crawlers:
        given = {name: ours[name] for name in ("items", "ask_for_start")}
        process.crawl(crawler, start_urls=[url], **given)
    process.start()
    stats = [crawler.stats.get_stats() for crawler in crawlers if crawler.stats]
    print(json.dumps(stats, default=str))
    sys.exit(1 if process.bootstrap_failed else 0)


if __name__ == "__main__":
    main()
