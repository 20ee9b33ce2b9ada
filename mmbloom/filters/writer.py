"""How keys get into a filter, of one file or of a folder: what `Filter` and `Claim` ask for.

All writing is in a section: the write lock is held, and what the file is now was looked at.

Whether keys fit into what a file was planned for: the caller is told before they are marked.

Nothing of the batch is marked then and no answer is lost, also where warnings are errors. Nothing
of this is done while all keys of a batch fit even if all are new.

The section: what happens to bits and counters between lock and unlock.

- All writing to a file is in a section: lock, look, kernel, counters.
- The look proves that the file is there, whole and writable, and follows its array; what can
  fail of it fails before anything is changed. What a block of the caller's adds one key at a time
  is looked at once a moment.
- Query and add are one section: with the lock around the add only, 35,577 of 200,000 keys were
  reported new by both of two workers.
- A section within a section of the same thread goes on with its lock.
- A writer killed at any instant leaves a valid filter; the batch counters tell that it happened.
  In a filter of counters, what an addition had counted harms nothing, and a key half removed is
  not found, unless it would be when all is done (see ``_engine/reference/counters.py``).
"""

from __future__ import annotations

import math
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from mmbloom import _engine
from mmbloom._engine import Hold
from mmbloom._engine.key_batch import ByteKeys
from mmbloom._keys.coerce import coerce_one
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import BITS, Counters, kind_of
from mmbloom._storage.warnings import warn_past_plan
from mmbloom._system.moments import MOMENT
from mmbloom._system.reentry import BLOCK, CALL
from mmbloom._system.typing import Bools, HashHalves, Indices, Key, OnFull, Words
from mmbloom.errors import (
    FilterFullError,
    LockTimeoutError,
    LostBitsError,
    ReentryError,
)
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.format.header import BATCHES_BEGUN, BATCHES_DONE, KEYS_ADDED, POSITIONS_SET
from mmbloom.sizing.planning import Fill, full_at, most_keys


