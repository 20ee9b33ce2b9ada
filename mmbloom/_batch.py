"""The forms of a batch of keys that the engine hashes: what every caller's keys become.

Each form holds n keys in the memory of whoever made them; nothing is copied here. `_keys`
and `_arrow` make them and prove them right: every span within its buffer, every str
encodable. A form is cut by a slice, or by a bool array of shape (n,).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Part = slice | npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ByteKeys:
    """Keys as a part of a list of `bytes`, or of `str` known to encode: items[start:stop]."""

    items: list[bytes | str]
    start: int = 0
    stop: int = -1  # all of the list

    def __post_init__(self) -> None:
        if self.stop < 0:
            object.__setattr__(self, "stop", len(self.items))

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: Part) -> "ByteKeys":
        here = range(self.start, self.stop)
        if isinstance(part, slice):
            return ByteKeys(self.items, here[part].start, here[part].stop)
        return ByteKeys([self.items[here[i]] for i in np.flatnonzero(part)])


@dataclass(frozen=True, slots=True)
class IntegerKeys:
    """Keys as an array of integers of any width, byte order and stride; each is 8 bytes."""

    items: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: Part) -> "IntegerKeys":
        return IntegerKeys(self.items[part])


@dataclass(frozen=True, slots=True)
class RowKeys:
    """Keys of one width, as uint8 of shape (n, width); `padded` ones end before trailing NULs."""

    rows: Octets
    padded: bool

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Part) -> "RowKeys":
        return RowKeys(self.rows[part], self.padded)


@dataclass(frozen=True, slots=True)
class TextKeys:
    """Keys as a numpy `U` array of any byte order and stride; each is its UTF-8."""

    items: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: Part) -> "TextKeys":
        return TextKeys(self.items[part])


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """Keys as spans of one buffer: octets[starts[i]:ends[i]]; starts and ends int32 or int64."""

    octets: Octets
    starts: npt.NDArray[Any]
    ends: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, part: Part) -> "PackedKeys":
        return PackedKeys(self.octets, self.starts[part], self.ends[part])


@dataclass(frozen=True, slots=True)
class ViewKeys:
    """Keys as Arrow string views, uint8 of shape (n, 16), and the buffers they point into."""

    views: Octets
    buffers: list[Octets]

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, part: Part) -> "ViewKeys":
        return ViewKeys(self.views[part], self.buffers)


@dataclass(frozen=True, slots=True)
class DictionaryKeys:
    """Keys as places in another batch: values[indices[i]], intp, all within it.

    The hash halves of the values are kept in `hashes`, by seed: chunks of one batch share it.
    """

    values: "KeyBatch"
    indices: npt.NDArray[np.intp]
    hashes: dict[int, tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = field(
        default_factory=dict
    )

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, part: Part) -> "DictionaryKeys":
        return DictionaryKeys(self.values, self.indices[part], self.hashes)


KeyBatch = ByteKeys | IntegerKeys | RowKeys | TextKeys | PackedKeys | ViewKeys | DictionaryKeys


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call was given: keys in one form or several, and where nulls were left out.

    Attributes
    ----------
    parts : list of KeyBatch
        The keys, nulls left out, in order.
    present : ndarray of bool, shape (n,), optional
        False for each null; None where there are none.
    """

    parts: list[KeyBatch]
    present: npt.NDArray[np.bool_] | None = None

    @property
    def num_keys(self) -> int:
        """How many keys there are to hash."""
        return sum(map(len, self.parts))

    def pieces(self, size: int) -> Iterator[KeyBatch]:
        """Cut the keys into pieces of at most `size`, in order."""
        for part in self.parts:
            for start in range(0, len(part), size):
                yield part[start : start + size]

    def answers(self, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Give the answers of the keys, and False for each null."""
        if self.present is None:
            return found
        spread = np.zeros(len(self.present), dtype=np.bool_)
        spread[self.present] = found
        return spread
