"""RotatingFilter: "seen in the last seven days", in files that are dropped as a whole.

A key is written to the file of the present period, which is made when the first key of its
period comes; then, and only then, whole files that are past their time are dropped: from the
manifest first, and from the disk after. Where the disk is too full for the next file, they are
dropped before it is made. A process that has one mapped is not harmed, and forgets it at its
next check; until then a query leaves it out by the clock.

A period that has ended does not begin again: while a clock that went back is not past the
newest file's period, keys go to that file. ``format/folder.py`` defines the periods.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, Unpack

from mmbloom._engine import SingleKeys, described
from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.folder import remove_older
from mmbloom._storage.opening import absolute
from mmbloom._system.typing import Clock, Duration, HashName, Layout, Mode, Path, Reserve
from mmbloom.errors import MmbloomError
from mmbloom.filters.chain import Chain
from mmbloom.filters.file import File
from mmbloom.filters.folder import FolderFilter
from mmbloom.filters.options import OpenedWith, OpenOptions, choose_hash, not_asked
from mmbloom.filters.shelf import Lasting
from mmbloom.format.folder import PeriodPlan, seconds_of

# Files that take longer to make than a period lasts would keep the lock for ever.
_MOST_ROUNDS = 8
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


class RotatingChain(Chain):
    """A chain whose newest file gives way to the next when its period is over.

    Parameters
    ----------
    folder, options
        As for `Chain`.
    clock : callable
        Gives the Unix time in seconds.
    """

    PLAN = PeriodPlan
    plan: PeriodPlan
    renews = True  # its time starts again

    def __init__(self, folder: str, options: OpenOptions, clock: Clock) -> None:
        super().__init__(folder, options)
        self.clock = clock

    def lasting(self, members: Sequence[File]) -> Lasting | None:
        """Return which files are asked in this period; None by another clock than the system's."""
        if self.clock is not time.time:
            return None
        since = time.time()
        asked = [one for one in members if not self.plan.expired(one.number, since)]
        number = members[-1].number
        if not asked or self.plan.period(since) > number:
            return None  # the next key that comes makes a file
        ends = min(self.plan.end(number), self.plan.expires(asked[0].number))
        return Lasting(asked[::-1], since, ends)

    def asked(self, members: Sequence[File]) -> Sequence[File]:
        """Return the files that a query asks: those whose time is not over."""
        time = self.clock()
        if not self.plan.expired(members[0].number, time):  # most of the time
            return members
        return [one for one in members if not self.plan.expired(one.number, time)]

    @property
    def room(self) -> float:
        """How many keys fit into the plan of the present period for sure."""
        newest = self.newest
        if newest.room == math.inf and self.plan.period(self.clock()) > newest.number:
            return 0.0  # the caller was told of a period that is over, and not of the next one
        return newest.room

    def keep_up(self, _add: Callable[[File], object]) -> None:
        """Add once more what was added while its period came to an end; within `section`.

        A key is kept from the time at which its add returns, which is later than this check.
        """
        for _ in range(_MOST_ROUNDS):
            if not self.turn():
                return
            _add(self.newest)
        raise MmbloomError(
            f"{self.path}: {_MOST_ROUNDS} periods of {self.plan.every_seconds} s have ended "
            "while their files were being made; create a filter with longer periods"
        )

    def turn(self) -> bool:
        """Begin the file of the present period, unless the newest is of it; True if it was not."""
        time = self.clock()
        number = self.plan.period(time)
        if number <= self.newest.number:  # of this, or the clock went back
            return False
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
        self.change_over(self.make_next(number), dropped=self._expired(time))
        self._remove()

    def _drop(self, time: float) -> bool:
        """Drop what is past its time, but not the newest, whose lock is held; True if any was."""
        *older, newest = self.members
        kept = older[self._expired(time) :]
        if len(kept) == len(older):
            return False
        self.name((*kept, newest))
        self._remove()
        return True

    def _expired(self, time: float) -> int:
        """Count the oldest files that are past their time."""
        return sum(self.plan.expired(one.number, time) for one in self.members)

    def _remove(self) -> None:
        """Remove from the disk what is older than all that the manifest names."""
        remove_older(self.path, self.members[0].number)


