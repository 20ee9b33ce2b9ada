"""GrowingFilter: a filter for a number of keys that nobody knows.

A folder of plain filter files, the newest of which takes the keys; when it is full, the next
begins, twice as large, and at half the error rate so that the whole keeps to what was asked
for (``_growth.py``). `create` and `open` are here; all else is in ``folder.py``.
"""

from mmbloom._choose import seed_or_random
from mmbloom._create import Reserve
from mmbloom._grow import GrowingWriter
from mmbloom._growth import GrowthPlan
from mmbloom._make_folder import make_folder
from mmbloom._opening import Path, absolute
from mmbloom.filter_file import Mode, Settings
from mmbloom.folder import FolderFilter, open_chain, require_identity
from mmbloom.sizing import Layout


class GrowingFilter(FolderFilter):
    """A Bloom filter that grows with its keys, shared by any number of processes.

    Made by `create` or `open`; a context manager, which closes it.

    Notes
    -----
    A folder of filter files: the first is planned for `initial_capacity` keys, each further
    one for twice as many. A key that was added to any is found, one of the `exceptions` never.
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
    ...     print("a" in seen, 999 in seen, "c" in seen, len(seen.info().members))
    [ True  True False] 1000
    True True False 4
    """

    def __init__(self, path: str, settings: Settings) -> None:
        chain = open_chain(path, settings, GrowthPlan.kind)
        super().__init__(chain, GrowingWriter(chain))

    @classmethod
    def create(
        cls,
        path: Path,
        initial_capacity: int,
        error_rate: float = 0.01,
        *,
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
    ) -> "GrowingFilter":
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
        layout, seed, permissions, reserve
            Of every file, as for `BloomFilter.create`. The disk of a file is reserved when the
            file is made.
        exist_ok : bool, default False
            Open the folder if it exists already with these parameters (any seed, by default).
        lock_timeout, allow_network, threads, preload, verify_after_add
            As for `BloomFilter.open`.

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
        plan = GrowthPlan(initial_capacity, error_rate, layout, seed_or_random(seed), reserve)
        where = absolute(path)
        make_folder(
            where,
            plan,
            0,
            permissions=permissions,
            allow_network=allow_network,
            exist_ok=exist_ok,
        )
        made = cls(where, settings)
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
    ) -> "GrowingFilter":
        """Open an existing folder; its manifest and headers say all about it.

        Takes and raises what `BloomFilter.open` does. FormatError also if a file of the folder
        is missing, damaged, or not the one that the manifest names.
        """
        settings = Settings(mode, lock_timeout, allow_network, threads, preload, verify_after_add)
        return cls(absolute(path), settings)

    def __reduce__(self) -> tuple[object, ...]:
        # Path and identity only, as of a BloomFilter.
        self._chain.look()
        return _reopen, (self.path, self._chain.settings, self._chain.uuid)


def _reopen(path: str, settings: Settings, uuid: bytes) -> GrowingFilter:
    reopened = GrowingFilter(path, settings)
    require_identity(reopened._chain, uuid)  # noqa: SLF001  of the class above
    return reopened
