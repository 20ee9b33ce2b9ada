"""The optional libraries of the extras ``cli`` and ``plot``, imported here and nowhere else."""

import importlib
import importlib.util
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from mmbloom.errors import MissingLibraryError

GZIP = 31  # zlib's wbits for a header and a trailer of gzip, and any window

_EXTRAS = {
    "argparse_manpage": "cli",
    "backports.zstd": "cli",
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
        library = next(known for known in _EXTRAS if f"{name}.".startswith(f"{known}."))
        extra = _EXTRAS[library]
        raise MissingLibraryError(
            f"{purpose} needs {library}, which is not installed: pip install 'mmbloom[{extra}]'"
        ) from error


def zlib() -> Any:
    """Import zlib-ng, which xopen brings to most machines, or zlib, which has the same functions.

    The decompressor of isal takes three quarters of the time, but refuses a sound file whose header
    comes in pieces, if it has more than a name.
    """
    with suppress(ImportError):
        return importlib.import_module("zlib_ng.zlib_ng")
    return importlib.import_module("zlib")  # not above: most runs need neither


class Compression(NamedTuple):
    """What makes a whole frame of bytes, and what makes a decompressor of one frame."""

    compress: Callable[[Any], bytes]
    decompressor: Callable[[], Any]


def compression(kind: str, purpose: str) -> Compression:
    """Import what writes files of a kind, at the level that its command has by default.

    Raises
    ------
    MissingLibraryError
        If it is missing.
    """
    if kind == "gz":
        library = zlib()
        make = partial(library.decompressobj, GZIP)
        return Compression(partial(library.compress, wbits=GZIP), make)
    if kind == "zst":
        zstd = _zstd(purpose)
        # As the command does; without it a flipped bit changes lines, and no reader notices.
        sums = {zstd.CompressionParameter.checksum_flag: 1}
        return Compression(partial(zstd.compress, options=sums), zstd.ZstdDecompressor)
    if kind == "bz2":
        bz2 = importlib.import_module("bz2")
        return Compression(bz2.compress, bz2.BZ2Decompressor)
    lzma = importlib.import_module("lzma")
    return Compression(lzma.compress, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))


def _zstd(purpose: str) -> Any:
    with suppress(ImportError):
        return importlib.import_module("compression.zstd")  # of Python, from 3.14 on
    return load("backports.zstd", purpose)


def installed(name: str) -> bool:
    """Tell whether an optional library is there, without the time that importing it takes."""
    return importlib.util.find_spec(name) is not None
