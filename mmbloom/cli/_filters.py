"""Whichever filter is at a path: a file, or a folder of files."""

import os
from typing import TypedDict, Unpack

from mmbloom._folder import kind_of
from mmbloom.filter import BloomFilter, Mode
from mmbloom.growing import GrowingFilter

Filter = BloomFilter | GrowingFilter

_FOLDERS = {"growing": GrowingFilter}


class Waiting(TypedDict, total=False):
    """How a filter is opened."""

    lock_timeout: float | None
    allow_network: bool


def open_filter(path: str, mode: Mode = "r+", **options: Unpack[Waiting]) -> Filter:
    """Open the filter at a path; raises as the `open` of its class."""
    if not os.path.isdir(path):
        return BloomFilter.open(path, mode, **options)
    return _FOLDERS[kind_of(os.path.abspath(path))].open(path, mode, **options)
