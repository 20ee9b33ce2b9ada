"""Keys that are hashed already: hashed once, asked of many filters, or sent to another host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mmbloom import _engine
from mmbloom._keys.batch import helpers_for
from mmbloom._keys.coerce import coerce
from mmbloom._threads import in_order, usable_cores
from mmbloom._typing import HashHalves, Keys, Words
from mmbloom.sizing.params import HasHash, KeyHash


def hash_many(keys: Keys, params: HasHash, *, threads: int | None = None) -> HashHalves:
    """Hash a batch of keys once, for any number of filters with this hash and seed.

    Parameters
    ----------
    keys : iterable of bytes, str, int or tuple; ndarray; or Arrow column
        As for `BloomFilter.add_many`, without nulls.
    params : FilterParams
        Of one of the filters. Only its hash and seed count: filters of other sizes, layouts and
        kinds take the same hashes.
    threads : int, optional
        How many threads hash a batch of 65,536 keys or more; by default one for each core that
        the process may use.

    Returns
    -------
    h1, h2 : ndarray of uint64, shape (n,)
        The two halves of each key's hash: what `add_hashes` and `contains_hashes` take.

    Raises
    ------
    KeyTypeError, KeyEncodingError, ValueError
        If a key cannot be one, or a column is damaged; names the position. A null is an error:
        leave nulls out first.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmbloom import BloomFilter, hash_many
    >>> folder = tempfile.mkdtemp()
    >>> with (
    ...     BloomFilter.create(os.path.join(folder, "day"), capacity=1000, seed=7) as day,
    ...     BloomFilter.create(os.path.join(folder, "year"), capacity=99_000, seed=7) as year,
    ... ):
    ...     h1, h2 = hash_many(["a", "b"], day.params)
    ...     print(day.add_hashes(h1, h2), year.contains_hashes(h1, h2))
    [ True  True] [False False]
    """
    return coerce(keys).hash_all(params.key_hash, threads or usable_cores())


class HashedChunk(NamedTuple):
    """A chunk of a batch of hashes: as `batch.Chunk`, without the keys."""

    hashes: HashHalves
    prepared: Any


class HashedBatch(NamedTuple):
    """A batch of which only the hashes are known."""

    h1: Words
    h2: Words

    @classmethod
    def of(cls, h1: Words, h2: Words) -> HashedBatch:
        """Take what a caller passes.

        Raises
        ------
        TypeError
            If one is no array of uint64.
        ValueError
            If one has not exactly one dimension, or they differ in length.
        """
        for name, half in (("h1", h1), ("h2", h2)):
            if not isinstance(half, np.ndarray) or half.dtype.newbyteorder("=") != np.uint64:
                found = f"of {half.dtype}" if isinstance(half, np.ndarray) else type(half).__name__
                raise TypeError(f"{name} is {found}, expected an array of uint64, as of hash_many")
            if half.ndim != 1:
                raise ValueError(f"{name} has {half.ndim} dimensions, expected 1")
        if len(h1) != len(h2):
            raise ValueError(f"h1 and h2 differ in length: {len(h1)} and {len(h2)}")
        # As the kernels take them: in the machine's byte order, without gaps.
        return cls(*(np.ascontiguousarray(half, np.uint64) for half in (h1, h2)))

    @property
    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self.h1)

    def chunks(self, size: int = _engine.CHUNK_KEYS) -> Iterator[HashHalves]:
        """Cut the hashes into chunks of at most `size`, in order."""
        for start in range(0, len(self.h1), size):
            h1, h2 = (half[start : start + size] for half in (self.h1, self.h2))
            # What orders a large chunk reads hashes twice: they must not be the caller's.
            yield (h1.copy(), h2.copy()) if size > _engine.CHUNK_KEYS else (h1, h2)

    def hashed(
        self,
        _key_hash: KeyHash,
        threads: int,
        prepare: Callable[[HashHalves], Any] | None = None,
        size: int = _engine.CHUNK_KEYS,
    ) -> Iterator[HashedChunk]:
        """Prepare the chunks ahead of a caller that adds them under a lock: as `Batch.hashed`."""

        def work(hashes: HashHalves) -> HashedChunk:
            return HashedChunk(hashes, hashes if prepare is None else prepare(hashes))

        helpers = 0 if prepare is None else helpers_for(self.num_keys, threads) - 1
        return in_order(work, self.chunks(size), max(0, helpers))
