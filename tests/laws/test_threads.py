"""Threads that share one filter object, with every kind of call mixed (laws 1, 4 and 7).

Each thread knows what it has added: that is new when it comes, and found from then on. A Python
without the global lock runs the threads at the same time, others change over within the kernels.
"""

import os
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from checks import run_threads
from tally import Count

import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter

THREADS = 8
ROUNDS = 40  # of calls of each thread
RATE = 1e-9  # at which no false positive is expected
Shared = BloomFilter | CountingBloomFilter | GrowingFilter

CREATE: dict[str, Callable[[Path], Shared]] = {
    "plain": lambda path: BloomFilter.create(path, 2_000_000, RATE),
    "standard": lambda path: BloomFilter.create(path, 2_000_000, RATE, layout="standard"),
    "counting": lambda path: CountingBloomFilter.create(path, 2_000_000, RATE),
    "growing": lambda path: GrowingFilter.create(path, 20_000, RATE),
}
every_kind = pytest.mark.parametrize("kind", CREATE)


def at_once(work: Callable[[int], object]) -> None:
    """Run work(0), work(1) ... in a thread each; what one of them raises fails the test."""
    run_threads(*(partial(work, me) for me in range(THREADS)))


def own_keys(me: int) -> Iterator[str]:
    """Give keys that no other thread has."""
    number = 0
    while True:
        yield f"{me} {number}"
        number += 1


def add_by_all_calls(seen: Shared, me: int, seed: int) -> list[str]:
    """Add keys by whatever call chance has; each is new, and found; give all of them."""
    chance, keys, mine = random.Random(seed + me), own_keys(me), list[str]()
    for _ in range(ROUNDS):
        batch = [next(keys) for _ in range(chance.choice((1, 3, 50, 300, 2000)))]
        how = chance.randrange(6)
        if how == 0:
            batch = batch[:50]
            assert all(seen.add(key) for key in batch)
        elif how == 1:
            with seen.claim(batch) as new:
                assert new.all()
        elif how == 2:
            batch = batch[:50]
            with seen.locked():
                assert all(seen.add(key) for key in batch)
        else:
            assert seen.add_many(batch).all()
        mine += batch
        assert batch[-1] in seen
        assert all(key in seen for key in chance.sample(mine, min(40, len(mine))))
        assert seen.contains_many(chance.sample(mine, min(400, len(mine)))).all()
        if how == 3:
            seen.flush()
        assert 0 < seen.fill_ratio < 1
    return mine


@pytest.mark.stress
@pytest.mark.laws("T11")
@every_kind
def test_all_calls_mixed(kind: str, tmp_path: Path, seed: int, stress: int, tally: Count) -> None:
    """Law 1: what any of 8 threads has added is new once, and found at once and for ever."""
    for number in range(stress):
        keys = add_and_verify(kind, tmp_path / f"{number}", seed + THREADS * number)
        tally(keys=keys)


def add_and_verify(kind: str, path: Path, seed: int) -> int:
    """Let all threads add to one filter, and look at what it has then; how many keys these are."""
    added: list[list[str]] = []
    with CREATE[kind](path) as seen:
        at_once(lambda me: added.append(add_by_all_calls(seen, me, seed)))
        every = list(chain.from_iterable(added))
        assert len(added) == THREADS
        assert seen.contains_many(every).all()
        assert abs(seen.approx_count - len(every)) < 0.01 * len(every)
    with mmbloom.open(path, mode="r") as again:
        assert again.contains_many(every).all()
    assert mmbloom.verify(path, keys=every).ok
    return len(every)


@pytest.mark.stress
@pytest.mark.laws("T11")
@every_kind
@pytest.mark.parametrize("shared", [True, False], ids=["one object", "an object each"])
def test_keys_of_all_threads(
    kind: str, tmp_path: Path, seed: int, stress: int, tally: Count, *, shared: bool
) -> None:
    """Law 7: of 8 threads that add the same keys, in orders of their own, one is told "new"."""
    keys = [f"{number}" for number in range(3000 * stress)]
    told = np.zeros((THREADS, len(keys)), np.int64)

    def work(me: int) -> None:
        chance = random.Random(seed + me)
        order = chance.sample(range(len(keys)), len(keys))
        with ExitStack() as opened:
            mine = seen if shared else opened.enter_context(mmbloom.open(tmp_path / "seen"))
            while order:
                size, how = chance.choice(((1, "add"), (20, "locked"), (20, "many"), (300, "many")))
                part, order = order[:size], order[size:]
                batch = [keys[i] for i in part]
                if how == "many":
                    told[me, part] += mine.add_many(batch)
                    continue
                with mine.locked() if how == "locked" else nullcontext():
                    told[me, part] += [mine.add(key) for key in batch]

    with CREATE[kind](tmp_path / "seen") as seen:
        at_once(work)
        tally(keys=len(keys), new_twice=int((told.sum(axis=0) > 1).sum()))
        assert (told.sum(axis=0) == 1).all()
        assert seen.keys_added == len(keys)
    assert mmbloom.verify(tmp_path / "seen", keys=keys).ok


def asked(seen: Shared, keys: list[str]) -> tuple[bool, str]:
    """Ask for keys: whether any was found, and why that was refused, if it was."""
    try:
        return bool(seen.contains_many(keys).any()), ""
    except ValueError as error:
        return False, str(error)


@pytest.mark.laws("T11")
@every_kind
def test_a_list_that_other_threads_change(kind: str, tmp_path: Path, seed: int) -> None:
    """Law 4: a list that changes meanwhile is asked for as it is at some time, or refused."""
    shared = [f"{number}" for number in range(200)]
    with CREATE[kind](tmp_path / "seen") as seen:

        def work(me: int) -> None:
            chance = random.Random(seed + me)
            for turn in range(100):
                found, refused = asked(seen, shared)
                assert "changed its size while in use" in refused if refused else not found
                shared[:] = [f"{me} {turn} {i} é" for i in range(chance.randrange(1, 300))]
                del shared[len(shared) // 2 :]

        at_once(work)


@pytest.mark.laws("T11")
@every_kind
def test_closed_while_all_are_at_work(kind: str, tmp_path: Path, seed: int) -> None:
    """Law 2: a call on a filter that another thread closes has worked, or raises so."""
    for number in range(5):
        seen, done = CREATE[kind](tmp_path / f"{number}"), list[list[str]]()

        def work(me: int, seen: Shared, done: list[list[str]], number: int) -> None:
            keys, mine = own_keys(me), list[str]()
            with ExitStack() as left:
                left.callback(done.append, mine)
                for turn in range(1000):
                    batch = [next(keys) for _ in range(1 + turn % 40)]
                    try:
                        assert seen.add_many(batch).all()
                        mine += batch
                        key = next(keys)
                        assert seen.add(key)
                        mine.append(key)
                        assert mine[turn] in seen
                        assert seen.key_rule is None
                    except mmbloom.ClosedFilterError:
                        return
                    if me == 0 and turn == 5 + seed % 10 * number:
                        seen.close()

        with closing(seen):
            at_once(partial(work, seen=seen, done=done, number=number))
        with mmbloom.open(tmp_path / f"{number}", mode="r") as again:
            assert again.contains_many(list(chain.from_iterable(done))).all()


def test_no_module_turns_the_global_lock_on(tmp_path: Path) -> None:
    """The engine lets threads run at the same time, where Python does."""
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    asked = "import mmbloom, sys; print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHON_GIL"}
    said = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert (said.stdout, said.stderr) == (f"{not free}\n", "")
