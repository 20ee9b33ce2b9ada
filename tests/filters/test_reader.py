"""Questions: exact answers for what was added, no lock, no change, whatever the mode."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import READS, WRITES, array_of, change_header, check_raises

from mmbloom import BloomFilter, FormatError, ReadOnlyError
from mmbloom.format.header import Header, encode
from mmbloom.sizing import plan

Create = Callable[..., BloomFilter]


@pytest.mark.parametrize("number", [0, 1, 16_383, 16_384, 16_385, 50_000])
def test_contains_many_over_chunks(create: Create, number: int) -> None:
    """The answers of a long batch are those of its keys one by one, in the order given."""
    seen = create(100_000, 1e-9)
    seen.update(range(0, 50_000, 3))
    keys = np.arange(number)
    found = seen.contains_many(keys)
    assert (found.dtype, found.shape) == (np.dtype(bool), (number,))
    assert found.tolist() == (keys % 3 == 0).tolist()
    for key in range(max(0, number - 3), number):
        assert (key in seen) == found[key]


@pytest.mark.parametrize("flag", [2, 2**63])
def test_unknown_read_only_compatible_flag(path: str, flag: int) -> None:
    """A flag of a later version that allows reading makes the filter read-only."""
    with BloomFilter.create(path, 100) as made:
        made.add("a")
    change_header(path, 96, "<Q", flag)
    with BloomFilter.open(path) as seen:
        assert "a" in seen
        check_raises(WRITES, seen, ReadOnlyError, "newer mmbloom")


def test_unknown_compatible_flag(path: str) -> None:
    """A compatible flag of a later version is ignored: the filter is read and written."""
    BloomFilter.create(path, 100).close()
    change_header(path, 88, "<Q", 2**63)
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_counters_are_not_a_bloom_filter(path: str, mode: Any) -> None:
    """A counting filter is refused by its kind, not read as bits."""
    header = Header(plan(100), 0, bytes(16), kind=2)
    Path(path).write_bytes(encode(header) + bytes(header.array_bytes))
    with pytest.raises(FormatError, match="a CountingBloomFilter, expected 1 ") as caught:
        BloomFilter.open(path, mode)
    assert (caught.value.path, caught.value.field) == (path, "kind")


def test_two_names_of_one_file(create: Create, path: str) -> None:
    """Through a hard or a symbolic link it is the same filter."""
    seen = create(1000)
    os.link(path, path + ".hard")
    os.symlink(path, path + ".soft")
    for name in (".hard", ".soft"):
        with BloomFilter.open(path + name) as other:
            assert other.add(name)
        assert name in seen


def test_questions_change_no_bit(create: Create, path: str) -> None:
    """Queries for absent keys leave the array as it is."""
    seen = create(1000)
    seen.update(range(100))
    before = array_of(path)
    seen.contains_many(range(10_000))
    for read in READS.values():
        read(seen)
    assert array_of(path) == before
