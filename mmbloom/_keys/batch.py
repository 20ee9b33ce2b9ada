"""A batch: the keys of one call, cut into chunks for the engine, and their answers joined.

``coerce.py`` makes batches and checks their keys.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import KeyBatch
from mmbloom._system.typing import Bools, HashHalves
from mmbloom.sizing.params import KeyHash

_POSITIONS_AT_A_TIME = 1 << 21  # looked up in one pass over a file


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

    def cut(self, most: int = 0) -> Iterable[KeyBatch]:
        """Return the keys in chunks, in order: each is one call of the engine, or of `most` keys.

        The chunks of a part have one size: the last is worth several threads, too.
        """
        most = most or _engine.CHUNK_KEYS
        if len(self.parts) == 1 and 0 < self.num_keys <= most:  # as in most calls
            return self.parts
        sizes = ((part, -(-len(part) // -(-len(part) // most))) for part in self.parts if len(part))
        return (
            part[start : start + size]
            for part, size in sizes
            for start in range(0, len(part), size)
        )

    def hashes(self, key_hash: KeyHash, threads: int) -> HashHalves:
        """Hash all keys at once, as a claim does."""
        return join([_engine.hash_keys(keys, key_hash, threads) for keys in self.cut()])

    def answers(self, found: list[Bools]) -> Bools:
        """Join the answers of all chunks, in the order of the input; a null's is False."""
        joined = np.concatenate([np.zeros(0, np.bool_), *found])
        if self.present is None:
            return joined
        spread = np.zeros(len(self.present), dtype=np.bool_)
        spread[self.present] = joined
        return spread


def join(parts: list[HashHalves]) -> HashHalves:
    """Concatenate the hash halves of several chunks."""
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.uint64)
    h1, h2 = map(np.concatenate, zip((none, none), *parts, strict=True))
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
