"""More keys than a filter was planned for: from when on that is so, and what its user is told."""

import math

from mmbloom._rates import expected_positions_set
from mmbloom._warn import warn
from mmbloom.errors import CapacityWarning
from mmbloom.sizing import FilterParams


def full_at(params: FilterParams) -> float:
    """Give the number of set positions above which a filter is past its capacity."""
    # Beyond capacity by more than the estimate's own spread, about sqrt(n)/4: who adds just
    # what was planned for is not warned.
    limit = params.capacity + math.sqrt(params.capacity)
    return expected_positions_set(limit, params.num_bits, params.num_hashes, layout=params.layout)


def warn_past_capacity(path: str, params: FilterParams, positions_set: int) -> None:
    """Warn that a filter with so many positions set is past its capacity."""
    warn(
        f"{path}: holds about {round(params.estimated_count(positions_set))} keys and was planned "
        f"for {params.capacity}; false positives rise above {params.error_rate:g}: "
        "make a larger filter",
        CapacityWarning,
    )
