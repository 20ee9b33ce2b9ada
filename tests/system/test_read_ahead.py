"""Reading ahead in another thread: in order, errors in their place, stopped when closed."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from cli_runner import wait_until
from workers import PATIENCE, in_child

from mmbloom._system.threads import ReadAhead


def reading_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "mmbloom-read-ahead"]


def end() -> None:
    wait_until(lambda: not reading_threads(), "the end of the thread")


def numbers(made: list[int] | None = None) -> Iterator[int]:
    """Count for ever; note each number that is made."""
    for number in count():
        if made is not None:
            made.append(number)
        yield number


def test_everything_in_order() -> None:
    """All items come, in order, None and exceptions among them; then the thread is gone."""
    items: list[Any] = [1, None, ValueError("an item"), (), StopIteration()]
    assert list(ReadAhead(items)) == items
    assert list(ReadAhead([])) == []
    assert list(ReadAhead(iter(range(1000)))) == list(range(1000))
    end()


def test_another_thread_reads() -> None:
    makers = []

    def items() -> Iterator[int]:
        for number in range(5):
            makers.append(threading.current_thread().name)
            yield number

    assert list(ReadAhead(items())) == [0, 1, 2, 3, 4]
    assert set(makers) == {"mmbloom-read-ahead"}
    end()


def test_used_items_end_where_they_were_made() -> None:
    """Items that the caller has dropped are freed soon, by the thread that made them."""
    where: list[str] = []

    class Item:
        def __del__(self) -> None:
            where.append(threading.current_thread().name)

    with closing(ReadAhead(Item() for _ in range(20))) as ahead:
        for number, _ in enumerate(ahead):
            least = number - 2
            wait_until(lambda: len(where) >= least, "the items to be freed")  # noqa: B023
    end()
    del ahead, _
    assert len(where) == 20
    assert where.count("mmbloom-read-ahead") >= 15


def test_no_more_than_two_ahead() -> None:
    """At most two items are made before they are asked for (law 17)."""
    made = list[int]()
    with closing(ReadAhead(numbers(made))) as ahead:
        for asked in range(1, 6):
            assert next(ahead) == asked - 1
            time.sleep(0.02)
            assert asked <= len(made) <= asked + 2
    end()


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_errors_come_in_their_place(after: int, error: BaseException) -> None:

    def items() -> Iterator[int]:
        yield from range(after)
        raise error

    ahead = ReadAhead(items())
    assert [next(ahead) for _ in range(after)] == list(range(after))
    with pytest.raises(type(error)) as caught:
        next(ahead)
    assert caught.value is error
    end()


@pytest.mark.parametrize("taken", [0, 1, 2, 10])
def test_closing_early_stops_the_thread(taken: int) -> None:
    made = list[int]()
    ahead = ReadAhead(numbers(made))
    for _ in range(taken):
        next(ahead)
    ahead.close()
    end()
    at_the_end = len(made)
    time.sleep(0.02)
    assert len(made) == at_the_end <= taken + 3


def test_an_error_of_the_reader_stops_the_thread() -> None:
    """When the loop over it raises, the thread ends as well."""

    def read() -> None:
        with closing(ReadAhead(numbers())) as ahead:
            for item in ahead:
                assert 1 // item

    with pytest.raises(ZeroDivisionError):
        read()
    end()


def test_a_blocked_producer_does_not_block_closing() -> None:
    """A producer that waits in a read which never ends is not waited for; later it ends."""
    reading, writing = os.pipe()
    asked = threading.Event()

    def items() -> Iterator[bytes]:
        yield b"first"
        asked.set()
        while piece := os.read(reading, 10):
            yield piece

    ahead = ReadAhead(items())
    assert next(ahead) == b"first"
    assert asked.wait(PATIENCE)
    ahead.close()
    (thread,) = reading_threads()
    assert thread.daemon, "an interpreter that ends does not wait for its read"
    os.write(writing, b"late")
    end()  # at its next item
    os.close(writing)
    os.close(reading)


def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of starting it is raised, and closing is fine then."""

    def start(_self: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt), closing(ReadAhead([1])) as ahead:
        next(ahead)


def test_a_thread_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another thread the caller makes the items, and gets their errors."""
    makers = set[str]()

    def start(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def items() -> Iterator[int]:
        for number in range(3):
            makers.add(threading.current_thread().name)
            yield number
        raise OSError("broken")

    monkeypatch.setattr(threading.Thread, "start", start)
    with closing(ReadAhead(items())) as ahead:
        assert [next(ahead) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="broken"):
            next(ahead)
    assert makers == {threading.current_thread().name}
    assert list(ReadAhead([])) == []


def test_signals_of_a_process_that_items_start() -> None:
    """Items are made with the caller's signals blocked, and no more: a process inherits these."""

    def blocked() -> Iterator[set[int]]:
        yield signal.pthread_sigmask(signal.SIG_BLOCK, ())

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        assert list(ReadAhead(blocked())) == [before | {signal.SIGUSR2}]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_closing_in_a_forked_child() -> None:
    """A child has no such thread, and waits for none."""
    one = ReadAhead(numbers())
    assert next(one) == 0  # the other thread waits for room from now on
    with closing(one):
        in_child(one.close)
