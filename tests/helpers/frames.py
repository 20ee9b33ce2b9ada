"""Compressed files as those who use them make and read them."""

import bz2
import gzip
import importlib
import lzma
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

# Python's own, or its backport, which the extra "cli" brings.
zstd: Any = importlib.import_module(
    "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
)
COMPRESS: dict[str, Any] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": partial(zstd.compress, options={zstd.CompressionParameter.checksum_flag: 1}),
}
DECOMPRESS: dict[str, Any] = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
    "zst": zstd.decompress,
}
_COMMANDS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}


def held_by(path: Path) -> bytes:
    """What is in a file, compressed if its name says so.

    What the kind's own command prints, which refuses half a frame; if it is not here, Python.
    """
    kind = path.suffix[1:]
    if kind not in _COMMANDS:
        return path.read_bytes()
    if shutil.which(_COMMANDS[kind]):
        command: list[str | Path] = [_COMMANDS[kind], "-dc", path]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    held: bytes = DECOMPRESS[kind](path.read_bytes())
    return held
