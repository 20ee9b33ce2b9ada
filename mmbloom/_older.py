"""Which keys the files of a chain have, the newest first; outside the lock, where that is right.

A key is hashed once for all files, and goes to an older one only if no newer one has it.
Files that are not the newest do not change: what was found in them stays true, so they are
tested before the lock is taken, and under it only those that have become old meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from mmbloom._engine import HashHalves
from mmbloom._member import Bools, Member, contains_any

Indices = npt.NDArray[np.intp]


def found_in(members: Sequence[Member], hashes: HashHalves) -> Bools:
    """Test keys in files that are given oldest first: bool array of shape (n,)."""
    found = np.zeros(len(hashes[0]), dtype=np.bool_)
    left: Indices | None = None  # all of them
    # Those of a rotating filter are alike: they are tested together, at half the cost.
    for _, alike in groupby(reversed(members), key=lambda member: member.params):
        hits = contains_any([*alike], hashes if left is None else take(hashes, left))
        if not hits.any():  # the most frequent case, in which nothing is copied
            continue
        found[hits if left is None else left[hits]] = True
        left = np.flatnonzero(~found)
        if not len(left):
            break
    return found


def take(hashes: HashHalves, part: slice | Indices | Bools) -> HashHalves:
    """Cut the hash halves of some keys out of those of all."""
    return hashes[0][part], hashes[1][part]


@dataclass(frozen=True, slots=True)
class Hashed:
    """Keys on their way to the lock.

    Attributes
    ----------
    hashes : HashHalves
        Of all keys.
    tested : tuple of Member
        Files that were tested.
    found : ndarray of bool, shape (n,)
        Keys that one of these has.
    """

    hashes: HashHalves
    tested: tuple[Member, ...]
    found: Bools

    def found_in_all(self, older: Sequence[Member]) -> Bools:
        """Give the keys that one of these files has, testing those that were not tested."""
        if not {*self.tested} <= {*older}:  # one was dropped: what it has does not count
            return found_in(older, self.hashes)
        untested = [member for member in older if member not in self.tested]
        return self.found | found_in(untested, self.hashes) if untested else self.found


def hashed(hashes: HashHalves, older: Sequence[Member]) -> Hashed:
    """Test keys in files that do not change any more."""
    return Hashed(hashes, tuple(older), found_in(older, hashes))
