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
    """A Bloom filter with a four-bit counter in place of each bit, so that keys can be removed.

    Create one with ``CountingBloomFilter.create(path, capacity, error_rate)`` and open it with
    ``CountingBloomFilter.open(path)``; a ``with`` block, or ``close``, closes it. Keys, files,
    locks, threads and processes work as in `BloomFilter`. The file is four times as large.

    Notes
    -----
    Every `add` counts, even of a key that is already there: a key that was added twice stays until
    it is removed twice. Answers are the same as for `BloomFilter`: True for a key that was not
    there.

    Remove only keys that were added. Removing any other key is nearly always refused. If it is a
    false positive, however, it shares its counters with other keys, and removing it can make the
    filter miss one of them. A counter that reaches 15 is never lowered again, so a key whose
    counters are all at 15 stays permanently.

    Queries take no lock. A key that is there for the whole query is found. A key that another
    process or thread adds or removes during the query may be reported either way, even differently
    for equal keys of one batch. Within `locked`, all answers reflect one moment.

    `keys_added` never decreases: it counts keys that were new when they were added.
    `approx_count` estimates how many distinct keys are there now.

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
        """Remove one key; True if it was there. Raises the same errors as `remove_many`."""
        removed: bool = self._file.remove_one(key)
        return removed

    def remove_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Remove a batch of keys; the result is the same as removing them one by one.

        Only keys that are there are removed: a key that is repeated in the batch is removed at most
        as often as it was added. If the process is killed during the call, the batch may be removed
        again: keys that are already gone are refused, and the effect on other keys is no
        worse than that of removing a key twice.

        Parameters
        ----------
        keys, nulls
            Same as for `add_many`; a null removes nothing, and its answer is False.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was there, or is a false positive: see the notes of the class.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key is invalid, or a column is damaged; nothing is removed.
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
        """Write a plain filter with the keys that are there now, a quarter of the size.

        The new filter has the same capacity, error rate, layout, hash and seed, and gives the same
        answers; open it with `BloomFilter.open`. This takes no lock: keys that are added or removed
        during the call may or may not be included, unless you hold `locked`. If the filter is past
        its capacity, a `CapacityWarning` is given after the file has been written.

        Parameters
        ----------
        path : str or path-like
            Where to write the file. It appears complete and on the disk, or not at all.
        permissions : int, default 0o600
            Mode bits of the file.
        allow_network : bool, default False
            Allow a file on a network file system.

        Raises
        ------
        FileChangedError, ClosedFilterError, FileExistsError, NetworkFileSystemError, OSError
            Errors common to calls that read or make a filter: see `mmbloom.errors`.
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
