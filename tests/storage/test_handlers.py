"""Signal handlers amid calls: the lock is kept while it is needed, and never for longer."""

import contextlib
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checks import WRITES, check_settled, flock_is_free, in_thread
from steps import Refused, at_next_call
from workers import in_child

import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter, ReentryError, _engine
from mmbloom._engine.reference import holding
from mmbloom._storage.mapped import MappedFilter
from mmbloom._system.sections import BLOCK, CALL
from mmbloom.filters import chain

Create = Callable[..., BloomFilter]
SECONDS, OFTEN = 0.3, 10  # how long, and how often at least: a busy machine takes longer
LOST = 5.0  # seconds after which an exception of a handler does not come any more
COMPILED = mmbloom.engine == "compiled"


def arm(chance: random.Random, most: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, most))


def disarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def test_handler_that_adds(create: Create, path: str, seed: int, stress: int) -> None:
    """At random moments: no section is without the lock, no key is lost, all are counted."""
    create(1_000_000, 1e-9, seed=1).close()

    def run() -> tuple[int, int, int, int]:
        seen, chance, real = BloomFilter.open(path), random.Random(seed), _engine.add
        sections, unlocked, handled, number, keys = 0, 0, 0, 0, list[int]()

        def add(*arguments: Any) -> Any:
            nonlocal sections, unlocked
            sections, unlocked = sections + 1, unlocked + flock_is_free(path)
            return real(*arguments)

        def handle(*_: object) -> None:
            nonlocal handled
            handled += 1
            with contextlib.suppress(ReentryError):  # amid a section
                assert seen.add_many([-handled]).all()
                keys.append(-handled)
            arm(chance, 2e-4)

        vars(_engine)["add"] = add
        signal.signal(signal.SIGALRM, handle)
        end = time.monotonic() + SECONDS * stress
        arm(chance, 2e-4)
        while time.monotonic() < end or min(handled, sections) <= OFTEN:
            number += 1
            assert seen.add_many([number]).all()
            keys.append(number)
            assert not seen.add_many([number]).any()
        disarm()
        assert seen.contains_many(keys).all()
        assert seen.info().keys_added == len(keys)
        return sections, unlocked, handled, len({*keys})

    sections, unlocked, handled, _ = in_child(run)
    assert min(handled, sections) > OFTEN
    assert unlocked == 0
    assert flock_is_free(path)
    check_settled(path)


class AlarmError(Exception):
    """What the handler raises."""


def until_raised(seen: Any, work: Callable[[Any], object]) -> None:
    """Work until the alarm raises; return if it does not.

    A function of its own, as in Python 3.13 a `try` does not guard the jump at the end of a loop.
    """
    end = time.monotonic() + LOST
    while time.monotonic() < end:
        work(seen)


@pytest.mark.parametrize("work", ["add", "add_many", "locked", "claim"])
@pytest.mark.parametrize("made", [BloomFilter, GrowingFilter])
def test_exception_out_of_a_handler(
    path: str, seed: int, stress: int, work: str, made: type[Any]
) -> None:
    """Whatever it interrupts, the lock is free while it is handled.

    With numpy's engine it is so after the next call of the thread, at the latest.
    """
    made.create(path, 1000).close()
    file = path if made is BloomFilter else os.path.join(path, "0000000000.bloom")

    def run() -> tuple[int, int, list[str]]:
        seen, chance, live = made.open(path), random.Random(seed), False
        interrupted = held = 0
        lost: list[str] = []
        # Hypothesis counts the time of collections in a function of Python that the collector
        # calls, and what earlier tests have left has finalizers: what a handler raises in there
        # goes nowhere.
        gc.callbacks.clear()
        gc.collect()
        gc.freeze()
        nowhere: list[str] = []
        sys.unraisablehook = lambda told: nowhere.append(f"{told.object}: {told.exc_value!r}")

        def handle(*_: object) -> None:
            if live:
                raise AlarmError

        signal.signal(signal.SIGALRM, handle)
        end = time.monotonic() + SECONDS * stress
        while time.monotonic() < end or interrupted <= OFTEN:
            try:
                live = True
                arm(chance, 6e-5)
                until_raised(seen, WRITES[work])
                live = False
                lost.append(f"an exception of a handler never came out; ignored: {nowhere}")
            except AlarmError:
                live = False
                interrupted += 1
                if COMPILED:
                    held += not flock_is_free(file)
            if not COMPILED:
                seen.add("a")
                held += not flock_is_free(file)
        disarm()
        return interrupted, held, lost

    interrupted, held, lost = in_child(run)
    assert lost == []
    assert interrupted > OFTEN
    assert held == 0


