"""The kernel of unions against Python's integers: all bits, no other, and how many are new."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbloom._engine import union
from mmbloom._system.typing import Words

WORD = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1]))


def number(words: Words) -> int:
    return int.from_bytes(words.astype("<u8").tobytes(), "little")


@given(st.lists(WORD, max_size=40), st.lists(WORD, max_size=40), st.data())
def test_union_is_the_or(here: list[int], there: list[int], data: st.DataObject) -> None:
    """The words from start on become the OR, all others stay, and the new bits are counted."""
    there = there[: len(here)]
    start = data.draw(st.integers(0, len(here) - len(there)))
    words, more = np.array(here, np.uint64), np.array(there, np.uint64)
    more.flags.writeable = False
    expected = number(words) | number(more) << 64 * start
    newly_set = union(words, start, more)
    assert number(words) == expected
    assert newly_set == expected.bit_count() - sum(map(int.bit_count, here))
    assert type(newly_set) is int
    assert more.tolist() == there


@pytest.mark.parametrize("start", [0, 1, 7, 63])
def test_all_ones(start: int) -> None:
    """Of a full array nothing is new; into an empty one every bit is, and nothing else is set."""
    ones = np.full(64 - start, 2**64 - 1, np.uint64)
    words = np.zeros(64, np.uint64)
    assert union(words, start, ones) == 64 * len(ones)
    assert union(words, start, ones) == 0
    assert not words[:start].any()
    assert (words[start:] == 2**64 - 1).all()


def test_of_a_file_and_of_nothing() -> None:
    """Words as `pread` gives them, aligned to nothing, will do; and no words at all."""
    raw = b"x" + np.arange(100, dtype="<u8").tobytes()
    more = np.frombuffer(raw, "<u8", offset=1)
    words = np.zeros(101, np.uint64)
    assert union(words, 1, more) == sum(map(int.bit_count, range(100)))
    assert words.tolist() == [0, *range(100)]
    assert union(words, 101, more[:0]) == 0
    assert union(words[:0], 0, more[:0]) == 0
