"""Adding keys in a lazy frame of polars: the way that the page shows, and the one it warns of."""

from pathlib import Path
from typing import Any

import pytest
from workers import in_child

from mmbloom import BloomFilter

ROWS = 3000


def lazy(folder: Path, source: str) -> Any:
    """Make a lazy frame of two URLs in many rows."""
    import polars as pl  # noqa: PLC0415  in a child: it keeps descriptors open

    rows = pl.DataFrame({"url": ["/a", "/a", "/b"] * (ROWS // 3), "n": range(ROWS)})
    if source == "parquet":
        rows.write_parquet(folder / "log.parquet")
        return pl.scan_parquet(folder / "log.parquet")
    if source == "categorical":
        rows = rows.with_columns(pl.col("url").cast(pl.Categorical))
    return rows.lazy()


def new_rows(folder: Path, source: str, *, is_elementwise: bool, **collect: Any) -> list[int]:
    """Filter such a frame by `add_many`; the numbers of the rows that are new."""

    def run() -> list[int]:
        import polars as pl  # noqa: PLC0415

        with BloomFilter.create(folder / "seen.bloom", 10_000, 1e-6, seed=1) as seen:
            first = pl.col("url").map_batches(
                lambda keys: pl.Series(seen.add_many(keys)),
                return_dtype=pl.Boolean,
                is_elementwise=is_elementwise,
            )
            rows: list[int] = lazy(folder, source).filter(first).collect(**collect)["n"].to_list()
        return rows

    return in_child(run)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("source", ["parquet", "memory", "categorical"])
def test_each_key_is_new_once(tmp_path: Path, source: str, engine: str) -> None:
    """Where it is not elementwise, the first row of each key is new, and no other."""
    assert new_rows(tmp_path, source, is_elementwise=False, engine=engine) == [0, 2]


def test_the_way_that_the_page_warns_of(tmp_path: Path) -> None:
    """Where it is elementwise, one answer stands for all equal rows of a dictionary in parquet.

    If this fails polars has changed: then the page warns of what is past.
    """
    assert len(new_rows(tmp_path, "parquet", is_elementwise=True)) > 2
