"""Pages that gave an item are known to later runs, after a kill too; others are fetched again."""

import os
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crawls import crawl, crawler, ended
from scrapy import Request
from scrapy.utils.request import fingerprint
from sites import Graph, random_graph, serving
from workers import PATIENCE

from mmbloom import BloomFilter

pytestmark = pytest.mark.slow

KNOWN = 20  # pages that it has marked when it is killed
ITEMS: dict[str, Any] = {
    "DUPEFILTER_CLASS": "mmbloom.crawl.scrapy.ItemDupeFilter",
    "MMBLOOM_CAPACITY": 10_000,
    "items": True,
}


def all_linked(seed: int, pages: int) -> Graph:
    """Pages that link to each other at random, and the first to all; none to the first."""
    graph = random_graph(seed, pages, 4)
    graph = {page: [link for link in links if link != "/0"] for page, links in graph.items()}
    return graph | {"/0": [page for page in graph if page != "/0"]}


def test_pages_with_items_are_known(tmp_path: Path, seed: int) -> None:
    """The next run fetches what gave no item, or one that a pipeline has dropped."""
    graph, path = all_linked(seed, 100), tmp_path / "items.bloom"
    settings = {
        **ITEMS,
        "MMBLOOM_FILE": str(path),
        "ITEM_PIPELINES": {"scrapy_crawler.Dropping": 1},
    }
    gave = {page for page in graph if int(page[1:]) % 3 == 0 and not page.endswith("9")}
    with serving(graph) as site:
        crawl(site, **settings)
        assert site.fetched == Counter(graph.keys())
        site.fetched.clear()
        (again,) = crawl(site, **settings)
        assert site.fetched == Counter(graph.keys() - gave | {"/0"})  # the start is not asked for
        assert again.stats[0]["mmbloom/keys"] == len(gave)


def test_redirects(tmp_path: Path) -> None:
    """The page at the end of a redirect is known; the link to it is followed that far, each run."""
    graph = {"/0": ["/moved/3", "/moved/5"], "/3": [], "/5": []}
    settings = {**ITEMS, "MMBLOOM_FILE": str(tmp_path / "items.bloom")}
    with serving(graph) as site:
        for pages in (["/3", "/5"], ["/5"]):  # 5 gives no item
            site.fetched.clear()
            crawl(site, **settings)
            assert site.fetched == Counter(["/0", "/moved/3", "/moved/5", *pages])


def kill_when_known(path: Path, pid: int) -> None:
    """Kill a crawler once it has marked some pages; it gets no further page meanwhile."""
    deadline = time.monotonic() + PATIENCE
    with BloomFilter.open(path, "r") as seen:
        while seen.info().keys_added < KNOWN and time.monotonic() < deadline:
            time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


def test_kill_loses_nothing(tmp_path: Path, seed: int) -> None:
    """After a SIGKILL a run fetches every page whose item is not known yet, and no other."""
    graph, path = all_linked(seed, 200), tmp_path / "items.bloom"
    settings = {**ITEMS, "MMBLOOM_FILE": str(path)}
    with serving(graph) as site:
        with crawler(site, **settings) as process:
            site.stop = partial(kill_when_known, path, process.pid)
            site.left = 100
            assert ended(process).code == -signal.SIGKILL
        assert site.fetched.total() < len(graph)
        with BloomFilter.open(path, "r") as seen:
            known = {p for p in graph if fingerprint(Request(f"{site.url}{p}")) in seen}
        assert len(known) >= KNOWN
        site.fetched.clear()
        crawl(site, **settings)
        assert site.fetched == Counter(graph.keys() - known | {"/0"})
