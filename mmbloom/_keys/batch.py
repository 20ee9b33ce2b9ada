"""A batch: the keys of one call, cut into chunks, hashed ahead, and their answers put together.

What the keys are, and that they are right, is the matter of ``coerce.py``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._engine.key_batch import KeyBatch
from mmbloom._threads import in_order
from mmbloom._typing import HashHalves


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call was given: keys in one form or several, and where nulls were left out.

    Attributes
    ----------
    parts : list of KeyBatch
        The keys, nulls left out, in order.
    present : ndarray of bool, shape (n,), optional
        False for each null; None where there are none.
    """

    parts: list[KeyBatch]
    present: npt.NDArray[np.bool_] | None = None

    @property
    def num_keys(self) -> int:
        """How many keys there are to hash."""
        return sum(map(len, self.parts))

    def pieces(self, size: int) -> Iterator[KeyBatch]:
        """Cut the keys into pieces of at most `size`, in order."""
        for part in self.parts:
            for start in range(0, len(part), size):
                yield part[start : start + size]

    def answers(self, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Give the answers of the keys, and False for each null."""
        if self.present is None:
            return found
        spread = np.zeros(len(self.present), dtype=np.bool_)
        spread[self.present] = found
        return spread


R = TypeVar("R")


# Fewer keys are done before a thread has started.
_WORTH_THREADS = 4 * _engine.CHUNK_KEYS


def helpers_for(num_keys: int, threads: int) -> int:
    """Tell how many threads beside the caller's are worth starting for so many keys."""
    return threads if threads > 1 and num_keys >= _WORTH_THREADS else 0


def map_pieces(
    work: Callable[[KeyBatch], R], batch: Batch, threads: int, *, busy: bool = False
) -> Iterator[R]:
    """Work on the pieces of a batch, results in order.

    A `busy` caller does as much with each result as was done to get it, and counts.
    """
    helpers = max(0, helpers_for(batch.num_keys, threads) - busy)
    return in_order(work, batch.pieces(_engine.CHUNK_KEYS), helpers)


_POSITIONS_AT_A_TIME = 1 << 21  # looked up in one pass over the file


def gathered(keys: Iterable[Batch], seed: int, num_hashes: int) -> Iterator[HashHalves]:
    """Hash batches, and join them to as many keys as are looked up in one pass."""
    most = max(1, _POSITIONS_AT_A_TIME // num_hashes)
    ready: list[HashHalves] = []
    waiting = 0
    for batch in keys:
        for piece in batch.pieces(min(most, _engine.CHUNK_KEYS)):
            ready.append(_engine.hash_keys(piece, seed))
            waiting += len(ready[-1][0])
            if waiting >= most:
                yield _joined(ready)
                ready, waiting = [], 0
    if ready:
        yield _joined(ready)


def _joined(parts: list[HashHalves]) -> HashHalves:
    h1, h2 = map(np.concatenate, zip(*parts, strict=True))
    return h1, h2
