"""A process killed while it makes a copy leaves it behind: the next writer frees its memory."""

import os
from functools import partial
from pathlib import Path

import pytest
from copies import NEW, OLD, copies, killed_at, missing
from workers import ChildDiedError, in_child

from mmbloom import BloomFilter
from mmbloom._engine import count_set
from mmbloom._storage import working_copy
from mmbloom._system import memory
from mmbloom._system.typing import Words


def fill(file: str) -> None:
    with BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEW)


@pytest.fixture
def left(file: str) -> Path:
    """Leave a copy of a process that was killed while it loaded the array."""
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        in_child(partial(killed_at, working_copy, "count_set", 1, partial(fill, file)))
    (copy,) = copies()
    return copy


def test_opening_and_closing_removes_it(file: str, left: Path) -> None:
    """Whether the filter is closed, or dropped; a reader leaves it."""
    BloomFilter.open(file, "r").close()
    assert copies() == [left]
    BloomFilter.open(file, resident=False).close()
    assert copies() == []
    left.touch()
    BloomFilter.open(file, resident=False)  # and dropped
    assert copies() == []


def test_it_makes_room_for_the_next(file: str, left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is room for one copy, the one that was left behind is not in its way."""

    def room() -> int:
        return 0 if left.exists() else 10 * os.path.getsize(file)

    monkeypatch.setattr(memory, "shared_bytes", room)
    with BloomFilter.open(file, resident=True) as seen:
        assert missing(seen, OLD) == 0
        seen.add_many(NEW)  # a warning that it is not in memory would be an error
        assert seen.info().resident
        assert copies() != [left]
    assert copies() == []


def test_what_cannot_be_removed_keeps_nothing_else(file: str, left: Path) -> None:
    """Of several, those go that this process may remove."""
    names = [f"{left.name.rpartition('-')[0]}-{letter * 32}" for letter in "0f"]
    for name in names:
        left.with_name(name).mkdir()  # which is not removed as a file is
    BloomFilter.open(file, resident=False).close()
    assert [copy.name for copy in copies()] == names


def test_one_that_is_being_made_is_left(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that closes while another process makes a copy does not take it away."""
    real = count_set

    def close_another(array: Words) -> int:
        in_child(lambda: BloomFilter.open(file, resident=False).close())
        assert len(copies()) == 1
        return real(array)

    with monkeypatch.context() as patch, BloomFilter.open(file, resident=True) as seen:
        patch.setattr(working_copy, "count_set", close_another)
        seen.add_many(NEW)
        assert seen.info().resident
    with BloomFilter.open(file, "r", resident=False) as seen:
        assert missing(seen, NEW) == 0
