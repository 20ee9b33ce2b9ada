"""Warnings that point at the line of the caller, not at one of this package."""

import sys
import warnings

from mmbloom.errors import MmbloomWarning


def warn(message: str, kind: type[MmbloomWarning]) -> None:
    """Warn, in the name of the first frame outside of this package."""
    level, frame = 1, sys._getframe(0)  # noqa: SLF001  inspect costs 10 ms of import time
    while frame.f_back and _ours(frame.f_globals["__name__"]):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def _ours(module: str) -> bool:
    return module.startswith("mmbloom.") or module == "contextlib"  # which runs our blocks
