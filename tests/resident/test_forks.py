"""A thread forks while another one opens what a child must not share: neither waits for ever."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from workers import PATIENCE, in_child

from mmbloom._storage.lock import WriteLock
from mmbloom._storage.share import Share

OPENERS: dict[str, Callable[[str], object]] = {}


def opens(function: Callable[[str], object]) -> Callable[[str], object]:
    OPENERS[function.__name__] = function
    return function


@opens
def share(file: str) -> None:
    """Take a share, and drop it."""
    fd = os.open(file, os.O_RDWR)
    Share(fd, file).close()
    os.close(fd)


@opens
def lock(file: str) -> None:
    """Take a write lock, by a descriptor of its own."""
    status = os.stat(file)
    there = WriteLock(file, (status.st_dev, status.st_ino), 1.0)
    with there.held(1.0):
        pass
    with there.closing():
        pass


def fork() -> None:
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        os._exit(0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(("outer", "inner"), [("share", "lock"), ("lock", "share")])
def test_opens_one_amid_the_other(file: str, outer: str, inner: str) -> None:
    """As a finalizer does that the collector runs there, while a fork has begun elsewhere."""

    def act() -> bool:
        real, forker = os.open, threading.Thread(target=fork, daemon=True)

        def open_and_be_interrupted(*arguments: Any, **options: Any) -> int:
            os.open = real
            forker.start()
            time.sleep(0.2)  # it waits, or has forked, by then
            OPENERS[inner](file)
            return real(*arguments, **options)

        fd = real(file, os.O_RDWR)
        os.open = open_and_be_interrupted
        if outer == "share":
            Share(fd, file).close()
        else:
            lock(file)
        os.close(fd)
        forker.join(PATIENCE)
        return not forker.is_alive()

    assert in_child(act)
