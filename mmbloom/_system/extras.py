"""The optional libraries of the extra ``cli``, imported only here; what brings a C compiler."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from mmbloom.errors import MissingLibraryError

_GZIP = 31  # zlib's wbits for a header and a trailer of gzip, and any window
_BACKPORT = "backports.zstd"


def load(name: str, purpose: str) -> Any:
    """Import an optional library or a module of it; an error says what to install.

    Raises
    ------
    MissingLibraryError
        If it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        library = name.removesuffix(".manpage")  # a module of it
        raise MissingLibraryError(
            f"{purpose} needs {library}, which is not installed: pip install 'mmbloom[cli]'"
        ) from error


def _zlib() -> Any:
    """Import zlib-ng, which has wheels for most machines, or zlib, which has the same functions.

    The decompressor of isal takes three quarters of the time, but it refuses a sound file whose
    header arrives in pieces and has more than a name.
    """
    with suppress(ImportError):
        return importlib.import_module("zlib_ng.zlib_ng")
    return importlib.import_module("zlib")  # not above: most runs need neither


class Compression(NamedTuple):
    """A function that compresses bytes to a whole frame, and one that makes a decompressor."""

    compress: Callable[[Any], bytes]
    decompressor: Callable[[], Any]


def compression(kind: str, purpose: str) -> Compression:
    """Import the library of a kind of compressed file; it writes at its command's default level.

    Raises
    ------
    MissingLibraryError
        If it is missing.
    """
    if kind == "gz":
        library = _zlib()
        make = partial(library.decompressobj, _GZIP)
        return Compression(partial(library.compress, wbits=_GZIP), make)
    if kind == "zst":
        zstd = _zstd(purpose)
        # As the zstd command does: without a checksum no reader notices a flipped bit.
        sums = {zstd.CompressionParameter.checksum_flag: 1}
        return Compression(partial(zstd.compress, options=sums), zstd.ZstdDecompressor)
    if kind == "bz2":
        bz2 = importlib.import_module("bz2")
        return Compression(bz2.compress, bz2.BZ2Decompressor)
    lzma = importlib.import_module("lzma")
    return Compression(lzma.compress, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))


def _zstd(purpose: str) -> Any:
    with suppress(ImportError):
        return importlib.import_module("compression.zstd")  # part of Python since 3.14
    return load(_BACKPORT, purpose)


def has_zstd() -> bool:
    """Return whether .zst files can be read; all other kinds need no extra."""
    return installed("compression.zstd") or installed(_BACKPORT)


def compiler() -> str:
    """Return how to install a C compiler and Python's headers on this system."""
    if sys.platform == "darwin":
        return "`xcode-select --install`"
    if os.path.exists("/sbin/apk"):
        return "`apk add gcc musl-dev python3-dev`"
    return "on Debian `apt install gcc libc6-dev python3-dev`"


def installed(name: str) -> bool:
    """Return whether an optional library is installed, without importing it, which takes longer."""
    with suppress(ModuleNotFoundError):  # its parent package
        return importlib.util.find_spec(name) is not None
    return False
