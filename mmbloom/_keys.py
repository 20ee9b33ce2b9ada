"""The border: whatever a caller passes becomes a KeyBatch here, and kernels check nothing.

A key is bytes. str is its UTF-8; an int, and any numpy integer, is its 8-byte
little-endian two's complement; numpy S items lose trailing NULs (numpy's own rule).
Nothing is copied that is already in a form the engine can hash.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbloom.errors import KeyEncodingError, KeyTypeError

Key = bytes | str | int
Keys = Iterable[Key] | npt.NDArray[Any]

_SLICE = 1 << 14  # keys checked, or taken from an iterator, at a time (law 17)


@dataclass(frozen=True, slots=True)
class ByteKeys:
    """Keys as `bytes`, or as `str` that is known to encode: a list, or an S or U array."""

    items: list[bytes | str] | npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> "ByteKeys":
        return ByteKeys(self.items[part])


@dataclass(frozen=True, slots=True)
class IntegerKeys:
    """Keys of 8 bytes each, as an array of little-endian uint64, shape (n,)."""

    items: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, part: slice) -> "IntegerKeys":
        return IntegerKeys(self.items[part])


KeyBatch = ByteKeys | IntegerKeys


def coerce_one(key: Key) -> bytes:
    r"""Turn one key into its bytes.

    Raises
    ------
    KeyTypeError, KeyEncodingError
        If it cannot be a key.

    Examples
    --------
    >>> coerce_one("é"), coerce_one(-2)
    (b'\xc3\xa9', b'\xfe\xff\xff\xff\xff\xff\xff\xff')
    """
    return _to_bytes(key, None)


def coerce(keys: Keys) -> KeyBatch:
    """Turn a batch of keys into the form that the engine hashes, checking every key.

    Parameters
    ----------
    keys : iterable of bytes, str or int; or ndarray of integers, S or U, shape (n,)
        Types may be mixed. Arrays may have any byte order and stride.

    Returns
    -------
    ByteKeys or IntegerKeys
        n keys in the order given. Shares memory with a list or a contiguous 64-bit array.

    Raises
    ------
    KeyTypeError, KeyEncodingError
        If a key cannot be one; names the first such position.
    ValueError
        If an array does not have exactly one dimension.

    Examples
    --------
    >>> coerce([1, 2]).items
    array([1, 2], dtype=uint64)
    """
    if isinstance(keys, np.ndarray):
        return _from_array(keys)
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise KeyTypeError(f"a batch was expected, got a single {type(keys).__name__}")
    if not isinstance(keys, Iterable):
        raise KeyTypeError(f"a batch was expected, got {type(keys).__name__}")
    return _from_list(keys if type(keys) is list else list(keys), 0)


def batches(keys: Keys) -> Iterator[KeyBatch]:
    """Coerce an iterable of any length piece by piece, in bounded memory.

    Yields
    ------
    ByteKeys or IntegerKeys
        At most 16,384 keys each, but for a list or array, which is there and comes whole.
        A wrong key raises when its piece is reached, with its position in the whole.
    """
    if isinstance(keys, (np.ndarray, list, str, bytes, bytearray, memoryview)) or not isinstance(
        keys, Iterable
    ):
        yield coerce(keys)
        return
    rest, done = iter(keys), 0
    while piece := list(islice(rest, _SLICE)):
        yield _from_list(piece, done)
        done += len(piece)


def _from_array(keys: npt.NDArray[Any]) -> KeyBatch:
    if keys.ndim != 1:
        raise ValueError(f"an array of keys has one dimension, this one has {keys.ndim}")
    if keys.size == 0:
        return ByteKeys([])
    # numpy.ma takes 7 ms to import: only a subclass can be one.
    if type(keys) is not np.ndarray and isinstance(keys, np.ma.MaskedArray):
        raise KeyTypeError("a masked array; pass keys.compressed()", 0)
    if keys.dtype.kind == "i":  # sign-extended, so that 5 and -5 are the same key in any width
        return IntegerKeys(keys.astype("<i8", copy=False).view("<u8"))
    if keys.dtype.kind == "u":
        return IntegerKeys(keys.astype("<u8", copy=False))
    if keys.dtype.kind in "SU":
        if keys.dtype.kind == "U":
            _check_encodable(keys, 0)
        return ByteKeys(keys)
    raise KeyTypeError(f"an array of dtype {keys.dtype}", 0)


def _from_list(keys: list[Any], offset: int) -> KeyBatch:
    kinds = set(map(type, keys))
    if kinds == {int}:
        try:
            return IntegerKeys(np.array(keys, dtype="<i8").view("<u8"))
        except OverflowError:  # some key is of uint64, or of no 64-bit type at all
            pass
    elif kinds <= {bytes, str}:
        if str in kinds:
            _check_encodable(keys, offset)
        return ByteKeys(keys)
    return ByteKeys([_to_bytes(key, offset + i) for i, key in enumerate(keys)])


def _check_encodable(keys: list[bytes | str] | npt.NDArray[Any], offset: int) -> None:
    # Before anything is added: a batch with a wrong key adds nothing.
    for start in range(0, len(keys), _SLICE):
        piece = list(keys[start : start + _SLICE])
        try:
            "".join([key for key in piece if isinstance(key, str)]).encode()
        except UnicodeEncodeError:
            for i, key in enumerate(piece):
                _to_bytes(key, offset + start + i)


def _to_bytes(key: Any, position: int | None) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError:
            raise KeyEncodingError(position) from None
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    # bool is an int, and timedelta64 a numpy integer, by descent only.
    if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.timedelta64)):
        if -(2**63) <= key < 2**64:
            return (int(key) % 2**64).to_bytes(8, "little")
        raise KeyTypeError(f"int {key} is outside int64 and uint64", position)
    raise KeyTypeError(f"{type(key).__name__} is not a kind of key", position)
