"""The rows whose key is new, whoever is killed, and whatever is run again."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuses
import pytest
from drivers import cut, day, first_of, together
from pyspark.sql import functions

import mmbloom.cluster.spark
from mmbloom.cluster import Generations, Run
from mmbloom.errors import CommitConflictError, FormatError

SIZES: dict[str, Any] = {"capacity": 30_000, "error_rate": 1e-9, "slices": 6}
Frame = Any  # a DataFrame of Spark
Deal = Callable[[list[list[str]]], Frame]


@pytest.fixture
def deal(spark: Any) -> Deal:
    """Make a frame of partitions of keys: a row has its key, and its number among all rows."""

    def make(partitions: list[list[str]]) -> Frame:
        numbers = iter(range(sum(map(len, partitions))))
        rows = [[(key, next(numbers)) for key in keys] for keys in partitions]
        each = spark.sparkContext.parallelize(rows, len(rows))
        return spark.createDataFrame(each.flatMap(lambda part: part), "url string, row bigint")

    return make


def kept(frame: Frame) -> list[tuple[str, int]]:
    """The rows of a frame, in the order of the input."""
    return sorted(((row.url, row.row) for row in frame.collect()), key=lambda row: row[1])


def first_rows(keys: list[str]) -> list[tuple[str, int]]:
    """What is exact: of each key its first row."""
    found: dict[str, int] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, row)
    return list(found.items())


def test_rows_of_two_days(deal: Deal, state: str) -> None:
    """The first row of each key, as pandas keeps it; the next day only what no day before had."""
    days = [day(1), day(2, distinct=8000)]
    one = mmbloom.cluster.spark.first_seen(deal(cut(days[0])), "url", state=state, **SIZES)
    assert kept(one.frame) == first_rows(days[0])
    assert one.frame.schema == deal([["a"]]).schema
    one.commit()
    two = mmbloom.cluster.spark.first_seen(deal(cut(days[1])), "url", state=state)
    assert [key for key, _ in kept(two.frame)] == first_of(days)[1]
    two.commit()
    for again in days:
        old = mmbloom.cluster.spark.first_seen(deal(cut(again)), "url", state=state)
        assert kept(old.frame) == []
        old.commit()
    assert Generations.open(state).generation == 4


def test_a_run_without_a_commit(deal: Deal, state: str) -> None:
    frame = deal(cut(day(3)))
    before = kept(mmbloom.cluster.spark.first_seen(frame, "url", state=state, **SIZES).frame)
    again = mmbloom.cluster.spark.first_seen(frame, "url", state=state, **SIZES)
    assert kept(again.frame) == before == first_rows(day(3))
    assert Generations.open(state).generation == 0


@pytest.mark.parametrize("written", [True, False])
def test_a_killed_worker(
    deal: Deal, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """A worker that is killed after it wrote its slice, or before, costs no row and repeats none.

    The slice is then read by nobody: the task begins again from the generation before.
    """
    fuse, begin = str(tmp_path / "fuse"), Generations.begin

    def deadly(self: Generations, *which: Any, **options: Any) -> Run:
        return fuses.DeadlyRun.of(begin(self, *which, **options), fuse, written=written)

    monkeypatch.setattr(Generations, "begin", deadly)
    frame = deal(cut(day(4)))
    first = mmbloom.cluster.spark.first_seen(frame, "url", state=state, **SIZES)
    assert kept(first.frame) == first_rows(day(4))
    assert int(Path(fuse).read_text()) != os.getpid()
    first.commit()
    monkeypatch.undo()
    second = mmbloom.cluster.spark.first_seen(frame, "url", state=state)
    assert kept(second.frame) == []


def test_sorted_frames_give_the_earliest(spark: Any, state: str) -> None:
    """The order of partitions is that of the sort, so that the earliest row of a key is kept."""
    rows = spark.range(0, 20_000, 1, 4).select(
        (functions.col("id") % 7000).alias("key"), functions.hash("id").alias("time")
    )
    first = mmbloom.cluster.spark.first_seen(rows.orderBy("time"), "key", state=state, **SIZES)
    earliest = rows.groupBy("key").agg(functions.min("time").alias("time"))
    assert sorted(first.frame.collect()) == sorted(earliest.collect())
    assert first.frame.count() == rows.dropDuplicates(["key"]).count() == 7000


def test_rows_of_any_type(spark: Any, state: str) -> None:
    rows = spark.sql(
        "SELECT id AS key, decimal(id) AS d, array(id, NULL) AS a, map('k', id) AS m, "
        "named_struct('x', date '2026-01-01', 'y', NULL) AS s, timestamp '2026-01-01' AS t, "
        "interval 1 day AS i, CAST(NULL AS string) AS n, X'00ff' AS `b.c`, 1 AS n FROM range(100)"
    )
    first = mmbloom.cluster.spark.first_seen(rows, "key", state=state, **SIZES)
    assert first.frame.schema == rows.schema
    assert sorted(first.frame.collect(), key=str) == sorted(rows.collect(), key=str)


def test_rows_without_a_key(spark: Any, state: str) -> None:
    rows = spark.createDataFrame([("a", 0), (None, 1), ("b", 2), ("a", 3)], "url string, row int")
    first = mmbloom.cluster.spark.first_seen(
        rows.coalesce(1), "url", state=state, nulls="skip", **SIZES
    )
    assert kept(first.frame) == [("a", 0), ("b", 2)]


def test_no_row(spark: Any, state: str) -> None:
    rows = spark.createDataFrame([], "url string, row int")
    first = mmbloom.cluster.spark.first_seen(rows, "url", state=state, **SIZES)
    assert kept(first.frame) == []
    first.commit()
    assert Generations.open(state).generation == 1


def test_what_was_computed_in_part(deal: Deal, state: str) -> None:
    """Without all slices nothing is committed: a slice that is missing, or cut, is named."""
    first = mmbloom.cluster.spark.first_seen(deal(cut(day(5))), "url", state=state, **SIZES)
    with pytest.raises(FormatError, match=r"000000\.slice: file is missing, .* no task wrote"):
        first.commit()
    first.frame.count()
    cut_short = next(Path(state).glob("*/000002.slice"))
    os.truncate(cut_short, 5000)
    with pytest.raises(FormatError, match=r"000002\.slice: file size is 5000 bytes"):
        first.commit()
    assert Generations.open(state).generation == 0


def test_two_drivers(deal: Deal, state: str) -> None:
    rows = deal([["a"], ["b"]])
    runs = [mmbloom.cluster.spark.first_seen(rows, "url", state=state, **SIZES) for _ in range(2)]
    for each in runs:
        assert each.frame.count() == 2
    runs[1].commit()
    with pytest.raises(CommitConflictError, match="drop the rows"):
        runs[0].commit()


def test_batches_of_a_stream(spark: Any, state: str, tmp_path: Path) -> None:
    """A batch that is run again after its commit gives the rows it gave, and counts once.

    The query fails after our commit and before Spark's, so Spark runs the batch again.
    """
    days = [day(6), day(7), day(8)]
    given: list[tuple[int, bool, list[str]]] = []
    for rows in days:
        frame = spark.createDataFrame([(row,) for row in rows], "url string").coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "log"))

    def write_new(batch: Frame, number: int) -> None:
        first = mmbloom.cluster.spark.first_seen(
            batch, "url", state=state, generation=number + 1, **SIZES
        )
        urls = sorted(row.url for row in first.frame.collect())
        given.append((number, first.run.repeats, urls))
        first.commit()
        if len(given) == 2:
            raise RuntimeError("the driver dies")

    def run() -> None:
        log = spark.readStream.schema("url string").option("maxFilesPerTrigger", 1)
        writer = log.parquet(str(tmp_path / "log")).writeStream.foreachBatch(write_new)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the driver dies"):
        run()
    run()
    assert [(number, repeats) for number, repeats, _ in given] == [
        (0, False),
        (1, False),
        (1, True),
        (2, False),
    ]
    assert given[1] == (1, False, given[2][2])
    found = sorted(url for _, repeats, urls in given if not repeats for url in urls)
    assert found == sorted(set(together(days)))
    assert Generations.open(state).generation == 3
