"""Claims: the answer now, the marks only when the block has succeeded (law 6)."""

import os
import shutil
from collections.abc import Callable
from typing import Any, get_args

import hypothesis
import numpy as np
import pytest
from checks import (
    array_of,
    check_holds,
    check_same_filter,
    check_settled,
    counters_of,
    flock_is_free,
)
from hypothesis import strategies as st

from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    DurabilityError,
    FileChangedError,
)
from mmbloom.sizing import Layout

Create = Callable[..., BloomFilter]
LAYOUTS = get_args(Layout)


def test_marks_after_the_block(create: Create, path: str) -> None:
    """Within the block the keys are not yet in; after it they are, counted as one batch."""
    seen = create(1000)
    seen.add("a")
    before = array_of(path)
    with seen.claim(["a", "b", "c", "b"]) as new:
        assert new.tolist() == [False, True, True, False]
        assert new.dtype == np.bool_
        assert "b" not in seen
        assert array_of(path) == before
        assert counters_of(path)["batches_begun"] == 1
    check_holds(seen, "abc")
    check_settled(path)
    assert counters_of(path)["keys_added"] == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_claim_beyond_a_chunk_is_add_many(create: Create, path: str, layout: Layout) -> None:
    """A claim of several chunks answers and marks as add_many, duplicates across chunks too."""
    keys = np.concatenate([np.arange(20_000), np.arange(15_000, 40_000), np.arange(50)])
    one = create(30_000, 0.2, layout=layout, seed=5)  # many false positives among these
    other = create(30_000, 0.2, layout=layout, seed=5, name="other")
    with pytest.warns(CapacityWarning):
        expected = one.add_many(keys)
    with pytest.warns(CapacityWarning), other.claim(keys) as new:
        answer = new
    assert answer.tolist() == expected.tolist()
    check_same_filter(one.path, other.path)


@hypothesis.settings(
    max_examples=30, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(
    st.lists(st.lists(st.integers(0, 60), max_size=40), min_size=1, max_size=3),
    st.sampled_from(LAYOUTS),
    st.integers(1, 10),
)
def test_claim_in_small_chunks_is_add_many(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], layout: Layout, step: int
) -> None:
    """With chunks of a few keys, every claim still answers as one-by-one adds would."""
    folder = tmp_path_factory.mktemp("claims")
    options: dict[str, Any] = {"capacity": 10**3, "error_rate": 0.5, "layout": layout, "seed": 1}
    with (
        BloomFilter.create(folder / "one", **options) as one,
        BloomFilter.create(folder / "two", **options) as two,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("mmbloom._engine.CHUNK_KEYS", step)
        patch.setattr("mmbloom._engine.reference.hash.PIECE_KEYS", step)
        for batch in batches:
            with one.claim(batch) as new:
                answer = new.tolist()
            assert answer == [two.add(key) for key in batch]
        check_same_filter(one.path, two.path)
    shutil.rmtree(folder)


def test_error_in_entering_frees_the_lock(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If finding the new keys fails, the claim is not entered and the lock is free."""
    seen = create(1000)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("mmbloom._engine.claim", fail)
    claim = seen.claim(["a"])  # kept alive: its end would free the lock too
    with pytest.raises(MemoryError), claim:
        pytest.fail("entered")
    assert flock_is_free(path)


def test_claim_is_used_once(create: Create, path: str) -> None:
    seen = create(1000)
    claim = seen.claim(["a"])
    with claim as new:
        assert new.tolist() == [True]
        with pytest.raises(
            RuntimeError, match=r"a claim can be used only once: call claim\(\) again"
        ):
            claim.__enter__()
    assert "a" in seen
    with pytest.raises(RuntimeError, match="a claim can be used only once"):
        claim.__enter__()
    assert flock_is_free(path)


def test_closed_within_the_block(create: Create, path: str) -> None:
    """A filter closed within the block cannot be marked: an error, not silence."""
    seen = create(1000)
    with pytest.raises(ClosedFilterError), seen.claim(["a"]):
        seen.close()
    assert not any(array_of(path))
    assert flock_is_free(path)


def test_the_answers_are_the_callers(create: Create) -> None:
    """What the block makes of the array changes nothing of what is marked, nor of its count."""
    with create(1000) as seen:
        with seen.claim(["a", "b", "c"]) as new:
            new[:2] = False
        assert seen.contains_many(["a", "b", "c"]).all()
        assert seen.info().keys_added == 3
        with seen.claim(["d"]) as new:
            new[:] = False
        assert "d" in seen


def test_nothing_to_mark_in_a_replaced_file(create: Create, path: str) -> None:
    """Keys that were there are not marked, so no file is asked for; the next call tells."""
    seen = create(1000)
    seen.add("a")
    with seen.claim(["a"]) as new:
        os.replace(shutil.copy(path, path + ".new"), path)
    assert not new.any()
    assert flock_is_free(path)
    with pytest.raises(FileChangedError):
        seen.claim(["a"]).__enter__()


def test_flush_that_fails_within_the_block(
    create: Create, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed flush within the block the marks are refused as any write is (law 11)."""
    seen = create(1000)

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    def flush() -> None:
        with pytest.raises(DurabilityError):
            seen.flush()

    monkeypatch.setattr("mmbloom._system.disk.sync", fail)
    with pytest.raises(DurabilityError, match="a flush failed"), seen.claim(["a"]):
        flush()
    assert not any(array_of(path))
