"""Large arrays of which a test writes little: what is in them, without a look at all of them."""

import mmap
import os

import numpy as np

from mmbloom._typing import Indices, Words

_PAGES = "/proc/self/pagemap"  # of each page of this process eight bytes, the highest two of which
_IN_MEMORY = np.uint64(3 << 62)  # tell that it was written, or at least read


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
    """Tell whether two arrays are equal."""
    pairs = zip(set_words(ones), set_words(others), strict=True)
    return len(ones) == len(others) and all(np.array_equal(*pair) for pair in pairs)
