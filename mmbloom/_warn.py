"""Warnings that point at the caller's line, and the one about more keys than planned."""

import sys
import warnings

from mmbloom.errors import CapacityWarning, MmbloomWarning
from mmbloom.sizing.fill import Fill
from mmbloom.sizing.params import FilterParams


def warn(message: str, kind: type[MmbloomWarning]) -> None:
    """Warn, in the name of the first frame outside of this package."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001  inspect costs 10 ms of import time
    while frame.f_back and _ours(frame.f_globals["__name__"]):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def _ours(module: str) -> bool:
    return module.startswith("mmbloom.") or module == "contextlib"  # which runs our blocks


def warn_past_plan(path: str, params: FilterParams, fill: Fill) -> None:
    """Warn that a filter is past its plan; called when all else is done, as it may raise."""
    warn(
        f"{path}: {fill}; false positives rise above {params.error_rate:g}: {fill.taken()}; "
        "make a larger filter",
        CapacityWarning,
    )
