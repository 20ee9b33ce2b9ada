"""One file of a folder, open: its map, its lock, and what is written between lock and unlock.

It is proved to be the file that the manifest names, of the sizes that the plan gives it.

The files of a folder as one chain: which there are, which is written to, which has a key.

- **Only the newest file changes, and only under its lock.** The next file is made, and the
  manifest replaced, under that same lock. A writer that has taken the lock checks under it that
  the file is still the newest, and goes on to the newer one if not. So a folder has one writer
  at a time, as a file has. All other files never change again: they may be tested at any time,
  without the lock, and hold what they held when the lock was taken.
- A look at the manifest is one `os.stat`. It comes before the answer "absent": a key whose add
  has returned, in any process, is found by every later query.
- Where a process died after it had made a file and before it had named it, the next change-over
  uses that file if nothing is in it, and another name otherwise.
- A key is looked up newest file first; in the files that do not change, outside the lock.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import TypeVar

import numpy as np

from mmbloom import _engine
from mmbloom._engine import Hold, LockState
from mmbloom._storage.folder import (
    ManifestFile,
    draft_manifest,
    entry_of,
    file_name,
    make_member,
    missing,
    read_manifest,
    require_named,
    stamp_of,
)
from mmbloom._storage.lock import wait
from mmbloom._storage.mapped import MappedFilter
from mmbloom._system.forks import ThreadLock, remember
from mmbloom._system.moments import MOMENT
from mmbloom._system.reentry import AMID
from mmbloom._system.typing import Bools, HashHalves, Indices
from mmbloom.errors import (
    ClosedFilterError,
    FileChangedError,
    FormatError,
    LockTimeoutError,
    ReadOnlyError,
    ReentryError,
)
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import OpenedFile
from mmbloom.filters.options import OpenOptions
from mmbloom.format.exclusions import exclusions_path_in
from mmbloom.format.folder import Entry, FolderPlan, GrowthPlan

_KEYS_A_CHECK = 16  # as many as are asked in a moment where each waits for the disk


class Member:
    """One filter file of a folder.

    Parameters
    ----------
    folder : str
        Absolute path of the folder.
    entry : Entry
        Which file, as the manifest names it.
    plan : FolderPlan
        What says its sizes.
    settings : OpenOptions
        How to open it.
    exclusions : ExclusionList
        The exclusions of the folder: looked at before keys are added, and never its own.

    Raises
    ------
    FormatError
        If it is no valid filter, or not the one that is meant.
    OSError
        If it cannot be opened.
    """

    def __init__(
        self,
        folder: str,
        entry: Entry,
        plan: FolderPlan,
        settings: OpenOptions,
        exclusions: ExclusionList,
    ) -> None:
        path = os.path.join(folder, entry.name)
        writable, network = settings.mode == "r+", settings.allow_network
        self.entry = entry
        self.storage = MappedFilter(
            path, writable=writable, allow_network=network, resident=settings.resident
        )
        try:
            require_named(self.storage.header, path, entry, plan)
        except BaseException:
            self.storage.close()
            raise
        self.params = self.storage.header.params
        self.check_at = 0.0
        # What does not fit into a file of a growing filter goes to the next one.
        on_full = None if isinstance(plan, GrowthPlan) else settings.on_full
        opened = OpenedFile(self.storage, exclusions, settings, path=folder, on_full=on_full)
        self.lock, self.writer, self.close = opened.lock, opened.writer, opened.close

    def recheck(self, now: float) -> None:
        """Make sure that touching the file is safe, and will be for some keys."""
        self.storage.look(_KEYS_A_CHECK)
        self.check_at = now + MOMENT

    @property
    def room(self) -> int:
        """How many more new keys it is planned for; a damaged counter makes that 0 or all."""
        return max(0, self.params.capacity - self.storage.counters["keys_added"])

    def keys_that_were_added(self) -> bool:
        """Tell whether any bit is set; reads the whole file."""
        return _engine.count_set(self.storage.views.words) > 0

    def flush(self) -> None:
        """Force it to the disk, with no stamp: for one that does not change any more."""
        with self.lock.own_threads():  # none may close the file under our feet
            self.storage.check_open()
            self.storage.array.flush()


def key_rule_of(members: Sequence[Member]) -> str | None:
    """Read how lines became keys, from the newest of these files that says it.

    Each new file gets the rule, so that the rule outlives the old ones.
    """
    rules = (member.storage.key_rule for member in reversed(members))
    return next((rule for rule in rules if rule is not None), None)


def contains_one(members: Sequence[Member], key: bytes) -> bool:
    """Test one key in files, the last of them first.

    Each file is looked at once a moment: a look takes longer than all else. To cut a file between
    two looks is as dangerous as to cut it between a look and an access.
    """
    now = monotonic()
    for member in reversed(members):
        if now > member.check_at:
            member.recheck(now)
        if member.storage.views.one.contains(key):
            return True
    return False


def contains_any(members: Sequence[Member], hashes: HashHalves) -> Bools:
    """Test keys in files of equal parameters at once: bool array of shape (n,)."""
    words = [member.storage.look(len(hashes[0])).words for member in members]
    if len(words) == 1:
        member = members[0]
        return _engine.contains(words[0], *hashes, member.params, member.writer.threads)
    return _engine.contains_any(words, *hashes, members[0].params)


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ChainState:
    """The chain as one manifest has it.

    Attributes
    ----------
    file : ManifestFile
        The manifest.
    members : tuple of Member
        Oldest first.
    """

    file: ManifestFile
    members: tuple[Member, ...]

    @property
    def newest(self) -> Member:
        """The one that is written to."""
        return self.members[-1]


class Chain:
    """The open files of one folder.

    Parameters
    ----------
    folder : str
        Absolute path.
    settings : OpenOptions
        How to open each file.

    Attributes
    ----------
    uuid : bytes
        Of the folder.
    plan : GrowthPlan or PeriodPlan
        How its files are made; these two never change.
    exclusions : ExclusionList
        The exclusions of the folder, as far as they are known.

    Notes
    -----
    Safe to use from any thread, and after a fork in both processes.
    """

    def __init__(self, folder: str, settings: OpenOptions) -> None:
        self.folder, self.settings = folder, settings
        # Whose section it is; the lock of the newest file is its `inner`.
        self.state = LockState(folder, None, wait)
        self._loading = ThreadLock()  # one thread at a time opens files
        file = read_manifest(folder)
        self.uuid, self.plan = file.manifest.uuid, file.manifest.plan
        self.exclusions = ExclusionList(exclusions_path_in(folder), self.plan.key_hash)
        # Told when a file was made or dropped, after which the old ones may not be kept.
        self.on_change: Callable[[], object] = int
        self._snapshot: ChainState | None = ChainState(file, ())
        self._snapshot = self._load(file)
        remember(self)

    def refresh(self) -> ChainState:
        """Look which files there are, and give the chain as it is now.

        Raises
        ------
        ClosedFilterError, FileChangedError
            After `close`; if the folder was removed, or another one is at its path.
        FormatError, OSError
            If what is newer than the last look cannot be read.
        """
        snapshot = self.current
        if stamp_of(self.folder) == snapshot.file.stamp:
            return snapshot
        with self._loading.here():
            while stamp_of(self.folder) != (snapshot := self.current).file.stamp:
                file = read_manifest(self.folder)
                if file.stamp == snapshot.file.stamp:
                    # The same one after all: of an open file some systems tell the time in
                    # whole seconds, and of a path in nanoseconds.
                    file.close()
                    break
                loaded = self._load(file)
                if self._snapshot is snapshot:
                    self._snapshot = loaded
                    self.on_change()
                else:  # a signal handler of this thread has opened the files
                    for member in {*loaded.members} - {*snapshot.members, *self.current.members}:
                        member.close()
                    loaded.file.close()
        return snapshot

    @property
    def current(self) -> ChainState:
        """The chain at the last look, which within a section is as it is now."""
        snapshot = self._snapshot
        if snapshot is None:
            raise ClosedFilterError(self.folder)
        return snapshot

    def _load(self, file: ManifestFile) -> ChainState:
        while True:
            manifest = file.manifest
            if (manifest.uuid, manifest.plan) != (self.uuid, self.plan):
                raise FileChangedError(self.folder, "replaced by another filter")
            try:
                return ChainState(file, tuple(map(self._member, manifest.members)))
            except FileNotFoundError as error:
                newer = read_manifest(self.folder)
                if newer.stamp == file.stamp:
                    raise missing(error) from None
                file = newer  # it was dropped since the manifest was read

    def _member(self, entry: Entry) -> Member:
        # One object a file for as long as the chain is open, for all threads: it has the lock,
        # and knows of a failed flush, which is final.
        for member in self.current.members:
            if member.entry == entry:
                return member
        return Member(self.folder, entry, self.plan, self.settings, self.exclusions)

    def ask(self, question: Callable[[ChainState], R]) -> R:
        """Put a question to the chain as it is now.

        If another process drops a file before the answer, the question is put again.
        """
        while True:
            snapshot = self.refresh()
            try:
                return question(snapshot)
            except FileChangedError:
                if self.refresh() is snapshot:
                    raise

    def check_writable(self) -> None:
        """Make sure that this object may write; raises as `MappedFilter.check_writable`."""
        snapshot = self.current
        if self.settings.mode == "r":
            raise ReadOnlyError(self.folder, "it was opened with mode='r'")
        for member in snapshot.members:
            member.storage.check_writable()

    def lock_newest(self, section: Hold, patient: bool) -> bool:
        """Take the lock of the newest file, at once or not at all if impatient, and look at it."""
        if not section.first:
            self.current.newest.writer.look()
            return True
        while True:
            snapshot = self.current
            # Noted before it is taken: whatever comes then, the section gives it back.
            held = self.state.inner = snapshot.newest.lock.held(_left(section))
            try:
                if patient:
                    held.__enter__()
                elif not held.try_once():
                    return False
            except FileChangedError:  # dropped before it was waited for
                if self.refresh() is snapshot:
                    raise
                continue
            except LockTimeoutError:
                raise LockTimeoutError(self.folder, section.timeout or 0.0) from None
            if self.refresh() is snapshot:  # under the lock: it stays the newest
                snapshot.newest.writer.forget_claim()
                snapshot.newest.writer.look()
                return True
            held.leave()

    def make_next(self, number: int) -> Member:
        """Make the file that is to be the newest, and do not name it yet; within `section`.

        What a killed maker left is used if it is what would be made.
        """
        try:
            return self._make(number, file_name(number))
        except FileExistsError:
            left = self._adopt(number)
            return left or self._make(number, file_name(number, os.urandom(4).hex()))

    def _make(self, number: int, name: str) -> Member:
        entry = make_member(
            self.folder,
            name,
            self.plan,
            number,
            permissions=self.current.file.permissions,
            allow_network=self.settings.allow_network,
            key_rule=key_rule_of(self.current.members),
        )
        return Member(self.folder, entry, self.plan, self.settings, self.exclusions)

    def _adopt(self, number: int) -> Member | None:
        try:
            entry = entry_of(self.folder, file_name(number), number)
            left = Member(self.folder, entry, self.plan, self.settings, self.exclusions)
        except (FormatError, OSError):  # a foreign file
            return None
        known = {member.entry.uuid for member in self.current.members}
        same = left.params == self.plan.params(number) and not left.storage.read_only_reason
        if same and entry.uuid not in known and not left.keys_that_were_added():
            if (rule := key_rule_of(self.current.members)) is not None:
                left.storage.note_key_rule(rule)
            return left
        left.close()
        return None

    def change_over(self, member: Member, dropped: int = 0) -> None:
        """Make a file of `make_next` the newest, without the oldest `dropped`; within `section`.

        The section goes on with the lock of the new one.
        """
        before = self.current
        held = before.newest.lock
        assert held.state.mine()  # noqa: S101  what all of this stands on
        next_one = member.lock.held(0.0)  # no other process knows of it
        try:
            next_one.__enter__()
            self.name((*before.members[dropped:], member))
        finally:
            # If only forcing it to the disk has failed, it is the newest all the same.
            if self._snapshot is not before:
                self.state.swap(next_one)
                held.retire()
            else:
                next_one.leave()

    def name(self, members: tuple[Member, ...]) -> None:
        """Name these files in the manifest, and no others; within `section`."""
        before = self.current.file
        manifest = replace(before.manifest, members=tuple(member.entry for member in members))
        with self._loading.here():  # no thread may open a new file a second time
            draft = draft_manifest(self.folder, manifest, before.permissions)
            try:
                draft.install()
            finally:
                if draft.in_place:
                    self._snapshot = ChainState(draft, members)
                    self.on_change()

    def flush(self) -> None:
        """Force every file to the disk; nothing if this object only reads."""

        def flush(now: ChainState) -> None:
            for member in now.members[:-1]:
                member.flush()
            now.newest.writer.flush()

        self.refresh()
        if self.settings.mode == "r+":
            try:
                self.check_writable()
                self.ask(flush)
            except ClosedFilterError:  # of one of the files: another thread has begun to close
                raise ClosedFilterError(self.folder) from None

    def after_fork(self) -> None:
        """Leave the section of a thread to the parent (runs in the child)."""
        self.state.forget()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._snapshot is None

    def close(self) -> None:
        """Close every file; twice is fine."""
        if self.state.amid():  # a call that goes on would go on without the lock
            raise ReentryError(self.folder, AMID)
        with self.state.threads, self._loading.here():  # which would open files again
            snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            with ExitStack() as stack:  # all of them, whichever fails
                stack.callback(snapshot.file.close)
                for member in reversed(snapshot.members):
                    stack.callback(member.close)


def _left(section: Hold) -> float | None:
    """Give the seconds that a section may still wait; None for ever."""
    if section.timeout is None:
        return None
    now = time.monotonic()
    if section.deadline is None:
        section.deadline = now + section.timeout
    return max(0.0, section.deadline - now)


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
