"""The optional libraries of the extra ``cli``, imported here and nowhere else."""

import importlib
from typing import Any

from mmbloom.cli._errors import UsageError


def load(name: str, purpose: str) -> Any:
    """Import an optional library, or say what to install.

    Raises
    ------
    UsageError
        If it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{purpose} needs {name}, which is not installed: pip install 'mmbloom[cli]'"
        ) from error


def available(name: str) -> bool:
    """Tell whether an optional library can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
