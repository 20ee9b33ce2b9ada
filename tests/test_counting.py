"""CountingBloomFilter against an independent reader of its file, one key at a time."""

import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import (
    array_of,
    check_raises,
    counters_of,
    flock_is_free,
    run_forked,
    seal,
)
from reference import NaiveCounting

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    CountingBloomFilter,
    FileChangedError,
    FormatError,
    KeyTypeError,
    LockTimeout,
    LostBitsError,
    ParameterMismatch,
    ReadOnlyError,
    verify,
)
from mmbloom.sizing import Layout

GOLDEN = Path(__file__).parent / "golden"
LAYOUTS: list[Layout] = ["blocked", "standard"]
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def read(path: str) -> NaiveCounting:
    """The file as the independent reader sees it."""
    return NaiveCounting(Path(path).read_bytes())


def one_by_one(naive: NaiveCounting, method: str, keys: list[str]) -> list[bool]:
    """What a naive filter answers, a key at a time."""
    if method == "claim":
        method = "add"
    return [getattr(naive, method)(key) for key in keys]


def in_batch(seen: CountingBloomFilter, method: str, keys: list[str]) -> list[bool]:
    """Do the same in one batch; of a claim, what it says."""
    if method == "claim":
        with seen.claim(keys) as new:
            return list(map(bool, new))
    return list(map(bool, getattr(seen, f"{method}_many")(keys)))


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@each_layout
@pytest.mark.parametrize("threads", [1, 3])
def test_answers_and_bytes_as_one_by_one(
    path: str, layout: Layout, threads: int, seed: int
) -> None:
    """Batches and single keys, duplicates among them: answers, array and counters of the file."""
    chance = random.Random(seed)
    pool = [f"key-{i}" for i in range(60)]
    nonzero, new, batches = 0, 0, 0
    with CountingBloomFilter.create(
        path, 40, 0.1, layout=layout, seed=chance.getrandbits(32), threads=threads
    ) as seen:
        naive = read(path)
        for _ in range(150):
            method = chance.choice(["add", "remove", "remove", "claim"])
            keys = chance.choices(pool, k=chance.choice([0, 1, 2, 30]))
            if chance.random() < 0.3 and method != "claim":
                answers = []
                for key in keys:
                    answers.append(getattr(seen, method)(key))
                    expected = one_by_one(naive, method, [key])
                    assert answers[-1] is expected[0]
                    batches += naive.popcount() != nonzero
                    nonzero = naive.popcount()
                    new += method != "remove" and answers[-1]
            else:
                answers = in_batch(seen, method, keys)
                assert answers == one_by_one(naive, method, keys)
                new += sum(answers) if method != "remove" else 0
                batches += naive.popcount() != nonzero
                nonzero = naive.popcount()
            assert seen.contains_many(pool).tolist() == [key in naive for key in pool]
            assert [key in seen for key in pool] == [key in naive for key in pool]
            assert array_of(path) == naive.array
            assert read(path).counters[:2] == (new, nonzero)
        assert seen.recount() == nonzero == seen.info().positions_set
        assert nonzero > 0
    assert counters_of(path)["batches_begun"] == batches
    assert counters_of(path)["batches_done"] == batches


@each_layout
def test_batch_larger_than_a_chunk(path: str, layout: Layout, seed: int) -> None:
    """Answers of a batch of several chunks are those of its keys one after the other."""
    chance = np.random.default_rng(seed)
    keys = chance.integers(0, 40_000, 70_000)  # none comes 15 times, but once in 10**4 runs
    there: dict[int, int] = {}
    with CountingBloomFilter.create(path, 200_000, 1e-9, layout=layout, threads=2) as seen:
        expected = []
        for key in keys.tolist():
            expected.append(key not in there)
            there[key] = there.get(key, 0) + 1
        assert seen.add_many(keys).tolist() == expected
        again = chance.permutation(np.repeat(np.unique(keys), 3))
        left = dict(there)
        wanted = []
        for key in again.tolist():
            wanted.append(left[key] > 0)
            left[key] = max(0, left[key] - 1)
        assert max(there.values()) < 15
        assert seen.remove_many(again).tolist() == wanted
        assert seen.contains_many(np.array([*left])).tolist() == [n > 0 for n in left.values()]
        assert seen.update(iter(keys.tolist())) == sum(n == 0 for n in left.values())


def test_copies_are_counted(path: str) -> None:
    """Added twice, a key is there until it was removed twice; then it is new again."""
    with CountingBloomFilter.create(path, 1000) as seen:
        assert [seen.add("a"), seen.add("a")] == [True, False]
        assert [seen.remove("a"), "a" in seen, seen.remove("a"), "a" in seen] == [
            *(True, True, True, False),
        ]
        assert not seen.remove("a")
        assert seen.add("a")
        assert seen.info().keys_added == 2
        assert seen.approx_count == 1


