"""What a rotating filter does between lock and unlock: keys go to the file of the present period.

A key that only an older file has is not new, and is added to the newest all the same: its time
starts anew. The next file is begun by the first key of its period; then, and only then, whole
files that are past their time are dropped: from the manifest first, and from the disk after.
Where the disk is too full for the next file, they are dropped before it is made.
Who has one mapped is not harmed, and forgets it at its next look; who asks meanwhile leaves
it out by the clock.

A period that has ended does not begin again: while a clock that went back is not past the
newest file's period, keys go to that file.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mmbloom import _engine
from mmbloom._chain import Chain, Snapshot
from mmbloom._engine import HashHalves
from mmbloom._folder import remove_older
from mmbloom._member import Bools, Member, contains_one
from mmbloom._older import Hashed, hashed
from mmbloom._periods import PeriodPlan
from mmbloom.errors import MmbloomError

Clock = Callable[[], float]

# Files that take longer to make than a period lasts would keep the lock for ever.
_MOST_ROUNDS = 8

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class Claimed:
    """What `RotatingWriter.claim` found: nothing is set yet.

    Attributes
    ----------
    new : ndarray of bool, shape (n,)
        True for each key that no file had.
    member : Member
        The newest file then.
    to_set : Claimed
        What is to be set in it, for keys that only older files have too.
    """

    new: Bools
    member: Member
    to_set: _engine.Claimed


class RotatingWriter:
    """Writes to one chain whose newest file gives way to the next when its period is over.

    Parameters
    ----------
    chain : Chain
        The files.
    plan : PeriodPlan
        Their periods.
    clock : callable
        Gives the Unix time in seconds.
    """

    def __init__(self, chain: Chain, plan: PeriodPlan, clock: Clock) -> None:
        self._chain, self._plan, self._clock = chain, plan, clock

    def asked(self, now: Snapshot) -> Sequence[Member]:
        """Name the files that a query asks: those whose time is not over."""
        time = self._clock()
        if not self._plan.expired(now.members[0].entry.number, time):  # most of the time
            return now.members
        return [one for one in now.members if not self._plan.expired(one.entry.number, time)]

    def section(self, timeout: float | None) -> AbstractContextManager[None]:
        """Hold the write lock."""
        return self._chain.section(timeout)

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Test keys in all files but the newest, without the lock."""
        return self._chain.ask(lambda now: hashed(hashes, self._older(now)))

    def _older(self, now: Snapshot) -> list[Member]:
        return [one for one in self.asked(now) if one is not now.newest]

    def claim(self, keys: Hashed) -> Claimed:
        """Find which keys are new; call within `section`."""
        if len(keys.found):  # no keys, no file
            self._rotate()
        now = self._chain.current
        to_set = now.newest.writer.claim(keys.hashes)
        found = keys.found_in_all(self._older(now))
        return Claimed(to_set.new & ~found, now.newest, to_set)

    def mark(self, claimed: Claimed, keys: Hashed) -> None:
        """Set the bits of what was claimed; call within the `section` of the claim."""
        if not len(keys.found):
            return
        newest = self._chain.current.newest
        if newest is claimed.member:
            newest.writer.mark(claimed.to_set, keys.hashes)
        else:  # the caller's block has added other keys, in another period
            newest.writer.add_chunk(keys.hashes)
        self._keep_up(lambda newest: newest.writer.add_chunk(keys.hashes))

    def add_chunk(self, keys: Hashed, timeout: float | None) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(timeout):
            self._rotate()
            now = self._chain.current
            found = keys.found_in_all(self._older(now))
            new = now.newest.writer.add_chunk(keys.hashes) & ~found
            self._keep_up(lambda newest: newest.writer.add_chunk(keys.hashes))
        return new

    def add_one(self, key: bytes, timeout: float | None) -> bool:
        """Add one key in a section of its own; True if it was new."""
        with self.section(timeout):
            self._rotate()
            now = self._chain.current
            older = self._older(now)
            new = now.newest.writer.add_one(key)
            new = new and not contains_one(older, key)
            self._keep_up(lambda newest: newest.writer.add_one(key))
        return new

    def warn_when_full(self) -> None:
        """Warn once a period that its planned capacity is passed."""
        self._chain.current.newest.writer.warn_when_full()

    def _keep_up(self, add: Callable[[Member], object]) -> None:
        """Add once more what was added while its period came to an end.

        A key is kept from the time at which its add returns, which is later than this look.
        """
        for _ in range(_MOST_ROUNDS):
            if not self._rotate():
                return
            add(self._chain.current.newest)
        raise MmbloomError(
            f"{self._chain.folder}: {_MOST_ROUNDS} periods of {self._plan.every_seconds} s have "
            "ended while files were made for them; create one with longer periods"
        )

    def _rotate(self) -> bool:
        """Begin the file of the present period, unless the newest is of it; True if it was not."""
        time = self._clock()
        number = self._plan.period(time)
        if number <= self._chain.current.newest.entry.number:  # of this, or the clock went back
            return False
        self._chain.excepted.look()  # which can fail: before anything is changed
        try:
            self._begin(number, time)
        except OSError as error:
            if error.errno not in _DISK_FULL or not self._drop(time):
                raise
        else:
            return True
        self._begin(number, time)  # what was past its time had the space that it needs
        return True

    def _begin(self, number: int, time: float) -> None:
        """Make the file of a period the newest, and drop those that are past their time."""
        self._chain.change_over(self._chain.make_next(number), dropped=self._expired(time))
        self._remove()

    def _drop(self, time: float) -> bool:
        """Drop what is past its time, but not the newest, whose lock is held; True if any was."""
        *older, newest = self._chain.current.members
        kept = older[self._expired(time) :]
        if len(kept) == len(older):
            return False
        self._chain.name((*kept, newest))
        self._remove()
        return True

    def _expired(self, time: float) -> int:
        """Count the oldest files that are past their time."""
        members = self._chain.current.members
        return sum(self._plan.expired(one.entry.number, time) for one in members)

    def _remove(self) -> None:
        """Remove from the disk what is older than all that the manifest names."""
        remove_older(self._chain.folder, self._chain.current.members[0].entry.number)
