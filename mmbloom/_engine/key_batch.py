"""The forms of a batch of keys that the engine hashes: what every caller's keys become.

Each form holds n keys where they lie: cutting one copies no key. The files of ``_keys`` make
them and prove them right: every span within its buffer, every str encodable. A form is
cut by a slice, or by a bool array of shape (n,).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbloom._typing import Octets
from mmbloom.sizing.params import KeyHash

Part = slice | npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ByteKeys:
    """Keys as a part of a list of `bytes`, or of `str` known to encode: items[start:stop]."""

    items: list[bytes | str]
    start: int
    stop: int

    @classmethod
    def of(cls, items: list[bytes | str]) -> "ByteKeys":
        """Take all of a list."""
        return cls(items, 0, len(items))

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: Part) -> "ByteKeys":
        here = range(self.start, self.stop)
        if isinstance(part, slice):
            return ByteKeys(self.items, here[part].start, here[part].stop)
        return ByteKeys.of([self.items[here[i]] for i in np.flatnonzero(part)])


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

    The hash halves of the values are kept in `hashes`, by hash: chunks of one batch share it.
    """

    values: "KeyBatch"
    indices: npt.NDArray[np.intp]
    hashes: dict[KeyHash, tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]] = field(
        default_factory=dict
    )

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, part: Part) -> "DictionaryKeys":
        return DictionaryKeys(self.values, self.indices[part], self.hashes)


SpelledKeys = ByteKeys | RowKeys | TextKeys | PackedKeys | ViewKeys  # each key's bytes are there
KeyBatch = SpelledKeys | IntegerKeys | DictionaryKeys
