"""Filters filled and asked by a Dask cluster of two processes: as one process would, and pandas."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask_cluster import driver, kill_when_noted, stall
from workers import in_child

import mmbloom
from mmbloom import BloomFilter, CommitConflictError

pytestmark = pytest.mark.slow

ARRAY, COUNTERS = slice(4096, None), slice(2048, 2064)  # of a filter's file
FILES, ROWS = 20, 400  # more than a round of partitions
CAPACITY = 20_000


def urls_of(seed: int, rows: int) -> list[str]:
    """Rows as crawlers see them: some sites and pages again and again."""
    chance = np.random.default_rng(seed)
    sites, pages = chance.zipf(1.6, rows) % 50, chance.integers(0, 400, rows)
    return [
        f"https://www.site{site}.example/articles/{page}?ref=home#top"
        for site, page in zip(sites.tolist(), pages.tolist(), strict=True)
    ]


def write(folder: Path, seed: int, sizes: list[int]) -> list[Any]:
    """Write files of parquet, one a partition; their frames."""
    import pandas as pd  # noqa: PLC0415

    folder.mkdir()
    frames = []
    for number, size in enumerate(sizes):
        urls = urls_of(seed * 1000 + number, size)
        frame = pd.DataFrame({"url": urls, "row": np.arange(size) + number * 10_000, "more": 1.5})
        frame = frame.astype({"url": "str"})
        frame.to_parquet(folder / f"{number:04}.parquet")
        frames.append(frame)
    return frames


@pytest.fixture
def day(tmp_path: Path, seed: int) -> Path:
    """A day of rows in parquet: 20 files of odd sizes, two of them empty."""
    sizes = [0 if number in (3, FILES - 1) else ROWS + 7 * number for number in range(FILES)]
    write(tmp_path / "day", seed, sizes)
    return tmp_path / "day"


def read(folder: Path) -> Any:
    """Read a day as Dask does, a file a partition."""
    import dask.dataframe as dd  # noqa: PLC0415

    return dd.read_parquet(folder)


def first_rows(folder: Path) -> list[int]:
    """The exact answer, by pandas."""
    import pandas as pd  # noqa: PLC0415

    return list(pd.read_parquet(folder).drop_duplicates("url", keep="first")["row"])


def same_filter(made: Path, keys: Any, error_rate: float, seed: int) -> None:
    """Compare with what one process makes."""
    alone = made.with_suffix(".alone")
    with BloomFilter.create(alone, CAPACITY, error_rate, seed=seed) as seen:
        seen.add_many(keys)
    ours, theirs = made.read_bytes(), alone.read_bytes()
    assert ours[ARRAY] == theirs[ARRAY]
    assert ours[COUNTERS] == theirs[COUNTERS]
    assert not mmbloom.verify(made).problems


def all_keys(folder: Path) -> list[str]:
    import pandas as pd  # noqa: PLC0415

    return list(pd.read_parquet(folder)["url"])


@pytest.mark.parametrize("error_rate", [0.01, 1e-9])
@pytest.mark.parametrize("kind", ["series", "bag"])
def test_build_is_that_of_one_process(
    cluster: str, day: Path, tmp_path: Path, kind: str, error_rate: float, seed: int
) -> None:
    """Bytes and counters are equal, from columns and from bags."""
    made = tmp_path / "built.bloom"

    def program(_: Any) -> None:
        import mmbloom.cluster.dask  # noqa: PLC0415

        keys = read(day)["url"]
        keys = keys if kind == "series" else keys.to_bag()
        mmbloom.cluster.dask.build(keys, made, CAPACITY, error_rate, seed=seed, slices=5)

    driver(cluster, program)
    same_filter(made, all_keys(day), error_rate, seed)


def test_build_with_a_worker_killed(cluster: str, day: Path, tmp_path: Path, seed: int) -> None:
    """A worker that dies during its tasks leaves no trace in the file."""
    made, note = tmp_path / "built.bloom", tmp_path / "note"

    def program(client: Any) -> None:
        import threading  # noqa: PLC0415

        import mmbloom.cluster.dask  # noqa: PLC0415

        stall(client, "mmbloom.cluster.slices:Slice.claim", 30, note)
        killer = threading.Thread(target=kill_when_noted, args=(note,))
        killer.start()
        mmbloom.cluster.dask.build(read(day)["url"], made, CAPACITY, seed=seed)
        killer.join()

    driver(cluster, program, timeout=100)
    assert note.exists()
    same_filter(made, all_keys(day), 0.01, seed)


def test_contains(cluster: str, day: Path, tmp_path: Path) -> None:
    """Rows that a filter knows are dropped; a replaced filter is opened again."""
    path, other = tmp_path / "seen.bloom", tmp_path / "other.bloom"
    keys = all_keys(day)
    with BloomFilter.create(path, CAPACITY, 1e-9) as seen:
        seen.add_many(keys[::2])
        expected = seen.contains_many(keys).tolist()
    with BloomFilter.create(other, CAPACITY, 1e-9):
        pass

    def open_files() -> int:
        import os  # noqa: PLC0415  sent to the workers

        files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return sum(os.path.islink(file) and ".bloom" in os.readlink(file) for file in files)

    def program(client: Any) -> tuple[list[bool], list[bool], list[int], int]:
        from mmbloom.cluster.dask import contains  # noqa: PLC0415

        rows = read(day)
        known = contains(rows["url"], path)
        assert known.dtype == bool
        series = known.compute().tolist()
        bag = contains(rows["url"].to_bag(), path).compute()
        kept = client.run(open_files)
        left = rows[~known]["row"].compute().tolist()
        assert 0 < sum(kept.values()) == sum(client.run(open_files).values())  # once each
        os.replace(other, path)
        return series, bag, left, int(contains(rows["url"], path).sum().compute())

    series, bag, left, after = driver(cluster, program)
    assert series == bag == expected
    assert len(left) == expected.count(False)
    assert after == 0


def new_rows(first: Any) -> list[int]:
    """Compute the rows of a run of `first_seen`, in the order of the partitions."""
    return list(first.frame["row"].compute())


def test_first_seen_over_days(cluster: str, day: Path, tmp_path: Path, seed: int) -> None:
    """The rows are those of pandas, row for row; a rerun gives them again; then none is new."""
    state = tmp_path / "state"
    write(tmp_path / "next", seed + 1, [ROWS] * 3)

    def program(_: Any) -> None:
        import pandas as pd  # noqa: PLC0415

        from mmbloom.cluster.dask import first_seen  # noqa: PLC0415

        expected = first_rows(day)
        lost = first_seen(read(day), on="url", state=state, capacity=CAPACITY)
        assert new_rows(lost) == expected
        first, other = (first_seen(read(day), on="url", state=state) for _ in range(2))
        assert new_rows(first) == new_rows(first) == new_rows(other) == expected
        first.commit()
        assert new_rows(first) == expected
        with pytest.raises(CommitConflictError):
            other.commit()
        again = first_seen(read(day), on="url", state=state, capacity=CAPACITY)
        assert new_rows(again) == []
        both = pd.concat([pd.read_parquet(day), pd.read_parquet(tmp_path / "next")])
        later = both.drop_duplicates("url")["row"].tolist()[len(expected) :]
        following = first_seen(read(tmp_path / "next"), on="url", state=state)
        assert new_rows(following) == later
        following.commit()

    driver(cluster, program)


@pytest.mark.parametrize("step", ["write", "note"])
def test_first_seen_with_a_worker_killed(
    cluster: str, day: Path, tmp_path: Path, step: str
) -> None:
    """A worker that dies after it has written a slice, or noted its rows, loses no row."""
    state, note = tmp_path / "state", tmp_path / "note"

    def program(client: Any) -> None:
        from mmbloom.cluster.dask import first_seen  # noqa: PLC0415

        first = first_seen(read(day), on="url", state=state, capacity=CAPACITY)
        stall(client, f"mmbloom.cluster.states:Run.{step}", 2, note)
        rows = client.compute(first.frame["row"])
        kill_when_noted(note)
        assert list(rows.result()) == first_rows(day)
        first.commit()
        again = first_seen(read(day), on="url", state=state)
        assert new_rows(again) == []

    driver(cluster, program, timeout=100)
    assert note.exists()


def test_order_of_tasks_does_not_matter(day: Path, tmp_path: Path, seed: int) -> None:
    """Tasks are run in any order that their dependencies allow, and some of them twice."""

    def run() -> None:
        from mmbloom.cluster.dask import first_seen  # noqa: PLC0415

        chance = np.random.default_rng(seed)
        for number in range(3):
            state = tmp_path / f"state{number}"
            first = first_seen(read(day), on="url", state=state, capacity=CAPACITY, slices=5)
            parts = shuffled(first.frame["row"], chance)
            assert [row for part in parts for row in part] == first_rows(day)
            first.commit()

    in_child(run)


def test_what_is_kept_until_rows_are_read_again(tmp_path: Path) -> None:
    """It is little more than a bit a row, so that the memory of workers does not grow with rows."""

    def run() -> None:
        import dask.bag  # noqa: PLC0415
        from dask.sizeof import sizeof  # noqa: PLC0415

        from mmbloom.cluster.dask import first_seen  # noqa: PLC0415

        count = 200_000
        rows = dask.bag.from_sequence(range(count), npartitions=20)
        first = first_seen(rows, state=tmp_path / "state", capacity=count, slices=2)
        done: dict[Any, Any] = {}
        shuffled(first.frame, np.random.default_rng(1), done)
        given = {key for key in first.frame.__dask_graph__() if key[0].startswith("kept-mmbloom")}
        graph = {key: first.frame.__dask_graph__()[key] for key in given}
        sources = set(rows.__dask_keys__())
        needed = set().union(*(task.dependencies for task in graph.values())) - sources
        assert len(needed) == 20 + 2 * 2  # of each partition, and of two rounds by two slices
        kept = [sizeof(done[key]) for key in needed]
        assert count / 8 < sum(kept) < count / 4, kept

    in_child(run)


def shuffled(
    frame: Any, chance: np.random.Generator, done: dict[Any, Any] | None = None
) -> list[Any]:
    """Compute a frame task by task, in a random order; give its partitions, and all in `done`."""
    from dask._task_spec import convert_legacy_graph  # noqa: PLC0415

    graph = convert_legacy_graph(dict(frame.__dask_graph__()))
    done = {} if done is None else done
    while left := [key for key in graph if key not in done]:
        ready = [key for key in left if graph[key].dependencies <= done.keys()]
        key = ready[chance.integers(len(ready))]
        for _ in range(chance.integers(1, 3)):
            done[key] = graph[key]({each: done[each] for each in graph[key].dependencies})
    return [done[key] for key in frame.__dask_keys__()]
