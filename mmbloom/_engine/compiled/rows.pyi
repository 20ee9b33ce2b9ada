# The interface is the reference's, name for name, but that keys are spans of a buffer.
from collections.abc import Sequence

from mmbloom._engine.key_batch import KeyBatch
from mmbloom._engine.reference.rows import find_rows as find_rows
from mmbloom._typing import Octets, Offsets

def select_columns(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,
    *,
    columns: Sequence[int],
    several: bool,
    delimiter: int,
    empty_is_key: bool = False,
    skip_fields: int = 0,
    skip_chars: int = 0,
    compare_at_most: int | None = None,
    ignore_case: bool = False,
) -> KeyBatch: ...
