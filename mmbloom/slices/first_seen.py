"""The rows that no row and no run before has had: what Dask and Spark share of `first_seen`.

The driver begins a run of a state; tasks claim keys in its slices, which is for each engine to
arrange; and when the new rows are written, the driver commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from mmbloom._typing import HashName, OnFull, Path
from mmbloom.sizing.params import FilterParams
from mmbloom.slices.generations import Generations, Run


class StateOptions(TypedDict, total=False):
    """What a state is made with; of one that is there, what is left out may be any."""

    capacity: int | None
    error_rate: float | None
    slices: int | None
    seed: int | None
    hash: HashName | None
    storage_options: Mapping[str, Any] | None


class RunOptions(StateOptions, total=False):
    """What `mmbloom.dask.first_seen` and `mmbloom.spark.first_seen` take of state and run.

    Attributes
    ----------
    capacity, error_rate, seed, hash
        As for `BloomFilter.create`, but that the error rate is 1e-9 by default: a false positive
        is a row that is lost. The capacity is needed where the state is made.
    slices : int
        How many slices a new state has, and so how many tasks claim keys at a time.
    storage_options : mapping
        Of fsspec, for a state under a URL. They travel to the tasks.
    on_full : {"raise", "warn"}, default "raise"
        What happens if the state has more keys with this run than its capacity, so that it takes
        new rows for seen, which are lost: "raise" refuses the run, when the rows are computed or
        at the latest by `FirstSeen.commit`; "warn" warns at the commit.
    generation : int
        Which one to make, where the caller numbers the runs: the next one, or the newest again,
        see `Generations.begin`. Repeated after a driver has died, whether before its commit or
        after it, a run gives the same rows again.
    """

    on_full: OnFull
    generation: int | None


def begin_run(
    state: Path,
    choose_slices: Callable[[FilterParams], int],
    *,
    on_full: OnFull = "raise",
    generation: int | None = None,
    **made: Unpack[StateOptions],
) -> Run:
    """Begin a run of the state that is there, or of a new one; raises as both of its steps do."""
    found = Generations.create(state, **made, exist_ok=True, choose_slices=choose_slices)
    return found.begin(generation, on_full=on_full)


@dataclass(frozen=True)
class FirstSeen:
    """The rows that are new to a state, and the step that makes them old.

    Given by `mmbloom.dask.first_seen` and `mmbloom.spark.first_seen`. Write the rows first, then
    commit.

    Attributes
    ----------
    frame : dask DataFrame, Series or bag, or pyspark.sql.DataFrame
        The new rows, lazy.
    run : Run
        What `commit` commits. Its `repeats` says whether the generation is committed already; its
        `discard` removes what the tasks have written, where the rows are not wanted after all.
    parts : int
        How many parts of the rows leave a note when they are computed, without which the commit
        is refused.

    Notes
    -----
    A run that is never committed leaves files in the state, which the next commit removes.
    """

    frame: Any
    run: Run
    parts: int = 0

    def commit(self) -> None:
        """Make the rows old: to be called when all of `frame` was computed and written.

        Raises
        ------
        CommitConflictError
            If another driver has committed in between: drop these rows, and find them anew.
        FormatError
            If a part of `frame` was never computed; or if a slice is missing, cut or of another
            generation. It is named, and nothing is committed.
        FilterFullError
            If the state has more keys now than its capacity: nothing is committed. Drop the rows,
            among which new ones may be missing.
        FileChangedError, OSError
            As `Run.commit`.
        """
        self.run.commit(self.parts)
