"""Filters in shared memory: where their copies are, and what their files alone would answer."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from workers import Child

from mmbloom import BloomFilter
from mmbloom._system import memory

HEADER_BYTES, COPY_OFFSET, COPY_BYTES = 4096, 2088, 32
OLD, NEW = np.arange(500), np.arange(1000, 1500)
ALL = np.concatenate([OLD, NEW])
Keys = npt.NDArray[np.int64]


def copies() -> list[Path]:
    """List the copies that are there, of any file."""
    return sorted(Path(memory.SHARED).glob("mmbloom-*"))


def array_of(path: str | Path) -> bytes:
    """Read the array as the file has it, whatever its copy is like."""
    return Path(path).read_bytes()[HEADER_BYTES:]


def bits_in(path: str | Path) -> int:
    """Count the bits that are set in the file itself."""
    return bits_of(array_of(path))


def bits_of(array: bytes) -> int:
    """Count the bits that are set."""
    return int(np.unpackbits(np.frombuffer(array, np.uint8)).sum())


def name_in(path: str | Path) -> bytes:
    """Read what the header says of a copy."""
    return Path(path).read_bytes()[COPY_OFFSET : COPY_OFFSET + COPY_BYTES]


def killed_at(owner: object, function: str, number: int, act: Callable[[], object]) -> None:
    """Do something that a kill ends at the call of this number to a function there."""
    real, calls = getattr(owner, function), 0

    def call(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number and function != "_pieces":
            os.kill(os.getpid(), 9)
        return killing(real(*arguments)) if calls == number else real(*arguments)

    def killing(pieces: Iterator[object]) -> Iterator[object]:
        yield next(pieces)
        yield next(pieces)
        os.kill(os.getpid(), 9)

    setattr(owner, function, call)
    act()
    raise AssertionError(f"{function} was called {calls} times")


def missing(seen: BloomFilter, keys: Keys) -> int:
    """Count the keys that a filter does not find, in batches and one by one."""
    few = keys[:: max(1, len(keys) // 20)].tolist()
    return int((~seen.contains_many(keys)).sum()) + sum(key not in seen for key in few)


def left_behind(file: str) -> Path:
    """Add keys in a process that is killed: they are in a copy that nobody has open."""

    def add() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        os._exit(0)

    child = Child(add)
    child.wait()
    (copy,) = copies()
    return copy
