"""What people pass to `mmbloom.cluster.dask`: bags, nulls, wrong columns, other states, no Dask."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workers import in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    CountingBloomFilter,
    FilterFullError,
    FormatError,
    KeyTypeError,
)
from mmbloom.cluster import Slice, SlicePlan
from mmbloom.errors import ParameterMismatchError

pytestmark = pytest.mark.slow

URLS = ["/a", "/b", "/a", None, "/c", "/b", None, "/d"]


def with_dask(program: Callable[[Any, Any, Any], None]) -> None:
    """Run a program in a child, with all tasks in its thread: given dask.dataframe, dask.bag."""

    def run() -> None:
        import dask  # noqa: PLC0415
        import dask.bag  # noqa: PLC0415
        import dask.dataframe  # noqa: PLC0415

        import mmbloom.cluster.dask  # noqa: PLC0415

        with dask.config.set(scheduler="synchronous"):
            program(dask.dataframe, dask.bag, mmbloom.cluster.dask)

    in_child(run)


def frame_of(dd: Any, urls: list[Any], partitions: int = 3) -> Any:
    import pandas as pd  # noqa: PLC0415

    frame = pd.DataFrame({"url": urls, "row": range(len(urls)), "rate": 0.5}, index=range(9, 17))
    return dd.from_pandas(frame.astype({"url": "str"}), npartitions=partitions, sort=False)


def test_bags(tmp_path: Path) -> None:
    """Items of a bag, or what each has under a name, are keys; partitions may be iterators."""

    def program(_: Any, db: Any, dask: Any) -> None:
        rows = [{"url": url, "row": row} for row, url in enumerate(["/a", "/b", "/a", "/c"])]
        bag = db.from_sequence(rows, npartitions=3).map(dict).filter(lambda row: row["row"] != 1)
        first = dask.first_seen(bag, on="url", state=tmp_path / "rows", capacity=1000)
        assert [row["row"] for row in first.frame.compute()] == [0, 3]
        first.commit()
        urls = bag.pluck("url")
        first = dask.first_seen(urls, state=tmp_path / "urls", capacity=1000)
        assert first.frame.compute() == ["/a", "/c"]
        dask.build(urls, tmp_path / "seen", 1000)
        assert dask.contains(urls, tmp_path / "seen").compute() == [True] * 3
        assert (
            dask.contains(db.from_sequence([(1, 2), 3]), tmp_path / "seen").compute() == [False] * 2
        )

    with_dask(program)


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_nulls(tmp_path: Path, partitions: int) -> None:
    """A null is an error that notes its partition; left out, it shifts no row."""

    def program(dd: Any, _: Any, dask: Any) -> None:
        frame = frame_of(dd, URLS, partitions)
        state, path = tmp_path / "state", tmp_path / "seen"
        calls: list[Callable[[], Any]] = [
            lambda: dask.build(frame["url"], path, 1000),
            lambda: dask.contains(frame["url"], tmp_path / "empty").compute(),
            dask.first_seen(frame, on="url", state=state, capacity=1000).frame.compute,
        ]
        BloomFilter.create(tmp_path / "empty", 1000).close()
        for call in calls:
            with pytest.raises(KeyTypeError, match="a null") as caught:
                call()
            (note,) = caught.value.__notes__
            numbers = {1: (0,), 3: (1, 2), 8: (3, 6)}[partitions]  # there are two, met in any order
            assert note in [f"in partition {number} of the input" for number in numbers]
        assert not path.exists()
        dask.build(frame["url"], path, 1000, nulls="skip")
        assert dask.contains(frame["url"], path, nulls="skip").compute().tolist() == [
            url is not None for url in URLS
        ]
        first = dask.first_seen(frame, on="url", state=state, nulls="skip")
        assert first.frame["row"].compute().tolist() == [0, 1, 4, 7]
        assert first.frame.compute().index.tolist() == [9, 10, 13, 16]
        first.commit()

    with_dask(program)


def test_wrong_collections(tmp_path: Path) -> None:
    """What holds no keys is refused before a task runs, or by the task that meets it."""

    def program(dd: Any, db: Any, dask: Any) -> None:
        frame = frame_of(dd, ["/a"] * 8)
        path, state = tmp_path / "seen", tmp_path / "state"
        for call in (dask.build, dask.contains):
            arguments = (path, 1000) if call is dask.build else (path,)
            with pytest.raises(TypeError, match="got DataFrame: pass one column of it"):
                call(frame, *arguments)
            with pytest.raises(TypeError, match="got list: create one"):
                call(["/a"], *arguments)
        with pytest.raises(TypeError, match=r"got Index: pass .*to_series\(\)"):
            dask.contains(frame.index, path)
        for on in (None, ["url", "row"], ("url", "row")):
            with pytest.raises(TypeError, match="expected the name of one column"):
                dask.first_seen(frame, on=on, state=state, capacity=1000)
        with pytest.raises(KeyError, match=r"on is 'link', but the columns are \['url'"):
            dask.first_seen(frame, on="link", state=state, capacity=1000)
        with pytest.raises(TypeError, match="a Series has no columns"):
            dask.first_seen(frame["url"], on="url", state=state, capacity=1000)
        assert not state.exists()
        with pytest.raises(KeyTypeError, match="64") as caught:
            dask.build(frame["rate"], path, 1000)
        (note,) = caught.value.__notes__
        assert re.fullmatch("in partition [0-2] of the input", note)
        with pytest.raises(KeyTypeError, match="float cannot be a key"):
            dask.build(db.from_sequence([0.5]), path, 1000)
        assert not path.exists()

    with_dask(program)


def test_filters_without_slices(tmp_path: Path) -> None:
    """Standard layout and counters are refused for their reason; a path that exists, too."""

    def program(_: Any, db: Any, dask: Any) -> None:
        bag = db.from_sequence(["/a"])
        with (
            BloomFilter.create(tmp_path / "standard", 1000, layout="standard") as like,
            pytest.raises(ValueError, match="layout is 'standard', which spreads the bits"),
        ):
            dask.build(bag, tmp_path / "made", like=like)
        with (
            CountingBloomFilter.create(tmp_path / "counts", 1000) as counts,
            pytest.raises(ValueError, match="a counting filter cannot be cut into slices"),
        ):
            dask.build(bag, tmp_path / "made", like=counts)
        with BloomFilter.create(tmp_path / "blocked", 1000) as like:
            dask.build(bag, tmp_path / "made", like=like)
        mmbloom.merge(tmp_path / "both", [tmp_path / "made", tmp_path / "blocked"])
        with pytest.raises(FileExistsError):
            dask.build(bag.map(lambda _: 1 / 0), tmp_path / "made", 1000)
        with pytest.raises(FileNotFoundError, match="the folder for made does not exist"):
            dask.build(bag.map(lambda _: 1 / 0), tmp_path / "no" / "made", 1000)
        with pytest.raises(TypeError, match="permission"):
            dask.build(bag.map(lambda _: 1 / 0), tmp_path / "other", 1000, permission=0o640)

    with_dask(program)


def test_states_of_others(tmp_path: Path) -> None:
    """A state with other parameters is named; so are slices that are missing or cut."""

    def program(_: Any, db: Any, dask: Any) -> None:
        bag, state = db.from_sequence(["/a", "/b"]), tmp_path / "state"
        with pytest.raises(FileNotFoundError, match="no state"):
            dask.first_seen(bag, state=state)
        with pytest.raises(FileNotFoundError, match="no state"):
            dask.first_seen(bag, state=state, slices=2)
        first = dask.first_seen(bag, state=state, capacity=100_000, slices=2)
        assert first.run.plan.params.error_rate == 1e-9
        with pytest.raises(FormatError, match="slice 0 of generation 1, which no task wrote"):
            first.commit()
        assert first.frame.compute() == ["/a", "/b"]
        slices = sorted(state.glob("*/*.slice"))
        assert len(slices) == 2
        os.truncate(slices[1], 5000)
        with pytest.raises(FormatError, match=f"{slices[1].name}"):
            first.commit()
        assert first.frame.compute() == ["/a", "/b"]
        first.commit()
        for asked in ({"capacity": 99_999}, {"slices": 1}, {"error_rate": 0.5}, {"seed": 1}):
            for given in ({}, {"capacity": 100_000}):
                with pytest.raises(ParameterMismatchError, match=next(iter(asked))):
                    dask.first_seen(bag, state=state, **{**given, **asked})
        slices[0].unlink()
        again = dask.first_seen(bag, state=state)
        with pytest.raises(FormatError, match=f"{slices[0].name}.*missing"):
            again.frame.compute()
        with pytest.raises(FormatError, match="which no task wrote"):
            again.commit()

    with_dask(program)


def test_more_keys_than_planned(tmp_path: Path) -> None:
    """Rows are not lost without a word: computing them fails, or the commit, or both were told."""

    def program(_: Any, db: Any, dask: Any) -> None:
        few, many = (
            db.from_sequence([f"/{number}" for number in range(keys)], npartitions=20)
            for keys in (5300, 40_000)
        )
        state = tmp_path / "state"
        far = dask.first_seen(many, state=state, capacity=5000)
        with pytest.raises(FilterFullError, match=r"capacity of 5000.*with a larger capacity"):
            far.frame.compute()
        with pytest.raises(FormatError, match="which no task wrote"):
            far.commit()
        near = dask.first_seen(few, state=state)
        assert len(near.frame.compute()) == 5300
        with pytest.raises(FilterFullError, match="capacity of 5000"):
            near.commit()
        assert dask.first_seen(few, state=state).run.generation == 1
        larger = dask.first_seen(many, state=tmp_path / "larger", capacity=40_000)
        assert len(larger.frame.compute()) == 40_000
        larger.commit()
        asked = dask.first_seen(many, state=state, on_full="warn")
        assert len(asked.frame.compute()) < 40_000
        with pytest.warns(CapacityWarning, match="capacity of 5000"):
            asked.commit()

    with_dask(program)


def test_slices_of_small_filters(tmp_path: Path) -> None:
    """Unless asked for, there are eight, or as many as the filter has pages of 4096 bytes."""

    def program(_: Any, db: Any, dask: Any) -> None:
        bag = db.from_sequence(["/a", "/b"])
        for capacity, slices in ((100, 1), (5_000, 7), (1_000_000, 8)):
            first = dask.first_seen(bag, state=tmp_path / str(capacity), capacity=capacity)
            assert first.run.plan.slices == slices

    with_dask(program)


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("partitions", [2, 5, 17])
def test_rows_that_nobody_got(tmp_path: Path, partitions: int, slices: int) -> None:
    """Where a partition was not computed, nothing becomes old; all of it computed, all does."""
    old = range(2, 200, 3)  # rows that repeat the row before, some in each partition
    urls = [f"/{number - 1 if number in old else number}" for number in range(200)]

    def program(dd: Any, db: Any, dask: Any) -> None:
        import pandas as pd  # noqa: PLC0415

        rows = pd.DataFrame({"url": urls, "row": range(200)})
        frame = dd.from_pandas(rows, npartitions=partitions, sort=False)
        assert frame.npartitions == partitions
        bag, state = db.from_sequence(urls, npartitions=partitions), tmp_path / "state"
        parts: dict[str, Callable[[Any], Any]] = {
            "head": lambda frame: frame.head(),
            "tail": lambda frame: frame.tail(),
            "the first": lambda frame: frame.partitions[0].compute(),
            "all but the first": lambda frame: frame.partitions[1:].compute(),
            "all but the last": lambda frame: frame.partitions[:-1].compute(),
        }
        for part in parts.values():
            first = dask.first_seen(frame, on="url", state=state, capacity=3000, slices=slices)
            assert len(part(first.frame))
            with pytest.raises(FormatError, match=r"which no task (computed|wrote)"):
                first.commit()
        taken = dask.first_seen(bag, state=state)
        assert taken.frame.take(2) == ("/0", "/1")
        with pytest.raises(FormatError, match=r"which no task (computed|wrote)"):
            taken.commit()
        first = dask.first_seen(frame, on="url", state=state)
        assert len(first.frame.head()) == 5
        assert first.frame["row"].compute().tolist() == sorted({*range(200)} - {*old})
        first.commit()
        assert len(dask.first_seen(frame, on="url", state=state).frame.compute()) == 0

    with_dask(program)


def test_one_partition_after_the_other(tmp_path: Path) -> None:
    """They may be computed each by itself, again, and in any order."""

    def program(_: Any, db: Any, dask: Any) -> None:
        bag, state = db.from_sequence("abcab", npartitions=5), tmp_path / "state"
        first = dask.first_seen(bag, state=state, capacity=3000)
        for number in (4, 2, 2, 0, 3):
            first.frame.to_delayed()[number].compute()
        with pytest.raises(FormatError, match=r"000001\.part: .* a note for part 1 of the output"):
            first.commit()
        assert first.frame.to_delayed()[1].compute() == ["b"]
        first.commit()
        assert dask.first_seen(bag, state=state).frame.compute() == []


def test_partitions_cut_by_size(tmp_path: Path) -> None:
    """Dask cuts the column of the keys by its own size: an error before a task of ours runs."""

    def program(dd: Any, _: Any, dask: Any) -> None:
        frame = frame_of(dd, ["/a"] * 8, partitions=8).assign(pad="x" * 1000)
        with pytest.raises(ValueError, match="the column of its keys alone has 1: Dask partitions"):
            dask.first_seen(
                frame.repartition(partition_size=1200), on="url", state=tmp_path, capacity=1000
            )

    with_dask(program)


def test_input_that_changes() -> None:
    """Rows that are others when they are read again are an error, not mixed up."""

    def program(_dd: Any, _db: Any, dask: Any) -> None:
        plan = SlicePlan.draw(1000, slices=1)
        cutting = dask._Cutting(plan, "error", 1)
        had, *hashes = dask._cut(["/a", "/b", "/a"], 0, dask._Cutting(plan, "error"))
        _, new = dask._claim(dask._Building(plan), 0, None, hashes, True)
        rows = [(1, "/a"), (2, "/b"), (3, "/a")]
        assert dask._keep(iter(rows), 0, cutting, had, [new]) == rows[:2]
        with pytest.raises(ValueError, match="partition 0 has 2 rows now, but had 3 when its"):
            dask._keep(rows[:2], 0, cutting, had, [new])
        for others in (rows[::-1][1:] + rows[2:], [*rows[:2], (3, "/c")]):
            with pytest.raises(ValueError, match="0 has other keys in its 3 rows now than when"):
                dask._keep(others, 0, cutting, had, [new])

    with_dask(program)


@pytest.mark.parametrize("committed", [False, True])
def test_a_driver_that_is_run_again(tmp_path: Path, committed: bool) -> None:
    """Written to a place of its generation, no row is lost or twice, wherever a try ended."""

    def program(dd: Any, _: Any, dask: Any) -> None:
        import pandas as pd  # noqa: PLC0415

        def tried(commits: bool) -> None:
            rows = frame_of(dd, ["/a", "/b", "/a", "/c", "/c", "/b", "/d", "/a"])
            first = dask.first_seen(rows, on="url", state=tmp_path / "state", capacity=1000)
            output = tmp_path / f"new-{first.run.generation}"
            first.frame.to_parquet(output, overwrite=True, write_index=False)
            if commits:
                first.commit()

        tried(committed)
        tried(True)
        places = sorted(place.name for place in tmp_path.glob("new-*"))
        assert places == ["new-1", "new-2"][: 1 + committed]
        written = [pd.read_parquet(tmp_path / place)["row"] for place in places]
        assert sorted(row for rows in written for row in rows) == [0, 1, 3, 6]

    with_dask(program)


def test_numbered_runs(tmp_path: Path) -> None:
    """A run under the number of one that is committed gives its rows again, and commits nothing."""

    def program(_: Any, db: Any, dask: Any) -> None:
        for number, urls, new in [(1, ["/a", "/b"], ["/a", "/b"]), (2, ["/b", "/c"], ["/c"])]:
            for again in (False, True):
                first = dask.first_seen(
                    db.from_sequence(urls, npartitions=2),
                    state=tmp_path / "state",
                    capacity=1000,
                    generation=number,
                )
                assert first.run.repeats == again
                assert first.frame.compute() == new
                first.commit()
        with pytest.raises(ValueError, match="pass 3 for the next, or 2 to repeat it"):
            dask.first_seen(db.from_sequence(urls), state=tmp_path / "state", generation=4)

    with_dask(program)


def test_dask_knows_how_large_a_slice_is() -> None:
    """It spills and moves tasks by size, and would take a slice for a few bytes."""

    def program(_dd: Any, _db: Any, _dask: Any) -> None:
        from dask.sizeof import sizeof  # noqa: PLC0415

        plan = SlicePlan.draw(1_000_000, slices=4)
        start, stop = plan.bounds(1)
        assert sizeof(Slice.empty(plan, 1)) == stop - start > 100_000

    with_dask(program)


WITHOUT = """
import sys
sys.modules["dask"] = None
import mmbloom
try:
    import mmbloom.cluster.dask
except ImportError as error:
    print(error)
"""


def test_without_dask() -> None:
    """The module says what to install; the package does not need it."""
    command = [sys.executable, "-P", "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "mmbloom.cluster.dask needs Dask: pip install 'mmbloom[dask]'\n"