class FilterWriter(ABC):
    """Adds keys within sections of the write lock.

    Attributes
    ----------
    path : str
        Of the filter.
    timeout : float or None
        Seconds to wait for the write lock; None for ever.
    strict : bool
        Whether what goes past the plan is refused.
    claimed : weak reference of a Claim, or None
        The one whose block is under way; read and changed within sections only.
    """

    path: str
    timeout: float | None
    strict: bool
    claimed: weakref.ref[Any] | None = None

    @property
    @abstractmethod
    def room(self) -> float:
        """How many keys fit into the plan for sure: a batch of more is to be foreseen."""

    @abstractmethod
    def section(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Hold the write lock, for a block of the caller's or a call of one's own."""

    @abstractmethod
    def chunk_keys(self, num_keys: int) -> int:
        """Tell how many keys of a batch of this size are a chunk."""

    @abstractmethod
    def add_chunk(self, prepared: Any, /) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""

    @abstractmethod
    def add_one(self, key: Key) -> bool:
        """Add one key in a section of its own; True if it was new."""

    @abstractmethod
    def prepare(self, hashes: HashHalves) -> Any:
        """Do what a claim of keys needs, and needs no lock for."""

    @abstractmethod
    def claim(self, prepared: Any, /) -> Any:
        """Find which keys are new; call within `section`. Gives what has them as `new`.

        Raises
        ------
        FilterFullError
            If they go past the plan and the caller is to be told: leave the section, and `tell`.
        """

    @abstractmethod
    def mark(self, claimed: Any, prepared: Any, /) -> None:
        """Add what was claimed; call within the `section` of the claim.

        Before anything is marked the file is looked at again: it may have changed, or a flush have
        failed, in the block.
        """

    @abstractmethod
    def forget_claim(self) -> None:
        """Reserve no room for a claim any more: it was marked, or never will be."""

    @abstractmethod
    def may_pass(self, keys: int) -> bool:
        """Tell whether a number of keys goes past the plan if all of them are new."""

    @abstractmethod
    def absent(self, hashes: HashHalves) -> Bools:
        """Tell which keys are not in the file that they would be added to."""

    @abstractmethod
    def require_room(self, new: Indices) -> None:
        """Raise `FilterFullError`, for `tell`, if new keys go past the plan."""

    @abstractmethod
    def tell(self, full: FilterFullError) -> None:
        """Raise the error, or warn once instead; call unlocked, while nothing is marked."""


TO_GROW = (
    "make a growing folder of it with mmbloom.grow (mmbloom grow), or go on past the plan with "
    "on_full='warn' (--when-full warn)"
)
NOT_TO_GROW = "make a larger one, or go on past the plan with on_full='warn' (--when-full warn)"


class Brim:
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
        looked at first. inf: the caller is not to be told, or was.
    reserved : int
        How many keys the claim that is under way will mark: they count as if they were there.
    """

    def __init__(self, storage: MappedFilter, path: str, on_full: OnFull | None) -> None:
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
        """Tell whether new keys fit even if none shares a position: no estimate is needed then."""
        counters, more = self._storage.counters, self.reserved + keys
        most = counters["positions_set"] + more * self._params.num_hashes
        return most <= self._planned_at and counters["keys_added"] + more <= self._params.capacity

    def may_pass(self, keys: int) -> bool:
        """Tell whether a number of keys goes past the plan if all of them are new."""
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
        """Give where each of them stands first, in rising order."""
        if not self._hashes:
            return np.zeros(0, np.intp)
        _, first = np.unique(np.concatenate(self._hashes), return_index=True)
        return np.concatenate(self._places)[np.sort(first)]


_KEYS_A_CHECK = 16  # how many are added in a moment if each waits for the disk

# The time of the last flush is for people to read: not worth waiting for another's lock.
_STAMP_SECONDS = 0.1


def count(counters: Counters, place: int, by: int) -> int:
    """Add to one counter, within a call; what it is now."""
    now: int = (counters.words.item(place) + by) % 2**64
    counters.words[place] = now
    return now


class Writer(FilterWriter):
    """Locked, checked and counted writes to one `MappedFilter`, whatever its positions are.

    Parameters
    ----------
    storage : MappedFilter
        The file.
    lock : WriteLock
        Its lock.
    exclusions : ExclusionList
        The exclusions of its filter: looked at before anything is changed, as that can fail.
    threads : int
        How many may work on a large chunk.
    verify : bool
        Whether to test all keys again before they are acknowledged.
    brim : Brim
        What it was planned for.

    Attributes
    ----------
    room : float
        How many keys fit into the plan for sure, by the last look; infinite where none is told.
    """

    room: float = 0.0

    def __init__(
        self,
        storage: MappedFilter,
        lock: WriteLock,
        exclusions: ExclusionList,
        *,
        threads: int,
        verify: bool,
        brim: Brim,
    ) -> None:
        self.threads = threads
        self._storage, self._lock, self._exclusions = storage, lock, exclusions
        self.path, self._verify, self._params = storage.path, verify, storage.header.params
        self._brim, self.strict = brim, brim.strict
        self._look()
        self.timeout = lock.timeout
        self._check_at = 0.0  # when a section that goes on is to be looked at again

    def section(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Hold the write lock on a file that was looked at, whose map `views` is then."""
        # Checked before waiting for a lock that would be of no use, too.
        return Hold(self._lock.state, timeout, kind, self._storage.check_writable, self._looked)

    def _looked(self, hold: Hold, _patient: bool) -> bool:
        if hold.first:  # no claim is under way
            self.forget_claim()
        self.look()
        return True

    def forget_claim(self) -> None:  # noqa: D102  as in the base
        self._brim.reserved = 0

    def look(self) -> None:
        """Look at the file and the exclusions, which can fail: a section begins."""
        self._check_at = 0.0  # what a signal handler adds now is looked at, and refused
        self._storage.attend()
        now = monotonic()
        if now > self._exclusions.refresh_at:
            self._exclusions.refresh()
        self._check_at = now + MOMENT

    def move_to_memory(self) -> None:
        """Move the array of a new file to shared memory, if that is wanted."""
        if self._storage.array.wants_memory:
            with self._lock.held(self.timeout, CALL):
                self._storage.array.move_to_memory()

    @abstractmethod
    def _add(self, words: Words, hashes: HashHalves) -> tuple[Bools, int]:
        """Add keys: which were new, and how many positions were set."""

    @abstractmethod
    def _contains(self, words: Words, hashes: HashHalves) -> Bools:
        """Tell which keys are there."""

    def add_chunk(self, hashes: HashHalves) -> Bools:  # noqa: D102  as in the base
        # The caller has checked before the first chunk that it may write.
        with Hold(self._lock.state, self.timeout, CALL, None, self._looked):
            return self.add_within(hashes)

    def add_within(self, hashes: HashHalves) -> Bools:
        """Add one chunk within a section, and count that in the header."""
        words, counters = self._begin(len(hashes[0]))
        new, positions_set = self._add(words, hashes)
        if self._verify:
            self._test(words, hashes)
        self._finish(counters, int(np.count_nonzero(new)), positions_set)
        return new

    def _begin(self, keys: int) -> tuple[Words, Counters]:
        """Give the array for a batch of a number of keys, and count that it has begun."""
        words, counters, _ = self._storage.change(keys)
        count(counters, BATCHES_BEGUN, 1)
        return words, counters

    @property
    def unquestioned(self) -> float:
        """The number of set positions up to which a single key needs the lock and no more."""
        if self._verify or not self._storage.is_writable:
            return -math.inf
        return self._brim.full_at

    def add_one(self, key: Key) -> bool:  # noqa: D102  as in the base
        if not self._lock.state.around():
            with self.section(self.timeout, CALL):
                return self.add_one_within(key)
        with Hold(self._lock.state, 0.0, CALL):  # within a block: one section for many keys
            one = self._storage.views.one
            if monotonic() > self._check_at:
                self.look()
                one = self._storage.change(_KEYS_A_CHECK).one
            return self._add_key(one, key)

    def add_one_within(self, key: Key) -> bool:
        """Add one key within a section; True if it was new."""
        return self._add_key(self._storage.change(1).one, key)

    def _add_key(self, one: _engine.OneKey, key: Key) -> bool:
        new = one.add(key)
        if self._verify:
            self._test_one(one, key)
        if new and one.positions_set() > self._brim.full_at:
            self.room = 0.0  # the next key is to be foreseen
        return new

    def _test_one(self, one: _engine.OneKey, key: Key) -> None:
        """Make sure that a key just added, which the engine has counted as done, is found."""
        if not one.contains(key):
            # Begun and never done, as a batch that lost bits is.
            count(self._storage.counters, BATCHES_BEGUN, 1)
            raise LostBitsError(self._storage.path)

    def _test(self, words: Words, hashes: HashHalves) -> None:
        """Make sure that keys just added are found."""
        if not self._contains(words, hashes).all():
            raise LostBitsError(self._storage.path)

    def flush(self) -> None:
        """Force everything to the disk, while other processes go on writing."""
        with self._lock.own_threads():  # none may close the file under our feet
            self._storage.check_writable()
            self._storage.check_unchanged()
            flushed_ns = time.time_ns()
            self._check_at = 0.0  # should this fail, the next key within `locked` is told so
            self._storage.array.flush(self._lock.timeout)
            with suppress(LockTimeoutError, ReentryError), self.section(_STAMP_SECONDS, CALL):
                self._storage.counters["flushed_ns"] = flushed_ns

    def recount(self) -> int:
        """Count the set positions anew, and settle the batches of killed writers."""
        with self.section(self.timeout, CALL):
            count_set = kind_of(self._storage.header).count_set
            positions_set = count_set(self._storage.views.words)
            self._storage.array.settle(positions_set)
        return positions_set

    def _finish(self, counters: Counters, new_keys: int, positions_set: int) -> None:
        if not positions_set:
            count(counters, BATCHES_BEGUN, -1)  # it changed nothing, so it is no batch
            return
        count(counters, KEYS_ADDED, new_keys)
        now_set = count(counters, POSITIONS_SET, positions_set)
        count(counters, BATCHES_DONE, 1)  # last: a batch that is not done may have lost bits
        self._note_room(now_set)  # `_look` would ask the header once more a chunk

    def _look(self) -> None:
        self._note_room(self._storage.positions_set)  # others may have added, or removed, keys

    def _note_room(self, now_set: int) -> None:
        fit = (self._brim.full_at - now_set) / self._params.num_hashes
        self.room = fit - self._brim.reserved

    def leave_room(self, keys: int) -> None:
        """Expect this number of keys to be added without a look at the plan."""
        self._look()
        self.room -= keys

    def may_pass(self, keys: int) -> bool:  # noqa: D102
        self._look()
        return self._brim.may_pass(keys)

    def absent(self, hashes: HashHalves) -> Bools:  # noqa: D102
        return ~self._contains(self._storage.look(len(hashes[0])).words, hashes)

    def require_room(self, new: Indices) -> None:  # noqa: D102
        self._brim.require_room(new)

    def tell(self, full: FilterFullError) -> None:  # noqa: D102
        try:
            self._brim.tell(full)
        finally:
            self._look()

    def warn_if_full(self) -> None:
        """Warn, if that is due, after a change that has no answers; call unlocked."""
        if self._storage.positions_set > self._brim.full_at:
            self._brim.warn()

    def _require_fit(self, new: Bools, keys: int) -> None:
        """Raise `FilterFullError` if the new keys of a claim go past the plan, or reserve room."""
        if len(new) > self.room and not self._brim.fit_surely(keys):  # seldom: it takes as long
            self._brim.require_room(np.flatnonzero(new))
        if len(new):  # a claim of no keys may be within another one
            self._brim.reserved = keys
            self.room -= keys


class ToClaim(NamedTuple):
    """Keys on their way to a claim, and which of them may meet: see `_engine.meeting`."""

    hashes: HashHalves
    meeting: Bools


class BitWriter(Writer):
    """The writer of a plain filter: bits, which are only ever set."""

    def prepare(self, hashes: HashHalves) -> ToClaim:
        """Tell which keys may meet, which needs no lock."""
        return ToClaim(hashes, _engine.meeting(hashes[0], self._params))

    def claim(self, keys: ToClaim) -> _engine.Claimed:
        """Find which keys are new; call within `section`."""
        words = self._storage.change(len(keys.meeting)).words
        claimed = _engine.claim(words, *keys.hashes, self._params, keys.meeting)
        self._require_fit(claimed.new, claimed.num_new)
        return claimed

    def mark(self, claimed: _engine.Claimed, keys: ToClaim) -> None:
        """Set the bits of what was claimed: see `Writer.mark`."""
        if len(claimed.new):
            self.forget_claim()
        if not claimed.num_new and not self._verify:
            return
        self._storage.attend()
        words, counters = self._begin(0)
        positions_set = _engine.commit(words, claimed)
        if self._verify:
            self._test(words, keys.hashes)
        self._finish(counters, claimed.num_new, positions_set)

    def unite(self, start: int, more: Words) -> int:
        """Set the bits of `more` in a section of its own, from word `start`; how many are new."""
        with self.section(self.timeout, CALL):
            words, counters = self._begin(0)
            positions_set = _engine.union(words, start, more)
            if self._verify and (more & ~words[start : start + len(more)]).any():
                raise LostBitsError(self._storage.path)
            self._finish(counters, 0, positions_set)
        return positions_set

    def require_room_for(self, segments: Iterable[Words]) -> None:
        """Raise `FilterFullError` if a union goes past the plan; call within `section`."""
        start = more = 0
        words = self._storage.views.words
        for segment in segments:
            more += _engine.count_set(segment & ~words[start : start + len(segment)])
            start += len(segment)
        united = self._storage.positions_set + more
        keys = self._params.estimated_count(united) - self._storage.approx_count
        self._brim.require_room(np.zeros(max(0, round(keys)), np.intp))

    def count_united(self, keys_added: int) -> None:
        """Raise the number of keys added to an estimate of it after a union."""
        with self.section(self.timeout, CALL):
            more = keys_added - self._storage.counters["keys_added"]
            count(self._storage.counters, KEYS_ADDED, max(0, more))

    def chunk_keys(self, num_keys: int) -> int:  # noqa: D102  as in the base
        return _engine.chunk_keys(self._params, num_keys)

    def _add(self, words: Words, hashes: HashHalves) -> tuple[Bools, int]:
        return _engine.add(words, *hashes, self._params, self.threads)

    def _contains(self, words: Words, hashes: HashHalves) -> Bools:
        return _engine.contains(words, *hashes, self._params, self.threads)


class FoundCounted(NamedTuple):
    """What `CountingWriter.claim` found."""

    new: Bools


class CountingWriter(Writer):
    """The writer of a counting filter: counters, which go up and down."""

    def prepare(self, hashes: HashHalves) -> HashHalves:
        """Leave all to the claim."""
        return hashes

    def claim(self, hashes: HashHalves) -> FoundCounted:
        """Find which keys are new; call within `section`."""
        words = self._storage.change(len(hashes[0])).words
        new = _engine.counted_claim(words, *hashes, self._params)
        self._require_fit(new, int(np.count_nonzero(new)))
        return FoundCounted(new)

    def mark(self, claimed: FoundCounted, hashes: HashHalves) -> None:
        """Count all keys of the claim, new or not: see `Writer.mark`."""
        if len(claimed.new):
            self.forget_claim()
        self._storage.attend()
        if len(claimed.new):
            self.add_within(hashes)

    def remove_chunk(self, hashes: HashHalves) -> Bools:
        """Remove one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(self.timeout, CALL):
            words, counters = self._begin(len(hashes[0]))
            found, cleared = _engine.decrement(words, *hashes, self._params, self.threads)
            self._finish(counters, 0, -cleared)
        return found

    def add_one(self, key: Key) -> bool:  # noqa: D102  as in the base
        self._storage.check_writable()
        return bool(self.add_chunk(self.hashed(key))[0])

    def remove_one(self, key: Key) -> bool:
        """Remove one key in a section of its own; True if it was there."""
        self._storage.check_writable()
        return bool(self.remove_chunk(self.hashed(key))[0])

    def hashed(self, key: Key) -> HashHalves:
        """Hash one key, as a batch."""
        return _engine.hash_keys(ByteKeys.of([coerce_one(key)]), self._params.key_hash)

    def chunk_keys(self, num_keys: int) -> int:  # noqa: D102  as in the base
        return _engine.chunk_keys(self._params, num_keys, _engine.COUNTER_BITS)

    def _add(self, words: Words, hashes: HashHalves) -> tuple[Bools, int]:
        return _engine.increment(words, *hashes, self._params, self.threads)

    def _contains(self, words: Words, hashes: HashHalves) -> Bools:
        return _engine.counted_contains(words, *hashes, self._params, self.threads)
