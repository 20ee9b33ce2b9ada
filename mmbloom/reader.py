"""The reading half of a filter: questions that take no lock and change nothing (law 4).

Bits only go from 0 to 1, so a reader beside a writer can at worst miss a key whose add has
not returned.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mmbloom import _engine, info
from mmbloom._keys import Key, Keys, coerce, coerce_one
from mmbloom._storage import Storage
from mmbloom.sizing import FilterParams


class FilterReader:
    """What every open filter can answer; the base of `BloomFilter`.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed, as the file's header has them.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.params: FilterParams = storage.header.params

    def __contains__(self, key: Key) -> bool:
        """Tell whether one key was added (or is a false positive)."""
        h1, h2 = _engine.hash_one(coerce_one(key), self.params.seed)
        self._storage.check_unchanged()
        return _engine.contains_one(self._storage.views.octets, h1, h2, self.params)

    def contains_many(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Tell for each key whether it was added (or is a false positive).

        Parameters
        ----------
        keys : iterable of bytes, str or int; or ndarray of integers, S or U, shape (n,)
            Types may be mixed.

        Returns
        -------
        ndarray of bool, shape (n,)

        Raises
        ------
        KeyTypeError, KeyEncodingError
            If a key cannot be one; names its position.
        FileChangedError, ClosedFilterError
            If the file cannot be read any more.
        """
        self._storage.check_open()
        batch = coerce(keys)
        found = np.empty(len(batch), dtype=np.bool_)
        for part in chunks(len(batch)):
            hashes = _engine.hash_keys(batch[part], self.params.seed)
            self._storage.check_unchanged()
            found[part] = _engine.contains(self._storage.views.words, *hashes, self.params)
        return found

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
        return info.read_info(self._storage)


def chunks(length: int) -> Iterator[slice]:
    """Cut a batch into the pieces that the engine is fastest at."""
    step = _engine.CHUNK_KEYS
    return (slice(start, start + step) for start in range(0, length, step))
