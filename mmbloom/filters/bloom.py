"""BloomFilter: the public face of one filter file, and what it does with others.

This file says what each call means; it never touches a bit, a byte or a lock itself.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from typing import Self

from mmbloom._engine import SingleKeys, described
from mmbloom._storage.atomic import OWNER_ONLY
from mmbloom._storage.opening import absolute
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._system.typing import Path
from mmbloom.filters.file import FileFilter
from mmbloom.filters.shelf import BitFile
from mmbloom.operations.combine import (
    FilterAt,
    compare_sources,
    disjoint_sources,
    require_alike,
    united_count,
    warn_of_rules,
)


@described
class BloomFilter(SingleKeys, FileFilter):
    """A Bloom filter in a memory-mapped file, shared by any number of processes.

    ``BloomFilter.create(path, capacity, error_rate)`` makes one and ``BloomFilter.open(path)``
    opens one; a ``with`` block, or ``close``, closes it.

    Notes
    -----
    Keys are bytes (or bytearray, memoryview); str stands for its UTF-8, an int (and any numpy
    integer) for its 8-byte little-endian two's complement: -1 and 2**64 - 1 are one key. A
    tuple of these is one key, which no other tuple is (`mmbloom.columns`). A key that was added
    is always found; one that was not, at the rate that `create` plans for; one of the
    `exclusions` never.

    Threads and processes: every method may be called from any thread, and any number of
    processes may have the file open. Writes exclude each other; readers take no lock, and
    can at worst miss a key whose add has not returned. The object survives a fork and
    pickles to its path and identity. A process crash loses no key whose add returned; a
    power cut loses no key whose add returned before a successful `flush`, on a local file
    system that honours fsync.

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
    _shelf: BitFile

    def copy_empty(self, path: Path, *, permissions: int = OWNER_ONLY) -> BloomFilter:
        """Make an empty filter with the parameters, hash and seed of this one, and open it.

        The two can be united, intersected and compared.

        Parameters
        ----------
        path : str or path-like
            Where to make it.
        permissions : int, default 0o600
            Mode bits of the file.

        Returns
        -------
        BloomFilter
            Opened for writing, and otherwise with the options that this one was opened with.

        Raises
        ------
        FileExistsError
            If the path exists.
        OSError
            If the disk space cannot be reserved (ENOSPC), or as the system says.

        Examples
        --------
        >>> import tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> with (
        ...     BloomFilter.create(os.path.join(folder, "a"), capacity=1000) as a,
        ...     a.copy_empty(os.path.join(folder, "b")) as b,
        ... ):
        ...     print(a.params == b.params, a.add("x"), "x" in b)
        ...     b |= a
        ...     print("x" in b, a.common_count(b))
        True True False
        True 1
        """
        options = asdict(self._options)
        del options["mode"]  # what is made is to be filled
        return self.create(path, like=self, permissions=permissions, **options)

    def union_update(self, other: BloomFilter | Path) -> None:
        """Add all keys of another filter.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            A filter with equal parameters, hash and seed (`create(..., like=)`), or the path of
            one. It is read as a file, without a lock and without a map, and not changed.

        Raises
        ------
        IncompatibleFiltersError
            If a parameter differs; names every one that does.
        FormatError
            If the other is no filter, or a sealed one that is damaged.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If a file cannot be read or written. Of the segments of 1 MiB, each under the lock,
            those before the error stay added.
        FilterFullError
            If it goes past the plan and this filter was opened with ``on_full="raise"``: nothing
            is added. The other is read twice to know it.
        """
        self._storage.check_writable()
        with UnmappedFilter(*source_of(other)) as source:
            require_alike(self.path, self.params, source.path, source.header.params)
            theirs, rule = source.counters()["keys_added"], source.key_rule()
            with ExitStack() as stack:
                if self._shelf.strict:  # none may fill it in between
                    stack.enter_context(self.locked())
                    self._shelf.require_room_for(source.segments())
                start = positions_set = 0
                for segment in source.segments():
                    positions_set += self._shelf.unite(start, segment)
                    start += len(segment)
            source.check_same()
        if positions_set:
            with self.locked():  # so that what others add in between is counted as well
                keys_added = [self._storage.counters["keys_added"], theirs]
                total = self._storage.positions_set
                self._shelf.count_united(united_count(keys_added, total, self.params))
            self._shelf.warn_if_full()
        if rule is not None:
            self.note_key_rule(rule)
            warn_of_rules(self.path, [self.key_rule, rule])

    def __ior__(self, other: object) -> Self:
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
            A filter with equal parameters, hash and seed (`copy_empty`), or the path of one.

        Returns
        -------
        int
            From 0 to the lesser of both counts; `mmbloom.compare` says how it is estimated,
            how exact that is, and has all figures at once.

        Raises
        ------
        IncompatibleFiltersError
            If a parameter differs; names every one that does.
        FormatError, FileChangedError, ClosedFilterError, OSError
            If a file cannot be read: both are, from end to end, without a lock.
        """
        return compare_sources(source_of(self), source_of(other)).common_count

    def jaccard(self, other: BloomFilter | Path) -> float:
        """Estimate the share of common keys in the keys of this filter and another.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            As for `common_count`.

        Returns
        -------
        float
            From 0 to 1. Of two filters without a key it is 1.

        Raises
        ------
        IncompatibleFiltersError, FormatError, FileChangedError, ClosedFilterError, OSError
            As `common_count`.
        """
        return compare_sources(source_of(self), source_of(other)).jaccard

    def isdisjoint(self, other: BloomFilter | Path) -> bool:
        """Return whether this filter and another certainly have no key in common.

        True is certain: no bit is set in both. False is not: unless both filters are nearly
        empty, bits coincide by chance as well; `common_count` has the estimate. It reads up to
        the first common bit.

        Parameters
        ----------
        other : BloomFilter, str or path-like
            As for `common_count`.

        Returns
        -------
        bool

        Raises
        ------
        IncompatibleFiltersError, FormatError, FileChangedError, ClosedFilterError, OSError
            As `common_count`.
        """
        return disjoint_sources(source_of(self), source_of(other))


def source_of(other: BloomFilter | Path) -> FilterAt:
    """Return the file of an open filter, proved to be the one at its path."""
    if not isinstance(other, BloomFilter):
        return FilterAt(absolute(other))
    storage = other._storage  # noqa: SLF001  of the class above
    storage.check_unchanged()
    return FilterAt(storage.path, storage.header.uuid)
