"""Code shared by Dask and Spark tasks: errors that name a partition, and open filters."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mmbloom._system.typing import Bools, Nulls
from mmbloom.errors import FileChangedError, KeyEncodingError, KeyTypeError
from mmbloom.filters.base import Filter
from mmbloom.filters.open import open as open_filter

_MOST_KEPT = 8


@contextmanager
def in_partition(partition: int, rows_before: int = 0) -> Iterator[None]:
    """Name the partition in an error about a key, and count its position from the first row.

    Parameters
    ----------
    partition : int
        The number of the partition.
    rows_before : int, default 0
        How many rows of the partition came before this batch.
    """
    try:
        yield
    except (KeyTypeError, KeyEncodingError) as error:
        found = error if error.position is None else error.at(rows_before + error.position)
        found.add_note(f"in partition {partition} of the input")
        raise found from None


def ask(kept: dict[str, Filter], path: str, keys: Any, nulls: Nulls) -> Bools:
    """Return which keys a filter has; keep the filter open in `kept`, by path, for later tasks."""
    with suppress(FileChangedError):  # another filter was moved into its place
        if (seen := kept.get(path)) is not None:
            return seen.contains_many(keys, nulls=nulls)
    seen = kept[path] = open_filter(path, "r", threads=1)  # a task has one core
    while len(kept) > _MOST_KEPT:
        kept.pop(next(iter(kept)), None)
    return seen.contains_many(keys, nulls=nulls)
