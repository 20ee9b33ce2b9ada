"""A crawl that is stopped: Scrapy's clean end loses nothing, and a kill loses Scrapy's queue."""

import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from crawls import OURS, SCRAPYS, SHARED, Crawled, crawl, crawler, ended
from sites import Graph, Site, random_graph, reachable, serving
from workers import PATIENCE

pytestmark = pytest.mark.slow

PAGES, STOPPED_AT = 120, 30


def stopped(site: Site, number: int, **settings: object) -> Crawled:
    """Crawl, and send the crawler a signal instead of an answer."""
    pids = SimpleQueue[int]()
    site.stop = lambda: os.kill(pids.get(timeout=PATIENCE), number)
    site.left = STOPPED_AT  # before it runs: it may have fetched some before its pid is known
    with crawler(site, **settings) as process:
        pids.put(process.pid)
        return ended(process)


def site_of(seed: int) -> Graph:
    graph = random_graph(seed, PAGES, 4)
    graph["/1"].append("/0")
    return graph


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_clean_end_and_resumption(tmp_path: Path, seed: int, number: signal.Signals) -> None:
    """Stopped by a signal that Scrapy handles, and resumed beside others: all pages, each once."""
    graph = site_of(seed)
    shared: dict[str, Any] = {**SHARED, "MMBLOOM_FILE": str(tmp_path / "seen.bloom")}
    job = {**shared, "JOBDIR": str(tmp_path / "job")}
    with serving(graph) as site:
        (interrupted,) = stopped(site, number, **job).stats
        assert interrupted["finish_reason"] == "shutdown"
        before = site.fetched.total()
        assert before < PAGES / 2
        # A run with wrong settings is refused, and leaves the queue as it is.
        with crawler(site, **{**job, "MMBLOOM_CAPACITY": 5}) as process:
            refused = ended(process)
        assert "exists with capacity 10000, expected 5" in refused.log
        assert site.fetched.total() == before
        with ExitStack() as stack:
            each = [stack.enter_context(crawler(site, **one)) for one in (job, shared, shared)]
            done = [ended(process) for process in each]
        assert [one.code for one in done] == [0, 0, 0]
        assert "Resuming crawl" in done[0].log
        # Page 0 for each start of the four, and once for the link to it.
        assert site.fetched == Counter(reachable(graph)) + Counter({"/0": 4})


@pytest.mark.parametrize("scheduler", [OURS, SCRAPYS])
def test_killed_while_it_queues_a_page(tmp_path: Path, scheduler: str) -> None:
    """The next crawler fetches that page, and its lock is free; with Scrapy's, nobody does."""
    graph = {"/0": [f"/{page}" for page in range(12, 22)]}
    shared = {**SHARED, "SCHEDULER": scheduler, "MMBLOOM_FILE": str(tmp_path / "seen.bloom")}
    with serving(graph) as site:
        with crawler(site, SCHEDULER_MEMORY_QUEUE="scrapy_crawler.DeadlyQueue", **shared) as dies:
            assert ended(dies).code == -signal.SIGKILL
        before = Counter(site.fetched)
        crawl(site, **shared)
    found = site.fetched - before
    assert found["/17"] == (1 if scheduler == OURS else 0)
    assert found["/18"] == 1  # which it had not come to
    assert found["/16"] == 0  # which was queued, and marked


def test_kill_loses_the_queue(tmp_path: Path, seed: int) -> None:
    """What docs/scrapy.md says of SIGKILL: Scrapy forgets what waits, and the filter does not."""
    graph, job = site_of(seed), {**SHARED, "JOBDIR": str(tmp_path / "job")}
    with serving(graph) as site:
        assert stopped(site, signal.SIGKILL, **job).code == -signal.SIGKILL
        assert not (tmp_path / "job" / "requests.queue" / "active.json").exists()
        before = Counter(site.fetched)
        (resumed,) = crawl(site, **job)
        assert site.fetched - before == Counter(["/0"])  # the start alone
        assert resumed.stats[0]["mmbloom/keys"] > before.total() + 20  # marked, never fetched
        # The way out that the page gives: both anew.
        site.fetched.clear()
        crawl(site, **{**job, "JOBDIR": str(tmp_path / "anew")})
        assert site.fetched == Counter(reachable(graph)) + Counter(["/0"])
