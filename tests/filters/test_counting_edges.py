"""CountingBloomFilter at its edges: other kinds, locks, claims, wrong keys, figures, pickles."""

import pickle
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from checks import (
    array_of,
    check_raises,
    flock_is_free,
    seal,
)
from workers import PATIENCE, in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    CountingBloomFilter,
    FormatError,
    KeyTypeError,
    LockTimeoutError,
    LostBitsError,
    ParameterMismatchError,
    ReadOnlyError,
    _engine,
    hash_many,
)
from mmbloom._system.typing import HashHalves, Mode


def test_each_class_opens_its_own_kind(path: str, tmp_path: Path) -> None:
    """Law 13: the other class's file is refused, with the name of the class that opens it."""
    plain = str(tmp_path / "plain")
    CountingBloomFilter.create(path, 100).close()
    BloomFilter.create(plain, 100).close()
    with pytest.raises(FormatError, match=r"2 \(counters\), a CountingBloomFilter, expected 1 "):
        BloomFilter.open(path)
    with pytest.raises(FormatError, match=r"1 \(bits\), a BloomFilter, expected 2 "):
        CountingBloomFilter.open(plain)
    with pytest.raises(FormatError, match="CountingBloomFilter"):
        BloomFilter.create(path, 100, exist_ok=True)
    with pytest.raises(FormatError, match="CountingBloomFilter"), BloomFilter.open(plain) as seen:
        seen.union_update(path)
    for combine in (mmbloom.merge, mmbloom.intersect):
        with pytest.raises(FormatError, match="CountingBloomFilter"):
            combine(tmp_path / "new", [plain, path])
    with pytest.raises(FormatError, match="CountingBloomFilter"):
        mmbloom.repair(path, tmp_path / "new")


def test_create_like_and_exist_ok(path: str, tmp_path: Path) -> None:
    """Sizes can be those of a filter of either class; what exists must have them."""
    with (
        BloomFilter.create(tmp_path / "plain", 100, seed=3) as plain,
        CountingBloomFilter.create(path, like=plain) as seen,
    ):
        assert seen.params == plain.params
        assert Path(path).stat().st_size == 4096 + seen.params.num_bits // 2
    CountingBloomFilter.create(path, 100, exist_ok=True).close()
    with pytest.raises(ParameterMismatchError):
        CountingBloomFilter.create(path, 200, exist_ok=True)
    with pytest.raises(FileExistsError):
        CountingBloomFilter.create(path, 100)


WRITES: dict[str, Callable[[Any], object]] = {
    "remove": lambda seen: seen.remove("a"),
    "remove_many": lambda seen: seen.remove_many(["a"]),
    "add": lambda seen: seen.add("a"),
    "add_many": lambda seen: seen.add_many(["a"]),
    "claim": lambda seen: seen.claim(["a"]).__enter__(),
}


@pytest.mark.parametrize("name", WRITES)
def test_read_only_closed_and_locked(path: str, name: str) -> None:
    """What cannot be written says why: mode "r", sealed, closed, or locked by another."""
    write = WRITES[name]
    CountingBloomFilter.create(path, 100).close()
    with CountingBloomFilter.open(path, "r") as seen:
        check_raises({name: write}, seen, ReadOnlyError, "mode='r'")
    with pytest.raises(ClosedFilterError):
        write(seen)
    with (
        CountingBloomFilter.open(path) as other,
        other.locked(),
        CountingBloomFilter.open(path, lock_timeout=0) as seen,
        pytest.raises(LockTimeoutError),
    ):
        write(seen)
    seal(path)
    with CountingBloomFilter.open(path) as seen:
        check_raises({name: write}, seen, ReadOnlyError, "sealed")
        assert not seen.contains_many(["a"]).any()


@pytest.mark.parametrize("mode", ["r+", "r"])
def test_queries_take_no_lock(path: str, mode: Mode) -> None:
    """Law 4: neither a single key nor a batch waits for a writer, in either mode."""
    CountingBloomFilter.create(path, 100).close()
    with CountingBloomFilter.open(path) as writer, writer.locked():
        writer.add("a")
        assert writer.contains_many(["a"] * 200_000).all(), "by the thread that has the lock"
        with CountingBloomFilter.open(path, mode, lock_timeout=0) as seen:
            assert "a" in seen
            assert seen.contains_many(["a", "b"]).tolist() == [True, False]
            h1, h2 = hash_many(["a", "b"], seen.params)
            assert seen.contains_hashes(h1, h2).tolist() == [True, False]
    assert flock_is_free(path)


@pytest.mark.parametrize("threads", [1, 3])
def test_batch_query_while_others_remove(
    path: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is removed and added before each chunk is tested: a key that stays is found."""
    keys = np.arange(4 * _engine.CHUNK_KEYS + 5)
    stays = keys % 3 == 0
    CountingBloomFilter.create(path, 2 * len(keys), 1e-6, seed=1).close()
    with (
        CountingBloomFilter.open(path, threads=threads) as seen,
        CountingBloomFilter.open(path, lock_timeout=PATIENCE) as other,
    ):
        seen.add_many(keys)
        test, lock, change = seen._shelf.find, Lock(), cycle([other.remove_many, other.add_many])

        def watched(hashes: HashHalves) -> Any:
            with lock:
                next(change)(keys[~stays])
            return test(hashes)

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


def test_wrong_keys_change_nothing(path: str) -> None:
    """A key that cannot be one raises, names its place, and nothing is removed."""
    with CountingBloomFilter.create(path, 100) as seen:
        seen.add_many(["a", "b"])
        with pytest.raises(KeyTypeError, match="1"):
            seen.remove_many(["a", None])
        assert seen.remove_many(["a", None], nulls="skip").tolist() == [True, False]
        with pytest.raises(KeyTypeError):
            seen.remove(1.5)  # type: ignore[arg-type]
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
        with pytest.warns(CapacityWarning, match="planned for 1000"):
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


def test_pickle_and_fork(path: str) -> None:
    """A filter reopens in another process, by pickle or by fork, as the same class."""
    with CountingBloomFilter.create(path, 100) as seen:
        seen.add("a")
        raw = pickle.dumps(seen)
        assert len(raw) < 1000
        with pickle.loads(raw) as again:
            assert type(again) is CountingBloomFilter
            assert again.remove("a")
        assert in_child(lambda: seen.add_many(["a", "b"]).tolist()) == [True, True]
        assert seen.remove_many(["a", "b"]).all()
