"""A batch in the pieces that the engine is fastest at; on a large one, with threads."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from mmbloom import _engine
from mmbloom._batch import Batch, KeyBatch
from mmbloom._parallel import in_order

R = TypeVar("R")

# Fewer keys are done before a thread has started.
_WORTH_THREADS = 4 * _engine.CHUNK_KEYS


def map_pieces(
    work: Callable[[KeyBatch], R], batch: Batch, threads: int, *, busy: bool = False
) -> Iterator[R]:
    """Work on the pieces of a batch, results in order.

    A `busy` caller does as much with each result as was done to get it, and counts.
    """
    helpers = threads - busy
    if threads == 1 or batch.num_keys < _WORTH_THREADS:
        helpers = 0
    return in_order(work, batch.pieces(_engine.CHUNK_KEYS), helpers)
