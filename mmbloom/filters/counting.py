"""CountingBloomFilter: a filter of counters, from which keys can be removed.

Counters go down, and a query takes no lock all the same: it finds every key that stays in the
filter while it runs, as the counters of such a key never reach 0. This file changes no counter
itself.
"""

from __future__ import annotations

from mmbloom import _engine
from mmbloom._keys.coerce import coerce
from mmbloom._storage.atomic import OWNER_ONLY, Target
from mmbloom._storage.build import new_filter
from mmbloom._storage.opening import COUNTERS, absolute
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._storage.warnings import Counted, warn_if_past_plan
from mmbloom._system.typing import Bools, Key, Keys, Nulls, Path
from mmbloom.filters.bloom import FileFilter
from mmbloom.filters.file import CounterFile


class CountingBloomFilter(FileFilter):
    """A Bloom filter that counts, in four bits for each bit, so that keys can be removed.

    ``CountingBloomFilter.create(path, capacity, error_rate)`` makes one and
    ``CountingBloomFilter.open(path)`` opens one; a ``with`` block, or ``close``, closes it. Keys,
    files, locks, threads and processes are as of `BloomFilter`; the file is four times as large.

    Notes
    -----
    Every `add` counts, of a key that is there as well: a key that was added twice is there
    until it was removed twice. Answers are those of `BloomFilter`: True for a key that was
    not there.

    Remove only what was added. A key that was not is nearly always refused; but one that is
    found all the same, a false positive, shares its counters with other keys, and removing it
    can make one of those a false negative. A counter that has reached 15 is never lowered
    again: the keys that hold only such counters stay for ever.

    Queries take no lock. A key that is there while the query runs is found; one that another
    process or thread adds or removes meanwhile is answered either way, and equal keys of one batch
    can differ then. Within `locked` all answers are of one moment.

    `keys_added` only grows: it counts keys that were new when they were added. `approx_count`
    estimates how many distinct keys are there now.

    Examples
    --------
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "online.bloom")
    >>> with CountingBloomFilter.create(path, capacity=1_000_000) as online:
    ...     print(online.add_many(["ann", "bob", "ann"]))
    ...     print(online.remove_many(["ann", "eve"]), "ann" in online)
    ...     print(online.remove("ann"), "ann" in online, "bob" in online)
    [ True  True False]
    [ True False] True
    True False True
    """

    _FILE = CounterFile

    def remove(self, key: Key) -> bool:
        """Remove one key; True if it was there. Raises what `remove_many` raises."""
        removed: bool = self._file.remove_one(key)
        return removed

    def remove_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Remove a batch of keys; answers what removing them one by one would.

        Only keys that are there are uncounted: of equal keys in the batch no more than were
        added. After a process was killed within, the batch may be removed again: what had
        been removed is refused, and nothing is taken from other keys that removing a key
        twice would not take.

        Parameters
        ----------
        keys, nulls
            As for `add_many`; a null removes nothing and is answered False.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was there, or is a false positive: see the Notes of the class.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key cannot be one, or a column is damaged; nothing is removed.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the file cannot be written. Chunks before the error stay removed.
        """
        self._storage.check_writable()
        batch = coerce(keys, nulls)
        found = (self._file.remove_chunk(self._hash(chunk)) for chunk in batch.cut())
        return batch.answers([*found])

    def to_bloom(
        self, path: Path, *, permissions: int = OWNER_ONLY, allow_network: bool = False
    ) -> None:
        """Write a plain filter of the keys that are there now, a quarter as large.

        It has the capacity, error rate, layout, hash and seed of this one and answers the same;
        `BloomFilter.open` opens it. Takes no lock: keys that are added or removed while it
        runs may be in it or not, unless this is called within `locked`. A `CapacityWarning`
        tells, after the file is there, if it has more keys than planned.

        Parameters
        ----------
        path : str or path-like
            Where to make it; it appears complete and on the disk, or not at all.
        permissions : int, default 0o600
            Mode bits of the file.
        allow_network : bool, default False
            Allow it on a network file system.

        Raises
        ------
        FileChangedError, ClosedFilterError, FileExistsError, NetworkFileSystemError, OSError
            As each call that reads a filter and makes one: see `mmbloom.errors`.
        """
        self._storage.check_unchanged()
        target = Target(absolute(path), permissions, allow_network)
        uuid = self._storage.header.uuid
        with (
            UnmappedFilter(self.path, uuid, kinds=(COUNTERS,)) as counted,
            new_filter(target, self.params, key_rule=self.key_rule) as made,
        ):
            for segment in counted.segments():
                made.write(_engine.nonzero_bits(segment))
            counted.check_same()
            # Keys added, in the header, are those that were removed as well.
            made.finish(round(self.params.estimated_count(made.positions_set)), batches=1)
        warn_if_past_plan(Counted(target.path, self.params, made.positions_set))
