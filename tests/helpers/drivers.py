"""A driver of a cluster and its tasks, in one process: first-seen rows by generations."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import fsspec
import numpy as np

from mmbloom import CommitConflictError
from mmbloom.cluster import Generations, Run

Rows = list[str]
SIZES: dict[str, Any] = {"capacity": 30_000, "error_rate": 1e-9, "slices": 4}


def day(seed: int, rows: int = 6000, distinct: int = 5000) -> Rows:
    chance = np.random.default_rng(seed)
    return [f"https://example.org/{number}" for number in chance.integers(0, distinct, rows)]


def cut(rows: Rows, partitions: int = 5) -> list[Rows]:
    bounds = [0, *(len(rows) * number**2 // partitions**2 for number in range(1, partitions + 1))]
    return [[], *(rows[start:stop] for start, stop in pairwise(bounds))]


def tasks(run: Run, partitions: Sequence[Rows], order: Sequence[int] | None = None) -> list[Rows]:
    """Run the task of each slice, in any order; the new rows of each partition."""
    parted = [run.plan.partition(rows) for rows in partitions]
    new = [np.zeros(len(rows), np.bool_) for rows in partitions]
    for number in range(run.plan.slices) if order is None else order:
        parts = [each[number] for each in parted]
        answers = run.claim(number, [(part.h1, part.h2) for part in parts])
        for marks, part, found in zip(new, parts, answers, strict=True):
            marks[part.rows] = found
    return [
        [row for row, kept in zip(rows, marks, strict=True) if kept]
        for rows, marks in zip(partitions, new, strict=True)
    ]


def committed(state: Generations, rows: Rows) -> Run:
    """Begin a run, run the tasks of the rows of a day, and commit it."""
    run = state.begin()
    tasks(run, cut(rows))
    run.commit()
    return run


def commits(run: Run) -> bool:
    try:
        run.commit()
    except CommitConflictError:
        return False
    return True


def first_of(days: Sequence[Rows]) -> list[Rows]:
    """The exact answer: of each day the rows that no day before, and no row before, has."""
    seen: set[str] = set()
    found: list[Rows] = []
    for rows in days:
        found.append([row for row in dict.fromkeys(rows) if row not in seen])
        seen.update(rows)
    return found


def together(partitions: Sequence[Rows]) -> Rows:
    return [row for rows in partitions for row in rows]


def names(where: str) -> list[str]:
    system, root = fsspec.core.url_to_fs(where)
    return sorted(each[len(root) :].lstrip("/") for each in system.find(root))
