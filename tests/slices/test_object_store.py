"""A state in an object store that speaks S3, on 127.0.0.1: its conditional puts decide."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from drivers import SIZES as OF_FOUR
from drivers import commits, cut, day, first_of, tasks
from drivers import together as in_order
from object_store import quietly, running_object_store
from workers import in_child, together

import mmbloom
from mmbloom import CommitConflictError
from mmbloom.cluster import Generations, Run, Slice, SlicePlan, assemble

SIZES = OF_FOUR | {"slices": 2}  # each slice is some requests, of some 30 ms
pytestmark = pytest.mark.object_store


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    with running_object_store() as given:
        yield given


def test_days(options: dict[str, Any], tmp_path: Path) -> None:
    """First-seen over days, a rerun, a conflict, a repeat and a plain file of it."""
    days = [day(1, 800, 500), day(2, 800, 500)]
    expected = first_of(days)

    def run_days() -> None:
        state = Generations.create("s3://bucket/days", **SIZES, storage_options=options)
        for rows, first in zip(days, expected, strict=True):
            tasks(state.begin(), cut(rows))  # never committed
            run, other = state.begin(), state.begin()
            assert in_order(tasks(run, cut(rows))) == first
            tasks(other, cut(rows))
            run.commit()
            run.commit()
            with pytest.raises(CommitConflictError):
                other.commit()
        again = Generations.open("s3://bucket/days/", storage_options=options)
        assert (again, again.generation) == (state, 2)
        assert in_order(tasks(again.begin(2), cut(days[1]))) == expected[1]
        assert in_order(tasks(again.begin(), cut(days[0]))) == []
        state.assemble(tmp_path / "all.bloom")

    in_child(partial(quietly, run_days))
    with mmbloom.open(tmp_path / "all.bloom") as seen:
        assert seen.contains_many([*days[0], *days[1]]).all()
        assert abs(seen.approx_count - len({*days[0], *days[1]})) < 10


def test_drivers_that_commit_at_once(options: dict[str, Any]) -> None:
    """Of three processes, one commits: the store refuses the others' conditional put."""

    def begin(number: int) -> list[Run]:
        where = "s3://bucket/race"
        state = Generations.create(where, **SIZES, exist_ok=True, storage_options=options)
        assert state.generation == number
        runs = [state.begin() for _ in range(3)]
        for run in runs:
            tasks(run, [[f"{number}"]])
        return runs

    for number in range(2):
        runs = in_child(partial(quietly, partial(begin, number)))
        won = together([partial(quietly, partial(commits, run)) for run in runs])
        assert sum(won) == 1


def test_slices_at_urls(options: dict[str, Any], tmp_path: Path) -> None:
    plan = SlicePlan.draw(30_000, slices=3)

    def run() -> None:
        import fsspec  # noqa: PLC0415

        fsspec.config.conf["s3"] = options
        for number, part in enumerate(plan.partition(range(1000))):
            task = Slice.empty(plan, number)
            task.mark(part.h1, part.h2)
            task.write(f"s3://bucket/parts/{number}")
            assert Slice.read(f"s3://bucket/parts/{number}", plan).to_bytes() == task.to_bytes()
        urls = [f"s3://bucket/parts/{number}" for number in range(3)]
        assemble(tmp_path / "all.bloom", plan, urls)
        with pytest.raises(FileNotFoundError):
            Slice.read("s3://bucket/parts/3")

    in_child(partial(quietly, run))
    with mmbloom.open(tmp_path / "all.bloom") as seen:
        assert seen.contains_many(range(1000)).all()
