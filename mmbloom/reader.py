"""The reading half of a filter: questions that change nothing, and take no lock (law 4).

Bits only go from 0 to 1, so a reader beside a writer can at worst miss a key whose add has
not returned. Counters go down as well: what that means is told in ``counting.py``.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mmbloom import _engine, info
from mmbloom._batch import Batch, KeyBatch
from mmbloom._engine import HashHalves
from mmbloom._excepted import Excepted
from mmbloom._keys import Key, Keys, Nulls, coerce
from mmbloom._pieces import map_pieces
from mmbloom._storage import Storage
from mmbloom.sizing import FilterParams


class FilterReader:
    """What every open filter can answer; the base of all filter classes.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed, as the file's header has them. Filters can be united,
        intersected and compared exactly if theirs are equal: ``one.params == other.params``.
    """

    def __init__(self, storage: Storage, excepted: Excepted, threads: int) -> None:
        self._storage, self._excepted, self._threads = storage, excepted, threads
        self.params: FilterParams = storage.header.params

    def __contains__(self, key: Key) -> bool:
        """Tell whether one key was added (or is a false positive), and is not excepted."""
        storage = self._storage
        storage.check_unchanged()
        storage.expect(1)
        return storage.views.one.contains(key) and not self._excepted.holds_now(key)

    def contains_many(self, keys: Keys, *, nulls: Nulls = "error") -> npt.NDArray[np.bool_]:
        """Tell for each key whether it was added (or is a false positive), and is not excepted.

        Parameters
        ----------
        keys : iterable, ndarray or Arrow column
            As for `BloomFilter.add_many`.
        nulls : {"error", "skip"}, default "error"
            What None, a masked item or a null is: an error, or False.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key cannot be one; names its position.
        FileChangedError, ClosedFilterError
            If the file cannot be read any more.
        FormatError, OSError
            If a key is found, and the file of the exceptions is damaged or cannot be read.
        """
        self._storage.check_open()
        batch = coerce(keys, nulls)
        found = [np.zeros(0, np.bool_), *self._find_batch(batch)]
        return batch.answers(np.concatenate(found))

    def _find_batch(self, batch: Batch) -> Iterator[npt.NDArray[np.bool_]]:
        return map_pieces(self._find, batch, self._threads)

    def _find(self, piece: KeyBatch) -> npt.NDArray[np.bool_]:
        hashes = self._hash(piece)
        self._storage.check_unchanged()
        self._storage.expect(len(piece))
        return self._excepted.correct_now(self._test(hashes), piece, hashes)

    def _test(self, hashes: HashHalves) -> npt.NDArray[np.bool_]:
        return _engine.contains(self._storage.views.words, *hashes, self.params)

    def _hash(self, piece: KeyBatch) -> HashHalves:
        return _engine.hash_keys(piece, self.params.seed)

    @property
    def path(self) -> str:
        """Absolute path of the file."""
        return self._storage.path

    @property
    def closed(self) -> bool:
        """Whether the filter was closed."""
        return self._storage.closed

    @property
    def approx_count(self) -> int:
        """Estimated number of distinct keys, from the set bits; O(1)."""
        self._storage.check_unchanged()
        return info.approx_count(self._storage)

    @property
    def fill_ratio(self) -> float:
        """Set bits over all bits, 0 to 1; about 0.5 at capacity; O(1)."""
        self._storage.check_unchanged()
        return info.positions_set(self._storage) / self.params.num_bits

    @property
    def current_error_rate(self) -> float:
        """False-positive rate to expect at the present fill; O(1)."""
        self._storage.check_unchanged()
        return info.current_error_rate(self._storage)

    def info(self) -> info.FilterInfo:
        """Everything that the file says of itself."""
        self._storage.check_unchanged()
        return info.read_info(self._storage, self._excepted)
