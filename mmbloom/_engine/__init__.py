"""Hash, test, claim, commit: the kernels, behind one set of names.

``_hash``  keys to (h1, h2)
``_numpy`` (h1, h2) to answers, on one array of little-endian uint64 words

Kernels take and return arrays. They never open a file, take a lock or check a type: who
calls `claim` and `commit` holds the write lock around both (laws 1 and 7).
"""

from mmbloom._engine._hash import HashHalves, hash_keys, hash_one
from mmbloom._engine._numpy import (
    CHUNK_KEYS,
    Claimed,
    Words,
    claim,
    commit,
    contains,
    contains_one,
    count_set,
    pending_positions,
    set_one,
)

__all__ = [
    "CHUNK_KEYS",
    "Claimed",
    "HashHalves",
    "Words",
    "claim",
    "commit",
    "contains",
    "contains_one",
    "count_set",
    "hash_keys",
    "hash_one",
    "pending_positions",
    "set_one",
]
