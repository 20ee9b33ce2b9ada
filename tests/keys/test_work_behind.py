"""Work in another thread, in order, while the caller goes on; stopped when closed."""

import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from workers import in_child

from mmbloom._threads import ReadAhead, WorkBehind

LONG = 5.0  # seconds that no closing takes


def behind_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "mmbloom-behind"]


def ended() -> bool:
    """Wait for the thread to end."""
    deadline = time.monotonic() + LONG
    while behind_threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not behind_threads()


def test_in_order_by_one_other_thread() -> None:
    """All calls are made, in the order given, by one thread that is not the caller's."""
    made: list[tuple[int, str]] = []
    with closing(WorkBehind()) as behind:

        def note(number: int) -> None:
            made.append((number, threading.current_thread().name))

        for number in range(100):
            behind.do(partial(note, number))
        behind.wait()
        assert made == [(number, "mmbloom-behind") for number in range(100)]
        assert behind.done == 100
    assert ended()


def test_waits_for_all_but_some() -> None:
    """`wait(1)` returns when the last alone is under way."""
    go, made = threading.Event(), list[int]()

    def last() -> None:
        assert go.wait(LONG)
        made.append(2)

    with closing(WorkBehind()) as behind:
        behind.do(lambda: made.append(1))
        behind.do(last)
        behind.wait(1)
        assert made == [1]
        go.set()
        behind.wait()
        assert made == [1, 2]
    assert ended()


@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_nothing_after_an_error(error: BaseException) -> None:
    """The very same error is raised, and what was given after it is not called."""
    made: list[int] = []

    def fail() -> None:
        raise error

    with closing(WorkBehind()) as behind:
        behind.do(lambda: made.append(1))
        behind.do(fail)
        behind.do(lambda: made.append(3))
        with pytest.raises(type(error)) as caught:
            behind.wait()
        assert caught.value is error
        assert (made, behind.done) == ([1], 1)
    assert ended()


def test_nothing_begins_after_closing() -> None:
    """What has not begun when it is closed is never called; what has begun ends."""
    begun, go, made = threading.Event(), threading.Event(), list[int]()

    def first() -> None:
        begun.set()
        assert go.wait(LONG)
        made.append(1)

    behind = WorkBehind()
    behind.do(first)
    behind.do(lambda: made.append(2))
    assert begun.wait(LONG)
    start = time.monotonic()
    behind.close()
    assert time.monotonic() - start < LONG, "a call that is blocked is not waited for"
    go.set()
    assert ended()
    assert made == [1]


def test_without_work_there_is_no_thread() -> None:
    """A thread is started by the first call, and waiting for nothing returns."""
    with closing(WorkBehind()) as behind:
        behind.wait()
        assert not behind_threads()


def test_closing_waits_for_what_ends_soon() -> None:
    """A call that was begun and takes a moment has ended, and is counted, after closing."""
    begun = threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.02)

    behind = WorkBehind()
    behind.do(work)
    assert begun.wait(LONG)
    behind.close()
    assert behind.done == 1


def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of starting it is raised, and closing is fine then."""

    def start(_self: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt), closing(WorkBehind()) as behind:
        behind.do(lambda: None)
    with pytest.raises(KeyboardInterrupt), closing(ReadAhead([1])) as ahead:
        next(ahead)


@pytest.mark.parametrize("made", [WorkBehind, lambda: ReadAhead(iter([1]))])
def test_closing_in_a_forked_child(made: Callable[[], Any]) -> None:
    """A child has no such thread, and waits for no lock that it held at the fork."""
    one: Any = made()
    if made is WorkBehind:
        one.do(lambda: None)
        held = one._given._cond
    else:
        assert next(one) == 1
        held = one._room._cond
    with closing(one), held:  # as if the fork came amid the other thread's step
        in_child(one.close, timeout=LONG)
