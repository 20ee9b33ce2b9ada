"""A filter of one file: how it is created and opened.

The base of the classes of one file, each of which has its own kind of file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Self

from mmbloom._storage.atomic import OWNER_ONLY, require_reserve
from mmbloom._storage.build import create_file
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import absolute
from mmbloom._system.typing import (
    HashName,
    Layout,
    OnFull,
    Path,
    Reserve,
    Resident,
)
from mmbloom.filters.base import Filter, shared
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.options import (
    EXIST_OK,
    OpenOptions,
    choose_params,
    not_asked,
    require_equal,
)
from mmbloom.filters.shelf import File
from mmbloom.format.exclusions import exclusions_path
from mmbloom.sizing.params import FilterParams

if TYPE_CHECKING:
    from mmbloom.filters.info import FilterInfo


class FileFilter(Filter):
    """A filter in a memory-mapped file; a context manager, which closes it.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed, as the file's header has them. Filters can be united,
        intersected and compared exactly if theirs are equal: ``one.params == other.params``.
    """

    _FILE: ClassVar[type[File]]
    _shelf: File
    params: FilterParams

    def _attach(self, path: str, options: OpenOptions) -> None:
        folder = _folder_of(path) if options.mode == "r+" else ""
        storage = MappedFilter(
            path,
            writable=options.mode == "r+" and not folder,
            allow_network=options.allow_network,
            kind=self._FILE.kind,
            resident=options.resident,
        )
        if folder:
            storage.read_only_reason = f"it is a file of the folder {folder}: open that"
        self._storage, self.params = storage, storage.header.params
        exclusions = ExclusionList(exclusions_path(path), self.params.key_hash)
        self._begin(self._FILE(storage, exclusions, options, on_full=options.on_full))

    @classmethod
    @shared
    def create(
        cls,
        path: Path,
        capacity: int | None = None,
        error_rate: float | None = None,
        *,
        layout: Layout | None = None,
        seed: int | None = None,
        hash: HashName | None = None,
        like: FileFilter | None = None,
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
        """Make a new filter file, with its disk space reserved, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to make it. The file appears complete or not at all.
        capacity : int
            Number of distinct keys to plan for. Required unless `like` is given.
        error_rate : float, default 0.01
            False-positive rate at capacity.
        layout : {"blocked", "standard"}, default "blocked"
            One cache line a key, or a few at low rates; or up to 10 % fewer bits.
        seed : int, optional
            Of the hash; random by default: with a known seed an attacker crafts false
            positives. Of "siphash" its 128-bit key, 0 to 2**128 - 1, of "murmur3" 0 to
            2**32 - 1.
        hash : {"siphash", "murmur3"}, default "siphash"
            "siphash" is safe for keys that strangers choose. "murmur3" is faster to compute and
            is what Guava has; strangers can make keys that it confuses, whatever the seed.
        like : open filter, optional
            Copy all of the above from it, of whatever class it is.
        permissions : int, default 0o600
            Mode bits of the file.
        exist_ok : bool, default False
            Open the file if it exists already with these parameters (any hash and
            seed, by default). `mmbloom.open_or_create` also opens one that has grown.
        reserve : {"zeros", "fallocate"}, default "zeros"
            How the disk space is reserved: "zeros" are written, at about a second a gigabyte,
            and no later key waits for its page; "fallocate" takes milliseconds, and the
            first key on each page of 4 KiB some 7 microseconds: for filters that will hold
            far fewer keys than planned, or on slow disks. Files so large that the kernel
            cannot keep their changed pages in memory (on most systems a tenth of it) are
            made the second way, whatever is asked: with zeros a key takes tens of times as long.
        lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
            As in `open`.

        Returns
        -------
        the class that was called
            Open, to be closed with ``close`` or by a ``with`` block.

        Raises
        ------
        FileExistsError
            If the path exists and `exist_ok` is not set.
        ParameterMismatchError
            If the existing file was made with other parameters.
        OSError
            If the disk space cannot be reserved (ENOSPC), or as the system says.
        ValueError, TypeError
            If a parameter is out of range, or missing.
        """
        require_reserve(reserve)
        settings = OpenOptions(
            "r+", lock_timeout, allow_network, threads, preload, verify_after_add, on_full, resident
        )
        params = choose_params(capacity, error_rate, layout, seed, hash, like=like)
        where, is_new = absolute(path), True
        try:
            create_file(
                where,
                params,
                permissions=permissions,
                allow_network=allow_network,
                reserve=reserve,
                kind=cls._FILE.kind.number,
            )
        except FileExistsError as error:
            if not exist_ok or error.filename != where:
                if error.filename == where:
                    error.add_note(EXIST_OK)
                raise
            is_new = False
        made = cls._opened(where, settings)
        try:
            free = not_asked(hash, seed)
            require_equal(made.params, params, where, copied=like is not None, free=free)
            if is_new:
                made._shelf.move_to_memory()  # noqa: SLF001  of this very class
        except BaseException:
            made.close()
            raise
        return made

    @property
    def capacity(self) -> int:  # noqa: D102  as in the base
        return self.params.capacity

    @property
    def num_bits(self) -> int:
        """Size of the array in bits, or in counters."""
        return self.params.num_bits

    @property
    def num_hashes(self) -> int:
        """Positions in it that each key has."""
        return self.params.num_hashes

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the present fill; O(1)."""
        self._storage.check_unchanged()
        return self._storage.current_error_rate

    def info(self) -> FilterInfo:
        """Read everything that the file says of itself."""
        # Here, not above: most programs never ask, and to make the record's class takes 1 ms.
        from mmbloom.filters.info import read_info  # noqa: PLC0415

        self._storage.check_unchanged()
        return read_info(self._storage, self._exclusions)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self._options.mode!r}"
        planned = f"capacity={self.capacity}, error_rate={self.error_rate:g}"
        return f"<{type(self).__name__} {self.path!r} {planned} {state}>"


def _folder_of(path: str) -> str:
    """Return the folder that names a file as its own, and alone may write to it, or ""."""
    folder = os.path.dirname(path)
    # Its name is that of `format.folder`, which takes 4 ms to import.
    try:
        os.stat(os.path.join(folder, "manifest.json"))
    except FileNotFoundError:  # others are raised: a folder's file must not pass for its own
        return ""
    from mmbloom._storage.folder import is_named  # noqa: PLC0415  so here, not above

    return folder if is_named(path) else ""
