"""The critical section: what happens to bits and counters between lock and unlock.

Query and add are one section (law 7): with the lock around the add only, 35,577 of 200,000
keys were reported new by both of two workers. A writer killed at any instant leaves a valid
filter; the batch counters tell that it happened (law 5). In a filter of counters, what an
addition had counted harms nothing, and a key half removed is not found, unless it would be
when all is done (see ``_engine/reference/counters.py``).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, NamedTuple, Protocol

import numpy as np

from mmbloom import _engine
from mmbloom._engine import OneCounted
from mmbloom._storage.kinds import kind_of
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._typing import Bools, HashHalves, Key, Words
from mmbloom._warn import full_at, warn_past_capacity
from mmbloom.errors import LockTimeoutError, LostBitsError
from mmbloom.filters.exclusion_list import ExclusionList
from mmbloom.filters.info import positions_set

# The time of the last flush is for people to read: not worth waiting for another's lock.
_STAMP_SECONDS = 0.1


# Within `locked` the file is looked at (law 16) once in so many seconds, not for every key: a
# look takes 2 us, adding a key 0.3. Who truncates it in between does so as in between a look
# and a touch.
_CHECK_SECONDS = 0.001


_KEYS_A_CHECK = 16  # as many as are added in that time where each waits for the disk


class Claimed(Protocol):
    """What a claim found."""

    @property
    def new(self) -> Bools:
        """True for each key that is new, shape (n,)."""


class Writer(ABC):
    """Locked, checked and counted writes to one `MappedFilter`, whatever its positions are.

    Parameters
    ----------
    storage : MappedFilter
        The file.
    lock : WriteLock
        Its lock.
    exclusions : ExclusionList
        The exclusions of its filter: looked at before anything is changed, as that can fail.
    verify : bool
        Whether to test all keys again before they are acknowledged.

    Attributes
    ----------
    past_capacity : bool
        Whether more keys were added than planned: `warn_when_full` is then to be called.
    """

    def __init__(
        self, storage: MappedFilter, lock: WriteLock, exclusions: ExclusionList, *, verify: bool
    ) -> None:
        self._storage, self._lock, self._exclusions = storage, lock, exclusions
        self._verify = verify
        self._full_at = full_at(storage.header.params)
        self.past_capacity = self._warned = False
        self._check_at = 0.0  # when a section that goes on is to be checked again

    @contextmanager
    def section(self, timeout: float | None) -> Iterator[None]:
        """Hold the write lock on a file that is known to be there, whole and writable."""
        self._storage.check_writable()  # before waiting for a lock that would be of no use
        with self._lock.held(timeout):
            self._check()
            yield

    @abstractmethod
    def claim(self, hashes: HashHalves) -> Claimed:
        """Find which keys are new; call within `section`."""

    @abstractmethod
    def mark(self, claimed: Any, hashes: HashHalves) -> None:
        """Add what was claimed; call within the `section` of the claim.

        Checked anew: the caller's work may have taken long, and the file may have changed or
        a flush have failed meanwhile (laws 11 and 16).
        """

    @abstractmethod
    def _add(self, hashes: HashHalves) -> tuple[Bools, int]:
        """Add keys: which were new, and how many positions were set."""

    @abstractmethod
    def _find(self, hashes: HashHalves) -> Bools:
        """Tell which keys are there."""

    def add_chunk(self, hashes: HashHalves) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(self._lock.timeout):
            self._exclusions.look()  # which can fail: before anything is changed
            self._storage.expect(len(hashes[0]))
            return self._add_counted(hashes)

    def _add_counted(self, hashes: HashHalves) -> Bools:
        """Add keys within a section, and count that in the header."""
        self._count("batches_begun", 1)
        new, positions_set = self._add(hashes)
        self._test(hashes)
        self._finish(int(np.count_nonzero(new)), positions_set)
        return new

    def add_one(self, key: Key) -> bool:
        """Add one key in a section of its own; True if it was new."""
        lock = self._lock
        if lock.mine():
            # Within `locked`: one section for many keys, looked after now and then.
            if monotonic() > self._check_at:
                self._check()
                self._exclusions.look()
                self._storage.expect(_KEYS_A_CHECK)
            one = self._storage.views.one
            new = one.add(key)
            if self._verify:
                self._test_one(one, key)
        else:
            self._storage.check_writable()  # before waiting for a lock that would be of no use
            lock.acquire(lock.timeout)
            try:
                self._check()
                self._exclusions.look()
                self._storage.expect(1)
                one = self._storage.views.one
                new = one.add(key)
                if self._verify:
                    self._test_one(one, key)
            finally:
                lock.release()
        if new and one.positions_set() > self._full_at:
            self.past_capacity = True
        return new

    def _test_one(self, one: _engine.OneKey, key: Key) -> None:
        """Do as `_test` for one key, which the engine has counted as done."""
        if not one.contains(key):
            self._count("batches_begun", 1)  # and never done, as of a batch that lost bits
            raise LostBitsError(self._storage.path)

    def _test(self, hashes: HashHalves) -> None:
        """Make sure that keys just added are found, where that was asked for."""
        if self._verify and not self._find(hashes).all():
            raise LostBitsError(self._storage.path)

    def _check(self) -> None:
        self._storage.check_writable()
        self._storage.check_unchanged()
        self._check_at = monotonic() + _CHECK_SECONDS

    def flush(self) -> None:
        """Force everything to the disk; other processes go on writing meanwhile."""
        with self._lock.own_threads():  # none may close the file under our feet
            self._storage.check_writable()
            self._storage.check_unchanged()
            flushed_ns = time.time_ns()
            self._check_at = 0.0  # should this fail, the next key within `locked` is told so
            self._storage.flush()
            with suppress(LockTimeoutError), self.section(_STAMP_SECONDS):
                self._storage.set_counter("flushed_ns", flushed_ns)

    def recount(self) -> int:
        """Count the set positions anew, and settle the batches of killed writers (law 5)."""
        with self.section(self._lock.timeout):
            count_set = kind_of(self._storage.header).count_set
            positions_set = count_set(self._storage.views.words)
            self._storage.set_counter("positions_set", positions_set)
            self._storage.set_counter("batches_done", self._storage.counter("batches_begun"))
        return positions_set

    def _finish(self, new_keys: int, positions_set: int) -> None:
        if not positions_set:
            self._count("batches_begun", -1)  # as one by one: what is there is no batch
            return
        self._count("keys_added", new_keys)
        self._count("positions_set", positions_set)
        self._count("batches_done", 1)
        self.past_capacity = self._storage.counter("positions_set") > self._full_at

    def _count(self, name: str, more: int) -> None:
        self._storage.set_counter(name, self._storage.counter(name) + more)

    def warn_when_full(self) -> None:
        """Warn once that the planned capacity is passed; call when all is done, unlocked.

        Where warnings are errors this raises, and must not take answers or marks with it.
        """
        if self._warned or not self.past_capacity:
            return
        self._warned = True
        params = self._storage.header.params
        warn_past_capacity(self._storage.path, params, positions_set(self._storage))


class BitWriter(Writer):
    """The writer of a plain filter: bits, which are only ever set."""

    def claim(self, hashes: HashHalves) -> _engine.Claimed:
        """Find which keys are new; call within `section`."""
        params = self._storage.header.params
        self._exclusions.look()
        self._storage.expect(len(hashes[0]))
        return _engine.claim(self._storage.views.words, *hashes, params)

    def mark(self, claimed: _engine.Claimed, hashes: HashHalves) -> None:
        """Set the bits of what was claimed: see `Writer.mark`."""
        self._storage.check_writable()
        self._storage.check_unchanged()
        new_keys = int(np.count_nonzero(claimed.new))
        if not new_keys and not self._verify:
            return
        self._count("batches_begun", 1)
        positions_set = _engine.commit(self._storage.views.words, claimed)
        self._test(hashes)
        self._finish(new_keys, positions_set)

    def unite(self, start: int, more: Words) -> int:
        """Set the bits of `more` in a section of its own, from word `start`; how many are new."""
        with self.section(self._lock.timeout):
            words = self._storage.views.words
            self._count("batches_begun", 1)
            positions_set = _engine.union(words, start, more)
            if self._verify and (more & ~words[start : start + len(more)]).any():
                raise LostBitsError(self._storage.path)
            self._finish(0, positions_set)
        return positions_set

    def count_united(self, keys_added: int) -> None:
        """Raise the number of keys added to the estimate of `union.united_count`."""
        with self.section(self._lock.timeout):
            more = keys_added - self._storage.counter("keys_added")
            self._count("keys_added", max(0, more))

    def _add(self, hashes: HashHalves) -> tuple[Bools, int]:
        return _engine.add(self._storage.views.words, *hashes, self._storage.header.params)

    def _find(self, hashes: HashHalves) -> Bools:
        return _engine.contains(self._storage.views.words, *hashes, self._storage.header.params)


class Found(NamedTuple):
    """What `CountingWriter.claim` found."""

    new: Bools


class CountingWriter(Writer):
    """Locked, checked and counted writes to one `MappedFilter` of counters."""

    def claim(self, hashes: HashHalves) -> Found:
        """Find which keys are new; call within `section`."""
        params = self._storage.header.params
        self._exclusions.look()
        self._storage.expect(len(hashes[0]))
        return Found(_engine.counted_claim(self._storage.views.words, *hashes, params))

    def mark(self, claimed: Found, hashes: HashHalves) -> None:
        """Count all keys of the claim, new or not: see `Writer.mark`."""
        self._storage.check_writable()
        self._storage.check_unchanged()
        if len(claimed.new):
            self._add_counted(hashes)

    def remove_chunk(self, hashes: HashHalves) -> Bools:
        """Remove one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(self._lock.timeout):
            self._count("batches_begun", 1)
            self._storage.expect(len(hashes[0]))
            params = self._storage.header.params
            found, cleared = _engine.decrement(self._storage.views.words, *hashes, params)
            self._finish(0, -cleared)
        return found

    def remove_one(self, key: Key) -> bool:
        """Remove one key in a section of its own; True if it was there."""
        with self.section(self._lock.timeout):
            self._storage.expect(1)
            one = self._storage.views.one
            assert isinstance(one, OneCounted)  # noqa: S101  for the type checker: by its kind
            return one.remove(key)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Hold the lock on a file that is to be read as of one moment (law 4)."""
        with self._lock.held(self._lock.timeout):
            self._storage.check_unchanged()
            yield

    def _add(self, hashes: HashHalves) -> tuple[Bools, int]:
        return _engine.increment(self._storage.views.words, *hashes, self._storage.header.params)

    def _find(self, hashes: HashHalves) -> Bools:
        params = self._storage.header.params
        return _engine.counted_contains(self._storage.views.words, *hashes, params)
