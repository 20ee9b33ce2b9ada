"""Fetch every page of one site once, with several processes; continue after a kill.

python examples/crawler.py FOLDER URL [--workers N]

After a kill, run the same command again, with at least as many workers, to continue the crawl.
Each worker prints the URLs that it has fetched. Needs the extra `crawl`.
"""

import argparse
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from contextlib import ExitStack
from html.parser import HTMLParser
from multiprocessing import Process, parent_process
from multiprocessing.connection import wait
from pathlib import Path

from diskcache import Deque

from mmbloom import Sieve, open_or_create


class Links(HTMLParser):
    """Collect the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def absolute(page_url: str, link: str) -> str:
    """Return a link as a URL to request; "" if it is not one, or leads to another host."""
    try:
        page, url = (urllib.parse.urlsplit(urllib.parse.urljoin(page_url, to)) for to in ("", link))
    except ValueError:  # http://[, for one: a bad link must not end the crawl in every run
        return ""
    if page[:2] != url[:2]:
        return ""
    # Escape spaces and umlauts, as browsers do. Existing escapes stay.
    path, query = (urllib.parse.quote(part, "%/:=&?~+!$,;'@()*[]") for part in url[2:4])
    return urllib.parse.urlunsplit((*url[:2], path, query, ""))


def links_of(url: str, page: bytes) -> list[str]:
    """Return the absolute URLs on the same host that a page links to."""
    parser = Links()
    parser.feed(page.decode(errors="replace"))
    return [found for link in parser.found if (found := absolute(url, link.strip()))]


def fetch(url: str) -> bytes:
    """Return a page; b"" if the server refuses it or its redirect cannot be followed."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refusal:
        refusal.close()
    except (ValueError, http.client.InvalidURL):  # from a redirect
        pass
    return b""


def open_sieves(folder: Path, workers: int, stack: ExitStack) -> list[Sieve[str]]:
    """Open the filter and all queues: a worker visits its own queue and pushes to all."""
    seen = stack.enter_context(open_or_create(folder / "seen.bloom", 1_000_000, 1e-6))
    sieves: list[Sieve[str]] = []
    for number in range(workers):
        queue = Deque(directory=str(folder / f"queue-{number}"))
        stack.callback(queue.cache.close)
        sieves.append(Sieve(seen, queue))
    return sieves


def push_all(sieves: list[Sieve[str]], urls: list[str]) -> None:
    """Enqueue each URL with the worker that its hash selects, the same one in every run."""
    for number, sieve in enumerate(sieves):
        sieve.push_many(url for url in urls if zlib.crc32(url.encode()) % len(sieves) == number)


def finished(sieves: list[Sieve[str]]) -> bool:
    """Return whether all queues are empty; a URL being visited is still in its queue."""
    with sieves[0].filter.locked():  # nothing is enqueued between the checks
        return not any(sieves)


def work(folder: Path, number: int, workers: int) -> None:
    """Visit the URLs of one queue until all queues are empty."""
    parent = parent_process()
    with ExitStack() as stack:  # opened here: SQLite's connections do not survive a fork
        sieves = open_sieves(folder, workers, stack)
        while not finished(sieves) and parent and parent.is_alive():
            if not sieves[number]:
                time.sleep(0.01)
                continue
            with sieves[number].visit() as url:  # removed when its links are queued
                push_all(sieves, links_of(url, fetch(url)))
                print(f"{url}\n", end="", flush=True)  # one write: lines do not mix


def main() -> None:
    """Read the command line and crawl."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    start = absolute(options.url, options.url)
    if not start.startswith(("http://", "https://")) or options.workers < 1:
        parser.error("expected a URL such as http://127.0.0.1:8000/ and at least one worker")
    if (options.folder / f"queue-{options.workers}").exists():  # no worker would visit it
        parser.error("this crawl was begun with more workers: use at least as many, one per queue")
    options.folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        push_all(open_sieves(options.folder, options.workers, stack), [start])
    each = range(options.workers)
    processes = [Process(target=work, args=(options.folder, n, len(each))) for n in each]
    for process in processes:
        process.daemon = True  # ended with this one
        process.start()
    while None in (codes := [process.exitcode for process in processes]) and not any(codes):
        wait([process.sentinel for process in processes if process.is_alive()], 1)
    if any(codes):  # the others would wait for its queue
        raise SystemExit("a worker died: run the same command again to continue")


if __name__ == "__main__":
    main()
