"""CountingBloomFilter against an independent reader of its file, one key at a time."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import array_of, change_header, claim, counters_of
from golden import GOLDEN
from reference import NaiveCounting

from mmbloom import BloomFilter, CountingBloomFilter, FileChangedError, verify
from mmbloom._storage.build import Builder
from mmbloom.sizing import Layout

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
        return claim(seen, keys)
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
    keys = chance.integers(0, 60_000, 70_000)  # of none as many as 15
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
        assert seen.remove_many(again).tolist() == wanted
        assert seen.contains_many(np.array([*left])).tolist() == [n > 0 for n in left.values()]
        assert seen.update(iter(keys.tolist())) == sum(n == 0 for n in left.values())


def test_copies_are_counted(path: str) -> None:
    """Added twice, a key is there until it was removed twice; then it is new again."""
    with CountingBloomFilter.create(path, 1000) as seen:
        assert [seen.add("a"), seen.add("a")] == [True, False]
        assert [seen.remove("a"), "a" in seen, seen.remove("a"), "a" in seen] == [
            *(True, True, True, False)
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


def test_to_bloom_of_a_file_that_is_overwritten(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another filter written over the file meanwhile is FileChangedError: nothing is made."""
    with CountingBloomFilter.create(path, 1000) as seen:
        write = Builder.write

        def write_and_overwrite(self: Builder, piece: Any) -> None:
            write(self, piece)
            change_header(path, 48, "<Q", 7)

        monkeypatch.setattr(Builder, "write", write_and_overwrite)
        with pytest.raises(FileChangedError, match="overwritten"):
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
