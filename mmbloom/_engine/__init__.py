"""Hash, test, claim, commit; lines and their keys: the kernels, behind one set of names.

``_numpy``, ``_numpy_counters``, ``_numpy_hash``,
``_numpy_lines``                                        the reference, which always works
``_compiled``, ``_compiled_claim``,
``_compiled_counters``, ``_compiled_hash``,
``_compiled_lines``, ``_compiled_several``,
``_compiled_text``                                      the same in Cython, where it was built
``_choice``                                             which of the two serves

Kernels take and return arrays. They never open a file, take a lock or check a type: who
calls `add`, `increment` or `decrement`, or `claim` and `commit`, holds the write lock around
it (laws 1 and 7).
"""

from mmbloom._engine._choice import ENGINE
from mmbloom._engine._numpy import CHUNK_KEYS, Words, union
from mmbloom._engine._numpy_counters import (
    OneCounted,
    count_nonzero,
    counted_claim,
    nonzero_bits,
)
from mmbloom._engine._numpy_hash import HashHalves
from mmbloom._engine._numpy_lines import WHOLE_LINE, lines_of, narrower

if ENGINE == "compiled":
    from mmbloom._engine._compiled import OneKey, add, contains, count_set
    from mmbloom._engine._compiled_claim import Claimed, claim, commit
    from mmbloom._engine._compiled_counters import counted_contains, decrement, increment
    from mmbloom._engine._compiled_hash import hash_keys
    from mmbloom._engine._compiled_lines import find_lines, gather, select_keys
    from mmbloom._engine._compiled_several import contains_any
    from mmbloom._engine._compiled_text import first_unencodable, plain
else:
    from mmbloom._engine._numpy import (
        Claimed,
        OneKey,
        add,
        claim,
        commit,
        contains,
        contains_any,
        count_set,
    )
    from mmbloom._engine._numpy_counters import counted_contains, decrement, increment
    from mmbloom._engine._numpy_hash import first_unencodable, hash_keys, plain
    from mmbloom._engine._numpy_lines import find_lines, gather, select_keys

__all__ = [
    "CHUNK_KEYS",
    "ENGINE",
    "WHOLE_LINE",
    "Claimed",
    "HashHalves",
    "OneCounted",
    "OneKey",
    "Words",
    "add",
    "claim",
    "commit",
    "contains",
    "contains_any",
    "count_nonzero",
    "count_set",
    "counted_claim",
    "counted_contains",
    "decrement",
    "find_lines",
    "first_unencodable",
    "gather",
    "hash_keys",
    "increment",
    "lines_of",
    "narrower",
    "nonzero_bits",
    "plain",
    "select_keys",
    "union",
]
