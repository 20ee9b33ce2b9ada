"""The optional libraries of the extras ``cli`` and ``plot``, imported here and nowhere else."""

import importlib
import importlib.util
from contextlib import suppress
from typing import Any

from mmbloom.errors import MissingLibraryError

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
    MissingLibraryError
        If it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        extra = _EXTRAS[library]
        raise MissingLibraryError(
            f"{purpose} needs {library}, which is not installed: pip install 'mmbloom[{extra}]'"
        ) from error


def gzip_decompressor() -> Any:
    """Import a ``decompressobj``: of zlib-ng, which xopen brings to most machines, or of zlib.

    That of isal takes three quarters of the time, but refuses a sound file whose header comes in
    pieces, if it has more than a name.
    """
    with suppress(ImportError):
        return importlib.import_module("zlib_ng.zlib_ng").decompressobj
    return importlib.import_module("zlib").decompressobj  # not above: most runs need neither


def installed(name: str) -> bool:
    """Tell whether an optional library is there, without the time that importing it takes."""
    return importlib.util.find_spec(name) is not None
