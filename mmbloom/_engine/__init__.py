"""The kernels: hash, test, claim, commit; lines and their keys, behind one set of names.

``reference``  the definition, in numpy, which always works
``compiled``   the same in Cython, where it was built; which of the two serves
``key_batch``  the forms of keys that kernels hash

Kernels take arrays or batches, and return arrays. They never open a file, take a lock or check a
type: the caller of `add`, `increment` or `decrement`, or of `claim` and `commit`, holds the write
lock around it: two that write at once lose bits, and both report one key as new.
"""

from importlib import import_module

from mmbloom._engine.compiled import COMPILED as _COMPILED, engine as engine
from mmbloom._engine.key_batch import CHUNK_KEYS as CHUNK_KEYS
from mmbloom._engine.reference.bits import (
    Claimed as Claimed,
    Grounds as Grounds,
    OneKey as OneKey,
    SingleKeys as SingleKeys,
    add as add,
    arrange as arrange,
    claim as claim,
    commit as commit,
    contains as contains,
    contains_any as contains_any,
    contains_with as contains_with,
    count_set as count_set,
    described as described,
    partition as partition,
    rebase as rebase,
    slices_of as slices_of,
    union as union,
)
from mmbloom._engine.reference.counters import (
    COUNTER_BITS as COUNTER_BITS,
    count_nonzero as count_nonzero,
    counted_claim as counted_claim,
    counted_contains as counted_contains,
    decrement as decrement,
    increment as increment,
    nonzero_bits as nonzero_bits,
)
from mmbloom._engine.reference.hash import (
    bytes_of as bytes_of,
    first_unencodable as first_unencodable,
    hash_keys as hash_keys,
    plain as plain,
)
from mmbloom._engine.reference.holding import Held as Held, Hold as Hold, LockState as LockState
from mmbloom._engine.reference.lines import (
    INSIDE as INSIDE,
    WHOLE_LINE as WHOLE_LINE,
    fields_of as fields_of,
    find_lines as find_lines,
    find_members as find_members,
    find_rows as find_rows,
    gather as gather,
    lines_of as lines_of,
    narrower as narrower,
    select_columns as select_columns,
    select_keys as select_keys,
)

if engine == "compiled":
    for _module in _COMPILED:  # what it has serves in place of the reference
        _found = vars(import_module(f"{__name__}.compiled.{_module}"))
        globals().update(
            {name: _found[name] for name in _found.keys() & globals() if name[0] != "_"}
        )
