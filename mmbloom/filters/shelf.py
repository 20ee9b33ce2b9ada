"""An open filter is a shelf of files; all writing is a section of its newest file.

`Shelf` is what a `Filter` and a `Claim` ask for: which files there are, which of them has a key,
and which gets one. `OneFile` is a single file at the path of the filter; the files of a folder are
a `Chain` (``chain.py``). What happens to the array of a file is the subject of ``file.py``.

- Query and add are one section: with the lock around the add only, 35,577 of 200,000 keys were
  reported new by both of two workers.
- What goes past the plan of the newest file goes to a larger one, if that is wanted. The file at
  the path then becomes the first of a folder, and this very object becomes a `Chain`, in whichever
  process: the call or block that is under way goes on. Each method here that enters a section, or
  asks the files, therefore calls the methods of the class that this object has by then. For the
  same reason `OneFile` calls those of its base without `super`.
"""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np

from mmbloom import _engine
from mmbloom._engine import Grounds, Hold, LockState
from mmbloom._engine.key_batch import HashedKeys, KeyBatch
from mmbloom._keys.coerce import coerce_one
from mmbloom._system.descriptors import ThreadLock
from mmbloom._system.sections import BLOCK, CALL, IN_A_CALL
from mmbloom._system.typing import Bools, HashHalves, Indices, Key
from mmbloom.errors import ClosedFilterError, FileChangedError, ReentryError
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import File
from mmbloom.filters.options import OpenOptions
from mmbloom.sizing.params import FilterParams

if TYPE_CHECKING:  # which takes milliseconds, for filters of one file
    from mmbloom.format.folder import FolderPlan

R = TypeVar("R")

# To check more files takes longer than the moment for which the check is good.
_MOST_TRUSTED = 128

# Keys with which a file may get full: a claim takes twenty times as long as adding.
_CLAIMED_TOGETHER = 1 << 14


class Lasting(NamedTuple):
    """Which files are asked, newest first, from when to when by the Unix clock."""

    asked: Sequence[File]
    since: float = 0.0
    ends: float = math.inf


class Hashed(NamedTuple):
    """Keys on their way to the lock.

    Attributes
    ----------
    hashes : HashHalves
        Of all keys.
    tested : tuple of File
        Files that were tested.
    found : ndarray of bool, shape (n,), or None
        Keys that one of these has.
    """

    hashes: HashHalves
    tested: tuple[File, ...] = ()
    found: Bools | None = None

    @property
    def num_keys(self) -> int:
        """How many keys these are."""
        return len(self.hashes[0])

    def part(self, here: slice) -> Hashed:
        """Return some of the keys."""
        found = None if self.found is None else self.found[here]
        return Hashed(take(self.hashes, here), self.tested, found)

    def found_in_all(self, older: Sequence[File]) -> Bools:
        """Return the keys that one of these files has, testing those that were not tested."""
        if self.found is None or not {*self.tested} <= {*older}:
            # One was dropped: what it has does not count.
            return found_in(older, HashedKeys(*self.hashes))
        untested = [member for member in older if member not in self.tested]
        if not untested:
            return self.found
        return self.found | found_in(untested, HashedKeys(*self.hashes))


class Part(NamedTuple):
    """Keys for one file, and what `File.claim` has returned of them."""

    member: File
    hashes: HashHalves
    claimed: Any


class Pending(NamedTuple):
    """What `Shelf.claim` found: nothing is set yet.

    Attributes
    ----------
    new : ndarray of bool, shape (n,)
        True for each key that adding one by one would have reported as new.
    room : int
        What the newest file had left.
    parts : list of Part
        What to set in which file, in order; all but the first are not named yet.
    """

    new: Bools
    room: int
    parts: list[Part]


