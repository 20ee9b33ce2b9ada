"""A batch: the keys of one call, cut into chunks, hashed ahead, and their answers joined.

``coerce.py`` makes batches and checks their keys.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import HashedKeys, KeyBatch
from mmbloom._system.threads import in_order
from mmbloom._system.typing import Bools, HashHalves
from mmbloom.sizing.params import KeyHash

R = TypeVar("R")

# Fewer keys are hashed in the time that a thread takes to start.
_WORTH_THREADS = 4 * _engine.CHUNK_KEYS

_POSITIONS_AT_A_TIME = 1 << 21  # looked up in one pass over a file


class Chunk(NamedTuple):
    """A chunk of a batch's keys, with their hashes.

    Attributes
    ----------
    keys : KeyBatch
        The keys.
    hashes : pair of ndarray of uint64, shape (n,)
        Their hash halves.
    prepared : object
        What else was computed from the hashes, before the lock; the hashes themselves if nothing.
    """

    keys: KeyBatch
    hashes: HashHalves
    prepared: Any


class Batch(NamedTuple):
    """The keys that one call was given, in one form or several, and where nulls were left out.

    Attributes
    ----------
    parts : list of KeyBatch
        The keys, nulls left out, in order.
    num_keys : int
        How many they are together.
    present : ndarray of bool, shape (n,), optional
        False for each null; None where there are none.
    """

    parts: list[KeyBatch]
    num_keys: int
    present: Bools | None = None

    def cut(self, size: int = _engine.CHUNK_KEYS) -> Iterable[KeyBatch]:
        """Return the keys in chunks of at most `size`, in order."""
        if len(self.parts) == 1 and 0 < self.num_keys <= size:  # as in most calls
            return self.parts
        starts = ((part, range(0, len(part), size)) for part in self.parts)
        return (part[start : start + size] for part, here in starts for start in here)

    def map(
        self, work: Callable[[KeyBatch], R], threads: int, *, busy: bool = False
    ) -> Iterator[R]:
        """Return the results of work on each chunk, in order; a large batch uses threads.

        A `busy` caller does as much work with each result as it took to compute, and counts as one
        of the threads.
        """
        helpers = helpers_for(self.num_keys, threads) - busy
        return in_order(work, self.cut(), helpers) if helpers > 0 else map(work, self.cut())

    def hashed(
        self,
        key_hash: KeyHash,
        threads: int,
        prepare: Callable[[HashHalves], Any] | None = None,
        size: int = _engine.CHUNK_KEYS,
    ) -> Iterator[Chunk]:
        """Hash the chunks, before a caller adds them under a lock.

        Chunks of the usual size are hashed while the caller works on the previous one. Larger ones
        are hashed by all threads, as the caller works on each of them with all threads as well.
        What a kernel reads twice, as it does hashes of a larger chunk, is a copy: the caller's own
        hashes could change meanwhile.
        """
        if prepare is None and self.parts and isinstance(self.parts[0], HashedKeys):
            threads = 1  # nothing is left to compute

        def chunk(keys: KeyBatch, hashes: HashHalves) -> Chunk:
            return Chunk(keys, hashes, hashes if prepare is None else prepare(hashes))

        if size > _engine.CHUNK_KEYS:
            return (
                chunk(keys, Batch([keys], len(keys)).hash_all(key_hash, threads))
                for keys in self.cut(size)
            )
        return self.map(
            lambda keys: chunk(keys, _engine.hash_keys(keys, key_hash)), threads, busy=True
        )

    def hash_all(self, key_hash: KeyHash, threads: int) -> HashHalves:
        """Hash all keys at once, for a claim or a large chunk."""
        if len(self.parts) == 1 and self.num_keys <= _engine.CHUNK_KEYS:  # as in most claims
            return _engine.hash_keys(self.parts[0], key_hash)
        h1, h2 = np.empty((2, self.num_keys), np.uint64)

        def work(here: tuple[int, KeyBatch]) -> None:
            start, keys = here
            part = slice(start, start + len(keys))
            h1[part], h2[part] = _engine.hash_keys(keys, key_hash)  # while they are in the cache

        helpers = helpers_for(self.num_keys, threads)
        starts = accumulate(map(len, self.cut()), initial=0)
        for _ in in_order(work, zip(starts, self.cut(), strict=False), helpers):
            pass
        return h1, h2

    def answers(self, found: Bools) -> Bools:
        """Return the answers in the order of the input, with False for nulls."""
        if self.present is None:
            return found
        spread = np.zeros(len(self.present), dtype=np.bool_)
        spread[self.present] = found
        return spread

    def answers_of_chunks(self, found: list[Bools]) -> Bools:
        """Return the answers of all chunks, given in order, as `answers` does."""
        return self.answers(np.concatenate([np.zeros(0, np.bool_), *found]))


def helpers_for(num_keys: int, threads: int) -> int:
    """Return how many threads, besides the caller's, are worth starting for a batch."""
    return threads if threads > 1 and num_keys >= _WORTH_THREADS else 0


def join(parts: list[HashHalves]) -> HashHalves:
    """Concatenate the hash halves of several chunks."""
    h1, h2 = map(np.concatenate, zip(*parts, strict=True))
    return h1, h2


def gathered(keys: Iterable[Batch], key_hash: KeyHash, num_hashes: int) -> Iterator[HashHalves]:
    """Hash batches, and yield the hashes of as many keys as one pass over a file looks up."""
    most = max(1, _POSITIONS_AT_A_TIME // num_hashes)
    ready: list[HashHalves] = []
    waiting = 0
    for batch in keys:
        for chunk in batch.cut(min(most, _engine.CHUNK_KEYS)):
            ready.append(_engine.hash_keys(chunk, key_hash))
            waiting += len(ready[-1][0])
            if waiting >= most:
                yield join(ready)
                ready, waiting = [], 0
    if ready:
        yield join(ready)
