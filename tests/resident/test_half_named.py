"""A process is killed at each line of naming a copy, or of naming none: one store decides."""

import os
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
import pytest
from copies import COPY_OFFSET, NEW, OLD, copies, left_behind, missing, name_in
from steps import at_line
from workers import ChildDiedError, in_child

from mmbloom import BloomFilter
from mmbloom._storage import moving
from mmbloom._system import memory

MORE = np.arange(7000, 7100)
ASKED = 20  # times
MOST_LINES = 40


def of_naming(code: CodeType) -> bool:
    return code is moving.Place.name.__code__


def open_and_close(file: str) -> None:
    with BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEW)


def killed_there(number: int, file: str) -> bool:
    """Open, add and close in a process that is killed at a line; False if there is no such one."""
    try:
        in_child(
            lambda: at_line(
                number, of_naming, lambda: os.kill(os.getpid(), 9), partial(open_and_close, file)
            )
        )
    except ChildDiedError:
        return True
    return False


def maps_of(asked: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Count how often the array is mapped while something is asked some times."""
    maps, real = list[int](), moving.MovingArray._map

    def count(*arguments: Any) -> Any:
        maps.append(1)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(moving.MovingArray, "_map", count)
        for _ in range(ASKED):
            asked()
    return len(maps)


@pytest.mark.laws("T1")
@pytest.mark.parametrize("begins", ["in the file", "in a copy"])
def test_kill_at_each_line(
    path: str, begins: str, monkeypatch: pytest.MonkeyPatch, tally: Callable[..., None]
) -> None:
    """Readers that were there find what is added later, and map the array once at most."""
    for number in range(MOST_LINES):
        file = f"{path}{number}"
        with BloomFilter.create(file, 10_000, 1e-6, resident=False) as seen:
            seen.add_many(OLD)
        if begins == "in a copy":
            left_behind(file)
        with BloomFilter.open(file, "r") as reader:
            assert missing(reader, OLD) == 0
            killed = killed_there(number, file)
            assert maps_of(partial(reader.contains_many, OLD), monkeypatch) <= 1
            with BloomFilter.open(file, resident=False) as writer:
                assert writer.add_many(MORE).all()
                assert missing(reader, MORE) == 0
                assert maps_of(partial(writer.add, "x"), monkeypatch) <= 1
            assert missing(reader, MORE) == 0
            tally(kills=killed)
        assert copies() == []
        assert name_in(file)[16:24] == bytes(8)
        if not killed:
            break
    assert 0 < number < MOST_LINES - 1


@pytest.mark.parametrize("boot", [bytes(16), b"of another start"])
def test_name_without_its_boot(file: str, boot: bytes) -> None:
    """What names no copy of this boot is mended by the next writer, and never followed."""
    word = memory.boot_id()[:8]  # any
    with open(file, "r+b") as raw:
        raw.seek(COPY_OFFSET)
        raw.write(boot + word + word)
    with BloomFilter.open(file, "r") as reader, BloomFilter.open(file, resident=False) as writer:
        assert writer.add_many(MORE).all()
        assert missing(reader, MORE) == 0
    assert name_in(file) == bytes(32)
