"""The forms of a batch of keys that the engine hashes: what every caller's keys become.

Each form holds n keys where they lie: cutting one copies no key. The files of ``_keys`` make
them and prove them right: every span within its buffer, every str encodable. A form is
cut by a slice, or by a bool array of shape (n,). None of them is a dataclass: to make one takes
about a millisecond, which every program would wait for.
"""

from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from mmbloom._system.typing import Array, HashHalves, Octets, Words
from mmbloom.sizing.params import KeyHash

Part = slice | Array[np.bool_]

# Keys per call: a million are enough for several threads, and for the order of regions. They take
# 37 MB of hashes and order, and Ctrl-C waits for them, which is 10 to 90 ms in memory.
CHUNK_KEYS = 1 << 20


class ByteKeys(SimpleNamespace):
    """Keys as a part of a list of `bytes`, or of `str` known to encode: items[start:stop].

    Made without a call of Python, as each batch of a list makes one.
    """

    items: list[bytes | str]
    start: int
    stop: int

    @classmethod
    def of(cls, items: list[bytes | str]) -> "ByteKeys":
        """Take all of a list."""
        return cls(items=items, start=0, stop=len(items))

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: Part) -> "ByteKeys":
        here = range(self.start, self.stop)
        if isinstance(part, slice):
            return ByteKeys(items=self.items, start=here[part].start, stop=here[part].stop)
        return ByteKeys.of([self.items[here[i]] for i in np.flatnonzero(part)])


class _ArrayKeys:
    """Keys as the items of an array."""

    __slots__ = ("items",)

    def __init__(self, items: Array[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: Part) -> Self:
        return type(self)(self.items[part])


class IntegerKeys(_ArrayKeys):
    """Keys as an array of integers of any width, byte order and stride; each is 8 bytes."""

    __slots__ = ()


class TextKeys(_ArrayKeys):
    """Keys as a numpy `U` array of any byte order and stride; each is its UTF-8."""

    __slots__ = ()


class RowKeys:
    """Keys of one width, as uint8 of shape (n, width); `padded` ones end before trailing NULs."""

    __slots__ = ("padded", "rows")

    def __init__(self, rows: Octets, padded: bool) -> None:
        self.rows, self.padded = rows, padded

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Part) -> "RowKeys":
        return RowKeys(self.rows[part], self.padded)


class PackedKeys:
    """Keys as spans of one buffer: octets[starts[i]:ends[i]]; starts and ends int32 or int64."""

    __slots__ = ("ends", "octets", "starts")

    def __init__(self, octets: Octets, starts: Array[Any], ends: Array[Any]) -> None:
        self.octets, self.starts, self.ends = octets, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, part: Part) -> "PackedKeys":
        return PackedKeys(self.octets, self.starts[part], self.ends[part])


class ViewKeys:
    """Keys as Arrow string views, uint8 of shape (n, 16), and the buffers they point into."""

    __slots__ = ("buffers", "views")

    def __init__(self, views: Octets, buffers: list[Octets]) -> None:
        self.views, self.buffers = views, buffers

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, part: Part) -> "ViewKeys":
        return ViewKeys(self.views[part], self.buffers)


class DictionaryKeys:
    """Keys as places in another batch: values[indices[i]], intp, all within it.

    The hash halves of the values are kept in `hashes`, by hash: chunks of one batch share it.
    """

    __slots__ = ("hashes", "indices", "values")

    def __init__(
        self,
        values: "KeyBatch",
        indices: Array[np.intp],
        hashes: dict[KeyHash, HashHalves] | None = None,
    ) -> None:
        self.values, self.indices = values, indices
        self.hashes: dict[KeyHash, HashHalves] = {} if hashes is None else hashes

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, part: Part) -> "DictionaryKeys":
        return DictionaryKeys(self.values, self.indices[part], self.hashes)


class HashedKeys:
    """Keys of which only the hash halves are known, uint64 of shape (n,): hashing returns them."""

    __slots__ = ("h1", "h2")

    def __init__(self, h1: Words, h2: Words) -> None:
        self.h1, self.h2 = h1, h2

    def __len__(self) -> int:
        return len(self.h1)

    def __getitem__(self, part: Part) -> "HashedKeys":
        return HashedKeys(self.h1[part], self.h2[part])


SpelledKeys = ByteKeys | RowKeys | TextKeys | PackedKeys | ViewKeys  # each key's bytes are there
KeyBatch = SpelledKeys | IntegerKeys | DictionaryKeys | HashedKeys
