"""A filter that tasks have built is, byte for byte, that of one process."""

import os
from pathlib import Path
from typing import Any

import fuses
import pytest
from pyspark.sql import functions

import mmbloom
import mmbloom.cluster.spark
from mmbloom import BloomFilter
from mmbloom.cluster import SlicePlan

ROWS, DISTINCT, PARTITIONS = 50_000, 30_000, 5
ARRAY, COUNTERS = slice(4096, None), slice(2048, 2064)  # of a filter's file
KINDS: dict[str, Any] = {
    "string": lambda key: f"/{key}",
    "binary": lambda key: f"/{key}".encode(),
    "bigint": int,
    "int": int,
}


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """Rows with a key of each type, dealt out to several partitions of several batches."""
    key = functions.col("id") % DISTINCT
    text = functions.concat(functions.lit("/"), key.cast("string"))
    return spark.range(0, ROWS, 1, PARTITIONS).select(
        text.alias("string"),
        text.cast("binary").alias("binary"),
        key.alias("bigint"),
        key.cast("int").alias("int"),
    )


def alone(tmp_path: Path, keys: list[Any], **options: Any) -> bytes:
    """The file of one process."""
    with BloomFilter.create(tmp_path / "alone.bloom", **options) as alone:
        alone.add_many(keys)
    return (tmp_path / "alone.bloom").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_makes_the_same(tmp_path: Path, rows: Any, kind: str) -> None:
    options: dict[str, Any] = {"capacity": 40_000, "error_rate": 1e-6, "seed": 7}
    made = tmp_path / "made.bloom"
    mmbloom.cluster.spark.build(rows, kind, made, **options, slices=6)
    expected = alone(tmp_path, [KINDS[kind](each) for each in range(DISTINCT)], **options)
    assert made.read_bytes()[ARRAY] == expected[ARRAY]
    assert made.read_bytes()[COUNTERS] == expected[COUNTERS]
    assert mmbloom.verify(made, keys=[KINDS[kind](1)]).ok
    assert sorted(os.listdir(tmp_path)) == ["alone.bloom", "made.bloom"]


def test_a_killed_worker(
    tmp_path: Path, rows: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed amid its keys changes nothing: another does its task."""
    fuse, made = str(tmp_path / "fuse"), tmp_path / "made.bloom"
    drawn = SlicePlan.draw(40_000, 1e-6, slices=6, seed=7)
    plan = fuses.DeadlyPlan(drawn.params, 6, fuse)
    monkeypatch.setattr(SlicePlan, "draw", lambda *_, **__: plan)
    last = spark.createDataFrame([("/last",)], "string string")
    mmbloom.cluster.spark.build(
        rows.select("string").union(last), "string", made, 40_000, 1e-6, seed=7
    )
    assert int(Path(fuse).read_text()) != os.getpid()
    keys = [*(f"/{each}" for each in range(DISTINCT)), "/last"]
    expected = alone(tmp_path, keys, capacity=40_000, error_rate=1e-6, seed=7)
    assert made.read_bytes()[ARRAY] == expected[ARRAY]


def test_like_another_filter(tmp_path: Path, rows: Any) -> None:
    """A filter that is made like another can be united with it; nulls are left out if asked for."""
    key = functions.when(functions.col("int") < 10, functions.col("int"))  # null for all others
    made = tmp_path / "made.bloom"
    with BloomFilter.create(tmp_path / "other.bloom", 1000) as other:
        mmbloom.cluster.spark.build(
            rows.select(key.alias("key")), "key", made, like=other, nulls="skip"
        )
        other.add_many(range(10))
    assert made.read_bytes()[ARRAY] == (tmp_path / "other.bloom").read_bytes()[ARRAY]


def test_no_row(tmp_path: Path, spark: Any) -> None:
    """Of a frame without a partition comes a filter without a key."""
    made = tmp_path / "made.bloom"
    mmbloom.cluster.spark.build(spark.createDataFrame([], "key string"), "key", made, 1000)
    with mmbloom.open(made, "r") as empty:
        assert empty.approx_count == 0


def test_what_exists_stays(tmp_path: Path, rows: Any) -> None:
    made = tmp_path / "made.bloom"
    made.write_text("precious")
    with pytest.raises(FileExistsError, match=r"made\.bloom"):
        mmbloom.cluster.spark.build(rows, "nothing", made, 1000)
    assert made.read_text() == "precious"
