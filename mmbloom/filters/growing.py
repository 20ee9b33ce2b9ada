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
from mmbloom._system.typing import HashName, Layout, Path, Reserve
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
    """A Bloom filter that grows as keys are added, shared by any number of processes.

    Create one with ``GrowingFilter.create(path, initial_capacity, error_rate)`` and open it with
    ``GrowingFilter.open(path)``; a ``with`` block, or ``close``, closes it.

    Notes
    -----
    The filter is a folder of filter files. The first has a capacity of `initial_capacity` keys, and
    each further file has twice the capacity of the one before. A key that was added to any file is
    found, unless it is among the `exclusions`. However many files there are, their false-positive
    rates add up to less than the error rate that you choose.

    The folder gives the same answers as a single filter: each key is new exactly once, whichever
    process adds it, and `add_many` returns the same as adding the keys one by one, even if a file
    becomes full in the middle of a batch. A query reads the newest file first, and takes longer the
    more files there are: a filter created for the right number of keys is faster and smaller.

    Threads, processes, forks, pickling and crashes work as in `BloomFilter`. A reader that stays
    open notices new files by itself. Each file is a sound filter that `verify` and readers can
    open, but only this class may write to it.

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
        """Create a folder with a first filter file, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to create the folder. It appears complete or not at all.
        initial_capacity : int
            Capacity of the first file, in distinct keys; further files have 2, 4, 8 ... times as
            much.
        error_rate : float, default 0.01
            False-positive rate of all files together.
        layout, seed, hash, permissions, reserve
            For every file, as in `BloomFilter.create`. The disk space of a file is reserved when
            the file is created.
        exist_ok : bool, default False
            Open the folder if it already exists with these parameters; unless you pass a hash or
            seed, any will do.
        **options
            Those of `open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
            `verify_after_add`, `on_full`, `resident`.

        Returns
        -------
        GrowingFilter
            Opened for writing; close it with ``close`` or a ``with`` block.

        Raises
        ------
        FileExistsError
            If something is at the path and `exist_ok` is not set.
        ParameterMismatchError, FormatError
            If the folder was created with other parameters, or something else is at the path.
        OSError
            If the disk space cannot be reserved (ENOSPC), or on any other system error.
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
