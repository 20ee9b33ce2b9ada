"""What a file was planned for: the caller is told before keys that do not fit are marked.

Nothing of the batch is marked then and no answer is lost, also where warnings are errors. None of
this is done while all keys of a batch fit even if all of them are new.
"""

import math

import numpy as np

from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import BITS, kind_of
from mmbloom._storage.warnings import warn_past_plan
from mmbloom._system.typing import Bools, HashHalves, Indices, PastPlan, Words
from mmbloom.errors import FilterFullError
from mmbloom.sizing import Fill, full_at, most_keys

TO_GROW = (
    "let it grow with on_full='grow' (--when-full grow) or mmbloom.grow (mmbloom grow), or go "
    "past its capacity with on_full='warn' (--when-full warn)"
)
NOT_TO_GROW = "make a larger one, or go past its capacity with on_full='warn' (--when-full warn)"


class CapacityCheck:
    """What one file was planned for, and how many keys it has.

    Parameters
    ----------
    storage : MappedFilter
        The file.
    path : str
        Of the filter that it is, or is a part of: for messages.
    on_full : {"warn", "raise"}, optional
        What happens past the plan; None for nothing, where another file takes what does not fit.

    Attributes
    ----------
    full_at : float
        The number of set positions above which the caller is to be told. -inf: each batch is
        counted first. inf: the caller is not to be told, or was.
    reserved : int
        How many keys the claim that is under way will mark: they count as if they were there.
    """

    def __init__(self, storage: MappedFilter, path: str, on_full: PastPlan | None) -> None:
        self._storage, self._path = storage, path
        self._params = storage.header.params
        self._exact = kind_of(storage.header) is BITS  # "keys added" has those removed as well
        self.strict = on_full == "raise"
        self.reserved = 0
        self._keys_then = 0  # how many there are with the batch that the caller is told of
        self._planned_at = full_at(self._params)
        self.full_at = math.inf
        if on_full is not None:
            self.full_at = -math.inf if self.strict else self._planned_at

    @property
    def surely_at(self) -> float:
        """The number of set positions up to which keys fit, while their number is within the plan.

        Both are counted under the lock. A strict claim reserves room that is in neither count.
        """
        if self.strict:
            return -math.inf if self.reserved else self._planned_at
        return self.full_at

    def _fill(self) -> Fill:
        return Fill.of(self._params, self._storage.positions_set)

    def _room(self) -> tuple[float, int]:
        """How many more keys fit, and how many are there."""
        positions_set, params = self._storage.positions_set, self._params
        estimated = params.estimated_count(positions_set)
        room, keys = most_keys(params.capacity) - estimated, round(estimated)
        added = self._storage.counters["keys_added"]
        # A new key sets one position at least, and k at most: else the counter is damaged.
        possible = added <= positions_set <= added * params.num_hashes
        if self.strict and self._exact and possible:
            room, keys = min(room, params.capacity - added), added
        return room - self.reserved, keys + self.reserved

    def fit_surely(self, keys: int) -> bool:
        """Return whether new keys fit even if none shares a position: that needs no estimate."""
        counters, more = self._storage.counters, self.reserved + keys
        most = counters["positions_set"] + more * self._params.num_hashes
        return most <= self._planned_at and counters["keys_added"] + more <= self._params.capacity

    def may_pass(self, keys: int) -> bool:
        """Return whether a number of keys goes past the plan if all of them are new."""
        return self.full_at != math.inf and keys > self._room()[0]

    def require_room(self, new: Indices) -> None:
        """Raise `FilterFullError` if new keys go past the plan.

        Parameters
        ----------
        new : ndarray of intp, shape (n,)
            Where, among the keys given, each distinct new key stands first; in rising order.
        """
        if self.fit_surely(len(new)):
            return
        room, keys = self._room()
        fitting = max(0, math.floor(room))
        if self.full_at != math.inf and len(new) > fitting:
            self._keys_then = keys + len(new)
            of_one_file = self._exact and self._path == self._storage.path
            can_grow = of_one_file and not self._fill().is_useless
            advice = TO_GROW if can_grow else NOT_TO_GROW
            raise FilterFullError(
                self._path, keys, self._params.capacity, int(new[fitting]), advice
            )

    def tell(self, full: FilterFullError) -> None:
        """Raise the error, or warn once instead; call unlocked, while nothing is marked."""
        if self.strict:
            raise full
        if self._keys_then:  # else the error was of a period that has ended since
            self.warn()

    def warn(self) -> None:
        """Warn once that the plan is passed."""
        if self.full_at == math.inf:
            return
        self.full_at = math.inf  # before: where warnings are errors, the next call goes on
        keys = max(self._fill().keys, self._keys_then)
        warn_past_plan(self._path, self._params, Fill.with_keys(self._params, keys))


class Absent:
    """Counts the distinct keys of a batch that a file has not, chunk by chunk."""

    def __init__(self) -> None:
        self._hashes: list[Words] = []
        self._places: list[Indices] = []
        self._given = 0

    def take(self, hashes: HashHalves, absent: Bools) -> None:
        """Take the next chunk: its hash halves, and which of its keys are not there."""
        places = np.flatnonzero(absent)
        self._hashes.append(hashes[0][places])
        self._places.append(places + self._given)
        self._given += len(absent)

    def first_places(self) -> Indices:
        """Return where each of them stands first, in rising order."""
        if not self._hashes:
            return np.zeros(0, np.intp)
        _, first = np.unique(np.concatenate(self._hashes), return_index=True)
        return np.concatenate(self._places)[np.sort(first)]
