"""A filter built by slices, however its keys are dealt out, is that of one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mmbloom
from mmbloom import BloomFilter
from mmbloom._system.typing import HashName
from mmbloom.cluster import Slice, SlicePlan, assemble

ARRAY, COUNTERS = slice(4096, None), slice(2048, 2064)  # of a filter's file


def drawn(chance: np.random.Generator, n: int, distinct: int) -> list[str]:
    return [f"https://example.org/{number}" for number in chance.integers(0, distinct, n).tolist()]


FORMS = {
    "list": lambda keys: keys,
    "bytes": lambda keys: [key.encode() for key in keys],
    "S": lambda keys: np.array([key.encode() for key in keys], dtype="S40"),
    "U": lambda keys: np.array(keys, dtype="U40"),
    "arrow": pa.array,
    "chunked": lambda keys: pa.chunked_array([keys[:7], keys[7:]]),
    "dictionary": lambda keys: pa.array(keys).dictionary_encode(),
    "views": lambda keys: pa.array(keys, pa.string_view()),
    "ints": lambda keys: np.array([int(key.rpartition("/")[2]) for key in keys]),
    "rows": lambda keys: np.array([list(key.ljust(30).encode()[:30]) for key in keys], np.uint8),
}
SIZES = {1: (20_000, 0.01), 2: (20_000, 1e-5), 4: (20_000, 1e-9)}  # by blocks a key
SEEDED: list[tuple[HashName, int]] = [("siphash", 0), ("siphash", 2**128 - 1), ("murmur3", 7)]


def build(tmp_path: Path, plan: SlicePlan, batches: list[Any]) -> tuple[Path, list[np.ndarray]]:
    """Deal batches out to slices in files, as tasks do; the file, and which rows were new."""
    parts = [plan.partition(batch) for batch in batches]
    new = [np.zeros(len(batch), np.bool_) for batch in batches]
    files = []
    for number in reversed(range(plan.slices)):
        task = Slice.empty(plan, number)
        for answers, part in zip(new, parts, strict=True):
            rows, h1, h2 = part[number]
            answers[rows] = task.claim(h1, h2)
        files.append(tmp_path / f"{number}.slice")
        task.write(files[-1])
    made = tmp_path / "sliced.bloom"
    assemble(made, plan, files)
    return made, new


def check_equal(tmp_path: Path, plan: SlicePlan, batches: list[Any]) -> None:
    """Compare with one process: bytes, counters, and which row of each batch was new."""
    made, new = build(tmp_path, plan, batches)
    alone = tmp_path / "alone.bloom"
    capacity, rate = plan.params.capacity, plan.params.error_rate
    seed, name = plan.params.seed, plan.params.hash
    with BloomFilter.create(alone, capacity, rate, seed=seed, hash=name) as seen:
        assert seen.params == plan.params
        expected = [seen.add_many(batch) for batch in batches]
    assert [each.tolist() for each in new] == [each.tolist() for each in expected]
    ours, theirs = made.read_bytes(), alone.read_bytes()
    assert ours[ARRAY] == theirs[ARRAY]
    assert ours[COUNTERS] == theirs[COUNTERS]
    assert not mmbloom.verify(made).problems


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_keys(tmp_path: Path, form: str, seed: int) -> None:
    """Lists, arrays and columns give the bytes that one `add_many` gives."""
    chance = np.random.default_rng(seed)
    plan = SlicePlan.draw(20_000, slices=5)
    check_equal(tmp_path, plan, [FORMS[form](drawn(chance, 4000, 3000)) for _ in range(3)])


@pytest.mark.parametrize("blocks", SIZES)
@pytest.mark.parametrize("hashed", SEEDED, ids=str)
@pytest.mark.parametrize("slices", [1, 2, 7, "pages"])
def test_every_cut(
    tmp_path: Path, blocks: int, hashed: tuple[HashName, int], slices: Any, seed: int
) -> None:
    """One slice, several, and one a page; each hash; one block a key, two and four."""
    chance = np.random.default_rng(seed)
    capacity, rate = SIZES[blocks]
    whole = SlicePlan.draw(capacity, rate, slices=1, hash=hashed[0], seed=hashed[1])
    assert whole.params.blocks_per_key == blocks
    pages = -(-whole.params.num_bytes // 4096)
    plan = SlicePlan(whole.params, pages if slices == "pages" else slices)
    sizes = chance.integers(0, 3000, 6).tolist()
    check_equal(tmp_path, plan, [drawn(chance, size, 4000) for size in [*sizes, 0]])


def test_marks_are_claims_without_answers(tmp_path: Path, seed: int) -> None:
    """`mark` sets what `claim` sets, in any order of the batches, and `contains` finds it."""
    chance = np.random.default_rng(seed)
    plan = SlicePlan.draw(5000, slices=2)
    batches = [drawn(chance, 1000, 1500) for _ in range(4)]
    one, other = ([Slice.empty(plan, number) for number in range(2)] for _ in range(2))
    for batch in batches:
        for task, (_, h1, h2) in zip(one, plan.partition(batch), strict=True):
            task.claim(h1, h2)
    for batch in reversed(batches):
        for task, (_, h1, h2) in zip(other, plan.partition(batch), strict=True):
            before = task.contains(h1, h2)
            new = task.mark(h1, h2)
            assert new <= np.count_nonzero(~before)
            assert task.contains(h1, h2).all()
    assert [task.to_bytes()[4096:] for task in one] == [task.to_bytes()[4096:] for task in other]
    assert [task.positions_set for task in one] == [task.positions_set for task in other]


def test_more_keys_than_planned_warn(tmp_path: Path) -> None:
    """The file is made, and a warning says that it is past its plan, as `merge` does."""
    plan = SlicePlan.draw(100, slices=1)
    part = Slice.empty(plan, 0)
    ((_, h1, h2),) = plan.partition(range(500))
    part.mark(h1, h2)
    with pytest.warns(mmbloom.CapacityWarning, match="has a capacity of 100"):
        assemble(tmp_path / "full.bloom", plan, [part])
    with mmbloom.open(tmp_path / "full.bloom") as seen:
        assert seen.contains_many(range(500)).all()
