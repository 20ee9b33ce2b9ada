"""The files of a folder as one shelf: which there are, which is written to, which has a key.

Each is proved to be the file that the manifest names, of the sizes that the plan gives it.

- **Only the newest file changes, and only under its lock.** The next file is made, and the
  manifest replaced, under that same lock. A writer that has taken the lock checks under it that
  the file is still the newest, and goes on to the newer one if not. So a folder has one writer
  at a time, as a file has. All other files never change again: they may be tested at any time,
  without the lock, and hold what they held when the lock was taken.
- A check of the manifest is one `os.stat`. It comes before the answer "absent": a key whose add
  has returned, in any process, is found by every later query.
- Where a process died after it had made a file and before it had named it, the next change-over
  uses that file if nothing is in it, and another name otherwise.
- A key is looked up newest file first; in the files that do not change, outside the lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from mmbloom import _engine
from mmbloom._engine import Hold, LockState
from mmbloom._engine.key_batch import HashedKeys
from mmbloom._storage.atomic import Target
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
from mmbloom._storage.lock import WriteLock, wait
from mmbloom._storage.mapped import MappedFilter
from mmbloom._system.descriptors import remember
from mmbloom._system.sections import IN_A_CALL
from mmbloom._system.typing import HashHalves
from mmbloom.errors import (
    ClosedFilterError,
    FileChangedError,
    FormatError,
    LockTimeoutError,
    OtherKindError,
    ReadOnlyError,
    ReentryError,
)
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import BitFile, File
from mmbloom.filters.info import FolderInfo, read_folder_info
from mmbloom.filters.options import OpenOptions
from mmbloom.filters.shelf import Hashed, OneFile, Shelf, flush_all, found_in, key_rule_of
from mmbloom.format.exclusions import exclusions_path_in
from mmbloom.format.folder import MANIFEST, Entry, FolderPlan, GrowthPlan, PeriodPlan


def open_member(
    folder: str, entry: Entry, plan: FolderPlan, options: OpenOptions, exclusions: ExclusionList
) -> File:
    """Open a file of a folder; raises as `MappedFilter` and `require_named`."""
    path = os.path.join(folder, entry.name)
    writable, network = options.mode == "r+", options.allow_network
    storage = MappedFilter(
        path, writable=writable, allow_network=network, resident=options.resident
    )
    try:
        require_named(storage.header, path, entry, plan)
    except BaseException:
        storage.close()
        raise
    # What does not fit into a file of a growing filter goes to the next one.
    grows = isinstance(plan, GrowthPlan)
    on_full = None if grows or options.on_full == "grow" else options.on_full
    return BitFile(
        storage, exclusions, options, on_full=on_full, folder=folder, number=entry.number
    )


def _entry(file: File) -> Entry:
    """Return a file as the manifest names it."""
    return Entry(file.number, os.path.basename(file.path), file.uuid)


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ChainState:
    """The chain as one manifest has it.

    Attributes
    ----------
    file : ManifestFile
        The manifest.
    members : tuple of File
        Oldest first.
    """

    file: ManifestFile
    members: tuple[File, ...]


class Chain(Shelf):
    """The open files of one folder; its uuid and plan never change.

    Parameters
    ----------
    folder : str
        Absolute path.
    options : OpenOptions
        How to open each file.
    begun_as : OneFile, optional
        The shelf of its first file, which was open before the folder was there.

    Raises
    ------
    OtherKindError
        If the folder is planned for another class.

    Notes
    -----
    Safe to use from any thread, and after a fork in both processes.
    """

    PLAN: ClassVar[type[GrowthPlan | PeriodPlan]]
    plan: FolderPlan
    former_lock: WriteLock | None = None  # of the first file, when that was all there was

    def __init__(self, folder: str, options: OpenOptions, begun_as: OneFile | None = None) -> None:
        super().__init__(folder, options)
        file = read_manifest(folder)
        self.uuid, self.plan = file.manifest.uuid, file.manifest.plan
        if not isinstance(self.plan, self.PLAN):
            file.close()
            found = self.plan.kind
            expected = f"{self.PLAN.kind}; open it with {found.title()}Filter"
            raise OtherKindError(folder, found, found, expected)
        self._stamped = os.fsencode(os.path.join(folder, MANIFEST))
        if begun_as is None:
            # Whose section it is; the lock of the newest file is its `inner`.
            self.state = LockState(folder, None, wait)
            self.exclusions = ExclusionList(exclusions_path_in(folder), self.plan.key_hash)
        else:
            self.state, self.exclusions = begun_as.state, begun_as.exclusions
        known = () if begun_as is None else tuple(begun_as.members)
        self._snapshot: ChainState | None = ChainState(file, known)
        self._snapshot = self._load(file)
        remember(self)

    def refresh(self) -> ChainState:
        """Check which files there are, and return the chain as it is now.

        Raises
        ------
        ClosedFilterError, FileChangedError
            After `close`; if the folder was removed, or another one is at its path.
        FormatError, OSError
            If what is newer than the last check cannot be read.
        """
        snapshot = self.current
        if stamp_of(self.path) == snapshot.file.stamp:
            return snapshot
        with self.loading.here():
            while stamp_of(self.path) != (snapshot := self.current).file.stamp:
                file = read_manifest(self.path)
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
        """The chain at the last check, which within a section is as it is now."""
        snapshot = self._snapshot
        if snapshot is None:
            raise ClosedFilterError(self.path)
        return snapshot

    def _load(self, file: ManifestFile) -> ChainState:
        while True:
            manifest, now = file.manifest, self.current.file.manifest
            if (manifest.uuid, manifest.plan) != (now.uuid, now.plan):
                raise FileChangedError(self.path, "replaced by another filter")
            try:
                return ChainState(file, tuple(map(self._member, manifest.members)))
            except FileNotFoundError as error:
                newer = read_manifest(self.path)
                if newer.stamp == file.stamp:
                    raise missing(error) from None
                file = newer  # it was dropped since the manifest was read

    def _member(self, entry: Entry) -> File:
        # One object a file for as long as the chain is open, for all threads: it has the lock,
        # and knows of a failed flush, which is final.
        for member in self.members:
            if _entry(member) == entry:
                return member
        return open_member(self.path, entry, self.plan, self.options, self.exclusions)

    def ask(self, question: Callable[[Sequence[File]], R]) -> R:
        """Put a question to the files as they are now.

        If another process drops a file before the answer, the question is put again.
        """
        while True:
            snapshot = self.refresh()
            try:
                return question(snapshot.members)
            except FileChangedError:
                if self.refresh() is snapshot:
                    raise

    @property
    def members(self) -> tuple[File, ...]:  # noqa: D102
        return self.current.members

    @property
    def listed(self) -> tuple[Sequence[File], tuple[bytes, int, int, int, int], object]:  # noqa: D102
        now = self.current
        device, inode, mtime, size = now.file.stamp
        return now.members, (self._stamped, device, inode, size, mtime), now.file

    def check_open(self) -> None:  # noqa: D102
        self.refresh()

    check_unchanged = check_open

    @property
    def only(self) -> File:  # noqa: D102
        found = self.plan.kind
        raise OtherKindError(
            self.path,
            found,
            f"a {found} folder of files",
            "a single file, as before it grew: this call needs one file",
        )

    def prepare(self, hashes: HashHalves) -> Hashed:
        """Test keys in all files but the newest."""

        def test(members: Sequence[File]) -> Hashed:
            older = tuple(self.older(members))
            return Hashed(hashes, older, found_in(older, HashedKeys(*hashes)))

        return self.ask(test)

    def check_writable(self) -> None:  # noqa: D102
        snapshot = self.current
        if self.options.mode == "r":
            raise ReadOnlyError(self.path, "it was opened with mode='r'")
        for member in snapshot.members:
            member.storage.check_writable()

    def lock_newest(self, section: Hold, patient: bool) -> bool:
        """Take the lock of the newest file, at once or not at all if impatient, and check it."""
        if not section.first:
            self.newest.look()
            return True
        if self.former_lock is not None:
            self.former_lock.drop()
            self.former_lock = None
        while True:
            snapshot = self.current
            # Noted before it is taken: whatever comes then, the section gives it back.
            held = self.state.inner = snapshot.members[-1].lock.held(_left(section))
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
                raise LockTimeoutError(self.path, section.timeout or 0.0) from None
            if self.refresh() is snapshot:  # under the lock: it stays the newest
                snapshot.members[-1].look(first=True)
                return True
            held.leave()

    def make_next(self, number: int) -> File:
        """Make the file that is to be the newest, and do not name it yet; within `section`.

        What a killed maker left is used if it is what would be made.
        """
        try:
            return self._make(number, file_name(number))
        except FileExistsError:
            left = self._adopt(number)
            return left or self._make(number, file_name(number, os.urandom(4).hex()))

    def _make(self, number: int, name: str) -> File:
        permissions, allow_network = self.current.file.permissions, self.options.allow_network
        target = Target(os.path.join(self.path, name), permissions, allow_network)
        make_member(target, self.plan, number, key_rule=key_rule_of(self.members))
        entry = entry_of(self.path, name, number)
        return open_member(self.path, entry, self.plan, self.options, self.exclusions)

    def _adopt(self, number: int) -> File | None:
        try:
            entry = entry_of(self.path, file_name(number), number)
            left = open_member(self.path, entry, self.plan, self.options, self.exclusions)
        except (FormatError, OSError):  # a foreign file
            return None
        known = {member.uuid for member in self.members}
        same = left.params == self.plan.params(number) and not left.storage.read_only_reason
        if same and entry.uuid not in known and not _engine.count_set(left.storage.views.words):
            if (rule := key_rule_of(self.members)) is not None:
                left.storage.note_key_rule(rule)
            return left
        left.close()
        return None

    def change_over(self, member: File, dropped: int = 0) -> None:
        """Make a file of `make_next` the newest, without the oldest `dropped`; within `section`.

        The section goes on with the lock of the new one.
        """
        before = self.current
        held = before.members[-1].lock
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

    def name(self, members: tuple[File, ...]) -> None:
        """Write a manifest that lists exactly these files; within `section`."""
        before = self.current.file
        manifest = replace(before.manifest, members=tuple(map(_entry, members)))
        with self.loading.here():  # no thread may open a new file a second time
            draft = draft_manifest(self.path, manifest, before.permissions)
            try:
                draft.install()
            finally:
                if draft.in_place:
                    self._snapshot = ChainState(draft, members)
                    self.on_change()

    def flush(self) -> None:  # noqa: D102
        # If only some are read-only, this object may have written to the others.
        if all(member.storage.read_only_reason for member in self.refresh().members):
            return
        try:
            self.check_writable()  # a flush that has failed is final
            self.ask(flush_all)
        except ClosedFilterError:  # of one of the files: another thread has begun to close
            raise ClosedFilterError(self.path) from None

    def read_info(self, members: Sequence[File]) -> FolderInfo:  # noqa: D102
        asked = self.asked(members)
        for member in asked:
            member.storage.check_unchanged()
        self.exclusions.reread()
        manifest = self.current.file.manifest
        rule = key_rule_of(members)
        return read_folder_info(
            self.path, manifest, self.exclusions, members=members, asked=asked, key_rule=rule
        )

    def after_fork(self) -> None:
        """Leave the section of a thread to the parent (runs in the child)."""
        self.state.forget()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._snapshot is None

    def close(self) -> None:  # noqa: D102
        if self.state.in_a_call():  # a call that goes on would go on without the lock
            raise ReentryError(self.path, IN_A_CALL)
        with self.state.threads, self.loading.here():  # which would open files again
            snapshot, self._snapshot = self._snapshot, None
            if self.former_lock is not None:
                self.former_lock.drop()
        if snapshot is not None:
            with ExitStack() as stack:  # all of them, whichever fails
                stack.callback(snapshot.file.close)
                for member in reversed(snapshot.members):
                    stack.callback(member.close)


def _left(section: Hold) -> float | None:
    """Return the seconds that a section may still wait; None for ever."""
    if section.timeout is None:
        return None
    now = time.monotonic()
    if section.deadline is None:
        section.deadline = now + section.timeout
    return max(0.0, section.deadline - now)
