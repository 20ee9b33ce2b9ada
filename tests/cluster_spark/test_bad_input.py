"""What is refused, in which words, and that nothing is made then."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException

import mmbloom.cluster.spark
from mmbloom import BloomFilter, CountingBloomFilter
from mmbloom.cluster import Generations
from mmbloom.errors import (
    CapacityWarning,
    FilterFullError,
    FormatError,
    KeyTypeError,
    ParameterMismatchError,
)

SIZES: dict[str, Any] = {"capacity": 30_000, "error_rate": 1e-9, "slices": 6}


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """Three partitions; the second has a null in its row 2."""
    return spark.range(0, 30, 1, 3).selectExpr(
        "id", "CASE WHEN id != 12 THEN string(id) END AS url", "double(id) AS d"
    )


def test_nulls(rows: Any, tmp_path: Path, state: str) -> None:
    with pytest.raises(PythonException) as told:
        mmbloom.cluster.spark.build(rows, "url", tmp_path / "made.bloom", 1000)
    assert "KeyTypeError: key at position 2: a null" in str(told.value)
    assert "\nin partition 1 of the input" in str(told.value)
    assert os.listdir(tmp_path) == []
    first = mmbloom.cluster.spark.first_seen(rows, "url", state=state, **SIZES)
    with pytest.raises(PythonException, match="in partition 1 of the input"):
        first.frame.collect()
    with pytest.raises(FormatError, match="no task wrote"):
        first.commit()


def test_positions_count_over_batches(spark: Any, tmp_path: Path) -> None:
    """The position is that in the partition, which Spark hands over in batches of 10,000 rows."""
    rows = spark.range(0, 25_000, 1, 1).selectExpr("CASE WHEN id != 24000 THEN id END AS id")
    with pytest.raises(PythonException, match="key at position 24000: a null"):
        mmbloom.cluster.spark.build(rows, "id", tmp_path / "made.bloom", 1000)


@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        (["id", "url"], TypeError, r"\['id', 'url'\], expected the name of one"),
        ("nothing", KeyError, "'nothing', but the columns are"),
        ("d", KeyTypeError, "column 'd': double is not a key type; cast it"),
    ],
)
def test_columns(
    rows: Any, tmp_path: Path, state: str, column: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        mmbloom.cluster.spark.build(rows, column, tmp_path / "made.bloom", 1000)
    with pytest.raises(error, match=said):
        mmbloom.cluster.spark.first_seen(rows, column, state=state, **SIZES)
    assert os.listdir(tmp_path) == []


def test_two_columns_of_one_name(rows: Any, state: str) -> None:
    with pytest.raises(KeyError, match="'id', but 2 columns have it"):
        mmbloom.cluster.spark.first_seen(rows.select("id", "id"), "id", state=state, **SIZES)


def test_frames(spark: Any, tmp_path: Path, state: str) -> None:
    """A stream has no end at which to commit, and a list is no frame."""
    stream = spark.readStream.schema("url string").parquet(str(tmp_path))
    with pytest.raises(TypeError, match="foreachBatch"):
        mmbloom.cluster.spark.first_seen(stream, "url", state=state, **SIZES)
    with pytest.raises(TypeError, match="got list"):
        mmbloom.cluster.spark.build(["/a"], "url", tmp_path / "made.bloom", 1000)


def test_filters_without_slices(rows: Any, tmp_path: Path) -> None:
    """A filter of the standard layout, and one that counts, cannot be cut; the message says why."""
    with (
        BloomFilter.create(tmp_path / "standard", 1000, layout="standard") as standard,
        CountingBloomFilter.create(tmp_path / "counting", 1000) as counting,
    ):
        with pytest.raises(ValueError, match="layout is 'standard'"):
            mmbloom.cluster.spark.build(rows, "id", tmp_path / "made.bloom", like=standard)
        with pytest.raises(ValueError, match="a counting filter cannot be cut into slices"):
            mmbloom.cluster.spark.build(rows, "id", tmp_path / "made.bloom", like=counting)
    assert not (tmp_path / "made.bloom").exists()


def test_states_of_others(rows: Any, state: str) -> None:
    """A state with other parameters is named, with what differs."""
    Generations.create(state, 30_000, 1e-9, slices=6, seed=1)
    for name, other in {"capacity": 40_000, "error_rate": 1e-6, "slices": 3, "seed": 2}.items():
        for given in ({}, SIZES):
            with pytest.raises(ParameterMismatchError, match=rf"state: exists with {name} "):
                mmbloom.cluster.spark.first_seen(rows, "id", state=state, **{**given, name: other})
    with pytest.raises(FileNotFoundError, match="no state"):
        mmbloom.cluster.spark.first_seen(rows, "id", state=state + "2")


def test_more_keys_than_planned(spark: Any, state: str) -> None:
    """Rows are not lost without a word: computing them fails, or the commit, or both were told."""
    few, many = (spark.range(keys).select("id") for keys in (5300, 40_000))
    far = mmbloom.cluster.spark.first_seen(many, "id", state=state, capacity=5000)
    with pytest.raises(PythonException, match=r"FilterFullError: .*capacity of 5000"):
        far.frame.count()
    with pytest.raises(FormatError, match="which no task wrote"):
        far.commit()
    near = mmbloom.cluster.spark.first_seen(few, "id", state=state)
    assert near.frame.count() == 5300
    with pytest.raises(FilterFullError, match=r"capacity of 5000.*with a larger capacity"):
        near.commit()
    assert Generations.open(state).generation == 0
    asked = mmbloom.cluster.spark.first_seen(many, "id", state=state, on_full="warn")
    assert asked.frame.count() < 40_000
    with pytest.warns(CapacityWarning, match="capacity of 5000"):
        asked.commit()


def test_slices_of_small_filters(rows: Any, tmp_path: Path) -> None:
    """Unless asked for, there are as many as are of a MiB, 8 to 64; or as many as have a page."""
    for capacity, slices in ((1000, 2), (1_000_000, 8), (3_000_000, 16), (100_000_000, 64)):
        state = tmp_path / str(capacity)
        first = mmbloom.cluster.spark.first_seen(rows, "id", state=state, capacity=capacity)
        assert first.run.plan.slices == slices


def test_a_damaged_generation(rows: Any, state: str) -> None:
    first = mmbloom.cluster.spark.first_seen(rows, "id", state=state, **SIZES)
    first.frame.count()
    first.commit()
    next(Path(state).glob("*/000001.slice")).unlink()
    second = mmbloom.cluster.spark.first_seen(rows, "id", state=state)
    with pytest.raises(PythonException, match=r"FormatError: .*000001\.slice: file is missing"):
        second.frame.count()
    with pytest.raises(FormatError, match=r"no task wrote"):
        second.commit()
    assert Generations.open(state).generation == 1


def test_a_slice_at_two_tasks() -> None:
    """Were a slice's keys sent to two tasks, one of them would begin without its first row."""
    sent = mmbloom.cluster.spark._Sent(3, 0, None, None, None)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mmbloom.cluster.spark, "_read", lambda _: iter([sent]))
        with pytest.raises(RuntimeError, match="slice 3 to more than one task"):
            next(mmbloom.cluster.spark._by_slice(iter([])))
