"""Whichever filter is at a path: the class that the file or the folder needs."""

import os
from typing import Any

from mmbloom._storage.folder import folder_kind
from mmbloom._storage.kinds import ALL_KINDS, BITS, kind_of
from mmbloom._storage.opening import absolute
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._typing import Mode
from mmbloom.filters.bloom import BloomFilter
from mmbloom.filters.counting import CountingBloomFilter
from mmbloom.folders.growing import GrowingFilter
from mmbloom.folders.rotating import RotatingFilter

Folder = GrowingFilter | RotatingFilter


OfBits = BloomFilter | Folder


Filter = OfBits | CountingBloomFilter


_FOLDERS: dict[str, type[Folder]] = {"growing": GrowingFilter, "rotating": RotatingFilter}


def open_of_bits(path: str, mode: Mode = "r+", **options: Any) -> OfBits:
    """Open the filter at a path, a file or a folder; raises as the `open` of its class."""
    if os.path.isdir(path):
        return _FOLDERS[folder_kind(absolute(path))].open(path, mode, **options)
    return BloomFilter.open(path, mode, **options)


def open_filter(path: str, mode: Mode = "r+", **options: Any) -> Filter:
    """Open the filter at a path, whether it is of bits or of counters."""
    if os.path.isdir(path):
        return open_of_bits(path, mode, **options)
    with UnmappedFilter(absolute(path), kinds=ALL_KINDS) as looked_at:
        plain = kind_of(looked_at.header) is BITS
    # Should the file be replaced in between, the class refuses the other kind.
    opened_by = BloomFilter if plain else CountingBloomFilter
    return opened_by.open(path, mode, **options)
