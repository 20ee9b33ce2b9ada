"""Where the array of a filter lies, mapped: in its file or in shared memory.

The header of the file, with the counters, is mapped from the file in both cases.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mmbloom._engine import OneKey
from mmbloom._keys.coerce import coerce_one
from mmbloom._machine import pages
from mmbloom._storage.counters import Counters
from mmbloom._storage.kinds import BITS, kind_of
from mmbloom._storage.resident.share import Share
from mmbloom._storage.resident.working_copy import NO_COPY, WORD_OF_NAME, WorkingCopy
from mmbloom._typing import Array
from mmbloom.format.header import (
    COPY_BYTES,
    COPY_OFFSET,
    HEADER_BYTES,
    MUTABLE_FIELDS,
    MUTABLE_OFFSET,
    Header,
)


class Views(NamedTuple):
    """The mapped array and counters, seen three ways; never handed out of the package."""

    words: Array[np.uint64]  # the array
    counters: Counters  # of the header of the file
    one: Any  # the array, for a key at a time: `OneKey` of bits, None of counters


class Place(NamedTuple):
    """A mapped array. It never changes: a thread goes on with the one that it began with.

    Attributes
    ----------
    copy : WorkingCopy or None
        What is mapped, if not the file.
    share : Share or None
        That of a writer in the copy.
    named : bytes
        Which copy the header named when this was mapped.
    word, word_now : int, memoryview
        One word of that name, and the same word as the header has it now. Each call compares the
        two: to compare whole names takes three times as long.
    head, array : mmap
        The header of the file; the file or the copy.
    """

    copy: WorkingCopy | None
    share: Share | None
    named: bytes
    word: int
    word_now: memoryview
    head: pages.Map
    array: pages.Map
    views: Views

    def is_named(self) -> bool:
        """Tell whether the header names what is mapped here."""
        return self.word_now[0] == self.word

    @property
    def is_plain(self) -> bool:
        """Whether this is the file, and the header names no copy."""
        return self.copy is None and self.named == NO_COPY

    def name(self, named: bytes) -> None:
        """Let the header name a copy, or none.

        One store of eight bytes decides, of the word that all processes compare; the rest is
        written while that word is 0. So a process killed in here has named the copy, or has not.
        """
        self.word_now[0] = 0
        fields = np.frombuffer(self.head, np.uint8, COPY_BYTES, COPY_OFFSET)
        fields[:16] = np.frombuffer(named, np.uint8, 16)
        fields[24:] = np.frombuffer(named, np.uint8, 8, 24)
        if named != NO_COPY:
            self.word_now[0] = word_of(named)

    def closers(self) -> list[Callable[[], object]]:
        """Give the functions that unmap and close it; drop this object, and its views, first.

        A thread that still reads keeps the map until it is done.
        """
        others = [other.close for other in (self.copy, self.share) if other is not None]
        return [*(partial(_unmap, mapped) for mapped in {self.array, self.head}), *others]


def _unmap(mapped: pages.Map) -> None:
    with suppress(BufferError):
        mapped.close()


def map_array(
    fd: int,
    path: str,
    header: Header,
    *,
    named: bytes,
    copy: WorkingCopy | None,
    share: Share | None,
    writable: bool,
    at_random: bool,
) -> Place:
    """Map the array of an open file where it lies: in a copy, or in the file if there is none."""
    size = header.file_bytes if copy is None else HEADER_BYTES
    array = head = pages.map_file(fd, size, path, writable=writable)
    if copy is not None:
        array = pages.map_aligned(copy.fd, copy.size, path, writable=writable)
    words = np.frombuffer(array, "<u8", header.array_bytes // 8, HEADER_BYTES)
    counters = np.frombuffer(head, "<u8", len(MUTABLE_FIELDS), MUTABLE_OFFSET)
    one = None
    if kind_of(header) is BITS:
        one = OneKey(words, counters, header.params, coerce_one)
    if at_random:
        pages.expect_random(array)
    word_now = memoryview(head)[COPY_OFFSET:][WORD_OF_NAME].cast("Q")
    views = Views(words, Counters(counters), one)
    return Place(copy, share, named, word_of(named), word_now, head, array, views)


def word_of(named: bytes) -> int:
    """Give the part of a name by which it is told from others."""
    return int.from_bytes(named[WORD_OF_NAME], sys.byteorder)
