"""RotatingFilter: "seen in the last seven days", in files that are dropped as a whole.

A folder of plain filter files, one for each period in which a key came; a query asks those
that are not past their time (``_periods.py``). `create` and `open` are here; all else is in
``folder.py``.
"""

import time

from mmbloom._choose import seed_or_random
from mmbloom._create import Reserve
from mmbloom._make_folder import make_folder
from mmbloom._opening import Path, absolute
from mmbloom._periods import Duration, PeriodPlan, seconds_of
from mmbloom._rotate import Clock, RotatingWriter
from mmbloom.filter_file import Mode, Settings
from mmbloom.folder import FolderFilter, open_chain, require_identity
from mmbloom.sizing import Layout


class RotatingFilter(FolderFilter):
    """A Bloom filter of the keys of the last days (or hours), shared by any number of processes.

    Made by `create` or `open`; a context manager, which closes it.

    Notes
    -----
    A key that was added at time t is found until t + `keep` at least and t + `keep` + `every`
    at most; adding it again starts its time anew, and is answered False as long as it is
    found. So a key that comes again within `keep` each time is new once, ever. Who wants it
    once in `keep` instead asks with ``in`` first, and adds only what he takes. One of the
    `exceptions` is never found, however many periods have gone by.

    Time is the machine's, in Unix seconds; periods are counted from 1970, so that those of
    "1d" begin at midnight UTC. In a folder time never goes back: a clock that does is taken to
    stand still at the beginning of the newest period, and keys are found for longer. A clock
    that is far ahead drops what would be past its time then, and that is gone.

    A file is made when the first key of a period comes: without keys there are no files, and
    nothing is dropped from the disk. A query asks the newest file first, and takes longer with
    each. The false-positive rate is that of all files together.

    Threads and processes, forks, pickles, crashes: as `BloomFilter`. Each file is a sound
    filter of its own, for `verify` and for readers; only this class may write to it.

    Examples
    --------
    >>> import tempfile, os
    >>> folder, day, now = os.path.join(tempfile.mkdtemp(), "seen"), 86400, [0.0]
    >>> with RotatingFilter.create(
    ...     folder, keep="7d", every="1d", capacity_per_period=1000, seed=1, clock=lambda: now[0]
    ... ) as seen:
    ...     print(seen.add_many(["a", "b", "a"]))
    ...     now[0] = 5 * day
    ...     print(seen.add("b"))  # seen, and its time starts anew
    ...     now[0] = 9 * day
    ...     print("a" in seen, "b" in seen)
    [ True  True False]
    False
    False True
    """

    def __init__(self, path: str, settings: Settings, clock: Clock) -> None:
        chain = open_chain(path, settings, PeriodPlan.kind)
        plan = chain.plan
        assert isinstance(plan, PeriodPlan)  # noqa: S101  for the type checker: of that kind
        self._clock = clock
        super().__init__(chain, RotatingWriter(chain, plan, clock))

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
        permissions: int = 0o600,
        exist_ok: bool = False,
        reserve: Reserve = "zeros",
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
        threads: int | None = None,
        preload: bool = False,
        verify_after_add: bool = False,
        clock: Clock = time.time,
    ) -> "RotatingFilter":
        """Make a folder with the file of the present period, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to make it. The folder appears complete or not at all.
        keep : str, number or timedelta, default "7d"
            How long a key is found at least: "90s", "30m", "12h", "7d", "2w", or seconds.
        every : str, number or timedelta, default "1d"
            Length of a period: how much longer a key may be found. There are up to
            ceil(keep / every) + 1 files, each of which is asked for a key that is not found.
            Longer than it takes to make one: after eight that ended meanwhile an add, whose keys
            are in, raises `MmbloomError`.
        capacity_per_period : int
            Number of distinct keys to plan each file for: those that come in one period, of
            which those that came before are a part.
        error_rate : float, default 0.01
            False-positive rate of the whole.
        layout, seed, permissions, reserve
            Of every file, as for `BloomFilter.create`. The disk of a file is reserved when the
            file is made.
        exist_ok : bool, default False
            Open the folder if it exists already with these parameters (any seed, by default).
        lock_timeout, allow_network, threads, preload, verify_after_add
            As for `BloomFilter.open`.
        clock : callable, default time.time
            Gives the Unix time in seconds: for tests, and for replaying old logs. Who pickles
            the filter pickles it as well.

        Raises
        ------
        FileExistsError
            If something is at the path and `exist_ok` is not set.
        ParameterMismatch, FormatError
            If what exists was made with other parameters, or is something else.
        OSError
            If the disk space cannot be reserved (ENOSPC), or as the system says.
        ValueError, TypeError
            If a parameter is out of range.
        """
        settings = Settings("r+", lock_timeout, allow_network, threads, preload, verify_after_add)
        plan = PeriodPlan(
            seconds_of(keep),
            seconds_of(every),
            capacity_per_period,
            error_rate,
            layout,
            seed_or_random(seed),
            reserve,
        )
        where, first = absolute(path), plan.period(clock())
        make_folder(
            where,
            plan,
            first,
            permissions=permissions,
            allow_network=allow_network,
            exist_ok=exist_ok,
        )
        made = cls(where, settings, clock)
        made._require(plan, any_seed=seed is None)
        return made

    @classmethod
    def open(
        cls,
        path: Path,
        mode: Mode = "r+",
        *,
        lock_timeout: float | None = 60.0,
        allow_network: bool = False,
        threads: int | None = None,
        preload: bool = False,
        verify_after_add: bool = False,
        clock: Clock = time.time,
    ) -> "RotatingFilter":
        """Open an existing folder; its manifest and headers say all about it.

        Takes and raises what `BloomFilter.open` does, and `clock` as `create`. FormatError also
        if a file of the folder is missing, damaged, or not the one that the manifest names.
        """
        settings = Settings(mode, lock_timeout, allow_network, threads, preload, verify_after_add)
        return cls(absolute(path), settings, clock)

    def __reduce__(self) -> tuple[object, ...]:
        # Path and identity only, as of a BloomFilter; another clock would give other answers.
        self._chain.look()
        return _reopen, (self.path, self._chain.settings, self._chain.uuid, self._clock)


def _reopen(path: str, settings: Settings, uuid: bytes, clock: Clock) -> RotatingFilter:
    reopened = RotatingFilter(path, settings, clock)
    require_identity(reopened._chain, uuid)  # noqa: SLF001  of the class above
    return reopened
