# The interface is the reference's, name for name, but that keys are spans of the lines.
from mmbloom._engine.key_batch import KeyBatch
from mmbloom._engine.reference.lines import find_lines as find_lines
from mmbloom._engine.reference.lines import gather as gather
from mmbloom._typing import Octets, Offsets

def select_keys(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,
    *,
    field: int | None = None,
    separator: bytes | None = None,
    skip_fields: int = 0,
    skip_chars: int = 0,
    compare_at_most: int | None = None,
    ignore_case: bool = False,
) -> KeyBatch: ...
