"""A batch in the pieces that the engine is fastest at; on a large one, with threads."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from mmbloom import _engine
from mmbloom._batch import Batch, KeyBatch
from mmbloom._parallel import in_order

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
