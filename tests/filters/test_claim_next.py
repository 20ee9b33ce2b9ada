"""Claims that follow one another within one block: as if each were entered by itself."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from checks import array_of, check_holds, check_same_filter, counters_of, flock_is_free
from workers import in_child

from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    CountingBloomFilter,
    FilterFullError,
    GrowingFilter,
    ReentryError,
)

Create = Callable[..., BloomFilter]


def batches_of(seed: int, number: int = 6, size: int = 400) -> list[list[int]]:
    """Keys of which about half come again, in the next batch or later."""
    chance = np.random.default_rng(seed)
    return [chance.integers(0, number * size // 2, size).tolist() for _ in range(number)]


@pytest.mark.parametrize("layout", ["standard", "blocked"])
def test_as_if_entered_one_by_one(create: Create, layout: Any, seed: int) -> None:
    """The answers, the bits and the counters are those of claims entered one after the other."""
    one = create(3000, 1e-3, layout=layout, seed=5)
    other = create(3000, 1e-3, layout=layout, seed=5, name="other")
    batches = batches_of(seed)
    expected = []
    for batch in batches:
        with other.claim(batch) as new:
            expected.append(new.tolist())
    first = one.claim(batches[0])
    with first as new:
        answers = [new.tolist()]
        before = array_of(one.path)
        for earlier, batch in pairwise(batches):
            new_too = first.claim_next(one.claim(batch))
            assert new_too is not None
            answers.append(new_too.tolist())
            assert array_of(one.path) == before, "what is claimed is not marked"
            first.mark_first()
            assert one.contains_many(earlier).all()
            before = array_of(one.path)
        assert first.marked == len(batches) - 1
    assert answers == expected
    check_same_filter(one.path, other.path)
    assert one.contains_many(batches[-1]).all()


def test_a_block_that_raises_keeps_what_was_marked(create: Create, path: str) -> None:
    """What `mark_first` has marked stays; what was claimed and not marked does not."""
    seen = create(1000, 1e-9)
    first = seen.claim(["a", "b"])

    def work() -> None:
        with first:
            answers = first.claim_next(seen.claim(["b", "c"]))
            assert answers is not None
            assert answers.tolist() == [False, True]
            first.mark_first()
            raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        work()
    assert seen.contains_many(["a", "b", "c"]).tolist() == [True, True, False]
    assert counters_of(path)["keys_added"] == 2
    assert flock_is_free(path)


def test_one_at_most_waits_for_its_mark(create: Create) -> None:
    """A third claim is not taken while two are not marked, and is as it was then."""
    seen = create(1000, 1e-9)
    first, third = seen.claim(["a"]), seen.claim(["a", "c"])
    with first:
        assert first.claim_next(seen.claim(["b"])) is not None
        assert first.claim_next(third) is None
        first.mark_first()
        answers = first.claim_next(third)
        assert answers is not None
        assert answers.tolist() == [False, True]
    check_holds(seen, "abc")
    with pytest.raises(RuntimeError, match="a claim is used once"), third:
        pass


def test_nothing_left_to_mark(create: Create) -> None:
    """To mark what is not there is an error, and no claim follows when all are marked."""
    seen = create(1000, 1e-9)
    claim, other = seen.claim(["a"]), seen.claim(["b"])
    with pytest.raises(RuntimeError, match="nothing that was claimed"):
        claim.mark_first()
    with claim:
        claim.mark_first()
        assert "a" in seen
        assert claim.claim_next(other) is None
        with pytest.raises(RuntimeError, match="nothing that was claimed"):
            claim.mark_first()
    with other as new:
        assert new.tolist() == [True]


def test_keys_of_the_follower_are_taken(create: Create) -> None:
    """A claim within the block, of a key that the follower has found, is refused."""
    seen = create(1000, 1e-9)
    first = seen.claim(["a"])
    with first:
        first.claim_next(seen.claim(["b"]))
        for key in "ab":
            with pytest.raises(ReentryError), seen.claim([key]):
                pass
        first.mark_first()
        with seen.claim(["a"]) as new:
            assert new.tolist() == [False]
        with pytest.raises(ReentryError), seen.claim(["b"]):
            pass


def test_beside_another_claim_none_follows(create: Create) -> None:
    """Whose keys are taken is looked at when a block begins: so none follows beside another."""
    seen = create(1000, 1e-9)
    first = seen.claim(["a"])
    with first:
        with seen.claim(["x"]) as inner:
            assert inner.tolist() == [True]
            assert first.claim_next(seen.claim(["x"])) is None
        inner_claim = seen.claim(["b"])
        with inner_claim:
            assert inner_claim.claim_next(seen.claim(["c"])) is None
        assert first.claim_next(seen.claim(["x", "y"])) is not None
    assert seen.contains_many(["a", "x", "b", "c", "y"]).tolist() == [True] * 3 + [False, True]


def test_claims_of_another_filter_are_refused(create: Create) -> None:
    """A claim of another filter, whose lock is not held, does not follow, and can be entered."""
    one, other = create(1000, 1e-9), create(1000, 1e-9, name="other")
    first, foreign = one.claim(["a"]), other.claim(["b"])
    with first, pytest.raises(ValueError, match="of another filter"):
        first.claim_next(foreign)
    with foreign as new:
        assert new.tolist() == [True]
    assert ("b" in one, "b" in other) == (False, True)


def test_a_used_claim_does_not_follow(create: Create) -> None:
    """What was entered, or has followed, is used."""
    seen = create(1000, 1e-9)
    used = seen.claim(["a"])
    with used:
        pass
    first, follower = seen.claim(["b"]), seen.claim(["c"])
    with first:
        with pytest.raises(RuntimeError, match="a claim is used once"):
            first.claim_next(used)
        first.claim_next(follower)
        first.mark_first()
        with pytest.raises(RuntimeError, match="a claim is used once"):
            first.claim_next(follower)


def test_a_refused_claim_has_nothing_to_mark(create: Create) -> None:
    """A claim whose entering was refused marks nothing."""
    seen = create(1000, 1e-9)
    refused = seen.claim(["a"])
    with seen.claim(["a"]), pytest.raises(ReentryError), refused:
        pass
    seen.exclusions.add("a")
    with pytest.raises(RuntimeError, match="nothing that was claimed"):
        refused.mark_first()


def test_closed_within_the_block(create: Create) -> None:
    """Of a filter that was closed within the block none follows: its file is not looked at."""
    seen = create(1000, 1e-9)
    first, other = seen.claim(["a"]), seen.claim(["b"])

    def work() -> None:
        with first:
            seen.close()
            first.claim_next(other)

    with pytest.raises(ClosedFilterError):
        work()


def test_none_follows_past_the_plan(create: Create) -> None:
    """What might be past the plan is entered by itself, and told as ever."""
    seen = create(10, 1e-9, on_full="raise")
    first, small, large = (seen.claim(keys) for keys in (range(6), range(6, 9), range(6, 12)))
    with first:
        assert first.claim_next(large) is None
        assert first.claim_next(small) is not None
    with pytest.raises(FilterFullError), large:
        pass
    assert seen.contains_many(range(12)).tolist() == [True] * 9 + [False] * 3


@pytest.mark.parametrize("kind", [CountingBloomFilter, GrowingFilter])
def test_only_one_file_of_bits(kind: Any, tmp_path: Any) -> None:
    """Counters and folders take claims one by one; each is whole then."""
    with kind.create(tmp_path / "filter", 1000, 1e-9) as seen:
        first, second = seen.claim(["a"]), seen.claim(["a", "b"])
        with first:
            assert first.claim_next(second) is None
            first.mark_first()
            assert "a" in seen
        with second as new:
            assert new.tolist() == [False, True]
        assert "b" in seen


def test_excluded_keys_are_new_again(create: Create) -> None:
    """The follower's answers are corrected by the exclusions, as those of any claim."""
    seen = create(1000, 1e-9)
    seen.add("a")
    seen.exclusions.add("a")
    first = seen.claim(["b"])
    with first:
        answers = first.claim_next(seen.claim(["a", "b", "c"]))
        assert answers is not None
        assert answers.tolist() == [True, False, True]


def test_a_child_marks_nothing(create: Create, path: str) -> None:
    """A child forked within the block marks nothing of it, nor lets a claim follow."""
    seen = create(1000, 1e-9)
    first = seen.claim(["a"])
    with first:
        before = array_of(path)
        other = seen.claim(["b"])

        def child() -> None:
            assert first.claim_next(other) is None
            first.mark_first()
            assert first.marked == 1, "who marks until a number is reached comes to an end"
            assert array_of(path) == before

        in_child(child)
        assert first.claim_next(other) is not None
        first.mark_first()
    check_holds(seen, "ab")
