"""Type aliases that several packages use: arrays, options of files, keys.

An alias that only one package uses stands in that package. `Key` and `Keys` are public: users
import them from `mmbloom` to annotate their own functions.
"""

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

# Arrays, each of shape (n,) unless a docstring says otherwise. `numpy.typing` has the same alias,
# but importing it takes a tenth of the time that all modules here take.
Item = TypeVar("Item", bound=np.generic)
Array = np.ndarray[tuple[Any, ...], np.dtype[Item]]
Bools = Array[np.bool_]
Indices = Array[np.intp]
Octets = Array[np.uint8]
Offsets = Array[np.int64]
Words = Array[np.uint64]
HashHalves = tuple[Words, Words]


class ArrowArray(Protocol):
    """A column in one Arrow array, such as pyarrow's."""

    def __arrow_c_array__(self) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """A column in several Arrow arrays, such as those of polars, pandas and pyarrow."""

    def __arrow_c_stream__(self) -> object: ...


# One key; the keys of one call, among which None is a null; and what to do with nulls.
Scalar = bytes | bytearray | memoryview | str | int | np.integer[Any]
Key = Scalar | tuple[Scalar, ...]
Keys = Iterable[Key | None] | Array[Any] | ArrowArray | ArrowStream
Nulls = Literal["error", "skip"]

# Files.
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Layout = Literal["blocked", "standard"]
HashName = Literal["siphash", "murmur3"]
Mode = Literal["r", "r+"]
Reserve = Literal["zeros", "fallocate"]
PastPlan = Literal["warn", "raise"]
OnFull = Literal["warn", "raise", "grow"]
Resident = bool | Literal["auto"]

# Time.
Clock = Callable[[], float]
Duration = str | float | timedelta
