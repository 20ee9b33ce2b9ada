"""The probes whose cells are figures: how often a library errs, how long it takes.

Times are of the class with a file, where a library has one, in a filter that fits in the cache.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from _keys import byte_strings
from _library import LackingError, Library
from _probes import Cell, missing, rounded

_ROUNDS = 5
_ENOUGH = 2.0  # seconds: who takes longer is slow in any round


def false_positives(library: Library, folder: str, keys: int) -> Cell:
    """Fill a filter of 1 % and ask for ten times as many keys that were never added."""
    bloom = library.create(os.path.join(folder, "full"), keys)
    for key in byte_strings(0, keys):
        library.add(bloom, key)
    asked = byte_strings(10**9, 10 * keys)
    rate = 1 - missing(bloom, asked) / len(asked)
    return Cell(f"{100 * rate:.2f} %", {"false positives": rate})


def singly(library: Library, folder: str, keys: int) -> Cell:
    """Time adding keys one by one to a small filter, and looking up keys of which half are in."""

    def add(bloom: Any, some: list[bytes]) -> None:
        call = library.adding(bloom)
        for key in some:
            call(key)

    def look_up(bloom: Any, some: list[bytes]) -> None:
        for key in some:
            key in bloom  # noqa: B015  only the time matters

    return _timed(library, folder, keys, {"add": add, "look up": look_up})


def in_batches(library: Library, folder: str, keys: int) -> Cell:
    """Time the same with one call for all keys."""
    return _timed(library, folder, keys, {"add": library.add_batch, "look up": library.query_batch})


def _timed(
    library: Library, folder: str, keys: int, calls: dict[str, Callable[[Any, list[bytes]], object]]
) -> Cell:
    cells: list[str] = []
    figures: dict[str, float] = {}
    for name, call in calls.items():
        times = []
        try:
            for number in range(_ROUNDS):
                bloom = library.create(os.path.join(folder, f"{name}{number}"), 2 * keys)
                library.add_all(bloom, byte_strings(2 * keys, keys // 100))  # touches the pages
                some = byte_strings(0, keys)
                if name == "look up":
                    library.add_all(bloom, some[::2])
                start = time.perf_counter()
                call(bloom, some)
                times.append(1e6 * (time.perf_counter() - start) / keys)
                if sum(times) * keys > 1e6 * _ENOUGH:
                    break
            figures[name] = min(times)  # of a machine that others use, too
            cells.append(rounded(figures[name]))
        except LackingError:
            cells.append("-")
    return Cell(", ".join(cells), figures)