@pytest.mark.parametrize("made", [BloomFilter, GrowingFilter, CountingBloomFilter])
def test_handler_that_asks(path: str, seed: int, made: type[Any]) -> None:
    """It is answered at every moment, also while a folder's files are opened."""
    made.create(path, 1000).close()
    manifest = path if made is not GrowingFilter else os.path.join(path, "manifest.json")

    def run() -> int:
        seen, chance, asked = made.open(path), random.Random(seed), 0

        def handle(*_: object) -> None:
            nonlocal asked
            assert "a" in seen
            assert seen.contains_many(["b"]).all()
            asked += 1
            arm(chance, 5e-4)

        seen.add_many(["a", "b"])
        signal.signal(signal.SIGALRM, handle)
        end = time.monotonic() + SECONDS
        arm(chance, 5e-4)
        while time.monotonic() < end or asked <= OFTEN:
            os.utime(manifest)  # a folder is looked at anew
            assert "a" in seen
            seen.add("a")
        disarm()
        return asked

    assert os.path.exists(manifest)
    assert in_child(run) > OFTEN


ACTIONS: dict[str, Callable[[Any], object]] = {
    "add": lambda seen: seen.add("x"),
    "add_many": lambda seen: seen.add_many(["x"] * 300),
    "claim": lambda seen: seen.claim(["x"]).__enter__(),
    "close": lambda seen: seen.close(),  # which would take the lock from the call
}
OF_A_FILE: dict[str, Callable[[Any], object]] = {
    "recount": lambda seen: seen.recount(),
    "note": lambda seen: seen.note_key_rule("a"),
}


@pytest.mark.parametrize(
    ("made", "kernel", "action"),
    [
        *((BloomFilter, "add", action) for action in ACTIONS | OF_A_FILE),
        *((CountingBloomFilter, "increment", action) for action in ACTIONS | OF_A_FILE),
        *((GrowingFilter, "claim", action) for action in ACTIONS),  # which takes several steps
    ],
)
def test_amid_an_add(
    path: str, monkeypatch: pytest.MonkeyPatch, made: type[Any], kernel: str, action: str
) -> None:
    """Another change, before the kernel of a call, raises with either engine, and does nothing."""
    keys = range(100 if made is GrowingFilter else 2)
    with made.create(path, 10 if made is GrowingFilter else 1000, 1e-6) as seen:
        change = Refused(partial({**ACTIONS, **OF_A_FILE}[action], seen))
        at_next_call(monkeypatch, _engine, kernel, change)
        assert seen.add_many(keys).all()
        assert change.times == 1
        assert not seen.closed
        assert "x" not in seen
        assert seen.contains_many(keys).all()
        if made is not GrowingFilter:
            assert flock_is_free(path)
            check_settled(path)


def test_amid_the_look_of_a_block(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a block has begun, its call is a call like others; within it all is allowed."""
    seen = create(1000)
    add = Refused(lambda: seen.add("b"))
    at_next_call(monkeypatch, MappedFilter, "check_unchanged", add, after=True)
    with seen.locked():
        assert add.times == 1
        assert seen.add("b")
    with seen.claim(["c"]):
        assert seen.add("d")


def test_files_opened_amid_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler opens amid an opening is what serves; nothing is opened twice for good."""
    path = str(tmp_path / "folder")
    seen, other = GrowingFilter.create(path, 10, 1e-6), GrowingFilter.open(path)
    other.add_many(range(100))
    found = list[bool]()
    at_next_call(monkeypatch, chain, "read_manifest", lambda: found.append(99 in seen))
    assert in_thread(lambda: 50 in seen) is True
    assert found == [True]
    assert len(seen.info().files) == len(other.info().files)
    seen.close()
    other.close()


def test_handler_while_a_hold_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler takes and gives back just before leaves no notes in the place of ours."""
    state = holding.LockState("seen", None, lambda hold: pytest.fail(f"{hold} waits"))
    handled: list[bool] = []

    def interrupted() -> int:
        if not handled:
            handled.append(True)
            with holding.Hold(state, 0, CALL):
                assert state.mine()
        return threading.get_ident()

    monkeypatch.setattr(holding, "get_ident", interrupted)
    with holding.Hold(state, 0, BLOCK):
        assert handled
        assert (state.kind, state.depth) == (BLOCK, 1)
        with holding.Hold(state, 0, CALL):
            assert state.depth == 2
    assert state.depth == 0
