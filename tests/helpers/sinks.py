"""Sinks for dedup(): they keep what they get, or break; and what it is given."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from forms import chunk_of

from mmbloom import BloomFilter
from mmbloom._system.typing import Octets
from mmbloom.logs.lines import Chunk

Lines = list[bytes]


def cut(octets: Octets, terminated: bool) -> Lines:
    lines = octets.tobytes().split(b"\n")
    assert not terminated or not lines[-1], "the last line has its newline too"
    return lines[:-1] if terminated else [line for line in lines if line]


class Collect:
    """A sink that keeps what it gets: lines, and whether the last was ended."""

    def __init__(self) -> None:
        self.lines: Lines = []
        self.terminated: list[bool] = []

    def write(self, lines: Octets, *, terminated: bool) -> None:
        self.lines += cut(lines, terminated)
        self.terminated.append(terminated)


class Breaks(Collect):
    """A sink that takes so many writes and then breaks."""

    def __init__(self, good_writes: int, error: type[BaseException]) -> None:
        super().__init__()
        self._left, self._error = good_writes, error

    def write(self, lines: Octets, *, terminated: bool) -> None:
        if self._left == 0:
            raise self._error("the output broke")
        self._left -= 1
        super().write(lines, terminated=terminated)


def in_chunks(lines: Iterable[bytes], size: int) -> Iterator[Chunk]:
    left = iter(lines)
    while part := list(islice(left, size)):
        yield chunk_of(part)


@contextmanager
def a_filter(folder: Path) -> Iterator[BloomFilter]:
    path = folder / "example.bloom"
    with BloomFilter.create(path, 10_000, 1e-9, seed=3) as seen:
        yield seen
    path.unlink()


class Dripping:
    """A source that gives its bytes in pieces of given sizes, as a pipe may."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._file, self._sizes = io.BytesIO(data), cycle(sizes)
        self.largest = 0

    def readinto(self, buffer: Any, /) -> int:
        self.largest = max(self.largest, len(buffer))
        return self._file.readinto(memoryview(buffer)[: next(self._sizes)])
