"""Maps of filters: each one that is made, and another in its place, which fails or takes notes."""

import mmap
from typing import Any

import pytest

from mmbloom._storage.mapped import MappedFilter


def map_of(storage: MappedFilter) -> Any:
    return storage.array.place.array


def replace_map(storage: MappedFilter, other: object) -> None:
    """Put another one in its place; the real one must live on, as the views are of it."""
    storage.array.mapped = storage.array.place._replace(array=other)  # type: ignore[arg-type]


def maps_made(patch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return a list to which the arguments of each map that is made from now on are added."""
    made, real = list[tuple[Any, ...]](), mmap.mmap

    def note(*args: Any, **options: Any) -> mmap.mmap:
        made.append(args)
        return real(*args, **options)

    patch.setattr(mmap, "mmap", note)
    return made
