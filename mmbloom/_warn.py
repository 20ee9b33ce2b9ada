"""Warnings that point at the caller's line, and the one about more keys than planned."""

import math
import sys
import warnings

from mmbloom.errors import CapacityWarning, MmbloomWarning
from mmbloom.sizing.params import FilterParams

# A filter that takes every other new key for seen is past all use, and so is a folder with it.
USELESS_RATE = 0.5


def warn(message: str, kind: type[MmbloomWarning]) -> None:
    """Warn, in the name of the first frame outside of this package."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001  inspect costs 10 ms of import time
    while frame.f_back and _ours(frame.f_globals["__name__"]):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def _ours(module: str) -> bool:
    return module.startswith("mmbloom.") or module == "contextlib"  # which runs our blocks


def most_keys(params: FilterParams) -> float:
    """Give the estimated number of keys above which a filter is past its plan."""
    # Beyond capacity by more than the estimate's own spread, about sqrt(n)/4: adding just what
    # was planned for does not warn.
    return params.capacity + math.sqrt(params.capacity)


def full_at(params: FilterParams) -> float:
    """Give the number of set positions above which a filter is past its plan."""
    limit = most_keys(params)
    return params.expected_positions_set(limit)


def is_past_plan(params: FilterParams, positions_set: int) -> bool:
    """Tell whether a filter with so many positions set is past its plan."""
    return positions_set > full_at(params)


def share_of(error_rate: float) -> str:
    """Say which share of new keys a rate of false positives is.

    Examples
    --------
    >>> share_of(0.8512), share_of(1), share_of(0.000123)
    ('about 85 %', 'about 100 %', 'about 0.012 %')
    """
    percent = 100 * error_rate
    return f"about {percent:.0f} %" if percent >= 10 else f"about {percent:.2g} %"


def warn_past_capacity(path: str, params: FilterParams, keys: int) -> None:
    """Warn that a filter with about so many keys is past its plan."""
    rate = params.rate_with(keys)
    warn(
        f"{path}: holds about {keys} keys and was planned for {params.capacity}; false positives "
        f"rise above {params.error_rate:g}: {share_of(rate)} of new keys are now taken for seen; "
        "make a larger filter",
        CapacityWarning,
    )
