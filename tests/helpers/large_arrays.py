"""Large arrays of which a test writes little: to make them, and to see what is in them."""

import ctypes
import mmap
import os

import numpy as np

from mmbloom._system.typing import Indices, Words

_PAGES = "/proc/self/pagemap"  # of each page of this process eight bytes, the highest two of which
_IN_MEMORY = np.uint64(3 << 62)  # tell that it was written, or at least read


def zero_words(num_words: int) -> Words:
    """Words of 0, between two pages that nobody may touch, the second where they end.

    For an array of malloc's AddressSanitizer writes an eighth as much, when it is made and when it
    is freed: nearly half of the time of the tests of arrays of 2 GB.
    """
    size = -(-8 * num_words // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size + 2 * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = np.frombuffer(pages, np.uint8).ctypes.data
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for address in (first, first + mmap.PAGESIZE + size):
        page = ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE)
        assert protect(*page, 0) == 0, os.strerror(ctypes.get_errno())  # PROT_NONE
    return np.frombuffer(pages, np.uint64, num_words, mmap.PAGESIZE + size - 8 * num_words)


def set_words(words: Words) -> tuple[Indices, Words]:
    """Say which words are not 0, in order, and what they are.

    To read a page that was never written takes a fault, a million of them in two arrays of 2 GB.
    """
    begin, end = words.ctypes.data, words.ctypes.data + words.nbytes
    first, last = begin // mmap.PAGESIZE, -(-end // mmap.PAGESIZE)
    written = np.ones(last - first, dtype=np.bool_)
    if os.path.exists(_PAGES):
        with open(_PAGES, "rb", buffering=0) as pages:
            pages.seek(8 * first)
            written = np.frombuffer(pages.read(8 * len(written)), np.uint64) & _IN_MEMORY != 0
    assert len(written) == last - first
    edges = np.flatnonzero(np.diff(written, prepend=False, append=False)).reshape(-1, 2)
    starts = ((first + edges) * mmap.PAGESIZE - begin) // words.itemsize
    found = [
        start + np.flatnonzero(words[start:stop])
        for start, stop in np.clip(starts, 0, len(words)).tolist()
    ]
    places = np.concatenate([np.zeros(0, np.intp), *found])
    return places, words[places]


def same_words(ones: Words, others: Words) -> bool:
    pairs = zip(set_words(ones), set_words(others), strict=True)
    return len(ones) == len(others) and all(np.array_equal(*pair) for pair in pairs)
