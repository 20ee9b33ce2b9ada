"""GrowingFilter: a filter for an unknown number of keys, in ever larger files.

A key is added to the newest file until that has as many as it is planned for; then the next
one, larger, is made. ``format/folder.py`` has the size and the error rate of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from mmbloom import _engine
from mmbloom._engine import SingleKeys, described
from mmbloom._keys.coerce import coerce_one
from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.opening import absolute
from mmbloom._system.reentry import CALL
from mmbloom._system.typing import (
    Bools,
    HashName,
    Key,
    Layout,
    OnFull,
    Path,
    Reserve,
    Resident,
)
from mmbloom.errors import ParameterMismatchError
from mmbloom.filters.chain import Chain, Hashed, contains_one, take
from mmbloom.filters.folder import FolderFilter
from mmbloom.filters.options import OpenOptions, choose_hash, not_asked, require_equal
from mmbloom.filters.shelf import File, Lasting, ToClaim
from mmbloom.format.folder import GrowthPlan
from mmbloom.sizing.params import FilterParams


@dataclass(frozen=True, slots=True)
class _Part:
    """Keys for one file."""

    member: File
    keys: ToClaim
    claimed: _engine.Claimed


@dataclass(frozen=True, slots=True)
class PendingKeys:
    """What `GrowingChain.claim` found: nothing is set yet.

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


class GrowingChain(Chain):
    """A chain whose newest file gives way to a larger one when it is full."""

    PLAN = GrowthPlan
    plan: GrowthPlan

    def lasting(self, members: Sequence[File]) -> Lasting:
        """Return all files, until the newest is full."""
        return Lasting(members[::-1], capacity=members[-1].params.capacity)

    def claim(self, keys: Hashed) -> PendingKeys:
        """Find which keys are new; call within `section`.

        Makes the files that they need, without naming them.
        """
        *older, member = self.members
        claimed = PendingKeys(member.keys_left, np.zeros(len(keys.found), dtype=np.bool_))
        left = np.flatnonzero(~keys.found_in_all(older))
        while True:
            hashes = take(keys.hashes, left)
            together = member.prepare(hashes)
            found = member.claim(together)
            fresh = np.flatnonzero(found.new)
            room = member.keys_left
            claimed.new[left[fresh[:room]]] = True
            if len(fresh) <= room:
                claimed.parts.append(_Part(member, together, found))
                return claimed
            cut = fresh[room]  # the first that finds the file full
            fitting = member.prepare(take(hashes, slice(cut)))
            pending = member.claim(fitting)
            claimed.parts.append(_Part(member, fitting, pending))
            # Of the keys after the cut, those that are new after all of the batch are new. The
            # others may be there only by keys that go to the next file as well: they are asked
            # for once more, with the keys that stay in this one.
            held = ~found.new
            held[:cut] = True
            unsure = np.flatnonzero(held[cut:]) + cut
            held[unsure] = _engine.contains_with(
                member.storage.views.words, pending, *take(hashes, unsure), member.params
            )
            left = left[cut:][~held[cut:]]
            member = self.make_next(member.number + 1)

    def mark(self, claimed: PendingKeys, keys: Hashed) -> None:
        """Set the bits of what was claimed; call within the `section` of the claim."""
        newest = self.newest
        if newest is not claimed.parts[0].member or newest.keys_left != claimed.room:
            # The caller's block has added other keys: what was claimed may not fit any more.
            claimed = self.claim(keys)
        for part in claimed.parts:
            self._go_to(part.member)
            part.member.mark(part.claimed, part.keys)

    def add_chunk(self, keys: Hashed) -> Bools:
        """Add one chunk in a section of its own; bool array of shape (n,)."""
        with self.section(self.timeout, CALL):
            *older, newest = self.members
            found = keys.found_in_all(older)
            if np.count_nonzero(found) + newest.keys_left < len(found):  # it may get full
                claimed = self.claim(keys)
                self.mark(claimed, keys)
                return claimed.new
            if not found.any():  # the most frequent case, in which nothing is copied
                return newest.add_within(keys.hashes)
            new = ~found
            new[new] = newest.add_within(take(keys.hashes, new))
            return new

    def add_one(self, key: Key) -> bool:
        """Add one key in a section of its own; True if it was new."""
        octets = coerce_one(key)
        with self.section(self.timeout, CALL):
            *older, newest = self.members
            if contains_one(older, octets):
                return False
            if not newest.keys_left and not contains_one([newest], octets):
                newest = self.make_next(newest.number + 1)
                self._go_to(newest)
            return newest.add_one_within(octets)

    def _go_to(self, member: File) -> None:
        if member is not self.newest:
            self.change_over(member)


