"""Filters of one file: `FileFilter`, how one is created and opened, and `BloomFilter`.

This file says what each call means; it never touches a bit, a byte or a lock itself.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np

from mmbloom._engine import SingleKeys, described
from mmbloom._storage.atomic import OWNER_ONLY, Target, require_reserve
from mmbloom._storage.build import create_file
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import absolute, as_file_or_folder
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._system.typing import HashName, Layout, Path, Reserve, Words
from mmbloom.filters.base import Filter, shared
from mmbloom.filters.exclusions import ExclusionList
from mmbloom.filters.file import BitFile, File
from mmbloom.filters.growable import GrowableFile
from mmbloom.filters.options import OpenedWith, OpenOptions, choose_params, not_asked, require_equal
from mmbloom.filters.shelf import OneFile, Shelf
from mmbloom.format.exclusions import exclusions_path
from mmbloom.operations.combine import (
    FilterAt,
    compare_sources,
    none_set,
    require_alike,
    united_count,
    warn_of_rules,
)
from mmbloom.sizing.params import FilterParams

if TYPE_CHECKING:  # which takes 1 ms
    from mmbloom.filters.info import FilterInfo


class FileFilter(Filter):
    """A filter in a memory-mapped file; as a context manager, it closes itself.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed from the file's header. Two filters can be united, intersected and
        compared only if these are equal: ``one.params == other.params``. Once the filter has grown,
        these are the parameters of its first file.
    """

    _FILE: ClassVar[type[File]]
    params: FilterParams

    def _attach(self, path: str, options: OpenOptions) -> None:
        self._begin(self._shelf_of(path, options))

    def _begin(self, shelf: Shelf) -> None:
        super()._begin(shelf)
        self.params = shelf.members[0].params

    def _shelf_of(self, path: str, options: OpenOptions) -> OneFile:
        return OneFile(self._open_file(path, options), options)

    def _open_file(self, path: str, options: OpenOptions) -> File:
        folder = _folder_of(path) if options.mode == "r+" else ""
        storage = MappedFilter(
            path,
            writable=options.mode == "r+" and not folder,
            allow_network=options.allow_network,
            kind=self._FILE.kind,
            resident=options.resident,
        )
        if folder:
            storage.read_only_reason = f"it is a file of the folder {folder}; open the folder"
        exclusions = ExclusionList(exclusions_path(path), storage.header.params.key_hash)
        on_full = None if options.on_full == "grow" else options.on_full
        return self._FILE(storage, exclusions, options, on_full=on_full)

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
        **options: Unpack[OpenedWith],
    ) -> Self:
        """Create a filter file with its disk space reserved, and open it.

        Parameters
        ----------
        path : str or path-like
            Where to create the file. It appears complete or not at all.
        capacity : int
            Number of distinct keys the filter is for. Required unless `like` is given.
        error_rate : float, default 0.01
            False-positive rate at capacity.
        layout : {"blocked", "standard"}, default "blocked"
            "blocked" keeps each key in one cache line, or in a few at low error rates; "standard"
            needs up to 10 % fewer bits.
        seed : int, optional
            Seed of the hash; random by default, because an attacker who knows it can craft false
            positives. For "siphash" it is the 128-bit key, 0 to 2**128 - 1; for "murmur3", 0 to
            2**32 - 1.
        hash : {"siphash", "murmur3"}, default "siphash"
            "siphash" is safe for keys that strangers choose. "murmur3" is faster to compute and is
            what Guava uses, but whatever the seed, strangers can make keys that collide.
        like : open filter, optional
            Copy all of the above from this `BloomFilter` or `CountingBloomFilter`.
        permissions : int, default 0o600
            Mode bits of the file.
        exist_ok : bool, default False
            Open the file if it already exists with these parameters; unless you pass a hash or
            seed, any will do. A file that has grown is opened only with ``on_full="grow"``, or by
            `mmbloom.open_or_create`.
        reserve : {"zeros", "fallocate"}, default "zeros"
            How to reserve the disk space. "zeros" writes zeros, which takes about a second per
            gigabyte, and no later key waits for its page. "fallocate" takes milliseconds, but the
            first key on each page of 4 KiB then takes some 7 microseconds: use it for filters that
            will hold far fewer keys than their capacity, or on slow disks. For files so large that
            the kernel does not keep all their changed pages in memory (on most systems, a tenth
            of the memory), "fallocate" is always used: with "zeros", adding a key would take tens
            of times as long.
        **options
            Those of `open`: `lock_timeout`, `allow_network`, `threads`, `preload`,
            `verify_after_add`, `on_full`, `resident`.

        Returns
        -------
        the class that was called
            Opened for writing; close it with ``close`` or a ``with`` block.

        Raises
        ------
        FileExistsError
            If the path exists and `exist_ok` is not set.
        ParameterMismatchError
            If the existing file was made with other parameters.
        OSError
            If the disk space cannot be reserved (ENOSPC), or on any other system error.
        ValueError, TypeError
            If a parameter is out of range, or missing.
        """
        require_reserve(reserve)
        settings = OpenOptions("r+", **options)
        cls._require_growth(settings.on_full)
        params = choose_params(capacity, error_rate, layout, seed, hash, like=like)
        where, free = absolute(path), not_asked(hash, seed)
        if settings.on_full == "grow":
            from mmbloom.filters.grow import require_growth  # noqa: PLC0415  it imports folders

            require_growth(where, params)
        target = Target(where, permissions, settings.allow_network)
        make = partial(create_file, target, params, reserve=reserve, kind=cls._FILE.kind)

        def check(made: Self, is_new: bool) -> None:
            require_equal(made.params, params, where, copied=like is not None, free=free)
            if is_new:
                made._shelf.newest.move_to_memory()

        return cls._created(where, make, (settings,), exist_ok=exist_ok, check=check)

    @property
    def _file(self) -> Any:
        """The file, a `_FILE`; `OtherKindError` if it has become a folder."""
        return self._shelf.only

    @property
    def _storage(self) -> MappedFilter:
        return self._shelf.only.storage

    @property
    def capacity(self) -> int:
        """Number of distinct keys the filter is for."""
        if isinstance(self._shelf, OneFile):
            return self.params.capacity
        return super().capacity

    @property
    def num_bits(self) -> int:
        """Size of the array in bits, or in counters."""
        return self.params.num_bits

    @property
    def num_hashes(self) -> int:
        """Number of positions in the array that each key has."""
        return self.params.num_hashes

    def info(self) -> FilterInfo:
        """Read everything the file records about itself; once it has grown, a `FolderInfo`."""
        info: FilterInfo = super().info()
        return info

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self._options.mode!r}"
        sizes = f"capacity={self.capacity} error_rate={self.error_rate:g}"
        return f"<{type(self).__name__} {self.path!r} {sizes} {state}>"


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


def _grown(path: str, options: OpenOptions) -> Shelf:
    from mmbloom.filters.growing import grown_chain  # noqa: PLC0415  it imports folders

    return grown_chain(path, options)


@described
class BloomFilter(SingleKeys, FileFilter):
    """A Bloom filter in a memory-mapped file, shared by any number of processes.

    A filter is created or opened by one of these, and closed by a ``with`` block or `close`::

        BloomFilter.create(path, capacity, error_rate=0.01)  # a new file
        BloomFilter.open(path)  # an existing file
        mmbloom.open_or_create(path, capacity, error_rate=0.01)  # either

    Notes
    -----
    A key is bytes (or bytearray, memoryview), a str, an int (or any numpy integer), or a tuple of
    these (`mmbloom.columns`). A str is the same key as its UTF-8 bytes. An int is the same key as
    its 8 bytes in little-endian two's complement, so -1 and 2**64 - 1 are the same key. A tuple
    equals no str or int, and no bytes except those that are built like it.

    A key that was added is always found. A key that was not added may be found by mistake; up to
    the capacity, the rate of such false positives is at most the error rate. A key of the
    `exclusions` is never found.

    Any thread may call any method, and any number of processes may have the file open. Writes
    exclude each other. Readers take no lock, and can at worst miss a key whose add has not
    returned. The object survives a fork and pickles to its path and identity. A process crash
    loses no key whose add returned. A power cut loses no key whose add returned before a
    successful `flush`, on a local file system that honours fsync.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "seen.bloom")
    >>> with BloomFilter.create(path, capacity=1_000_000, error_rate=0.01) as seen:
    ...     print(seen.add_many(["a", "b", "a"]), seen.add("b"), "c" in seen)
    [ True  True False] False False
    >>> with BloomFilter.open(path) as seen:
    ...     print(seen.contains_many(["a", "c"]), seen.approx_count)
    [ True False] 2
    """

    _FILE = BitFile
    _CAN_GROW = True

    def _attach(self, path: str, options: OpenOptions, follows: bool = False) -> None:
        if options.on_full == "grow":
            from mmbloom.filters.grow import shelf_to_grow  # noqa: PLC0415  it imports folders

            self._begin(shelf_to_grow(path, options, self._shelf_of))
        elif follows:
            of_file = partial(self._shelf_of, options=options)
            self._begin(as_file_or_folder(path, of_file, partial(_grown, options=options)))
        else:
            super()._attach(path, options)

    def _arguments(self) -> tuple[Any, ...]:
        return *super()._arguments(), True  # a pickle follows its file, as this object does

    def _shelf_of(self, path: str, options: OpenOptions) -> OneFile:
        return GrowableFile(self._open_file(path, options), options)

    def union_update(self, other: BloomFilter | Path) -> None:
        """Add all keys of another filter.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            A filter with equal parameters, hash and seed (`create(..., like=)`), or its path. It is
            read as a file, without locking or mapping it, and is not changed.

        Raises
        ------
        IncompatibleFiltersError
            If parameters differ; the error names all of them.
        FormatError
            If the other is not a filter, or is sealed and damaged.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If a file cannot be read or written. Keys are added in segments of 1 MiB, each under the
            lock; segments before the error stay added.
        FilterFullError
            If the union would take this filter past its capacity, and it was opened with
            ``on_full="raise"``: nothing is added. The other is read twice to find out.
        """
        file: BitFile = self._file
        file.storage.check_writable()
        with UnmappedFilter(*source_of(other)) as source:
            require_alike(self.path, self.params, source.path, source.header.params)
            theirs, rule = source.counters()["keys_added"], source.key_rule()
            with ExitStack() as stack:
                if self._shelf.strict:  # none may fill it in between
                    stack.enter_context(self.locked())
                    file.require_room_for(source.segments())
                start = positions_set = 0
                for segment in source.segments():
                    with self.locked():
                        positions_set += self._file.unite(start, segment)  # raises if it has grown
                    start += len(segment)
            source.check_same()
        if positions_set:
            with self.locked():  # so that what others add in between is counted as well
                keys_added = [file.storage.counters["keys_added"], theirs]
                total = file.storage.positions_set
                file.count_united(united_count(keys_added, total, self.params))
            file.warn_if_full()
        if rule is not None:
            self.note_key_rule(rule)
            warn_of_rules(self.path, [self.key_rule, rule])

    def __ior__(self, other: object) -> Self:  # type: ignore[misc]  # __or__ only raises
        """Add all keys of another open filter, ``seen |= other``: as `union_update` does."""
        if not isinstance(other, BloomFilter):
            return NotImplemented
        self.union_update(other)
        return self

    def common_count(self, other: BloomFilter | Path) -> int:
        """Estimate how many distinct keys this filter and another have in common.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            A filter with equal parameters, hash and seed (``create(..., like=)``), or its path.

        Returns
        -------
        int
            From 0 to the smaller of both counts. `mmbloom.compare` returns all figures at once, and
            its description says how they are estimated and how exact they are.

        Raises
        ------
        IncompatibleFiltersError
            If parameters differ; the error names all of them.
        FormatError, FileChangedError, ClosedFilterError, OSError
            If a file cannot be read. Both are read from end to end, without a lock.
        """
        return compare_sources(source_of(self), source_of(other)).common_count

    def jaccard(self, other: BloomFilter | Path) -> float:
        """Estimate the Jaccard similarity: common keys divided by all keys of both filters.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            Same as for `common_count`.

        Returns
        -------
        float
            From 0 to 1; for two empty filters, 1.

        Raises
        ------
        IncompatibleFiltersError, FormatError, FileChangedError, ClosedFilterError, OSError
            Same as for `common_count`.
        """
        return compare_sources(source_of(self), source_of(other)).jaccard

    def isdisjoint(self, other: BloomFilter | Path) -> bool:
        """Return whether this filter and another certainly have no key in common.

        True is certain, because no bit is set in both. False is not: unless both filters are nearly
        empty, some bits coincide by chance; for an estimate, use `common_count`. The files are read
        up to the first common bit.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            Same as for `common_count`.

        Returns
        -------
        bool

        Raises
        ------
        IncompatibleFiltersError, FormatError, FileChangedError, ClosedFilterError, OSError
            Same as for `common_count`.
        """
        return none_set(source_of(self), source_of(other), np.bitwise_and)

    def issubset(self, other: BloomFilter | Path) -> bool:
        """Return whether the other filter finds every key that this one finds; ``self <= other``.

        False is certain: this filter has a key that the other does not have. True is not: a key
        that only this filter has may be a false positive of the other, which then has all its bits
        set by chance. The files are read up to the first bit that is set only in this filter.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            Same as for `common_count`.

        Returns
        -------
        bool

        Raises
        ------
        IncompatibleFiltersError, FormatError, FileChangedError, ClosedFilterError, OSError
            Same as for `common_count`.
        """
        return none_set(source_of(self), source_of(other), _only_ours)

    def __le__(self, other: object) -> bool:
        """Return whether the other filter finds every key that this one finds: `issubset`."""
        return self.issubset(other) if isinstance(other, BloomFilter) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Return whether two filters have equal parameters, hash, seed and bits.

        Such filters find the same keys, exclusions aside. Two files are read, up to the first
        difference; two objects of one file are equal. Like a set, a filter is not hashable.
        """
        if self is other or not isinstance(other, BloomFilter):
            return super().__eq__(other)
        if self.params != other.params:
            return False
        ours, theirs = source_of(self), source_of(other)
        # One file is not read twice: what is written in between would be a difference.
        return ours == theirs or none_set(ours, theirs, np.bitwise_xor)

    __hash__ = None  # type: ignore[assignment]


def _only_ours(ours: Words, theirs: Words, out: Words) -> None:
    np.bitwise_and(ours, ~theirs, out=out)


def source_of(other: BloomFilter | Path) -> FilterAt:
    """Return the file of an open filter, proved to be the one at its path."""
    if not isinstance(other, BloomFilter):
        return FilterAt(absolute(other))
    storage = other._storage  # noqa: SLF001  of the class above
    storage.check_unchanged()
    return FilterAt(storage.path, storage.header.uuid)
