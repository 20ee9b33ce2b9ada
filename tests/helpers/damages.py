"""Filter files of an exact size to copy, verify and repair, and ways to damage them."""

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checks import HEADER_BYTES, array_of

from mmbloom import BloomFilter, FilterParams, copy
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file
from mmbloom.sizing import Layout

MIB = 1 << 20
KEYS = range(500)


def filter_of(
    path: str | Path,
    array_bytes: int,
    *,
    layout: Layout = "standard",
    num_hashes: int = 7,
    keys: range = KEYS,
) -> str:
    params = FilterParams(10**7, 0.01, layout, 8 * array_bytes, num_hashes, 5)
    create_file(Target(str(path), 0o600, False), params)
    with BloomFilter.open(path) as seen:
        seen.add_many(list(keys))
    return str(path)


def sealed_of(path: str | Path, array_bytes: int, **options: Any) -> str:
    live = filter_of(f"{path}.live", array_bytes, **options)
    copy(live, path, seal=True)
    os.unlink(live)
    return str(path)


def flip(path: str, at: int, bit: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        (octet,) = file.read(1)
        file.seek(at)
        file.write(bytes([octet ^ 1 << bit]))


def clear_a_bit(path: str) -> None:
    array = array_of(path)
    octet = next(number for number, value in enumerate(array) if value)
    flip(path, HEADER_BYTES + octet, (array[octet] & -array[octet]).bit_length() - 1)


def set_a_bit(path: str) -> None:
    flip(path, HEADER_BYTES + array_of(path).rindex(0), 3)  # far from what is cleared


def at_pread(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> None:
    real, calls = os.pread, iter(range(10**9))

    def pread(fd: int, size: int, start: int) -> bytes:
        if next(calls) == number:
            action()
        return real(fd, size, start)

    monkeypatch.setattr(os, "pread", pread)


def copy_over(path: str, other: bytes) -> Callable[[], object]:
    """Make an action that rewrites a file in place, as cp does."""
    return lambda: Path(path).write_bytes(other)


@contextmanager
def untouched(path: str | Path) -> Any:
    """Check that a file has the same bytes, size and times of change after the block."""
    before, status = Path(path).read_bytes(), os.stat(path)
    yield
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    assert Path(path).read_bytes() == before