@described
class GrowingFilter(SingleKeys, FolderFilter):
    """A Bloom filter that grows with its keys, shared by any number of processes.

    ``GrowingFilter.create(path, initial_capacity, error_rate)`` makes one and
    ``GrowingFilter.open(path)`` opens one; a ``with`` block, or ``close``, closes it.

    Notes
    -----
    A folder of filter files: the first is planned for `initial_capacity` keys, each further
    one for twice as many. A key that was added to any is found, one of the `exclusions` never.
    The false-positive rates of the files add up to less than the error rate asked for, however
    many they are.

    It answers what one filter would: a key is new, once, if no file has it, whichever process
    asks, and `add_many` answers what adding one by one would, also where a file gets full in
    the middle of a batch. A query asks the newest file first, and takes longer with each
    file: a filter made for the right number of keys is faster and smaller.

    Threads and processes, forks, pickles, crashes: as `BloomFilter`. A long-lived reader
    learns of a new file by itself. Each file is a sound filter of its own, for `verify` and
    for readers; only this class may write to it.

    Examples
    --------
    >>> import tempfile, os
    >>> folder = os.path.join(tempfile.mkdtemp(), "seen")
    >>> with GrowingFilter.create(folder, initial_capacity=100, error_rate=1e-6, seed=1) as seen:
    ...     print(seen.add_many(["a", "b", "a"]), seen.update(range(1000)))
    ...     print("a" in seen, 999 in seen, "c" in seen, len(seen.info().files))
    [ True  True False] 1000
    True True False 4
    """

    _shelf: GrowingChain

    def _attach(self, path: str, options: OpenOptions) -> None:
        self._begin(GrowingChain(path, options))

    @classmethod
    def create(
        cls,
        path: Path,
        initial_capacity: int,
        error_rate: float = 0.01,
        *,
        layout: Layout = "blocked",
        seed: int | None = None,
        hash: HashName | None = None,
        permissions: int = OWNER_ONLY,
        exist_ok: bool = False,
        reserve: Reserve = "zeros",
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
        threads: int | None = None,
        preload: bool = False,
        verify_after_add: bool = False,
        on_full: OnFull = "warn",
        resident: Resident = "auto",
    ) -> Self:
        """Make a folder with a first filter file, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to make it. The folder appears complete or not at all.
        initial_capacity : int
            Number of distinct keys to plan the first file for; the next have 2, 4, 8 ... times
            as many.
        error_rate : float, default 0.01
            False-positive rate of the whole.
        layout, seed, hash, permissions, reserve
            Of every file, as for `BloomFilter.create`. The disk of a file is reserved when the
            file is made.
        exist_ok : bool, default False
            Open the folder if it exists already with these parameters (any hash
            and seed, by default).
        lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
            As for `BloomFilter.open`.

        Returns
        -------
        GrowingFilter
            Open, to be closed with ``close`` or by a ``with`` block.

        Raises
        ------
        FileExistsError
            If something is at the path and `exist_ok` is not set.
        ParameterMismatchError, FormatError
            If what exists was made with other parameters, or is something else.
        OSError
            If the disk space cannot be reserved (ENOSPC), or as the system says.
        ValueError, TypeError
            If a parameter is out of range.
        """
        settings = OpenOptions(
            "r+", lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
        )
        name, seed_chosen = choose_hash(hash, seed)
        plan = GrowthPlan(initial_capacity, error_rate, layout, seed_chosen, reserve, name)
        return cls._created(
            absolute(path),
            plan,
            0,
            (settings,),
            permissions=permissions,
            exist_ok=exist_ok,
            free=not_asked(hash, seed),
        )

    @classmethod
    def _begun_with(
        cls, path: str, asked: FilterParams, free: frozenset[str], **options: Any
    ) -> Self:
        """Open a folder that has grown from a file with these parameters, but for those `free`.

        The error rate asked for may be that of the whole instead.
        """
        opened = cls.open(path, **options)
        plan = opened._shelf.plan  # noqa: SLF001  of this very class
        if plan.error_rate == asked.error_rate:
            free |= {"error_rate"}
        try:
            require_equal(plan.params(0), asked, path, copied=False, free=free)
        except ParameterMismatchError:
            opened.close()
            raise
        return opened
