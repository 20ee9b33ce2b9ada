"""Real crawls by Scrapy, each crawler in a process of its own that is gone after its block."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sites import Site

OURS, SCRAPYS = "mmbloom.scrapy.ClaimScheduler", "scrapy.core.scheduler.Scheduler"
SHARED: dict[str, Any] = {
    "DUPEFILTER_CLASS": "mmbloom.scrapy.BloomDupeFilter",
    "SCHEDULER": OURS,
    "MMBLOOM_CAPACITY": 10_000,
}


@dataclass(frozen=True)
class Crawled:
    """What is left of a crawler: its exit code, statistics for each spider, and log."""

    code: int
    stats: list[dict[str, Any]]
    log: str


@contextlib.contextmanager
def crawler(site: Site, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a crawl at page 0; it is killed at the end of the block if it still runs."""
    # Scrapy takes a proxy from the environment, and would ask it for the loopback.
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with subprocess.Popen(
        [sys.executable, "-m", "scrapy_crawler", f"{site.url}/0", json.dumps(settings)],
        env={**environment, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> Crawled:
    """Wait for a crawler."""
    output, log = process.communicate(timeout=60)
    return Crawled(process.returncode, json.loads(output or "[]"), log)


def crawl(site: Site, processes: int = 1, **settings: Any) -> list[Crawled]:
    """Crawl to the end, with so many processes at once that have equal settings."""
    with ExitStack() as stack:
        started = [stack.enter_context(crawler(site, **settings)) for _ in range(processes)]
        done = [ended(process) for process in started]
    for one in done:
        assert one.code == 0, one.log
    return done
