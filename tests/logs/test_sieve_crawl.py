"""A crawl that is killed goes on where it was: nothing is lost, in the sieve or the example."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from checks import check_settled
from diskcache import Deque
from faults import kill_self
from pages import DOCS, ROOT, examples, run_python
from sites import Graph, Site, random_graph, reachable, serving
from workers import PATIENCE, Child, ChildDiedError, end, in_child, wait_for

from mmbloom import BloomFilter, Sieve

CRAWLER = ROOT / "examples" / "crawler.py"
OUTSIDE = ["http://elsewhere.invalid/", "mailto:nobody", "#top", "/missing"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}


class Deadly(Deque):  # type: ignore[misc]
    """A persistent queue that kills its process at one of its calls, before or after it."""

    def __init__(self, directory: str, call: str, number: int, *, after: bool) -> None:
        super().__init__(directory=directory)
        self.call, self.left, self.after = call, number, after

    def append(self, value: object) -> None:
        self.act("append", partial(super().append, value))

    def popleft(self) -> object:
        return self.act("popleft", super().popleft)

    def act(self, call: str, action: Callable[[], object]) -> object:
        self.left -= self.call == call
        deadly = self.call == call and self.left < 0
        if deadly and not self.after:
            kill_self(call)
        result = action()
        if deadly:
            kill_self(call)
        return result


def crawl(folder: Path, graph: Graph, queue: Deque) -> None:
    """Visit all that can be reached, and note each page in a file when it is done."""
    with (
        BloomFilter.create(folder / "seen.bloom", 10_000, 1e-9, exist_ok=True) as seen,
        open(folder / "visited", "a", buffering=1, encoding="utf-8") as visited,
    ):
        urls: Sieve[str] = Sieve(seen, queue)
        urls.push("/0")
        (folder / "begun").touch()
        while urls:
            with urls.visit() as url:
                urls.push_many(graph[url])
                visited.write(f"{url}\n")
    queue.cache.close()


def go_on(folder: Path, graph: Graph) -> list[str]:
    """Crawl to the end; give all that was visited, in this run and those before."""
    in_child(lambda: crawl(folder, graph, Deque(directory=str(folder / "queue"))))
    return (folder / "visited").read_text().splitlines()


@pytest.mark.parametrize("number", [0, 1, 17])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["append", "popleft"])
def test_kill_at_a_call_of_the_queue(
    tmp_path: Path, seed: int, call: str, number: int, *, after: bool
) -> None:
    graph = random_graph(seed, 60, 4)

    def run() -> None:
        crawl(tmp_path, graph, Deadly(str(tmp_path / "queue"), call, number, after=after))

    with pytest.raises(ChildDiedError, match="SIGKILL"):
        in_child(run)
    visited = Counter(go_on(tmp_path, graph))
    assert visited.keys() == reachable(graph)
    # What waits twice: the chunk that was enqueued and not marked; or the visit not noted.
    most = number + 1 if call == "append" else 1
    assert visited.total() - len(visited) <= most
    check_settled(str(tmp_path / "seen.bloom"))


@pytest.mark.stress
def test_kills_at_random_moments(tmp_path: Path, seed: int, stress: int) -> None:
    graph, dice = random_graph(seed, 600, 3), random.Random(seed)
    kills = 0
    for _ in range(15 * stress):
        (tmp_path / "begun").unlink(missing_ok=True)
        queue = partial(Deque, directory=str(tmp_path / "queue"))
        child = Child(lambda queue=queue: crawl(tmp_path, graph, queue()))  # type: ignore[misc]
        try:
            wait_for(tmp_path / "begun")
            time.sleep(dice.uniform(0, 0.04))
        finally:
            end(child)
        kills += child.exit_status == -signal.SIGKILL
    print(f"{kills} kills")
    assert kills
    assert set(go_on(tmp_path, graph)) == reachable(graph)


@contextlib.contextmanager
def crawling(folder: Path, site: Site, workers: int) -> Iterator[subprocess.Popen[str]]:
    """Run the example in a process group of its own, which is gone after the block."""
    command = [sys.executable, str(CRAWLER), str(folder), f"{site.url}/0"]
    with subprocess.Popen(
        [*command, f"--workers={workers}"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as crawler:
        try:
            yield crawler
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(crawler.pid, signal.SIGKILL)


def crawl_to_the_end(folder: Path, site: Site, workers: int) -> list[str]:
    """Run the example; give the pages that it printed."""
    with crawling(folder, site, workers) as crawler:
        output, errors = crawler.communicate(timeout=PATIENCE)
        assert crawler.returncode == 0, errors
    return [line.removeprefix(site.url) for line in output.splitlines()]


@pytest.mark.parametrize("workers", [2, 3])
def test_example_fetches_every_page_once(tmp_path: Path, seed: int, workers: int) -> None:
    graph = random_graph(seed, 150, 3)
    expected = Counter(reachable(graph) | {"/missing"})
    with serving(graph) as site:
        site.outside = OUTSIDE
        assert Counter(crawl_to_the_end(tmp_path, site, workers)) == expected
        assert crawl_to_the_end(tmp_path, site, workers) == []
        assert site.fetched == expected


def test_example_survives_links_that_are_none(tmp_path: Path) -> None:
    """What cannot be asked for is left out, what has to be escaped is; the rest is fetched."""
    bad = ["http://[", "//[::1", "http://127.0.0.1:nothing/"]
    good = ["/caf\u00e9", "/a b?c d", "/50%25", "/tab&#9;bed", "/del\x7f", "/redirected"]
    links = {"/0": good, "/50%25": ["/1"], "/1": []}
    with serving(links) as site:
        site.outside = [*bad, "javascript:alert(1)", ""]
        pages = crawl_to_the_end(tmp_path, site, 2)
        assert crawl_to_the_end(tmp_path, site, 2) == []
    escaped = ["/caf%C3%A9", "/a%20b?c%20d", "/50%25", "/tabbed", "/del%7F", "/redirected"]
    assert Counter(pages) == Counter(["/0", "/1", *escaped])


@pytest.mark.parametrize(
    "words", ["site", "http://[", "http://h --workers=0", "http://h --workers=2"]
)
def test_example_refuses_what_it_cannot_crawl(tmp_path: Path, words: str) -> None:
    """A start that is no URL, no worker, or fewer than have a queue: exit 2, nothing is made."""
    (tmp_path / "queue-2").mkdir()
    command = [sys.executable, str(CRAWLER), str(tmp_path), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    reason = "begun with more workers" if "=2" in words else "expected a URL"
    assert reason in done.stderr.splitlines()[-1]
    assert os.listdir(tmp_path) == ["queue-2"]


def test_example_goes_on_after_a_kill(tmp_path: Path, seed: int) -> None:
    """All its processes killed while a page is on its way: the next run fetches the rest."""
    graph, dice = random_graph(seed, 150, 3), random.Random(seed)
    expected = reachable(graph) | {"/missing"}
    with serving(graph) as site:
        site.outside = OUTSIDE
        for _ in range(2):
            with crawling(tmp_path, site, 3) as crawler:
                site.stop = partial(os.killpg, crawler.pid, signal.SIGKILL)
                site.left = dice.randrange(2, 20)
                crawler.communicate(timeout=PATIENCE)
                assert crawler.returncode == -signal.SIGKILL
        before = Counter(site.fetched)
        crawl_to_the_end(tmp_path, site, 3)
        assert before.keys() < expected
        assert site.fetched.keys() == expected
        assert (site.fetched - before).keys() != expected, "the crawl began anew"


def test_example_says_that_a_worker_died(tmp_path: Path) -> None:
    with serving({"/0": []}) as site:
        pass
    with crawling(tmp_path, site, 2) as crawler:
        errors = crawler.communicate(timeout=PATIENCE)[1]
        assert crawler.returncode == 1
    assert "a worker died" in errors
    waiting = [Deque(directory=str(tmp_path / f"queue-{number}")) for number in range(2)]
    assert [url for queue in waiting for url in queue] == [f"{site.url}/0"]
    for queue in waiting:
        queue.cache.close()


def test_example_of_the_page_goes_on(tmp_path: Path) -> None:
    """What docs/sieve.md says of a later run: the example has nothing to do then."""
    (example,) = examples(DOCS / "sieve.md")
    example.check(tmp_path)
    assert run_python(example.code, tmp_path) == ""
