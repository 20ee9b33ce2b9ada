"""Compressed files as those who use them read them."""

import bz2
import gzip
import lzma
import shutil
import subprocess
from pathlib import Path
from typing import Any

from compressors import zstd_library

zstd = zstd_library()
COMPRESS: dict[str, Any] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd.compress,
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
