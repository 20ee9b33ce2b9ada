"""Crawlers that share a filter fetch each page once, now and in later runs."""

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crawls import OURS, SCRAPYS, SHARED, crawl
from sites import Graph, random_graph, serving

from mmbloom import BloomFilter, GrowingFilter

pytestmark = pytest.mark.slow

DAY = 86_400


def once(graph: Graph, starts: int) -> Counter[str]:
    """Each page once, and the first once more for each spider's start.

    Scrapy asks no filter about a start, and marks none; then page 0 is linked to.
    """
    return Counter(graph.keys()) + Counter({"/0": starts})


def linked(seed: int, pages: int) -> Graph:
    """A random site in which each page is linked to, the first one too."""
    graph = random_graph(seed, pages, 4)
    for page in range(pages):
        graph[f"/{page // 2}"].append(f"/{page}")
    return graph


def told(stats: dict[str, Any]) -> str:
    """Say what one crawler has done."""
    names = ("response_received_count", "dupefilter/filtered", "mmbloom/keys", "finish_reason")
    return f"{stats['elapsed_time_seconds']:.1f} s, {json.dumps({n: stats[n] for n in names})}"


@pytest.mark.parametrize("scheduler", [OURS, SCRAPYS])
@pytest.mark.stress
def test_processes_share_a_filter(tmp_path: Path, seed: int, stress: int, scheduler: str) -> None:
    """Three processes fetch each page once in all; a fourth, later, its start page."""
    graph = linked(seed, 120 * stress)
    settings = {
        **SHARED,
        "MMBLOOM_CAPACITY": 10_000 * stress,
        "SCHEDULER": scheduler,
        "MMBLOOM_FILE": str(tmp_path / "seen.bloom"),
    }
    pages = len(graph)
    with serving(graph) as site:
        stats = [one.stats[0] for one in crawl(site, processes=3, **settings)]
        print(f"{pages} pages, fetched {site.fetched.total()}", *map(told, stats), sep="\n")
        assert site.fetched == once(graph, 3)
        links = sum(len(graph[page]) * times for page, times in site.fetched.items())
        (again,) = crawl(site, **settings)
        print("again", told(again.stats[0]), sep="\n")
        assert site.fetched == once(graph, 4)
    assert sum(each["scheduler/enqueued"] for each in stats) == pages + 3
    assert sum(each["dupefilter/filtered"] for each in stats) == links - pages
    assert again.stats[0]["mmbloom/keys"] == pytest.approx(pages, rel=0.02)
    assert 0 < again.stats[0]["mmbloom/error_rate"] < 1e-6


def test_processes_with_the_filter_of_scrapy(tmp_path: Path, seed: int) -> None:
    """The contrast: without the shared filter each of them fetches all pages."""
    graph = linked(seed, 60)
    with serving(graph) as site:
        crawl(site, processes=3)
        assert site.fetched == Counter(dict.fromkeys(graph, 3) | {"/0": 6})


def test_spiders_of_one_process(tmp_path: Path, seed: int) -> None:
    """Two spiders in one process share a filter as two processes do."""
    graph = linked(seed, 100)
    with serving(graph) as site:
        (both,) = crawl(site, spiders=2, MMBLOOM_FILE=str(tmp_path / "seen.bloom"), **SHARED)
        assert site.fetched == once(graph, 2)
    assert [each["finish_reason"] for each in both.stats] == ["finished"] * 2


@pytest.mark.parametrize("scheduler", [OURS, SCRAPYS])
def test_start_that_is_asked_for(tmp_path: Path, seed: int, scheduler: str) -> None:
    """A start without `dont_filter` is a request as any other: fetched once in all."""
    graph = linked(seed, 60)
    settings = {**SHARED, "SCHEDULER": scheduler, "MMBLOOM_FILE": str(tmp_path / "seen.bloom")}
    with serving(graph) as site:
        for _ in range(2):
            (done,) = crawl(site, ask_for_start=True, **settings)
            assert site.fetched == Counter(graph.keys())
    assert done.stats[0]["dupefilter/filtered"] == 1


