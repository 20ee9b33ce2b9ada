"""Whichever filter is at a path: a file of either kind, or a folder of files."""

import os
from collections.abc import Iterable
from typing import Any

from mmbloom._folder import kind_of as kind_of_folder
from mmbloom._kinds import ALL_KINDS, BITS, kind_of
from mmbloom._opening import absolute
from mmbloom._unmapped import UnmappedFilter
from mmbloom.counting import CountingBloomFilter
from mmbloom.errors import FormatError
from mmbloom.filter import BloomFilter
from mmbloom.filter_file import Mode
from mmbloom.growing import GrowingFilter
from mmbloom.rotating import RotatingFilter

Folder = GrowingFilter | RotatingFilter
OfBits = BloomFilter | Folder
Filter = OfBits | CountingBloomFilter

_FOLDERS: dict[str, type[Folder]] = {"growing": GrowingFilter, "rotating": RotatingFilter}


def require_files(paths: Iterable[str], why: str) -> None:
    """Refuse folders where a command cannot take them; `FormatError` says why, and what to do."""
    for path in paths:
        if os.path.isdir(path):
            raise FormatError(absolute(path), "file", "a folder", f"a single file: {why}")


def open_of_bits(path: str, mode: Mode = "r+", **options: Any) -> OfBits:
    """Open the filter at a path, a file or a folder; raises as the `open` of its class."""
    if os.path.isdir(path):
        return _FOLDERS[kind_of_folder(absolute(path))].open(path, mode, **options)
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
