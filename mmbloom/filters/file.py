"""One open filter file: its map, its lock, and what happens to its array between lock and unlock.

- All writing to a file is in a section: lock, check, kernel, counters.
- The check proves that the file is there, whole and writable, and follows its array; what can
  fail of it fails before anything is changed. Keys that a block of the caller's adds one at a time
  share a check for a moment.
- A section within a section of the same thread goes on with its lock.
- A writer killed at any instant leaves a valid filter; the batch counters tell that it happened.
  In a filter of counters, what an addition had counted harms nothing, and a key half removed is
  not found, unless it would be when all is done (see ``_engine/reference/counters.py``).
- A file that is dropped without a close, or is open when the program ends, is left all the same.

Which files a filter has, and which of them gets a key, is the subject of ``shelf.py``.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mmbloom import _engine
from mmbloom._engine import Hold
from mmbloom._engine.key_batch import ByteKeys, HashedKeys, KeyBatch
from mmbloom._keys.coerce import coerce_one
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import BITS, COUNTERS, Counters, Kind
from mmbloom._system.sections import CALL, MOMENT
from mmbloom._system.threads import usable_cores
from mmbloom._system.typing import Bools, HashHalves, Indices, Key, PastPlan, Words
from mmbloom.errors import (
    FileChangedError,
    FilterFullError,
    LockTimeoutError,
    LostBitsError,
    MmbloomError,
    ReentryError,
)
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.full import CapacityCheck
from mmbloom.filters.options import OpenOptions
from mmbloom.format.header import BATCHES_BEGUN, BATCHES_DONE, KEYS_ADDED, POSITIONS_SET

_KEYS_A_CHECK = 16  # how many are added or asked in a moment if each waits for the disk

# The time of the last flush is for people to read: not worth waiting for another's lock.
_STAMP_SECONDS = 0.1


def count(counters: Counters, place: int, by: int) -> int:
    """Add to one counter, within a call; what it is now."""
    now: int = (counters.words.item(place) + by) % 2**64
    counters.words[place] = now
    return now


class File(ABC):
    """One open filter file, whatever its positions are.

    Parameters
    ----------
    storage : MappedFilter
        Its map, which this closes.
    exclusions : ExclusionList
        Those of its filter: checked before anything is changed, as that can fail.
    options : OpenOptions
        How to open it.
    on_full : {"warn", "raise"}, optional
        What to do at the end of its plan; None for nothing, where another file takes the rest.
    folder : str, optional
        That has it as one of its own: for messages.
    number : int, default 0
        Of a folder's file, by the manifest.

    Attributes
    ----------
    room : float
        How many keys fit into the plan for sure, by the last check; infinite where none is told.
    overflows : bool
        Whether another file takes the keys that go past the plan.
    """

    kind: ClassVar[Kind]
    width: ClassVar[int]
    """Bits of a position."""
    room: float = 0.0

    def __init__(
        self,
        storage: MappedFilter,
        exclusions: ExclusionList,
        options: OpenOptions,
        *,
        on_full: PastPlan | None,
        folder: str = "",
        number: int = 0,
    ) -> None:
        self.path, self.timeout = storage.path, options.lock_timeout
        self.storage, self.exclusions, self.number = storage, exclusions, number
        self.uuid, self.params = storage.header.uuid, storage.header.params
        self.lock = WriteLock(storage.path, storage.identity, self.timeout)
        self.threads = options.threads or usable_cores()
        self._verify = options.verify_after_add
        self._capacity = CapacityCheck(storage, folder or storage.path, on_full)
        self.overflows = on_full is None
        # When keys of a block that adds them one by one, and of queries, are to check it again.
        self._check_at = self._ask_check_at = 0.0
        self._note_room(storage.positions_set)
        self._left = weakref.finalize(self, storage.array.leave)
        if options.preload:
            storage.array.preload()

    def rename(self, path: str, lock: WriteLock) -> None:
        """Take the file by another path, with the lock for that: it is the first of a folder."""
        self.storage.rename(path)
        check = CapacityCheck(self.storage, path, None)
        # Together: by its path it is known whether all of this was done.
        self.path, self.lock, self._capacity, self.overflows = path, lock, check, True
        self._note_fill()

    def close(self) -> None:
        """Leave and unmap it, and release everything; closing twice is fine."""
        failures, array = [], self.storage.array
        with self.lock.closing():  # no other thread is within a call of this object
            array.check_idle()
            for step in (partial(array.leave, self.lock), array.close):
                try:
                    step()
                except (OSError, MmbloomError) as error:  # an interrupt leaves it open
                    failures.append(error)
        if failures:
            raise failures.pop(0)  # which must not be kept by what it keeps
        self._left.detach()

    def find(self, keys: KeyBatch) -> Bools:
        """Return which keys are there: bool array of shape (n,)."""
        return self._contains(self.storage.look(len(keys)).words, keys)

    def has(self, key: bytes) -> bool:
        """Return whether one key is there."""
        found: bool = self.storage.look(1).one.contains(key)
        return found

    def has_soon(self, key: bytes, now: float) -> bool:
        """Do as `has`, with one check a moment; `now` is by the monotonic clock.

        A check takes longer than all else. To cut a file between two checks is as dangerous as to
        cut it between a check and an access.
        """
        if now > self._ask_check_at:
            self.storage.look(_KEYS_A_CHECK)
            self._ask_check_at = now + MOMENT
        found: bool = self.storage.views.one.contains(key)
        return found

    def section(self, timeout: float | None) -> Hold:
        """Hold the write lock of this file for a call."""
        lock = self.lock

        def looked(_hold: Hold, _patient: bool) -> bool:
            lock.check_alone()
            self.look()
            return True

        # Checked before waiting for a lock that would be of no use, too.
        return Hold(lock.state, timeout, CALL, self.storage.check_writable, looked)

    def forget_claim(self) -> None:
        """Reserve no room for a claim any more: it was marked, or never will be."""
        self._capacity.reserved = 0

    def look(self, *, first: bool = False) -> None:
        """Check the file and the exclusions, which can fail: a section begins.

        In the `first` of several within each other no claim is under way.
        """
        if first:
            self.forget_claim()
        self._check_at = 0.0  # what a signal handler adds now is checked, and refused
        self.storage.attend()
        now = monotonic()
        if now > self.exclusions.refresh_at:
            self.exclusions.refresh()
        self._check_at = now + MOMENT

    def move_to_memory(self) -> None:
        """Move the array of a new file to shared memory, if that is wanted."""
        if self.storage.array.wants_memory:
            with self.lock.held(self.timeout, CALL):
                if not self.lock.superseded:  # else it has grown: its next section moves it
                    self.storage.array.move_to_memory()

    @abstractmethod
    def claim(self, hashes: HashHalves) -> Any:
        """Find which keys are new, within a section. What it returns has them as `new`.

        Raises
        ------
        FilterFullError
            If they go past the plan and the caller is to be told: leave the section, and `tell`.
        """

    @abstractmethod
    def mark(self, claimed: Any, hashes: HashHalves) -> None:
        """Add what was claimed, within the section of the claim.

        Before anything is marked the file is checked again: it may have changed, or a flush have
        failed, in the block.
        """

    def arrange(self, hashes: HashHalves) -> Any:
        """Return the order in which a chunk is to be added or removed; see `_engine.arrange`."""
        return _engine.arrange(*hashes, self.params, self.threads, self.width)

    @abstractmethod
    def _add(self, words: Words, hashes: HashHalves, order: Any) -> tuple[Bools, int]:
        """Add keys: which were new, and how many positions were set."""

    @abstractmethod
    def _contains(self, words: Words, keys: KeyBatch) -> Bools:
        """Return which keys are there."""

    def add_within(self, hashes: HashHalves, order: Any = None) -> Bools:
        """Add one chunk within a section, and count that in the header."""
        words, counters = self._begin(len(hashes[0]))
        new, positions_set = self._add(words, hashes, order)
        if self._verify:
            self._test(words, hashes)
        self._finish(counters, int(np.count_nonzero(new)), positions_set)
        return new

    def _begin(self, keys: int) -> tuple[Words, Counters]:
        """Return the array for a batch of a number of keys, and count that it has begun."""
        words, counters, _ = self.storage.change(keys)
        count(counters, BATCHES_BEGUN, 1)
        return words, counters

    @property
    def unquestioned(self) -> float:
        """The number of set positions up to which a single key needs the lock and no more."""
        if self._verify or not self.storage.is_writable:
            return -math.inf
        return self._capacity.surely_at

    @property
    def most_keys(self) -> float:
        """How many keys it may have until the next one needs more than the lock."""
        return self.params.capacity if self.overflows or self._capacity.strict else math.inf

    def add_one_soon(self, key: bytes) -> bool:
        """Do as `add_one_within`, with one check a moment: a block adds many keys one by one."""
        one = self.storage.views.one
        if monotonic() > self._check_at:
            self.look()
            one = self.storage.change(_KEYS_A_CHECK).one
        return self._add_key(one, key)

    def add_one_within(self, key: bytes) -> bool:
        """Add one key within a section; True if it was new."""
        return self._add_key(self.storage.change(1).one, key)

    def _add_key(self, one: _engine.OneKey, key: bytes) -> bool:
        new = one.add(key)
        if self._verify:
            self._test_one(one, key)
        if new and one.positions_set() > self._capacity.full_at:
            self.room = 0.0  # the next key is to be foreseen
        return new

    def _test_one(self, one: _engine.OneKey, key: bytes) -> None:
        """Raise `LostBitsError` unless a key just added, which the engine has counted, is found."""
        if not one.contains(key):
            # Begun and never done, as a batch that lost bits is.
            count(self.storage.counters, BATCHES_BEGUN, 1)
            raise LostBitsError(self.storage.path)

    def _test(self, words: Words, hashes: HashHalves) -> None:
        """Raise `LostBitsError` unless keys just added are found."""
        if not self._contains(words, HashedKeys(*hashes)).all():
            raise LostBitsError(self.storage.path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep this object's other threads out: none may close the file under our feet."""
        lock = self.lock
        with lock.own_threads():
            if lock is not self.lock:  # they have another one now
                raise FileChangedError(self.path, "replaced by a folder")
            yield

    def flush(self) -> None:
        """Force it to the disk, while other processes go on writing."""
        self.storage.check_open()
        if self.storage.read_only_reason:
            return
        with self._alone():
            self.storage.check_writable()
            self.storage.check_unchanged()
            flushed_ns = time.time_ns()
            self._check_at = 0.0  # should this fail, the next key within `locked` is told so
            self.storage.array.flush(self.timeout)
            with suppress(LockTimeoutError, ReentryError), self.section(_STAMP_SECONDS):
                self.storage.counters["flushed_ns"] = flushed_ns

    def sync(self) -> None:
        """Force it to the disk, with no stamp: for a file that does not change any more."""
        with self._alone():
            self.storage.check_open()
            self.storage.array.flush()

    def recount(self) -> int:
        """Count the set positions again, and settle the batches of killed writers."""
        with self.section(self.timeout):
            positions_set = self.kind.count_set(self.storage.views.words)
            self.storage.array.settle(positions_set)
        return positions_set

    def _finish(self, counters: Counters, new_keys: int, positions_set: int) -> None:
        if not positions_set:
            count(counters, BATCHES_BEGUN, -1)  # it changed nothing, so it is no batch
            return
        count(counters, KEYS_ADDED, new_keys)
        now_set = count(counters, POSITIONS_SET, positions_set)
        count(counters, BATCHES_DONE, 1)  # last: a batch that is not done may have lost bits
        self._note_room(now_set)  # `_note_fill` would ask the header once more a chunk

    def _note_fill(self) -> None:
        self._note_room(self.storage.positions_set)  # others may have added, or removed, keys

    def _note_room(self, now_set: int) -> None:
        fit = (self._capacity.full_at - now_set) / self.params.num_hashes
        self.room = fit - self._capacity.reserved

    def leave_room(self, keys: int) -> None:
        """Expect this number of keys to be added without a check of the plan."""
        self._note_fill()
        self.room -= keys

    @property
    def keys_left(self) -> int:
        """How many more new keys it takes; a damaged counter makes that 0 or all.

        That is all, unless it overflows.
        """
        if not self.overflows:
            return sys.maxsize
        return max(0, self.params.capacity - self.storage.counters["keys_added"])

    def may_pass(self, keys: int) -> bool:
        """Return whether a number of keys goes past the plan if all of them are new."""
        self._note_fill()
        return self._capacity.may_pass(keys)

    def require_room(self, new: Indices) -> None:
        """Raise `FilterFullError`, for `tell`, if new keys go past the plan."""
        self._capacity.require_room(new)

    def tell(self, full: FilterFullError) -> None:
        """Raise the error, or warn once instead; call unlocked, while nothing is marked."""
        try:
            self._capacity.tell(full)
        finally:
            self._note_fill()

    def warn_if_full(self) -> None:
        """Warn, if that is due, after a change that has no answers; call unlocked."""
        if self.storage.positions_set > self._capacity.full_at:
            self._capacity.warn()

    def _require_fit(self, new: Bools, keys: int) -> None:
        """Raise `FilterFullError` if the new keys of a claim go past the plan, or reserve room."""
        if len(new) > self.room and not self._capacity.fit_surely(keys):  # seldom: it takes as long
            self._capacity.require_room(np.flatnonzero(new))
        if len(new):  # a claim of no keys may be within another one
            self._capacity.reserved = keys
            self.room -= keys
            self.storage.array.news[0] += 1  # an earlier check knows nothing of it