@pytest.mark.parametrize("scheduler", [OURS, SCRAPYS])
def test_crawl_again_after_a_time(tmp_path: Path, seed: int, scheduler: str) -> None:
    """Pages are fetched again 30 days after they were, however often they were linked to since."""
    graph = linked(seed, 60)
    settings = {
        **SHARED,
        "SCHEDULER": scheduler,
        "MMBLOOM_FILE": str(tmp_path / "seen"),
        "MMBLOOM_KEEP": "30d",
        "MMBLOOM_CAPACITY": "1e4",
    }
    with serving(graph) as site:
        for days, pages in [(0, once(graph, 1)), (29, Counter(["/0"])), (32, once(graph, 1))]:
            site.fetched.clear()
            crawl(site, clock_ahead=days * DAY, **settings)
            assert site.fetched == pages, f"after {days} days"
    assert json.loads((tmp_path / "seen" / "manifest.json").read_text())["kind"] == "rotating"


@pytest.mark.parametrize("scheduler", [OURS, SCRAPYS])
def test_what_cannot_be_queued_is_not_marked(tmp_path: Path, scheduler: str) -> None:
    """A page that the queue refuses is fetched by the next link to it; by Scrapy's, never."""
    pages = [f"/{number}" for number in range(60)]
    graph = {page: [page, "/0"] for page in pages} | {"/0": pages[1:30] + pages}
    graph["/1"] = pages  # every page has two links at least, on two pages
    with serving(graph) as site:
        (done,) = crawl(
            site,
            **{**SHARED, "SCHEDULER": scheduler},
            MMBLOOM_FILE=str(tmp_path / "seen.bloom"),
            SCHEDULER_MEMORY_QUEUE="scrapy_crawler.RefusingQueue",
        )
        refused = {page for page in pages if page.endswith("7")}
        lost = set() if scheduler == OURS else refused
        assert site.fetched.keys() == set(pages) - lost
        assert site.fetched.total() == len(pages) - len(lost) + 1
    assert done.log.count("\nOSError: [Errno 28]") == len(refused)


def test_each_duplicate_is_logged_on_demand(tmp_path: Path) -> None:
    """As by Scrapy's own filter: the first duplicate, or all of them with DUPEFILTER_DEBUG."""
    graph = {"/0": ["/1", "/2"], "/1": ["/0", "/2"], "/2": ["/0", "/1"]}
    with serving(graph) as site:
        for debug in (False, True):
            (done,) = crawl(
                site,
                **SHARED,
                MMBLOOM_FILE=str(tmp_path / f"{debug}.bloom"),
                DUPEFILTER_DEBUG=debug,
                LOG_LEVEL="DEBUG",
            )
            filtered = done.stats[0]["dupefilter/filtered"]
            assert filtered > 1
            assert done.log.count("Filtered duplicate request") == (filtered if debug else 1)


def test_a_filter_that_is_there(tmp_path: Path, seed: int) -> None:
    """Without a capacity, the filter at the path serves, of whatever class it is."""
    graph, path = linked(seed, 60), tmp_path / "seen"
    GrowingFilter.create(path, initial_capacity=20, error_rate=1e-6).close()
    settings = {name: value for name, value in SHARED.items() if name != "MMBLOOM_CAPACITY"}
    with serving(graph) as site:
        for starts in (1, 2):
            crawl(site, MMBLOOM_FILE=str(path), **settings)
            assert site.fetched == once(graph, starts)
    with GrowingFilter.open(path, "r") as seen:
        assert len(seen.info().files) > 1


def test_past_capacity_is_in_the_log(tmp_path: Path, seed: int) -> None:
    """Scrapy logs the warning that the filter is past its plan, and the statistics show it."""
    graph, path = linked(seed, 100), tmp_path / "seen.bloom"
    with serving(graph) as site:
        (done,) = crawl(site, **{**SHARED, "MMBLOOM_CAPACITY": 20}, MMBLOOM_FILE=str(path))
    assert done.log.count("CapacityWarning") == 1
    assert f"{path}: holds about" in done.log
    assert done.stats[0]["mmbloom/error_rate"] > 1e-6
    with warnings.catch_warnings(action="error"), BloomFilter.open(path, "r") as seen:
        assert seen.params.capacity == 20
