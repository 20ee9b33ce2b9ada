"""CountingBloomFilter at its edges: other kinds, claims, figures, and its file."""

from contextlib import suppress
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from checks import array_of, counters_of, set_counters
from damages import untouched
from reference import NaiveCounting
from workers import PATIENCE

from mmbloom import (
    BloomFilter,
    CapacityWarning,
    CountingBloomFilter,
    LostBitsError,
    _engine,
    copy,
    verify,
)
from mmbloom._engine.key_batch import KeyBatch
from mmbloom.sizing import Layout


def test_create_like(path: str, tmp_path: Path) -> None:
    """Sizes can be those of a filter of either class."""
    with (
        BloomFilter.create(tmp_path / "plain", 100, seed=3) as plain,
        CountingBloomFilter.create(path, like=plain) as seen,
    ):
        assert seen.params == plain.params
        assert Path(path).stat().st_size == 4096 + seen.params.num_bits // 2


@pytest.mark.parametrize("threads", [1, 3])
def test_batch_query_while_others_remove(
    path: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is removed and added before each chunk is tested: a key that stays is found."""
    monkeypatch.setattr(_engine, "CHUNK_KEYS", 1 << 14)
    keys = np.arange(4 * _engine.CHUNK_KEYS + 5)
    stays = keys % 3 == 0
    CountingBloomFilter.create(path, 2 * len(keys), 1e-6, seed=1).close()
    with (
        CountingBloomFilter.open(path, threads=threads) as seen,
        CountingBloomFilter.open(path, lock_timeout=PATIENCE) as other,
    ):
        seen.add_many(keys)
        test, lock, change = seen._shelf.find, Lock(), cycle([other.remove_many, other.add_many])

        def watched(chunk: KeyBatch) -> Any:
            with lock:
                next(change)(keys[~stays])
            return test(chunk)

        monkeypatch.setattr(seen._shelf, "find", watched)
        found = seen.contains_many(keys)
    assert found[stays].all()
    assert not found[~stays].all(), "what was removed meanwhile"


def test_claim_counts_only_when_the_block_succeeds(path: str) -> None:
    """Law 6: a block that raises counts nothing; one that succeeds counts every key of it."""
    with CountingBloomFilter.create(path, 100) as seen:
        seen.add("old")
        before = array_of(path)
        with suppress(RuntimeError), seen.claim(["a", "a", "old"]) as new:
            assert new.tolist() == [True, False, False]
            raise RuntimeError
        assert array_of(path) == before
        with seen.claim(["a", "a", "old"]):
            assert array_of(path) == before
        assert seen.remove_many(["a"] * 3 + ["old"] * 3).tolist() == [True, True, False] * 2
        with seen.claim(["old"]), seen.claim([]):
            pass
        assert "old" in seen


def test_nulls_are_not_removed(path: str) -> None:
    with CountingBloomFilter.create(path, 100) as seen:
        seen.add_many(["a", "b"])
        assert seen.remove_many(["a", None], nulls="skip").tolist() == [True, False]
        assert ("a" in seen, "b" in seen) == (False, True)


def test_figures(path: str) -> None:
    """Count, fill and error rate go up and down; past capacity there is one warning."""
    with CountingBloomFilter.create(path, 1000, 0.01) as seen:
        seen.add_many(range(1000))
        assert abs(seen.approx_count - 1000) < 60
        assert 0.3 < seen.fill_ratio < 0.6
        assert 0.005 < seen.current_error_rate < 0.02
        seen.remove_many(range(1000))
        assert (seen.approx_count, seen.fill_ratio, seen.current_error_rate) == (0, 0, 0)
        assert seen.info().keys_added > 980, "of all that were new"
        with pytest.warns(CapacityWarning, match="capacity of 1000"):
            seen.add_many(range(3000))
        assert repr(seen).startswith("<CountingBloomFilter ")
        seen.flush()


def test_verify_after_add(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters that are lost at once are LostBitsError, of a key and of a batch."""
    with CountingBloomFilter.create(path, 100, verify_after_add=True) as seen:
        assert seen.add("a")
        assert seen.add_many(["a", "b"]).tolist() == [False, True]
        monkeypatch.setattr(
            "mmbloom._engine.increment", lambda _, h1, *__: (np.ones(len(h1), bool), 1)
        )
        with pytest.raises(LostBitsError):
            seen.add_many(["lost"])


@pytest.fixture(params=["blocked", "standard"])
def made(path: str, request: pytest.FixtureRequest) -> str:
    """A counting filter that holds 0 to 499, of 1,000 keys that were added."""
    layout: Layout = request.param
    with CountingBloomFilter.create(path, 1000, layout=layout, seed=5) as seen:
        seen.add_many(range(1000))
        seen.remove_many(range(500, 1000))
    return path


def test_sound(made: str) -> None:
    """A filter from which keys were removed is sound, and its keys are found with `pread`."""
    naive = NaiveCounting(Path(made).read_bytes())
    with untouched(made):
        found = verify(made, keys=range(500))
    assert (found.problems, found.notes) == ((), ())
    assert found.kind == "counters"
    assert found.positions_set == naive.popcount()
    assert abs(found.approx_count - 500) < 50
    missing = sum(key not in naive for key in range(500, 1000))
    assert verify(made, keys=range(1000)).keys_missing == missing > 450


@pytest.mark.parametrize("by", [-1, 1])
def test_count_that_is_not_true(made: str, by: int) -> None:
    """More counters in use than were counted, or fewer, is a problem; recount mends it."""
    set_counters(made, positions_set=counters_of(made)["positions_set"] + by)
    (problem,) = verify(made).problems
    assert "counters are not 0" in problem
    set_counters(made, batches_begun=counters_of(made)["batches_begun"] + 1)
    found = verify(made)
    assert (found.ok, found.unfinished_batches, len(found.notes)) == (True, 1, 1)
    with CountingBloomFilter.open(made) as seen:
        seen.recount()
    assert verify(made).ok


def test_copy_and_sealed_copy(made: str, tmp_path: Path) -> None:
    """A copy counts on by itself; a sealed one is read-only, and damage to it is found."""
    copied, sealed = str(tmp_path / "copied"), str(tmp_path / "sealed")
    copy(made, copied)
    copy(made, sealed, seal=True)
    assert array_of(copied) == array_of(made) == array_of(sealed)[: len(array_of(made))]
    assert verify(copied, keys=range(500)).ok
    with CountingBloomFilter.open(copied) as seen:
        assert seen.remove_many(range(500)).all()
        assert seen.approx_count == 0
    assert verify(sealed).sealed_segments == 1
    with CountingBloomFilter.open(sealed) as seen:
        assert seen.contains_many(range(500)).all()
        assert seen.info().sealed
    with open(sealed, "r+b") as file:
        file.seek(5000)
        file.write(b"\xff")
    assert not verify(sealed).ok


def test_info(made: str) -> None:
    """What the file says of itself names its kind."""
    with CountingBloomFilter.open(made, "r") as seen:
        info = seen.info()
    assert (info.kind, info.positions_set) == ("counters", counters_of(made)["positions_set"])
    assert info.file_bytes == 4096 + info.num_bits // 2
