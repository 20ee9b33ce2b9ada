"""GrowingFilter: a filter for an unknown number of keys, in ever larger files.

A key is added to the newest file until that has as many as it is planned for; then the next
one, larger, is made (``shelf.py``). ``format/folder.py`` has the size and the error rate of each.
"""

from __future__ import annotations

import os
from typing import Any, Self, Unpack, cast

from mmbloom._engine import Hold, LockState, SingleKeys, described
from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.folder import manifest_of
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.opening import absolute
from mmbloom._system.descriptors import remember
from mmbloom._system.typing import (
    HashName,
    Layout,
    Path,
    Reserve,
)
from mmbloom.errors import FormatError
from mmbloom.filters.chain import Chain
from mmbloom.filters.folder import FolderFilter
from mmbloom.filters.options import OpenedWith, OpenOptions, choose_hash, not_asked, require_equal
from mmbloom.filters.shelf import OneFile, Shelf
from mmbloom.format.exclusions import exclusions_path_in
from mmbloom.format.folder import GrowthPlan
from mmbloom.sizing.params import FilterParams


class GrowingChain(Chain):
    """A chain whose newest file gives way to a larger one when it is full."""

    PLAN = GrowthPlan
    plan: GrowthPlan

    def follow(self) -> bool:
        """Return True, as `OneFile.follow` has: a call that was begun before may ask again."""
        return True

    def keep_lock(self) -> None:
        """Go on with the lock of a section that began when there was one file, if this is one.

        It is that of the file alone: the file is still the newest, as nobody else can have it.
        """
        lock = self.newest.lock
        if not lock.state.mine():
            hand_over(self.state, lock)

    def lock_newest(self, section: Hold, patient: bool) -> bool:
        """Do as `Chain.lock_newest`; a section around this one may have begun with one file."""
        if not section.first:
            self.keep_lock()
        return super().lock_newest(section, patient)


def hand_over(state: LockState, lock: WriteLock) -> None:
    """Let a section go on with another lock of the same file, by the descriptor that it holds."""
    descriptor = state.descriptor
    lock.state.descriptor = descriptor
    state.inner = lock.held(0.0)
    state.inner.__enter__()
    state.descriptor = None


def become(shelf: Shelf, lock: WriteLock | None = None) -> None:
    """Make a shelf of one file that of the folder at its path, if its file is the folder's first.

    Parameters
    ----------
    shelf : OneFile
        From then on a `GrowingChain`; every thread that uses it goes on with the folder.
    lock : WriteLock, optional
        For the file at its new path, if this is within a section, which goes on with it.
    """
    with shelf.loading.here():
        if not isinstance(shelf, OneFile):  # another thread was faster
            return
        shelf.check_open()
        file = shelf.only
        try:
            first, *_ = manifest_of(shelf.path).members
        except (FormatError, OSError):  # no folder of filters
            return
        if first.uuid != file.uuid:
            return
        shelf.leaving = True  # before its checks succeed again
        path = os.path.join(shelf.path, first.name)
        if file.path != path:  # else this interrupts itself, by a signal handler
            file.rename(path, lock or WriteLock(path, file.storage.identity, shelf.timeout))
        shelf.exclusions.move(exclusions_path_in(shelf.path))
        chain = GrowingChain(shelf.path, shelf.options, begun_as=shelf)
        shelf.lock.superseded = True
        chain.former_lock, chain.loading, chain.uuid = shelf.lock, shelf.loading, shelf.uuid
        chain.on_change, chain.claimed = shelf.on_change, shelf.claimed
        vars(shelf).update(vars(chain))
        shelf.__class__ = GrowingChain  # type: ignore[assignment]  # it has all of a chain
        remember(cast("GrowingChain", shelf))
        if file.storage.closed:  # by a signal handler
            shelf.close()


def grown_chain(path: str, options: OpenOptions) -> GrowingChain:
    """Open the folder that a file has become."""
    chain = GrowingChain(path, options)
    chain.uuid = chain.members[0].uuid  # as before it grew, for pickles
    return chain


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
    _CAN_GROW = True

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
        **options: Unpack[OpenedWith],
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
        **options
            Those of `open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
            `verify_after_add`, `on_full`, `resident`.

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
        name, seed_chosen = choose_hash(hash, seed)
        plan = GrowthPlan(initial_capacity, error_rate, layout, seed_chosen, reserve, name)
        return cls._planned(
            absolute(path),
            plan,
            0,
            (OpenOptions("r+", **options),),
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

        def check(opened: Self) -> None:
            plan = opened._shelf.plan
            rate = {"error_rate"} if plan.error_rate == asked.error_rate else frozenset[str]()
            require_equal(plan.params(0), asked, path, copied=False, free=free | rate)

        return cls._opened(path, OpenOptions(**options), check=check)
