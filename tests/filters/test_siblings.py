"""Filters with equal parameters: made by copy_empty, united by |=."""

from pathlib import Path

import pytest

from mmbloom import BloomFilter, ReadOnlyError


def test_or_in_place(two: list[str]) -> None:
    """`filter |= other` is union_update and keeps the object; what is no filter is a TypeError."""
    same = seen = BloomFilter.open(two[0])
    other = BloomFilter.open(two[1], "r")
    with seen, other:
        seen |= other
        assert seen is same
        assert seen.contains_many(range(500)).all()
        with pytest.raises(TypeError):
            seen |= two[1]
        with pytest.raises(ReadOnlyError):
            other |= seen


def test_copy_empty(tmp_path: Path, two: list[str]) -> None:
    """The copy has equal parameters, no key, and the options that the filter was opened with."""
    with (
        BloomFilter.open(two[0], "r", lock_timeout=1.5, threads=1) as seen,
        seen.copy_empty(tmp_path / "new", permissions=0o640) as new,
    ):
        assert new.params == seen.params
        assert new.info().uuid != seen.info().uuid
        assert (new.approx_count, new.add("a")) == (0, True)
        assert (new._shelf.newest.lock.timeout, new._threads) == (1.5, 1)
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
        with pytest.raises(FileExistsError):
            seen.copy_empty(tmp_path / "new")
