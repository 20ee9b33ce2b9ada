"""Filters in shared memory: where their copies are, and what their files alone would answer."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
from checks import array_of
from workers import Child

from mmbloom import BloomFilter
from mmbloom._system import memory

COPY_OFFSET, COPY_BYTES = 2088, 32
OLD, NEW = np.arange(500), np.arange(1000, 1500)
ALL = np.concatenate([OLD, NEW])


def copies() -> list[Path]:
    return sorted(Path(memory.SHARED).glob("mmbloom-*"))


def bits_in(path: str) -> int:
    """Count the bits that are set in the file itself, whatever its copy is like."""
    return bits_of(array_of(path))


def bits_of(array: bytes) -> int:
    return int.from_bytes(array, "little").bit_count()


def name_in(path: str) -> bytes:
    return Path(path).read_bytes()[COPY_OFFSET : COPY_OFFSET + COPY_BYTES]


def missing(seen: BloomFilter, keys: npt.ArrayLike) -> int:
    """Count the keys that a filter does not find, in batches and one by one."""
    keys = np.asarray(keys)
    few = keys[:: max(1, len(keys) // 20)].tolist()
    return int((~seen.contains_many(keys)).sum()) + sum(key not in seen for key in few)


def check_saved(file: str | Path, *keys: npt.ArrayLike) -> None:
    """Check that nothing is left in shared memory, and that the file alone has these keys."""
    assert copies() == []
    with BloomFilter.open(file, "r", resident=False) as seen:
        assert [missing(seen, some) for some in keys] == [0] * len(keys)


def make_file(path: str) -> None:
    with BloomFilter.create(path, 10_000, 1e-6, resident=False) as seen:
        seen.add_many(OLD)


def fill(file: str) -> None:
    with BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEW)


def left_behind(file: str) -> Path:
    """Add keys in a process that is killed: they are in a copy that nobody has open."""

    def add() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        os._exit(0)

    Child(add).wait()
    (copy,) = copies()
    return copy
