"""The two ways of docs/long-work.md, as the page has them, while their workers are killed."""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, examples, run_python
from workers import PATIENCE, Child, end, together

from mmbloom import BloomFilter, RotatingFilter

pytestmark = pytest.mark.slow

ITEMS = [f"item {number}" for number in range(40)]
WORKERS = 4
ADD_FIRST, TWO_FILTERS, MEASURED = examples(DOCS / "long-work.md")


class Journal:
    """What the workers did, in a file to which each line is one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def note(self, event: str, item: str) -> None:
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(f"{event} {item} {os.getpid()}\n")

    def of(self, event: str) -> Counter[str]:
        """How often each item has it."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        words = (line.partition(" ") for line in lines)
        return Counter(rest.rpartition(" ")[0] for kind, _, rest in words if kind == event)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A journal, in the folder where the page's filters are made."""
    monkeypatch.chdir(tmp_path)
    BloomFilter.create("taken.bloom", 1000, 1e-9).close()
    BloomFilter.create("done.bloom", 1000, 1e-9).close()
    RotatingFilter.create(
        "begun", keep="2s", every="1s", capacity_per_period=1000, error_rate=1e-9
    ).close()
    return Journal(tmp_path / "journal")


def functions_of(code: str, work: Callable[[str], None]) -> dict[str, Any]:
    """The functions of an example, with another work."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "long-work.md", "exec"), names)
    assert callable(names["work"])
    names["work"] = work
    return names


def short_work(journal: Journal, item: str) -> None:
    journal.note("begun", item)
    time.sleep(random.random() * 0.02)
    journal.note("done", item)


def pair_work(journal: Journal, item: str) -> None:
    """Wait, with the item half done, until another is begun."""
    journal.note("begun", item)
    deadline = time.monotonic() + PATIENCE
    while len(journal.of("begun")) < 2:
        assert time.monotonic() < deadline, "no other worker began an item beside this one"
        time.sleep(0.002)


@contextmanager
def workers(run: Callable[[], object]) -> Iterator[list[Child[object]]]:
    """Processes that run a function, and are gone after the block."""
    started: list[Child[object]] = []
    try:
        started.extend(Child(run) for _ in range(WORKERS))
        yield started
    finally:
        for child in started:
            end(child)


def kill_amid_work(
    run: Callable[[], object], journal: Journal, chance: random.Random, kills: int
) -> None:
    """Kill workers at random and start others, then wait for those that are left."""
    with workers(run) as started:
        for killed in range(kills):
            while len(journal.of("begun")) <= killed:  # it is work that is interrupted
                time.sleep(0.001)
            time.sleep(chance.random() * 0.02)
            victim = started.pop(chance.randrange(len(started)))
            victim.kill()
            victim.wait()
            started.append(Child(run))
        for child in started:
            child.result()


def each(take: Callable[[str], object], chance: random.Random) -> None:
    """Offer every item, as each of the workers does in an order of its own."""
    for item in chance.sample(ITEMS, len(ITEMS)):
        take(item)


def run_each(names: dict[str, Any]) -> None:
    each(names["take"], random.Random(os.getpid()))


def test_add_first_is_at_most_once(journal: Journal, seed: int) -> None:
    """No item is begun twice, whoever is killed; only those of killed workers are left undone."""
    kills = 12
    names = functions_of(ADD_FIRST.code, partial(short_work, journal))
    kill_amid_work(partial(run_each, names), journal, random.Random(seed), kills)
    with BloomFilter.open("taken.bloom", "r") as taken:
        assert taken.contains_many(ITEMS).all()
    begun, done = journal.of("begun"), journal.of("done")
    assert max(begun.values()) == 1
    assert len(ITEMS) - kills <= len(done) <= len(ITEMS)
    assert {*done} <= {*begun}
    run_each(names)  # and they stay so
    assert journal.of("begun") == begun


def test_an_item_of_a_killed_worker_after_add_first(journal: Journal) -> None:
    """It is not done again: the page says so, and it is what the other way is for."""
    names = functions_of(ADD_FIRST.code, partial(end_the_first, journal))
    with pytest.raises(Exception, match="SIGKILL"):
        Child(partial(names["take"], "a")).result()
    assert names["take"]("a") is None
    assert journal.of("begun") == {"a": 1}


def end_the_first(journal: Journal, item: str) -> None:
    """Kill the worker, the first time that an item is worked on."""
    journal.note("begun", item)
    if journal.of("begun")[item] == 1:
        os.kill(os.getpid(), 9)
    journal.note("done", item)


def test_two_filters_are_at_least_once(journal: Journal, seed: int) -> None:
    """Every item is done in the end, and twice at most as often as a worker was killed."""
    kills = 12
    names = functions_of(TWO_FILTERS.code, partial(short_work, journal))
    run = partial(names["worker"], ITEMS)
    kill_amid_work(run, journal, random.Random(seed), kills)
    assert {*journal.of("done")} == {*ITEMS}
    again = sum(journal.of("begun").values()) - len(ITEMS)
    assert 0 <= again <= kills
    run()  # which has nothing to do
    assert sum(journal.of("begun").values()) == len(ITEMS) + again


def test_an_item_of_a_killed_worker_with_two_filters(journal: Journal) -> None:
    """It is taken at first, and comes again once it is forgotten, with others asking all along."""
    names = functions_of(TWO_FILTERS.code, partial(end_the_first, journal))
    with pytest.raises(Exception, match="SIGKILL"):
        Child(partial(names["worker"], ["a"])).result()
    with RotatingFilter.open("begun") as begun, BloomFilter.open("done.bloom") as done:
        assert names["take"]("a", begun, done) == "taken"
        assert journal.of("begun") == {"a": 1}
    together([partial(names["worker"], ["a"])] * 2)
    assert (journal.of("begun"), journal.of("done")) == ({"a": 2}, {"a": 1})


@pytest.mark.parametrize("way", ["add first", "two filters"])
def test_side_by_side(journal: Journal, way: str) -> None:
    """Two items are worked on at the same time: neither is finished before the other is begun."""
    code = ADD_FIRST.code if way == "add first" else TWO_FILTERS.code
    names = functions_of(code, partial(pair_work, journal))
    run = names["take"] if way == "add first" else names["worker"]
    items = ["a", "b"] if way == "add first" else [["a"], ["b"]]
    together([partial(run, one) for one in items])
    assert journal.of("begun") == {"a": 1, "b": 1}


def test_the_figures(tmp_path: Path) -> None:
    """The page's program does each item once, in each way; how long it takes, it says itself."""
    lines = run_python(MEASURED.code, tmp_path).splitlines()
    for line in lines:
        assert re.fullmatch(r"\w+, [14] at once: 12 items in \d+\.\d s", line)
    assert len(lines) == 6


def test_the_examples(tmp_path: Path) -> None:
    """They print what the page says."""
    for example in (ADD_FIRST, TWO_FILTERS):
        example.check(tmp_path)
