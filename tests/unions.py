"""Filters to unite, and what a union must be, worked out from the bytes of the files alone."""

import os
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from checks import array_of, check_settled, counters_of
from reference import HEADER_BYTES, NaiveFilter

from mmbloom import BloomFilter
from mmbloom._keys import Keys
from mmbloom.sizing import Layout

Where = str | Path


def make(where: Where, keys: Keys = (), like: Where | None = None, **options: Any) -> str:
    """Make a filter of few keys, like another one if there is one; gives its path."""
    if like is None:
        sizes = {"capacity": 1000, "seed": 5} | options
        made = BloomFilter.create(where, **sizes)
    else:
        with BloomFilter.open(like, "r") as other:
            made = BloomFilter.create(where, like=other)
    with made:
        made.update(keys)
    return os.fspath(where)


def make_random(where: Path, capacity: int, layout: Layout, seed: int) -> str:
    """Make a filter with an eighth of its bits set anywhere, to the very last word."""
    chance = np.random.default_rng(seed)
    with BloomFilter.create(where, capacity, layout=layout, seed=1) as made:
        shape = (3, made.params.num_bytes)
        array = np.bitwise_and.reduce(chance.integers(0, 256, shape, np.uint8))
        array[0] |= 1
        array[-1] |= 128
        with where.open("r+b") as file:
            file.seek(HEADER_BYTES)
            file.write(array.tobytes())
        made.recount()
        made._storage.set_counter("keys_added", round(made.approx_count))
    return str(where)


def bits_of(*paths: Where) -> int:
    """The bits of all of these filters, as one number."""
    return reduce(or_, (int.from_bytes(array_of(str(path)), "little") for path in paths))


def check_union(path: Where, *sources: Where) -> None:
    """Check that a filter holds the bits of its sources and no other, and says so."""
    naive = NaiveFilter(Path(path).read_bytes())  # its header is valid
    assert int.from_bytes(naive.array, "little") == bits_of(*sources)
    check_settled(str(path))
    keys = [counters_of(str(source))["keys_added"] for source in sources]
    assert max(keys) <= naive.counters[0] <= sum(keys)
    status = os.stat(path)
    assert status.st_blocks * 512 >= status.st_size, "its space is reserved (law 9)"
