"""Small web sites on the loopback, for crawlers: pages that link to pages."""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

Graph = dict[str, list[str]]


def random_graph(seed: int, pages: int, links: int) -> Graph:
    dice = random.Random(seed)
    graph = {
        f"/{page}": [f"/{dice.randrange(pages)}" for _ in range(dice.randrange(2 * links))]
        for page in range(pages)
    }
    graph["/0"] = [f"/{page}" for page in range(pages // 2)]
    return graph


def reachable(graph: Graph) -> set[str]:
    """What a crawl from page 0 has to find, by a plain search."""
    found, left = {"/0"}, ["/0"]
    while left:
        new = set(graph[left.pop()]) - found
        found |= new
        left += new
    return found


class Site(HTTPServer):
    """A web server on the loopback with a page for each node, which counts its answers."""

    request_queue_size = 128  # crawlers open many connections at once

    def __init__(self, graph: Graph) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.graph = graph
        self.fetched: Counter[str] = Counter()
        self.outside: list[str] = []  # what each page links to besides
        self.left = 0
        self.stop: Callable[[], object] = lambda: None  # instead of an answer, when none is left
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A crawler that was killed hangs up."""


class Page(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.left -= 1
        if self.server.left == 0:
            self.server.stop()
            return
        links = self.server.graph.get(self.path)
        if self.path.startswith("/redirected"):
            self.send_response(302)
            self.send_header("Location", "http://[")
        elif self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved"))
        else:
            self.send_response(200 if links is not None else 404)
        self.end_headers()
        targets = [f"{self.server.url}{link}#part" for link in links or ()] + self.server.outside
        self.wfile.write("".join(f'<p><a href="{link}">x</a>' for link in targets).encode())
        self.server.fetched[self.path] += 1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextlib.contextmanager
def serving(graph: Graph) -> Iterator[Site]:
    with Site(graph) as site:
        thread = threading.Thread(target=partial(site.serve_forever, poll_interval=0.01))
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
