"""The kernels: hash, test, claim, commit; lines and their keys, behind one set of names.

``reference``  the definition, in numpy, which always works
``compiled``   the same in Cython, where it was built
``choice``     which of the two serves
``key_batch``  the forms of keys that kernels hash

Kernels take and return arrays. They never open a file, take a lock or check a type: the caller
of `add`, `increment` or `decrement`, or of `claim` and `commit`, holds the write lock around
it: two that write at once lose bits, and both report one key as new.
"""

from importlib import import_module

from mmbloom._engine.choice import engine as engine
from mmbloom._engine.key_batch import CHUNK_KEYS as CHUNK_KEYS
from mmbloom._engine.reference.bits import (
    Claimed as Claimed,
    OneKey as OneKey,
    add as add,
    chunk_keys as chunk_keys,
    claim as claim,
    commit as commit,
    contains as contains,
    contains_any as contains_any,
    contains_with as contains_with,
    count_set as count_set,
    meeting as meeting,
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
    WHOLE_LINE as WHOLE_LINE,
    find_lines as find_lines,
    gather as gather,
    lines_of as lines_of,
    narrower as narrower,
    select_keys as select_keys,
)
from mmbloom._engine.reference.members import find_members as find_members
from mmbloom._engine.reference.rows import (
    INSIDE as INSIDE,
    fields_of as fields_of,
    find_rows as find_rows,
    select_columns as select_columns,
)
from mmbloom._engine.reference.single import (
    Grounds as Grounds,
    SingleKeys as SingleKeys,
    described as described,
)
from mmbloom._engine.reference.slices import (
    partition as partition,
    rebase as rebase,
    slices_of as slices_of,
)

if engine == "compiled":
    # What the compiled module of the same name has serves in the place of the reference.
    for _name, _value in [*globals().items()]:
        _home = str(getattr(_value, "__module__", ""))
        if _home.startswith(f"{__name__}.reference."):
            _compiled = import_module(_home.replace(".reference.", ".compiled."))
            globals()[_name] = getattr(_compiled, _name, _value)
