"""Keys of many small batches, hashed and joined: a pass over a file is worth many keys."""

from collections.abc import Iterable, Iterator

import numpy as np

from mmbloom import _engine
from mmbloom._batch import Batch
from mmbloom._engine import HashHalves

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
