"""Real crawls by Scrapy, each crawler in a process of its own that is gone after its block.

They are forks of one process that has imported Scrapy, which takes longer than most of the crawls.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from sites import Site
from workers import PATIENCE

FORKS = multiprocessing.get_context("forkserver")
# What every crawl imports; none of it chooses Twisted's reactor, which is for the crawl to do.
IMPORTED = [
    *("mmbloom.crawl.scrapy", "scrapy_crawler", "twisted.internet.asyncioreactor"),
    *("scrapy.core.downloader.handlers.http11", "scrapy.downloadermiddlewares.cookies"),
    *(f"scrapy.downloadermiddlewares.{name}" for name in ("httpcompression", "robotstxt")),
    *(f"scrapy.extensions.{name}" for name in ("feedexport", "remote_control", "telnet")),
    *("scrapy.pqueues", "scrapy.resolver", "scrapy.spidermiddlewares.referer"),
    "scrapy.utils.engine",
]
OURS, SCRAPYS = "mmbloom.crawl.scrapy.ClaimScheduler", "scrapy.core.scheduler.Scheduler"
SHARED: dict[str, Any] = {
    "DUPEFILTER_CLASS": "mmbloom.crawl.scrapy.BloomDupeFilter",
    "SCHEDULER": OURS,
    "MMBLOOM_CAPACITY": 10_000,
}


@dataclass(frozen=True)
class Crawled:
    """What is left of a crawler: its exit code, statistics for each spider, and log."""

    code: int
    stats: list[dict[str, Any]]
    log: str


@dataclass(frozen=True)
class Crawler:
    """A crawler that runs, and the folder with what it has printed."""

    process: multiprocessing.process.BaseProcess
    folder: Path

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Have a process ready, for a block, from which crawlers are forked."""
    with pytest.MonkeyPatch.context() as patch:
        # Scrapy takes a proxy from the environment, and would ask it for the loopback.
        for name in [name for name in os.environ if "proxy" in name.lower()]:
            patch.delenv(name)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        FORKS.set_forkserver_preload(IMPORTED)
        forkserver.ensure_running()
    try:
        yield
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _crawl(folder: str, *argv: str) -> None:
    """In the fork: crawl, with files as streams."""
    from scrapy_crawler import main  # noqa: PLC0415  it has it

    for fd, name in enumerate(("out", "log"), 1):
        file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, fd)
        os.close(file)
    sys.argv[1:] = argv
    try:
        main()
    except SystemExit as end:
        code = end.code
    gc.collect()  # as Python does at its end: then Twisted logs the errors that went nowhere
    sys.exit(code)


@contextlib.contextmanager
def crawler(site: Site, **settings: Any) -> Iterator[Crawler]:
    """Start a crawl at page 0; it is killed at the end of the block if it still runs."""
    with tempfile.TemporaryDirectory() as folder:
        argv = (folder, f"{site.url}/0", json.dumps(settings))
        process = FORKS.Process(target=_crawl, args=argv)
        process.start()
        try:
            yield Crawler(process, Path(folder))
        finally:
            process.kill()
            process.join()
            process.close()


def ended(crawler: Crawler) -> Crawled:
    crawler.process.join(PATIENCE)
    code = crawler.process.exitcode
    assert code is not None, "hung"
    output, log = ((crawler.folder / name).read_text("utf-8") for name in ("out", "log"))
    return Crawled(code, json.loads(output or "[]"), log)


def crawl(site: Site, processes: int = 1, **settings: Any) -> list[Crawled]:
    """Crawl to the end, with so many processes at once that have equal settings."""
    with ExitStack() as stack:
        started = [stack.enter_context(crawler(site, **settings)) for _ in range(processes)]
        done = [ended(process) for process in started]
    for one in done:
        assert one.code == 0, one.log
    return done
