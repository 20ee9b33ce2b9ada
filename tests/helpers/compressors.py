"""Compressors that not every Python has."""

import importlib
import sys
from typing import Any


def zstd_library() -> Any:
    """Python's own, or its backport, which the extra "cli" brings."""
    return importlib.import_module(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )
