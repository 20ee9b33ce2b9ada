"""What every open filter can be asked and told: keys in, answers out.

Questions change nothing and take no lock: bits only go from 0 to 1, so a reader beside a
writer can at worst miss a key whose add has not returned. Counters go down as well: what that
means is told in ``counting.py``. Every change is made under the lock, by a writer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._engine.key_batch import KeyBatch
from mmbloom._keys.batch import Batch, map_pieces
from mmbloom._keys.coerce import Keys, batches, coerce
from mmbloom._storage.lock import WriteLock
from mmbloom._storage.mapped import MappedFilter
from mmbloom._typing import Bools, HashHalves, Key, Nulls
from mmbloom.filters import info
from mmbloom.filters.claim import Claim
from mmbloom.filters.exclusion_list import ExclusionList, Exclusions
from mmbloom.filters.writer import Writer
from mmbloom.sizing.params import FilterParams


class FilterReader:
    """What every open filter can answer; the base of all filter classes.

    Attributes
    ----------
    params : FilterParams
        Sizes, layout and seed, as the file's header has them. Filters can be united,
        intersected and compared exactly if theirs are equal: ``one.params == other.params``.
    """

    def __init__(self, storage: MappedFilter, exclusions: ExclusionList, threads: int) -> None:
        self._storage, self._exclusions, self._threads = storage, exclusions, threads
        self.params: FilterParams = storage.header.params

    def __contains__(self, key: Key) -> bool:
        """Tell whether one key was added (or is a false positive), and is not excluded."""
        storage = self._storage
        storage.check_unchanged()
        storage.expect(1)
        return storage.views.one.contains(key) and not self._exclusions.holds_now(key)

    def contains_many(self, keys: Keys, *, nulls: Nulls = "error") -> npt.NDArray[np.bool_]:
        """Tell for each key whether it was added (or is a false positive), and is not excluded.

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
            If a key is found, and the file of the exclusions is damaged or cannot be read.
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
        return self._exclusions.correct_now(self._test(hashes), piece, hashes)

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
        return info.read_info(self._storage, self._exclusions)


class FilterAdder(FilterReader):
    """What every open filter can be told; the base of all filter classes."""

    def __init__(
        self,
        storage: MappedFilter,
        exclusions: ExclusionList,
        lock: WriteLock,
        threads: int,
        writer: Writer,
    ) -> None:
        super().__init__(storage, exclusions, threads)
        self._lock, self._writer = lock, writer

    def add(self, key: Key) -> bool:
        """Add one key; True if it was new, or is excluded. Raises what `add_many` raises."""
        new = self._writer.add_one(key)
        if self._writer.past_capacity:  # a call less: 0.73 to 0.68 us a key in `locked`
            self._writer.warn_when_full()
        return new or self._exclusions.holds(key)

    def add_many(self, keys: Keys, *, nulls: Nulls = "error") -> Bools:
        """Add a batch of keys; answers what adding them one by one would.

        Parameters
        ----------
        keys : iterable of bytes, str or int; ndarray; or Arrow column
            Types may be mixed in an iterable. An array has shape (n,) and dtype integer (of
            any width), S or U, or shape (n, w) and dtype uint8: a key of w bytes a row. A
            column is anything with the Arrow PyCapsule interface (of pyarrow, polars, pandas)
            that holds strings, binaries, integers or a dictionary of them. None of these is
            copied as a whole, but for an iterable, which becomes a list.
        nulls : {"error", "skip"}, default "error"
            What None, a masked item of an array or a null of a column is: an error; or no key,
            which adds nothing and is answered False.

        Returns
        -------
        ndarray of bool, shape (n,)
            True where the key was not there before; of equal keys only for the first. An
            excluded key is never there: True each time.

        Raises
        ------
        KeyTypeError, KeyEncodingError, ValueError
            If a key cannot be one, or a column is damaged; names the position, and nothing
            is added.
        LockTimeoutError, FileChangedError, ReadOnlyError, DurabilityError, ClosedFilterError
            If the file cannot be written. Of the chunks of 16,384 keys, each under the lock,
            those before the error stay added.
        FormatError, OSError
            If the file of the exclusions is damaged or cannot be read: likewise.
        """
        self._storage.check_writable()
        new = self._add_batch(coerce(keys, nulls))
        self._writer.warn_when_full()
        return new

    def update(self, keys: Keys, *, nulls: Nulls = "error") -> int:
        """Add keys from an iterable of any length in bounded memory.

        Parameters
        ----------
        keys, nulls
            As for `add_many`. A wrong key of an iterator raises when it is reached; keys of
            earlier chunks stay added.

        Returns
        -------
        int
            How many were new, by the answers of `add_many`.
        """
        self._storage.check_writable()
        new_keys = sum(int(self._add_batch(batch).sum()) for batch in batches(keys, nulls))
        self._writer.warn_when_full()
        return new_keys

    def claim(self, keys: Keys, *, nulls: Nulls = "error") -> Claim:
        """Learn which keys are new, and mark them only if the block that follows succeeds.

        The write lock is kept for the whole block; a block that raises, or a process that
        dies in it, leaves the keys unmarked. Memory is in proportion to the keys given.

        Parameters
        ----------
        keys, nulls
            As for `add_many`; entering the claim gives the bool array that it would.
        """
        batch = coerce(keys, nulls)
        # Hashed here, outside the lock.
        halves = [(np.zeros(0, np.uint64),) * 2, *map_pieces(self._hash, batch, self._threads)]
        h1, h2 = map(np.concatenate, zip(*halves, strict=True))
        answers = partial(self._exclusions.answers_of_new, batch, (h1, h2))
        return Claim(self._writer, answers, (h1, h2), self._lock.timeout)

    @property
    def exclusions(self) -> Exclusions:
        """The keys that are answered as not seen, whatever their bits; a small set in a file."""
        storage, section = self._storage, partial(self._writer.section, self._lock.timeout)
        return Exclusions(storage.path, self._exclusions, storage.check_unchanged, section)

    @contextmanager
    def locked(self, timeout: float | Literal["default"] | None = "default") -> Iterator[None]:
        """Keep the write lock over several calls of this thread.

        Parameters
        ----------
        timeout : float or None, optional
            Seconds to wait for it, None for ever; by default the `lock_timeout` of `open`.
        """
        with self._writer.section(self._lock.timeout if timeout == "default" else timeout):
            yield

    def flush(self) -> None:
        """Force all keys added so far to the disk; does nothing on a read-only filter.

        Waits for this object's other threads. A failure raises `DurabilityError` and is final
        for this object: open the file again, and add again what came after the last success.
        """
        self._storage.check_open()
        if not self._storage.read_only_reason:
            self._writer.flush()

    def recount(self) -> int:
        """Count the set bits anew, to mend the counters after killed writers; O(m)."""
        return self._writer.recount()

    def _add_batch(self, batch: Batch) -> Bools:
        pieces, exclusions = batch.pieces(_engine.CHUNK_KEYS), self._exclusions

        def add(hashes: HashHalves) -> Bools:  # of the next piece
            return exclusions.correct_new(self._writer.add_chunk(hashes), [next(pieces)], hashes)

        return self._chunk_by_chunk(add, batch)

    def _chunk_by_chunk(self, locked: Callable[[HashHalves], Bools], batch: Batch) -> Bools:
        # Hashing runs ahead of the lock, on other threads when the batch is large.
        answers = [np.zeros(0, np.bool_)]
        hashes = map_pieces(self._hash, batch, self._threads, busy=True)
        answers.extend(map(locked, hashes))
        return batch.answers(np.concatenate(answers))