def test_full_counters_stay(path: str) -> None:
    """A key added 15 times or more stays, whatever is removed."""
    with CountingBloomFilter.create(path, 1000) as seen:
        seen.add_many(["a"] * 15 + ["b"] * 14)
        assert seen.remove_many(["a"] * 40).all()
        assert seen.remove_many(["b"] * 15).tolist() == [True] * 14 + [False]
        assert ("a" in seen, "b" in seen) == (True, False)


def test_wrong_remove_is_a_false_negative(path: str) -> None:
    """As the docs say: removing a false positive takes counters from keys that are there."""
    with CountingBloomFilter.create(path, 20, 0.3, seed=1) as seen:
        keys = [f"in-{i}" for i in range(20)]
        seen.add_many(keys)
        wrong = next(f"out-{i}" for i in range(1000) if f"out-{i}" in seen)
        assert seen.remove(wrong)
        assert not seen.contains_many(keys).all()


@each_layout
def test_to_bloom(path: str, tmp_path: Path, layout: Layout) -> None:
    """The plain filter has a bit for each counter that is not 0, and is sound by itself."""
    plain = str(tmp_path / "plain.bloom")
    with CountingBloomFilter.create(path, 300_000, layout=layout) as seen:
        seen.add_many(np.arange(200_000))
        seen.remove_many(np.arange(100_000))
        seen.to_bloom(plain, permissions=0o640)
        naive = read(path)
        counts = np.frombuffer(naive.array, np.uint8)
        bits = np.stack([counts & 15, counts >> 4], axis=1).ravel() != 0
        assert array_of(plain) == np.packbits(bits, bitorder="little").tobytes()
        with BloomFilter.open(plain) as bloom:
            assert bloom.params == seen.params
            some = np.arange(0, 200_000, 37)
            assert (bloom.contains_many(some) == seen.contains_many(some)).all()
            assert bloom.info().keys_added == bloom.approx_count == seen.approx_count
        with pytest.raises(FileExistsError):
            seen.to_bloom(plain)
    assert Path(plain).stat().st_mode & 0o777 == 0o640
    assert verify(plain, keys=np.arange(100_000, 200_000)).ok
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["plain.bloom", "seen.bloom"]


def test_to_bloom_of_a_changed_file(path: str, tmp_path: Path) -> None:
    """A file that is not the open one any more is FileChangedError, and nothing is made."""
    with CountingBloomFilter.create(path, 1000) as seen:
        Path(path).rename(tmp_path / "moved")
        CountingBloomFilter.create(path, 1000).close()
        with pytest.raises(FileChangedError):
            seen.to_bloom(tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


@pytest.mark.parametrize("name", ["blocked-counters", "standard-counters"])
def test_golden_files(tmp_path: Path, name: str) -> None:
    """A file of counters of the first version opens, and counts where the reader says."""
    file = tmp_path / name
    file.write_bytes((GOLDEN / f"{name}.bloom").read_bytes())
    naive = read(str(file))
    with CountingBloomFilter.open(file) as seen:
        keys = ["a", "b", "a", b"\0", 7]
        assert seen.add_many(keys).tolist() == [naive.add(key) for key in keys]  # type: ignore[arg-type]
        assert seen.remove_many(["a", 7, 7]).tolist() == [naive.remove(key) for key in ("a", 7, 7)]
    assert array_of(str(file)) == naive.array


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
    with pytest.raises(ParameterMismatch):
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
        pytest.raises(LockTimeout),
    ):
        write(seen)
    seal(path)
    with CountingBloomFilter.open(path) as seen:
        check_raises({name: write}, seen, ReadOnlyError, "sealed")
        assert not seen.contains_many(["a"]).any()


def test_batch_query_takes_the_lock(path: str) -> None:
    """Law 4: a batch waits for a writer; a single key, and mode "r", do not."""
    CountingBloomFilter.create(path, 100).close()
    with CountingBloomFilter.open(path) as writer, writer.locked():
        writer.add("a")
        assert writer.contains_many(["a"] * 200_000).all(), "by the thread that has the lock"
        with CountingBloomFilter.open(path, lock_timeout=0) as seen:
            assert "a" in seen
            with pytest.raises(LockTimeout):
                seen.contains_many(["a"])
        with CountingBloomFilter.open(path, "r") as seen:
            assert seen.contains_many(["a", "b"]).tolist() == [True, False]
    assert flock_is_free(path)


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
            seen.remove_many(["a", None])  # type: ignore[list-item]
        assert seen.remove_many(["a", None], nulls="skip").tolist() == [True, False]  # type: ignore[list-item]
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
        assert run_forked(lambda: seen.add_many(["a", "b"]).tolist()) == [True, True]
        assert seen.remove_many(["a", "b"]).all()