class BitFile(File):
    """A file of bits, which are only ever set."""

    kind, width = BITS, 1

    def claim(self, hashes: HashHalves) -> _engine.Claimed:
        """Find which keys are new; call within `section`."""
        words = self.storage.change(len(hashes[0])).words
        claimed = _engine.claim(words, *hashes, self.params)
        self._require_fit(claimed.new, claimed.num_new)
        return claimed

    def mark(self, claimed: _engine.Claimed, hashes: HashHalves) -> None:
        """Set the bits of what was claimed."""
        if len(claimed.new):
            self.forget_claim()
        if not claimed.num_new and not self._verify:
            return
        self.storage.attend()
        words, counters = self._begin(0)
        positions_set = _engine.commit(words, claimed)
        if self._verify:
            self._test(words, hashes)
        self._finish(counters, claimed.num_new, positions_set)

    def unite(self, start: int, more: Words) -> int:
        """Set the bits of `more` in a section of its own, from word `start`; how many are new."""
        with self.section(self.timeout):
            words, counters = self._begin(0)
            positions_set = _engine.union(words, start, more)
            if self._verify and (more & ~words[start : start + len(more)]).any():
                raise LostBitsError(self.storage.path)
            self._finish(counters, 0, positions_set)
        return positions_set

    def require_room_for(self, segments: Iterable[Words]) -> None:
        """Raise `FilterFullError` if a union goes past the plan; call within `section`."""
        start = more = 0
        words = self.storage.views.words
        for segment in segments:
            more += _engine.count_set(segment & ~words[start : start + len(segment)])
            start += len(segment)
        united = self.storage.positions_set + more
        keys = self.params.estimated_count(united) - self.storage.approx_count
        self._capacity.require_room(np.zeros(max(0, round(keys)), np.intp))

    def count_united(self, keys_added: int) -> None:
        """Raise the number of keys added to an estimate of it after a union."""
        with self.section(self.timeout):
            more = keys_added - self.storage.counters["keys_added"]
            count(self.storage.counters, KEYS_ADDED, max(0, more))

    def _add(self, words: Words, hashes: HashHalves, order: Any) -> tuple[Bools, int]:
        return _engine.add(words, *hashes, self.params, order)

    def _contains(self, words: Words, keys: KeyBatch) -> Bools:
        return _engine.contains(words, keys, self.params, self.threads)


