"""The function for SQL that asks a filter."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException

import mmbloom
import mmbloom.cluster.spark
from mmbloom import BloomFilter


def make(path: Path, keys: list[Any]) -> None:
    with BloomFilter.create(path, 1000, 1e-9) as made:
        made.add_many(keys)


def test_in_sql(spark: Any, tmp_path: Path) -> None:
    """It gives true for what was added, false for the rest, and null for a null."""
    make(tmp_path / "seen.bloom", ["/a", "/b", 7])
    spark.udf.register("seen", mmbloom.cluster.spark.seen(tmp_path / "seen.bloom"))
    rows = spark.createDataFrame([("/a",), (None,), ("/c",), ("/b",)], "url string").coalesce(1)
    rows.createOrReplaceTempView("log")
    found = spark.sql("SELECT url, seen(url) AS known FROM log").collect()
    assert [tuple(row) for row in found] == [
        ("/a", True),
        (None, None),
        ("/c", False),
        ("/b", True),
    ]
    assert [row.url for row in spark.sql("SELECT url FROM log WHERE NOT seen(url)").collect()] == [
        "/c"
    ]
    assert spark.sql("SELECT seen(7), seen(8L), seen(X'2f61')").first()[:] == (True, False, True)


def test_on_columns(spark: Any, tmp_path: Path) -> None:
    """Called with a column it is a column; a folder is asked as a file is."""
    with mmbloom.GrowingFilter.create(tmp_path / "seen", 1000) as made:
        made.add_many(range(5000))
    rows = spark.range(0, 10_000, 1, 3)
    seen = mmbloom.cluster.spark.seen(tmp_path / "seen")
    known = {row.id for row in rows.filter(seen("id")).collect()}
    assert known >= set(range(5000))
    assert len(known) < 5500


def test_a_filter_that_was_replaced(spark: Any, tmp_path: Path) -> None:
    """Workers live on and keep the filter open: of one moved to its place, they ask that."""
    path = tmp_path / "seen.bloom"
    make(path, [1])
    seen = mmbloom.cluster.spark.seen(path)
    rows = spark.range(0, 3, 1, 1)
    keys = pa.array([1, 2])
    assert [row.id for row in rows.filter(seen("id")).collect()] == [1]
    assert mmbloom.cluster.spark._ask(str(path), keys).tolist() == [True, False]
    make(tmp_path / "new.bloom", [2])
    os.replace(tmp_path / "new.bloom", path)
    assert [row.id for row in rows.filter(seen("id")).collect()] == [2]
    # Whether Spark took the same worker it does not tell; this process is the same.
    assert mmbloom.cluster.spark._ask(str(path), keys).tolist() == [False, True]
    assert [*mmbloom.cluster.spark._OPEN] == [str(path)]
    mmbloom.cluster.spark._OPEN.clear()


def test_errors_are_told(spark: Any, tmp_path: Path) -> None:
    """What is no filter, and what is no key, is in the message of Spark's error."""
    (tmp_path / "text").write_text("text")
    rows = spark.range(1)
    with pytest.raises(PythonException, match=r"NoFilterError: .*text: "):
        rows.select(mmbloom.cluster.spark.seen(tmp_path / "text")("id")).collect()
    make(tmp_path / "seen.bloom", [])
    with pytest.raises(PythonException, match="KeyTypeError: an Arrow column of float64"):
        rows.select(
            mmbloom.cluster.spark.seen(tmp_path / "seen.bloom")(rows.id.cast("double"))
        ).collect()
