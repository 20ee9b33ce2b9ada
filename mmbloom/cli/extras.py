"""The optional libraries of the extras ``cli`` and ``plot``, imported here and nowhere else."""

import importlib
import importlib.util
from typing import Any

from mmbloom.cli.process import UsageError

_EXTRAS = {
    "argparse_manpage": "cli",
    "matplotlib": "plot",
    "shtab": "cli",
    "tqdm": "cli",
    "xopen": "cli",
}


def load(name: str, purpose: str) -> Any:
    """Import an optional library, or a module of it; if it is missing, say what to install.

    Raises
    ------
    UsageError
        If it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        extra = _EXTRAS[library]
        raise UsageError(
            f"{purpose} needs {library}, which is not installed: pip install 'mmbloom[{extra}]'"
        ) from error


def installed(name: str) -> bool:
    """Tell whether an optional library is there, without the time that importing it takes."""
    return importlib.util.find_spec(name) is not None


def available(name: str) -> bool:
    """Tell whether an optional library can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