class FoundCounted(NamedTuple):
    """What `CounterFile.claim` found."""

    new: Bools


class CounterFile(File):
    """A file of counters, which go up and down."""

    kind, width = COUNTERS, _engine.COUNTER_BITS

    def claim(self, hashes: HashHalves) -> FoundCounted:
        """Find which keys are new; call within `section`."""
        words = self.storage.change(len(hashes[0])).words
        new = _engine.counted_claim(words, *hashes, self.params)
        self._require_fit(new, int(np.count_nonzero(new)))
        return FoundCounted(new)

    def mark(self, claimed: FoundCounted, hashes: HashHalves) -> None:
        """Count all keys of the claim, new or not."""
        if len(claimed.new):
            self.forget_claim()
        self.storage.attend()
        if len(claimed.new):
            self.add_within(hashes, self.arrange(hashes))

    def remove_chunk(self, hashes: HashHalves) -> Bools:
        """Remove one chunk in a section of its own; bool array of shape (n,)."""
        order = self.arrange(hashes)
        with self.section(self.timeout):
            words, counters = self._begin(len(hashes[0]))
            found, cleared = _engine.decrement(words, *hashes, self.params, order)
            self._finish(counters, 0, -cleared)
        return found

    def add_one_within(self, key: bytes) -> bool:  # noqa: D102
        return bool(self.add_within(self._hashed(key))[0])

    add_one_soon = add_one_within

    def remove_one(self, key: Key) -> bool:
        """Remove one key in a section of its own; True if it was there."""
        return bool(self.remove_chunk(self._hashed(coerce_one(key)))[0])

    def _hashed(self, key: bytes) -> HashHalves:
        """Hash one key, as a batch."""
        return _engine.hash_keys(ByteKeys.of([key]), self.params.key_hash)

    def has(self, key: bytes) -> bool:  # noqa: D102
        return bool(self.find(ByteKeys.of([key]))[0])

    def _add(self, words: Words, hashes: HashHalves, order: Any) -> tuple[Bools, int]:
        return _engine.increment(words, *hashes, self.params, order)

    def _contains(self, words: Words, keys: KeyBatch) -> Bools:
        return _engine.counted_contains(words, keys, self.params, self.threads)
