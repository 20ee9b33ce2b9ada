"""Warnings that point at the caller's line; warnings of more keys than planned."""

import os
import sys
import warnings
from collections.abc import Iterable
from typing import NamedTuple

from mmbloom.errors import CapacityWarning, MmbloomWarning
from mmbloom.sizing import Fill, share_of
from mmbloom.sizing.formulas import rate_of_any
from mmbloom.sizing.params import FilterParams


def warn(message: str, kind: type[MmbloomWarning]) -> None:
    """Warn, at the line of the first frame outside this package."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001  inspect costs 10 ms of import time
    while frame.f_back and _ours(frame.f_globals["__name__"]):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def _ours(module: str) -> bool:
    return module.startswith("mmbloom.") or module == "contextlib"  # it runs our with blocks


def warn_past_plan(path: str, params: FilterParams, fill: Fill) -> None:
    """Warn that a filter is past its plan; call it last, as a warning may be raised."""
    warn(
        f"{path}: {fill}; its error rate rises above {params.error_rate:g}: {fill.taken()}; "
        "make a larger filter",
        CapacityWarning,
    )


class Counted(NamedTuple):
    """A file of which all bits were counted: its path, parameters and number of bits that are 1."""

    path: str
    params: FilterParams
    positions_set: int

    @property
    def fill(self) -> Fill:
        """How full it is."""
        return Fill.of(self.params, self.positions_set)


def warn_if_past_plan(*files: Counted) -> None:
    """Warn of each file that has more keys than planned; call it last, as above."""
    for file in files:
        if file.fill.is_past:
            warn_past_plan(file.path, file.params, file.fill)


def warn_if_any_past_plan(folder: str, kind: str, files: Iterable[Counted]) -> None:
    """Warn once of a folder whose files have more keys than planned; call it last, as above."""
    advice = "make a folder of larger files"
    if kind == "rotating":
        advice = "this ends with the period; to prevent it, make a folder with more keys per period"
    fills = [(file.fill, file.path) for file in files]
    past = [(fill, file) for fill, file in fills if fill.is_past]
    if not past:
        return
    rate = rate_of_any(fill.now for fill, _ in fills)
    most, file = max(past, key=lambda one: one[0].keys / one[0].capacity)
    warn(
        f"{folder}: {len(past)} of {len(fills)} files are past their capacity, "
        f"{os.path.basename(file)} {most}: {share_of(rate)} of new keys are now reported as seen; "
        f"{advice}",
        CapacityWarning,
    )
