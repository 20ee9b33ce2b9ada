"""A filter whose map is another one: it fails, or notes what is asked of it."""

from typing import Any

from mmbloom._storage.mapped import MappedFilter


def map_of(storage: MappedFilter) -> Any:
    return storage.array.place.array


def replace_map(storage: MappedFilter, other: object) -> None:
    """Put another one in its place; the real one must live on, as the views are of it."""
    storage.array.mapped = storage.array.place._replace(array=other)  # type: ignore[arg-type]
