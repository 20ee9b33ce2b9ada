"""The forms of a batch of keys that the engine hashes: what every caller's keys become.

Each form holds n keys in the memory of whoever made them; only `items_of` and `bytes_of`
copy. The files of ``_keys`` make them and prove them right: every span within its buffer,
every str encodable. A form is cut by a slice, or by a bool array of shape (n,).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbloom._typing import Octets

Part = slice | npt.NDArray[np.bool_]


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


SpelledKeys = ByteKeys | RowKeys | TextKeys | PackedKeys | ViewKeys  # each key's bytes are there


KeyBatch = SpelledKeys | IntegerKeys | DictionaryKeys


def items_of(keys: SpelledKeys) -> list[Any]:
    """Make an object of each key: `bytes`, or `str` that stands for its UTF-8."""
    if isinstance(keys, ByteKeys):
        if len(items := keys.items[keys.start : keys.stop]) != len(keys):
            raise ValueError("the list of keys changed its size while in use")
        return items
    if isinstance(keys, TextKeys):
        return list(keys.items.tolist())
    if isinstance(keys, RowKeys):
        rows = [row.tobytes() for row in keys.rows]
        return [row.rstrip(b"\0") for row in rows] if keys.padded else rows
    if isinstance(keys, PackedKeys):
        octets = keys.octets.data
        spans = zip(keys.starts.tolist(), keys.ends.tolist(), strict=True)
        return [bytes(octets[start:end]) for start, end in spans]
    return [_viewed(view, keys.buffers) for view in keys.views]


def bytes_of(keys: KeyBatch) -> list[bytes]:
    r"""Give the bytes of each key; for few keys, as it makes an object of each.

    Examples
    --------
    >>> bytes_of(ByteKeys([b"a", "é"])), bytes_of(IntegerKeys(np.array([-2])))
    ([b'a', b'\xc3\xa9'], [b'\xfe\xff\xff\xff\xff\xff\xff\xff'])
    """
    if isinstance(keys, DictionaryKeys):
        used, places = np.unique(keys.indices, return_inverse=True)
        chosen = np.zeros(len(keys.values), np.bool_)
        chosen[used] = True
        values = bytes_of(keys.values[chosen])
        return [values[place] for place in places.tolist()]
    if isinstance(keys, IntegerKeys):
        return [word.tobytes() for word in keys.items.astype("<i8")]
    return [item.encode() if isinstance(item, str) else item for item in items_of(keys)]


def _viewed(view: Octets, buffers: list[Octets]) -> bytes:
    """Read one of Arrow's views: a length, then up to 12 bytes, or prefix, buffer and offset."""
    length, _, buffer, offset = view.view("<u4").tolist()
    octets = view[4 : 4 + length] if length <= 12 else buffers[buffer][offset : offset + length]
    return bytes(octets)
