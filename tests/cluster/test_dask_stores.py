"""A state under a URL, whose options travel to the workers: the rows are those of pandas."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dask_cluster import driver
from object_store import quietly, running_object_store

from mmbloom import FormatError

pytestmark = pytest.mark.slow

URLS = [f"/{number % 700}" for number in range(1000)]


@pytest.fixture(scope="module")
def object_store() -> Iterator[dict[str, Any]]:
    with running_object_store() as options:
        yield options


def two_days(state: str, options: dict[str, Any], _: Any) -> None:
    """Take what is new of a day, of the same day again, and of another."""
    import dask.dataframe as dd  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415

    from mmbloom.cluster.dask import first_seen  # noqa: PLC0415

    def frame_of(urls: list[str]) -> Any:
        return pd.DataFrame({"url": urls, "row": range(len(urls))})

    day, following = frame_of(URLS), frame_of([*URLS[::-1], "/new"])
    new_of = partial(first_seen, on="url", state=state, storage_options=options)
    one, two = (dd.from_pandas(each, npartitions=3, sort=False) for each in (day, following))
    first = new_of(one, capacity=10_000, slices=2)
    expected = day.drop_duplicates("url", keep="first")
    assert first.frame.compute().to_dict("list") == expected.to_dict("list")
    first.commit()
    assert len(new_of(one).frame.compute()) == 0
    second = new_of(two)
    assert second.frame.compute()["url"].tolist() == ["/new"]
    second.commit()
    third = new_of(two)
    assert third.run.generation == 3
    assert len(third.frame.partitions[0].compute()) == 0
    with pytest.raises(FormatError, match=r"000001\.part: file is missing"):
        third.commit()


@pytest.mark.object_store
def test_object_store(cluster: str, object_store: dict[str, Any]) -> None:
    """In a bucket, with its keys and address among the options."""
    program = partial(two_days, "s3://bucket/dask", object_store)
    driver(cluster, lambda client: quietly(partial(program, client)), timeout=100)


def test_file_system_of_fsspec(cluster: str, tmp_path: Path) -> None:
    """On a file system that nobody finds without the options: a folder as the root of a URL."""
    options = {"path": str(tmp_path), "target_protocol": "file"}
    driver(cluster, partial(two_days, "dir://seen", options))
    assert len([*tmp_path.glob("seen/*.json")]) == 3
    assert [*tmp_path.iterdir()] == [tmp_path / "seen"]
