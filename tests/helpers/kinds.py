"""The kinds of filter, made and opened alike: for tests of what each of them promises."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from checks import READS, WRITES

from mmbloom import BloomFilter, CountingBloomFilter, Filter, GrowingFilter, RotatingFilter
from mmbloom.errors import MmbloomError

Calls = dict[str, Callable[[Any], object]]


@dataclass(frozen=True)
class Kind:
    """A class of filter, and what it is created with: for a thousand keys, unless told otherwise.

    Its error rate is so low that no test meets a false positive.
    """

    cls: Any
    capacity: str = "capacity"
    options: dict[str, Any] = field(default_factory=dict)

    def create(self, path: str | Path, capacity: Any = 1000, **options: Any) -> Any:
        sizes = {self.capacity: capacity, "error_rate": 1e-9, **self.options}
        return self.cls.create(path, **{**sizes, **options})

    def open(self, path: str | Path, mode: str = "r+", **options: Any) -> Any:
        return self.cls.open(path, mode, **options)


KINDS = {
    "plain": Kind(BloomFilter),
    "counting": Kind(CountingBloomFilter),
    "growing": Kind(GrowingFilter, "initial_capacity"),
    "rotating": Kind(RotatingFilter, "capacity_per_period", {"keep": "7d", "every": "1d"}),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=[*KINDS])


def reads_of(seen: Filter) -> Calls:
    """Return every call of a filter that reads."""
    of_one_file = ("common_count", "jaccard", "isdisjoint", "issubset")
    return {
        name: call
        for name, call in READS.items()
        if hasattr(type(seen), name) or name not in of_one_file
    }


def writes_of(seen: Filter) -> Calls:
    """Return every call of a filter that writes."""
    of_its_own: Calls = {
        "union_update": lambda seen: seen.union_update(seen),
        "remove": lambda seen: seen.remove("a"),
        "remove_many": lambda seen: seen.remove_many(["a"]),
    }
    return WRITES | {name: of_its_own[name] for name in of_its_own if hasattr(type(seen), name)}


def check_refused(calls: Calls, seen: Filter, error: type[MmbloomError], match: str) -> None:
    """Check that each of the calls raises the error, naming the filter or a file in its folder."""
    for call in calls.values():
        with pytest.raises(error, match=match) as caught:
            call(seen)
        assert caught.value.path in (seen.path, *map(str, files_of(seen.path)))  # type: ignore[attr-defined]


def files_of(path: str | Path, *, data: bool = False) -> list[Path]:
    """List the files of a filter: itself, or those in its folder, by name; data alone if asked."""
    if Path(path).is_file():
        return [Path(path)]
    return sorted(Path(path).glob("*.bloom" if data else "*"))


def newest_of(path: str | Path) -> Path:
    """Return the file that takes the next key, and whose lock all who write take."""
    return files_of(path, data=True)[-1]
