"""What a growing filter does between lock and unlock: keys go to the newest file until it is full.

A file is full when as many new keys were added to it as it is planned for. The next one is
begun by the first new key that finds it so: not earlier, and by no key that is there already.
A batch that goes beyond is cut at that key, so that it answers, and leaves in each file,
exactly what adding one by one would (law 4 of queries, law 7 of the critical section).
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from mmbloom import _engine
from mmbloom._chain import Chain, Snapshot
from mmbloom._engine import HashHalves
from mmbloom._member import Bools, Member, contains_one
from mmbloom._older import Hashed, hashed, take
from mmbloom._positions import positions


@dataclass(frozen=True, slots=True)
class _Part:
    """Keys for one file."""

    member: Member
    hashes: HashHalves
    claimed: _engine.Claimed


@dataclass(frozen=True, slots=True)
class Claimed:
    """What `GrowingWriter.claim` found: nothing is set yet.

    Attributes
    ----------
    room : int
        What the newest file had left.
    new : ndarray of bool, shape (n,)
        True for each key that adding one by one would have reported as new.
    parts : list
        What to set in which file, in order; all but the first are not named yet.
    """

    room: int
    new: Bools
    parts: list[_Part] = field(default_factory=list)


class GrowingWriter:
    """Writes to one chain whose newest file gives way to a larger one when it is full."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def asked(self, now: Snapshot) -> tuple[Member, ...]:
        """Name the files that a query asks: all."""
        return now.members

    def section(self, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the write lock."""
        return self._chain.section(timeout)

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Test keys in all files but the newest, without the lock."""
        return self._chain.ask(lambda now: hashed(hashes, now.members[:-1]))

    def claim(self, keys: Hashed) -> Claimed:
        """Find which keys are new; call within `section`.

        Makes the files that they need, without naming them.
        """
        *older, member = self._chain.current.members
        claimed = Claimed(member.room, np.zeros(len(keys.found), dtype=np.bool_))
        left = np.flatnonzero(~keys.found_in_all(older))
        while True:
            hashes = take(keys.hashes, left)
            found = member.writer.claim(hashes)
            fresh = np.flatnonzero(found.new)
            room = member.room
            claimed.new[left[fresh[:room]]] = True
            if len(fresh) <= room:
                claimed.parts.append(_Part(member, hashes, found))
                return claimed
            cut = fresh[room]  # the first that finds the file full
            fitting = take(hashes, slice(cut))
            claimed.parts.append(_Part(member, fitting, member.writer.claim(fitting)))
            # Of the rest, what is new with all of them pending is so with some.
            held = ~found.new
            held[:cut] = True
            unsure = np.flatnonzero(held[cut:]) + cut
            pending = take(hashes, fresh[:room])
            held[unsure] = _held_with(member, pending, take(hashes, unsure))
            left = left[cut:][~held[cut:]]
            member = self._chain.make_next(member.entry.number + 1)

    def mark(self, claimed: Claimed, keys: Hashed) -> None:
        """Set the bits of what was claimed; call within the `section` of the claim."""
        newest = self._chain.current.newest
        if newest is not claimed.parts[0].member or newest.room != claimed.room:
            # The caller's block has added other keys: what was claimed may not fit any more.
            claimed = self.claim(keys)
        for part in claimed.parts:
            self._go_to(part.member)
            part.member.writer.mark(part.claimed, part.hashes)

    def add_chunk(self, keys: Hashed, timeout: float | None) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(timeout):
            *older, newest = self._chain.current.members
            found = keys.found_in_all(older)
            if np.count_nonzero(found) + newest.room < len(found):  # it may get full
                claimed = self.claim(keys)
                self.mark(claimed, keys)
                return claimed.new
            if not found.any():  # the most frequent case, in which nothing is copied
                return newest.writer.add_chunk(keys.hashes)
            new = ~found
            new[new] = newest.writer.add_chunk(take(keys.hashes, new))
            return new

    def add_one(self, key: bytes, timeout: float | None) -> bool:
        """Add one key in a section of its own; True if it was new."""
        with self.section(timeout):
            *older, newest = self._chain.current.members
            if contains_one(older, key):
                self._chain.excepted.look()  # the newest file's writer would
                return False
            if not newest.room and not contains_one([newest], key):
                self._chain.excepted.look()  # which can fail: before anything is changed
                newest = self._chain.make_next(newest.entry.number + 1)
                self._go_to(newest)
            return newest.writer.add_one(key)

    def warn_when_full(self) -> None:
        """Do nothing: what would be beyond capacity goes to the next file."""

    def _go_to(self, member: Member) -> None:
        if member is not self._chain.current.newest:
            self._chain.change_over(member)


def _held_with(member: Member, pending: HashHalves, keys: HashHalves) -> Bools:
    """Tell which keys a file would have if the pending ones were in it: bool array, (n,)."""
    words = member.storage.views.words
    taken = np.sort(np.concatenate([*positions(*pending, member.params)]))
    held = np.ones(len(keys[0]), dtype=np.bool_)
    for column in positions(*keys, member.params):
        word = words[(column >> np.uint64(6)).astype(np.intp)]
        is_set = (word >> (column & np.uint64(63))) & np.uint64(1)
        if len(taken):
            place = np.minimum(np.searchsorted(taken, column), len(taken) - 1)
            is_set |= taken[place] == column
        held &= is_set.astype(np.bool_)
    return held