@described
class RotatingFilter(SingleKeys, FolderFilter):
    """A Bloom filter that forgets keys after some days or hours, shared by any number of processes.

    Create one with ``RotatingFilter.create(path, keep="7d", every="1d", capacity_per_period=n)``
    and open it with ``RotatingFilter.open(path)``; a ``with`` block, or ``close``, closes it.

    Notes
    -----
    A key added at time t is found at least until t + `keep`, and at most until
    t + `keep` + `every`. Adding it again restarts its time, and returns False while the key is
    still found. A key that always returns within `keep` is therefore new only once. To accept a key
    once per `keep` instead, test it with ``in`` first, and add only the keys that you accept. A key
    among the `exclusions` is never found.

    Time is the machine's clock, in Unix seconds. Periods are counted from 1970, so periods of "1d"
    begin at midnight UTC. Within a folder, time never goes back: if the clock does, it is
    treated as standing still at the beginning of the newest period, and keys are found for longer.
    If the clock is far ahead, the files that would have expired by then are dropped permanently.

    A file is created when the first key of its period is added. Without new keys no file is
    created, and none is deleted from the disk. A query reads the newest file first, and takes
    longer the more files there are. The false-positive rate is that of all files together.

    Threads, processes, forks, pickling and crashes work as in `BloomFilter`. Each file is a sound
    filter that `verify` and readers can open, but only this class may write to it.

    Examples
    --------
    >>> import tempfile, os
    >>> folder, day, now = os.path.join(tempfile.mkdtemp(), "seen"), 86400, [0.0]
    >>> with RotatingFilter.create(
    ...     folder, keep="7d", every="1d", capacity_per_period=1000, seed=1, clock=lambda: now[0]
    ... ) as seen:
    ...     print(seen.add_many(["a", "b", "a"]))
    ...     now[0] = 5 * day
    ...     print(seen.add("b"))  # seen, and its time restarts
    ...     now[0] = 9 * day
    ...     print("a" in seen, "b" in seen)
    [ True  True False]
    False
    False True
    """

    def _attach(self, path: str, options: OpenOptions, clock: Clock = time.time) -> None:
        self._clock = clock
        self._begin(RotatingChain(path, options, clock))

    def _arguments(self) -> tuple[Any, ...]:
        return *super()._arguments(), self._clock  # another clock would give other answers

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        keep: Duration = "7d",
        every: Duration = "1d",
        capacity_per_period: int,
        error_rate: float = 0.01,
        layout: Layout = "blocked",
        seed: int | None = None,
        hash: HashName | None = None,
        permissions: int = OWNER_ONLY,
        exist_ok: bool = False,
        reserve: Reserve = "zeros",
        clock: Clock = time.time,
        **options: Unpack[OpenedWith],
    ) -> Self:
        """Create a folder with the file of the current period, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to create the folder. It appears complete or not at all.
        keep : str, number or timedelta, default "7d"
            Minimum time for which a key is found: "90s", "30m", "12h", "7d", "2w", or seconds.
        every : str, number or timedelta, default "1d"
            Length of a period, and so how much longer a key may be found. There are up to
            ceil(keep / every) + 1 files, and a query for an absent key reads all of them.
            A period must be longer than it takes to create a file: if eight periods in a row end
            before their file is ready, an add raises `MmbloomError`, although its keys are added.
        capacity_per_period : int
            Capacity of each file: the number of distinct keys added in one period, including keys
            that were also added in earlier periods.
        error_rate : float, default 0.01
            False-positive rate of all files together.
        layout, seed, hash, permissions, reserve
            For every file, as in `BloomFilter.create`. The disk space of a file is reserved when
            the file is created.
        exist_ok : bool, default False
            Open the folder if it already exists with these parameters; unless you pass a hash or
            seed, any will do.
        clock : callable, default time.time
            Function that returns the Unix time in seconds: for tests, and for replaying old logs.
            It is pickled with the filter.
        **options
            Those of `open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
            `verify_after_add`, `on_full`, `resident`.

        Returns
        -------
        RotatingFilter
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
        settings = OpenOptions("r+", **options)
        cls._require_growth(settings.on_full)
        name, seed_chosen = choose_hash(hash, seed)
        plan = PeriodPlan(
            seconds_of(keep),
            seconds_of(every),
            capacity_per_period,
            error_rate,
            layout,
            seed_chosen,
            reserve,
            name,
        )
        return cls._planned(
            absolute(path),
            plan,
            plan.period(clock()),
            (settings, clock),
            permissions=permissions,
            exist_ok=exist_ok,
            free=not_asked(hash, seed),
        )

    @classmethod
    def open(
        cls,
        path: Path,
        mode: Mode = "r+",
        *,
        clock: Clock = time.time,
        **options: Unpack[OpenedWith],
    ) -> Self:
        """Open an existing folder, with the parameters it was created with.

        Parameters
        ----------
        path, mode
            Same as for `GrowingFilter.open`.
        clock : callable, default time.time
            Same as for `create`.
        **options
            Those of `GrowingFilter.open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
            `verify_after_add`, `on_full`, `resident`.

        Returns
        -------
        RotatingFilter
            The open filter; close it with ``close`` or a ``with`` block.

        Raises
        ------
        FormatError, OSError
            Same as for `GrowingFilter.open`.
        """
        settings = OpenOptions(mode, **options)
        cls._require_growth(settings.on_full)
        return cls._opened(absolute(path), settings, clock)
