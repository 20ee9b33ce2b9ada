"""The kernels: hash, test, claim, commit; lines and their keys, behind one set of names.

``reference``  the definition, in numpy, which always works
``compiled``   the same in Cython, where it was built
``choice``     which of the two serves
``key_batch``  the forms of keys that kernels hash

Kernels take and return arrays. They never open a file, take a lock or check a type: the caller
of `add`, `increment` or `decrement`, or of `claim` and `commit`, holds the write lock around
it: two that write at once lose bits, and both report one key as new.
"""

from mmbloom._engine.choice import ENGINE
from mmbloom._engine.key_batch import CHUNK_KEYS
from mmbloom._engine.reference.bits import union
from mmbloom._engine.reference.counters import (
    COUNTER_BITS,
    count_nonzero,
    counted_claim,
    nonzero_bits,
)
from mmbloom._engine.reference.hash import bytes_of
from mmbloom._engine.reference.lines import WHOLE_LINE, lines_of, narrower
from mmbloom._engine.reference.rows import INSIDE, fields_of
from mmbloom._engine.reference.single import described

if ENGINE == "compiled":
    from mmbloom._engine.compiled.bits import (
        Claimed,
        OneKey,
        add,
        chunk_keys,
        claim,
        commit,
        contains,
        contains_any,
        contains_with,
        count_set,
        meeting,
    )
    from mmbloom._engine.compiled.counters import counted_contains, decrement, increment
    from mmbloom._engine.compiled.hash import first_unencodable, hash_keys, plain
    from mmbloom._engine.compiled.holding import Held, Hold, LockState
    from mmbloom._engine.compiled.lines import find_lines, gather, select_keys
    from mmbloom._engine.compiled.members import find_members
    from mmbloom._engine.compiled.rows import find_rows, select_columns
    from mmbloom._engine.compiled.single import Grounds, SingleKeys
    from mmbloom._engine.compiled.slices import partition, rebase, slices_of
else:
    from mmbloom._engine.reference.bits import (
        Claimed,
        OneKey,
        add,
        chunk_keys,
        claim,
        commit,
        contains,
        contains_any,
        contains_with,
        count_set,
        meeting,
    )
    from mmbloom._engine.reference.counters import counted_contains, decrement, increment
    from mmbloom._engine.reference.hash import first_unencodable, hash_keys, plain
    from mmbloom._engine.reference.holding import Held, Hold, LockState
    from mmbloom._engine.reference.lines import find_lines, gather, select_keys
    from mmbloom._engine.reference.members import find_members
    from mmbloom._engine.reference.rows import find_rows, select_columns
    from mmbloom._engine.reference.single import Grounds, SingleKeys
    from mmbloom._engine.reference.slices import partition, rebase, slices_of

__all__ = [
    "CHUNK_KEYS",
    "COUNTER_BITS",
    "ENGINE",
    "INSIDE",
    "WHOLE_LINE",
    "Claimed",
    "Grounds",
    "Held",
    "Hold",
    "LockState",
    "OneKey",
    "SingleKeys",
    "add",
    "bytes_of",
    "chunk_keys",
    "claim",
    "commit",
    "contains",
    "contains_any",
    "contains_with",
    "count_nonzero",
    "count_set",
    "counted_claim",
    "counted_contains",
    "decrement",
    "described",
    "fields_of",
    "find_lines",
    "find_members",
    "find_rows",
    "first_unencodable",
    "gather",
    "hash_keys",
    "increment",
    "lines_of",
    "meeting",
    "narrower",
    "nonzero_bits",
    "partition",
    "plain",
    "rebase",
    "select_columns",
    "select_keys",
    "slices_of",
    "union",
]
