"""Type aliases that several packages use: arrays, options of files, keys.

Nothing here has a body: an alias that means something to one package only stands there.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt

# Arrays, each of shape (n,) unless a docstring says otherwise.
Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]
Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
HashHalves = tuple[Words, Words]

# One key, and what a null among several is.
Key = bytes | str | int
Nulls = Literal["error", "skip"]

# Files.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Layout = Literal["blocked", "standard"]
Mode = Literal["r", "r+"]
Reserve = Literal["zeros", "fallocate"]

# Time.
Clock = Callable[[], float]
Duration = str | float | timedelta
