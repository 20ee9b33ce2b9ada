"""Fetch every page of one site once, with several processes; go on after a kill.

python examples/crawler.py FOLDER URL [--workers N]

The same command again, with as many workers or more, goes on where the last one was killed.
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
    """Collects what a page links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def absolute(page_url: str, link: str) -> str:
    """Give a link as a URL that can be asked for; "" if it is none, or leads to another host."""
    try:
        page, url = (urllib.parse.urlsplit(urllib.parse.urljoin(page_url, to)) for to in ("", link))
    except ValueError:  # http://[, for one: a bad link must not end the crawl at every run
        return ""
    if page[:2] != url[:2]:
        return ""
    # As browsers do: a space or an umlaut cannot be sent as it is. What is escaped stays so.
    path, query = (urllib.parse.quote(part, "%/:=&?~+!$,;'@()*[]") for part in url[2:4])
    return urllib.parse.urlunsplit((*url[:2], path, query, ""))


def links_of(url: str, page: bytes) -> list[str]:
    """Give the absolute URLs on the same host that a page links to."""
    parser = Links()
    parser.feed(page.decode(errors="replace"))
    return [found for link in parser.found if (found := absolute(url, link.strip()))]


def fetch(url: str) -> bytes:
    """Get a page; one that the server refuses, or sends elsewhere in vain, is empty and done."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as refusal:
        refusal.close()
    except (ValueError, http.client.InvalidURL):  # of a redirection
        pass
    return b""


def open_sieves(folder: Path, workers: int, stack: ExitStack) -> list[Sieve[str]]:
    """Open the filter, and the queue of every worker: each takes from its own, adds to all."""
    seen = stack.enter_context(open_or_create(folder / "seen.bloom", 1_000_000, 1e-6))
    sieves: list[Sieve[str]] = []
    for number in range(workers):
        queue = Deque(directory=str(folder / f"queue-{number}"))
        stack.callback(queue.cache.close)
        sieves.append(Sieve(seen, queue))
    return sieves


def push_all(sieves: list[Sieve[str]], urls: list[str]) -> None:
    """Enqueue each URL with the worker whose URL it is, the same one at every run."""
    for number, sieve in enumerate(sieves):
        sieve.push_many(url for url in urls if zlib.crc32(url.encode()) % len(sieves) == number)


def finished(sieves: list[Sieve[str]]) -> bool:
    """Tell whether no URL waits anywhere, and none is being visited: it would still wait."""
    with sieves[0].filter.locked():  # nothing is enqueued between the first look and the last
        return not any(sieves)


def work(folder: Path, number: int, workers: int) -> None:
    """Visit what waits in one queue until nothing waits in any."""
    parent = parent_process()
    with ExitStack() as stack:  # opened here: SQLite's connections do not survive a fork
        sieves = open_sieves(folder, workers, stack)
        while not finished(sieves) and parent and parent.is_alive():
            if not sieves[number]:
                time.sleep(0.01)
                continue
            with sieves[number].visit() as url:  # leaves the queue when its links are in one
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
        parser.error("expected a URL such as http://127.0.0.1:8000/, and one worker or more")
    if (options.folder / f"queue-{options.workers}").exists():  # URLs that nobody would visit
        parser.error("this crawl was begun with more workers, each with a queue: give as many")
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
    if any(codes):  # the others would wait for it
        raise SystemExit("a worker died; run this again to go on")


if __name__ == "__main__":
    main()