class Shelf(ABC):
    """The open files of one filter, oldest first, and how keys get into the newest.

    Attributes
    ----------
    path : str
        Of the filter.
    uuid : bytes
        Of the filter.
    plan : FilterParams or FolderPlan
        What it was created with.
    options : OpenOptions
        How it was opened.
    timeout : float or None
        Seconds to wait for the write lock; None for ever.
    strict : bool
        Whether what goes past the plan is refused.
    exclusions : ExclusionList
        Keys that are answered as not seen.
    state : LockState
        Whose section it is.
    loading : ThreadLock
        Held while files are opened: by one thread at a time.
    claimed : weak reference of a Claim, or None
        The one whose block is under way; read and changed within sections only.
    on_change : callable
        Called when a file was made or dropped, after which the old ones may not be kept.
    """

    uuid: bytes
    plan: FilterParams | FolderPlan
    exclusions: ExclusionList
    state: LockState
    claimed: weakref.ref[Any] | None = None
    renews: ClassVar[bool] = False
    """Whether a key that an older file has is added to the newest all the same."""

    def __init__(self, path: str, options: OpenOptions) -> None:
        self.path, self.options = path, options
        self.timeout, self.strict = options.lock_timeout, options.on_full == "raise"
        self.on_change: Callable[[], object] = int
        self.loading = ThreadLock()

    @property
    @abstractmethod
    def members(self) -> Sequence[File]:
        """All files at the last check, which within a section is as it is now."""

    @property
    def newest(self) -> File:
        """The file that is written to."""
        return self.members[-1]

    @property
    @abstractmethod
    def listed(self) -> tuple[Sequence[File], tuple[bytes, int, int, int, int], object]:
        """The files, and the file whose change shows that there are others, as `Grounds` takes it.

        Both are of one check: if another thread found a newer file between two reads, keys in that
        file would be denied.
        """

    @property
    @abstractmethod
    def only(self) -> File:
        """The file at the path of the filter; `OtherKindError` if a folder is there."""

    @property
    def room(self) -> float:
        """How many keys fit into the plan for sure: a batch of more is to be foreseen."""
        return self.newest.room

    @abstractmethod
    def ask(self, question: Callable[[Sequence[File]], R]) -> R:
        """Put a question to the files as they are now."""

    def asked(self, members: Sequence[File]) -> Sequence[File]:
        """Return the files that a query asks, oldest first: all of them."""
        return members

    def older(self, members: Sequence[File]) -> Sequence[File]:
        """Return those of the files asked that do not change any more."""
        return [member for member in self.asked(members) if member is not members[-1]]

    def lasting(self, members: Sequence[File]) -> Lasting | None:
        """Return for how long which files are asked, and the newest added to; None if unknown."""
        return Lasting(members[::-1])

    def grounds(self, gone: int, more: int) -> Grounds | None:
        """Check the files, and return what the next keys may take for granted, or None.

        Parameters
        ----------
        gone, more : int
            How many keys went by the last grounds, and how many may by these.
        """
        exclusions = self.exclusions
        words = [(exclusions.edition, exclusions.edition[0])]
        try:
            members, file, kept = self.listed
            lasting = self.lasting(members)
            if lasting is None or len(lasting.asked) > _MOST_TRUSTED:
                return None
            arrays = []
            for each in lasting.asked:
                words.append((each.storage.array.news, each.storage.array.news[0]))
                place = each.storage.trusted(gone)
                if place is None:
                    return None
                words.append((place.word_now, place.word))
                arrays.append(place.views.one)
            newest = members[-1]
            newest.leave_room(more)
        except ClosedFilterError:  # by another thread: the next key raises
            return None
        writable = all(each.storage.is_writable for each in members)
        return Grounds(
            arrays=arrays,
            words=words,
            lock=newest.lock.state,
            section=self.state,
            file=file,
            listed_until=exclusions.refresh_at,
            plain=exclusions.empty,
            full_at=newest.unquestioned if writable else -math.inf,
            capacity=newest.most_keys,
            since=lasting.since,
            ends=lasting.ends,
            renews=self.renews,
            each=kept is not None,
            kept=kept,
        )

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether `close` was called."""

    @abstractmethod
    def close(self) -> None:
        """Leave and unmap every file, and release everything; closing twice is fine."""

    @abstractmethod
    def flush(self) -> None:
        """Force every file to the disk; do nothing if all are read-only, for whatever reason."""

    @abstractmethod
    def read_info(self, members: Sequence[File]) -> Any:
        """Read everything that these files say of themselves."""

    def recount(self) -> int:
        """Count the set positions again, and settle the batches of killed writers."""
        self.check_writable()
        return self.ask(lambda members: sum(member.recount() for member in members))

    @abstractmethod
    def check_open(self) -> None:
        """Raise `ClosedFilterError` after `close`."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise `FileChangedError` if the filter is not at its path any more."""

    @abstractmethod
    def check_writable(self) -> None:
        """Raise as `MappedFilter.check_writable` unless this object may write."""

    def has(self, key: bytes) -> bool:
        """Return whether one key is there, excluded or not."""
        return self.ask(lambda members: contains_one(self.asked(members), key))

    def find(self, keys: KeyBatch) -> Bools:
        """Return which keys are there: bool array of shape (n,)."""
        return self.ask(lambda members: found_in(self.asked(members), keys))

    def section(self, timeout: float | None, kind: int = BLOCK) -> Hold:
        """Hold the write lock of the newest file, for a block of the caller's or a call."""
        # Checked before waiting for a lock that would be of no use, too.
        return Hold(self.state, timeout, kind, self.check_writable, self._ready)

    def _ready(self, section: Hold, patient: bool) -> bool:
        return self.lock_newest(section, patient)

    @abstractmethod
    def lock_newest(self, section: Hold, patient: bool) -> bool:
        """Take the lock of the newest file, at once or not at all if impatient, and check it."""

    def turn(self) -> bool:
        """Begin another newest file if it is time, within `section`; return whether it was."""
        return False

    def keep_up(self, _add: Callable[[File], object]) -> None:
        """Add once more what was added while its time came to an end; call within `section`."""
        return

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Test keys in the files that do not change any more, if any; this needs no lock."""
        return Hashed(hashes)

    def add_chunk(self, hashes: HashHalves) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""
        keys, newest = self.prepare(hashes), self.newest
        whole = self.renews or keys.found is None or not keys.found.any()
        order = newest.arrange(hashes) if whole else None
        # The caller has checked before the first chunk that it may write.
        with Hold(self.state, self.timeout, CALL, None, self._ready):
            self.turn()
            return self.add_within(keys, order if self.newest is newest else None)

    def add_within(self, keys: Hashed, order: Any) -> Bools:
        """Add one chunk within `section`; `order` is that of all its keys, or None."""
        members = self.members
        newest = members[-1]
        found = keys.found_in_all(self.older(members))
        if len(found) - np.count_nonzero(found) > newest.keys_left:  # it may get full
            most = max(newest.keys_left, _CLAIMED_TOGETHER)
            if keys.num_keys > most:
                cut = slice(most), slice(most, None)
                return np.concatenate([self.add_within(keys.part(here), None) for here in cut])
            pending = self.claim(keys)
            self.mark(pending, keys)
            return pending.new
        if self.renews or not found.any():  # the most frequent case, in which nothing is copied
            new = newest.add_within(keys.hashes, order) & ~found
        else:
            new = ~found
            rest = take(keys.hashes, new)
            new[new] = newest.add_within(rest, newest.arrange(rest))
        self.keep_up(lambda newest: newest.add_within(keys.hashes))
        return new

    def add_one(self, key: Key) -> bool:
        """Add one key in a section of its own; True if it was new."""
        octets = coerce_one(key)
        with self.section(self.timeout, CALL):
            return self.add_one_within(octets)

    def add_one_within(self, key: bytes) -> bool:
        """Add one key within `section`; True if it was new."""
        self.turn()
        *_, newest = members = self.members
        found = contains_one(self.older(members), key)
        if found and not self.renews:
            return False
        if not newest.keys_left and not newest.has(key):
            newest = self.make_next(newest.number + 1)
            self.change_over(newest)
        new = newest.add_one_within(key) and not found
        self.keep_up(lambda newest: newest.add_one_within(key))
        return new

    def claim(self, keys: Hashed) -> Pending:
        """Find which keys are new; call within `section`.

        Make the files that they need, without naming them.

        Raises
        ------
        FilterFullError
            If they go past the plan and the caller is to be told: leave the section, and `tell`.
        """
        if not keys.num_keys:  # no keys, no file
            return Pending(np.zeros(0, np.bool_), 0, [])
        self.turn()
        members = self.members
        member = members[-1]
        found = keys.found_in_all(self.older(members))
        pending = Pending(np.zeros(len(found), np.bool_), member.keys_left, [])
        left = None if self.renews or not found.any() else np.flatnonzero(~found)
        together = keys.hashes if left is None else take(keys.hashes, left)
        while True:
            claimed, room = member.claim(together), member.keys_left
            if left is None and keys.num_keys > room:
                left = np.arange(keys.num_keys)
            if left is None:
                pending.new[:] = claimed.new & ~found
                pending.parts.append(Part(member, together, claimed))
                return pending
            fresh = np.flatnonzero(claimed.new)
            pending.new[left[fresh[:room]]] = True
            if len(fresh) <= room:
                pending.parts.append(Part(member, together, claimed))
                return pending
            hashes = take(keys.hashes, left)
            cut = fresh[room]  # the first that finds the file full
            fitting = take(hashes, slice(cut))
            part = Part(member, fitting, member.claim(fitting))
            pending.parts.append(part)
            # Of the keys after the cut, those that are new after all of the batch are new. The
            # others may be there only by keys that go to the next file as well: they are asked
            # for once more, with the keys that stay in this one.
            held = ~claimed.new
            held[:cut] = True
            unsure = np.flatnonzero(held[cut:]) + cut
            held[unsure] = _engine.contains_with(
                member.storage.views.words, part.claimed, *take(hashes, unsure), member.params
            )
            left = left[cut:][~held[cut:]]
            member = self.make_next(member.number + 1)
            together = take(keys.hashes, left)

    def mark(self, pending: Pending, keys: Hashed) -> None:
        """Add what was claimed; call within the `section` of the claim."""
        if not pending.parts:
            return
        newest = self.newest
        if newest is not pending.parts[0].member or newest.keys_left != pending.room:
            # The caller's block has added other keys: what was claimed may not fit any more.
            pending = self.claim(keys)
        for part in pending.parts:
            if part.member is not self.newest:
                self.change_over(part.member)
            part.member.mark(part.claimed, part.hashes)
        self.keep_up(lambda newest: newest.add_within(keys.hashes))

    @abstractmethod
    def make_next(self, number: int) -> File:
        """Make the file that is to be the newest, and do not name it yet; within `section`."""

    @abstractmethod
    def change_over(self, member: File) -> None:
        """Make a file of `make_next` the newest; within `section`."""


class OneFile(Shelf):
    """A single file, at the path of the filter.

    Parameters
    ----------
    file : File
        The file, which this closes.
    options : OpenOptions
        How it was opened.
    """

    leaving = False  # whether the file is, or soon will be, the first of a folder

    def __init__(self, file: File, options: OpenOptions) -> None:
        super().__init__(file.path, options)
        self.file, self._files = file, (file,)
        self.uuid, self.plan, self.exclusions = file.uuid, file.params, file.exclusions
        self.lock, self.state = file.lock, file.lock.state
        trusting = weakref.ref(self)  # the lock must not keep the shelf

        def moved() -> bool:
            return (shelf := trusting()) is not None and shelf.follow()

        self.lock.moved = moved

    @property
    def members(self) -> Sequence[File]:  # noqa: D102  as in the base
        return self._files

    @property
    def only(self) -> File:  # noqa: D102
        return self.file

    @property
    def listed(self) -> tuple[Sequence[File], tuple[bytes, int, int, int, int], object]:  # noqa: D102
        return self._files, (*self.file.storage.file, 0), None

    def grounds(self, gone: int, more: int) -> Grounds | None:  # noqa: D102
        found = Shelf.grounds(self, gone, more)  # not `super`: its class may be another by now
        return None if self.leaving else found

    def ask(self, question: Callable[[Sequence[File]], R]) -> R:  # noqa: D102
        try:
            answer = question(self._files)
        except FileChangedError:
            if not self.follow():
                raise
        else:
            if not self.leaving:  # else others may have added to the folder before the question
                return answer
            self.follow()
        return self.ask(question)

    def follow(self) -> bool:
        """Become the folder that is at the path, if this file is its first; return whether."""
        return False

    @property
    def closed(self) -> bool:  # noqa: D102
        return self.file.storage.closed

    def close(self) -> None:  # noqa: D102
        if self.state.in_a_call():
            raise ReentryError(self.path, IN_A_CALL)
        with self.state.threads, self.loading.here():  # no other thread makes it a folder
            shelf = cast("Shelf", self)  # of the class that it has by now
            if isinstance(shelf, OneFile):
                shelf.file.close()
                return
        shelf.close()

    def flush(self) -> None:  # noqa: D102
        self.ask(flush_all)

    def read_info(self, members: Sequence[File]) -> Any:  # noqa: D102
        # Here, not above: most programs never ask, and to make the record's class takes 1 ms.
        from mmbloom.filters.info import read_info  # noqa: PLC0415

        members[0].storage.check_unchanged()
        return read_info(members[0].storage, self.exclusions)

    def check_open(self) -> None:  # noqa: D102
        self.file.storage.check_open()

    def check_unchanged(self) -> None:  # noqa: D102
        self.ask(lambda members: members[-1].storage.check_unchanged())

    def check_writable(self) -> None:  # noqa: D102
        self.file.storage.check_writable()

    def lock_newest(self, section: Hold, patient: bool) -> bool:  # noqa: D102
        # The section is this file's: its lock is held.
        try:
            self.file.look(first=section.first)
        except FileChangedError:
            if not self.follow():
                raise
        else:
            if not self.leaving:
                return True
            self.follow()
        return self.lock_newest(section, patient)

    def older(self, members: Sequence[File]) -> Sequence[File]:  # noqa: ARG002, D102
        return ()

    def add_within(self, keys: Hashed, order: Any) -> Bools:  # noqa: D102
        if self.file.overflows and keys.num_keys > self.file.keys_left:  # it may get full
            return Shelf.add_within(self, keys, order)
        return self.file.add_within(keys.hashes, order)

    def add_one(self, key: Key) -> bool:  # noqa: D102
        octets = coerce_one(key)
        if self.state.around():  # a block: one section for many keys
            with Hold(self.state, 0.0, CALL):
                if self.file.keys_left and not self.leaving:
                    return self.file.add_one_soon(octets)
        return Shelf.add_one(self, octets)

    def make_next(self, number: int) -> File:  # noqa: D102
        raise NotImplementedError(number)  # no file that overflows is a shelf of this class

    change_over = make_next  # type: ignore[assignment]


def key_rule_of(members: Sequence[File]) -> str | None:
    """Read how lines became keys, from the newest of these files that says it.

    Each new file gets the rule, so that the rule outlives the old ones.
    """
    rules = (member.storage.key_rule for member in reversed(members))
    return next((rule for rule in rules if rule is not None), None)


def flush_all(members: Sequence[File]) -> None:
    """Force files to the disk, of which the last one may change."""
    for member in members[:-1]:
        member.sync()
    members[-1].flush()


def contains_one(members: Sequence[File], key: bytes) -> bool:
    """Test one key in files, the last of them first, each of which is checked once a moment."""
    if len(members) == 1:
        return members[0].has(key)
    now = monotonic()
    return any(member.has_soon(key, now) for member in reversed(members))


def contains_any(members: Sequence[File], keys: KeyBatch) -> Bools:
    """Test keys in files of equal parameters at once: bool array of shape (n,)."""
    if len(members) == 1:
        return members[0].find(keys)
    words = [member.storage.look(len(keys)).words for member in members]
    return _engine.contains_any(words, keys, members[0].params, members[0].threads)


def found_in(members: Sequence[File], keys: KeyBatch) -> Bools:
    """Test keys in files that are given oldest first: bool array of shape (n,)."""
    # Those of a rotating filter are alike: they are tested together, at half the cost.
    groups = [[*alike] for _, alike in groupby(reversed(members), lambda member: member.params)]
    if len(groups) == 1:
        return contains_any(groups[0], keys)
    found = np.zeros(len(keys), dtype=np.bool_)
    if not groups:
        return found
    hashes = _engine.hash_keys(keys, members[0].params.key_hash, members[0].threads)
    left: Indices | None = None  # all of them
    for group in groups:
        hits = contains_any(group, HashedKeys(*(hashes if left is None else take(hashes, left))))
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
