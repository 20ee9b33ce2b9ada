"""The border: whatever a caller passes becomes a KeyBatch here, and kernels check nothing.

A key is bytes. str is its UTF-8; an int, and any numpy integer, is its 8-byte
little-endian two's complement; numpy S items lose trailing NULs (numpy's own rule).
Nothing is copied that is already in a form the engine can hash.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, IntegerKeys, KeyBatch, RowKeys, TextKeys
from mmbloom._keys import arrow
from mmbloom._keys.batch import Batch
from mmbloom._typing import Key, Nulls
from mmbloom.errors import KeyEncodingError, KeyTypeError

Keys = Iterable[Key] | npt.NDArray[Any] | KeyBatch


_SLICE = 1 << 14  # keys checked, or taken from an iterator, at a time (law 17)


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


def coerce(keys: Keys, nulls: Nulls = "error") -> Batch:
    """Turn the keys of a call into forms that the engine hashes, checking every key.

    Parameters
    ----------
    keys : iterable, ndarray or Arrow column
        As for `BloomFilter.add_many`.
    nulls : {"error", "skip"}
        What None, a masked item of an array or a null of a column is: an error, or left out.

    Returns
    -------
    Batch
        The keys in the order given; shares memory with an array, a column or a list.

    Raises
    ------
    KeyTypeError, KeyEncodingError
        If a key cannot be one; names the first such position.
    ValueError
        If an array has not the dimensions that a batch has, or a column is damaged.

    Examples
    --------
    >>> coerce([1, 2]).parts[0].items
    array([1, 2])
    """
    if nulls not in ("error", "skip"):
        raise ValueError(f"nulls is {nulls!r}, expected 'error' or 'skip'")
    if type(keys) is list:
        return _from_list(keys, 0, nulls)
    if isinstance(keys, KeyBatch):  # of a caller within the package
        return Batch([keys], len(keys))
    if isinstance(keys, np.ndarray):
        return _from_array(keys, nulls)
    if arrow.is_arrow(keys):
        return _from_column(keys, nulls)
    if isinstance(keys, memoryview) and keys.ndim == 2:
        return _from_array(np.asarray(keys), nulls)
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise KeyTypeError(f"a batch was expected, got a single {type(keys).__name__}")
    if not isinstance(keys, Iterable):
        raise KeyTypeError(f"a batch was expected, got {type(keys).__name__}")
    return _from_list(list(keys), 0, nulls)


def batches(keys: Keys, nulls: Nulls = "error") -> Iterator[Batch]:
    """Coerce an iterable of any length piece by piece, in bounded memory.

    Yields
    ------
    Batch
        At most 16,384 keys each, but for a list, array or column, which is there and comes
        whole. A wrong key raises when its piece is reached, with its position in the whole.
    """
    whole = (np.ndarray, list, str, bytes, bytearray, memoryview)
    if isinstance(keys, whole) or arrow.is_arrow(keys) or not isinstance(keys, Iterable):
        yield coerce(keys, nulls)
        return
    rest, done = iter(keys), 0
    while piece := list(islice(rest, _SLICE)):
        yield _from_list(piece, done, nulls)
        done += len(piece)


def _from_array(keys: npt.NDArray[Any], nulls: Nulls) -> Batch:
    rows = keys.ndim == 2 and keys.dtype == np.uint8
    if keys.ndim != 1 and not rows:
        raise ValueError(
            f"an array of keys has one dimension, or two of uint8 (a key a row); this one has "
            f"{keys.ndim} of {keys.dtype}"
        )
    # numpy.ma takes 7 ms to import: only a subclass can be one.
    if type(keys) is not np.ndarray and isinstance(keys, np.ma.MaskedArray):
        return _from_masked(keys, nulls)
    if keys.size == 0 and not rows:
        return Batch([], 0)
    if rows:
        return Batch([RowKeys(keys, padded=False)], len(keys))
    if keys.dtype.kind in "iu":
        return Batch([IntegerKeys(keys)], len(keys))
    if keys.dtype.kind == "S":
        rows_of = keys[:, np.newaxis].view(np.uint8)
        return Batch([RowKeys(rows_of, padded=True)], len(keys))
    if keys.dtype.kind == "U":
        # Before anything is added: a batch with a wrong key adds nothing.
        if (wrong := _engine.first_unencodable(keys)) >= 0:
            raise KeyEncodingError(wrong)
        return Batch([TextKeys(keys)], len(keys))
    raise KeyTypeError(f"an array of dtype {keys.dtype}", 0)


def _from_masked(keys: Any, nulls: Nulls) -> Batch:
    mask = np.ma.getmaskarray(keys)
    masked = np.asarray(mask if mask.ndim == 1 else mask.any(axis=1))
    if not masked.any():
        return _from_array(keys.data, nulls)
    if nulls == "error":
        raise KeyTypeError("masked, a null (nulls='skip' leaves them out)", int(masked.argmax()))
    try:
        left = _from_array(keys.data[~masked], nulls)
        return Batch(left.parts, left.num_keys, ~masked)
    except KeyEncodingError as error:  # its position in what the caller gave
        raise KeyEncodingError(int(np.flatnonzero(~masked)[error.position or 0])) from None


def _from_column(keys: Any, nulls: Nulls) -> Batch:
    parts: list[KeyBatch] = []
    presents: list[npt.NDArray[np.bool_]] = []
    done = 0
    try:
        column = arrow.read(keys)
    except ImportError:  # of pyarrow, by a Series of pandas: its items are there all the same
        return _from_list(list(keys), 0, nulls)
    for part, valid in column:
        if valid is not None and nulls == "error":
            position = done + int(valid.argmin())
            raise KeyTypeError("a null (nulls='skip' leaves them out)", position)
        parts.append(part if valid is None else part[valid])
        presents.append(np.ones(len(part), dtype=np.bool_) if valid is None else valid)
        done += len(part)
    num_keys = sum(map(len, parts))
    return Batch(parts, num_keys, None if num_keys == done else np.concatenate(presents))


def _from_list(keys: list[Any], offset: int, nulls: Nulls) -> Batch:
    if _engine.plain(keys):
        return Batch([ByteKeys(keys, 0, len(keys))], len(keys))
    kinds = set(map(type, keys))
    if type(None) in kinds and nulls == "skip":
        present = np.fromiter((key is not None for key in keys), np.bool_, len(keys))
        left = [key for key in keys if key is not None]
        try:
            return Batch(_from_list(left, 0, nulls).parts, len(left), present)
        except (KeyTypeError, KeyEncodingError) as error:
            # Its position in what the caller gave.
            place = offset + int(np.flatnonzero(present)[error.position or 0])
            raise at_position(error, place) from None
    if kinds == {int}:
        try:
            return Batch([IntegerKeys(np.array(keys, dtype="<i8"))], len(keys))
        except OverflowError:  # some key is of uint64, or of no 64-bit type at all
            pass
    spelled: list[bytes | str] = [_to_bytes(key, offset + i) for i, key in enumerate(keys)]
    return Batch([ByteKeys.of(spelled)], len(keys))


def at_position(
    error: KeyTypeError | KeyEncodingError, position: int
) -> KeyTypeError | KeyEncodingError:
    """Make the same error of another position, as of a piece in the whole."""
    if isinstance(error, KeyTypeError):
        return KeyTypeError(error.found, position)
    return KeyEncodingError(position)


def _to_bytes(key: Any, position: int | None) -> bytes:
    if isinstance(key, str):
        try:
            return key.encode()
        except UnicodeEncodeError:
            raise KeyEncodingError(position) from None
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    # bool is an int, and timedelta64 a numpy integer, by descent only.
    if key is None:
        raise KeyTypeError("None, a null (nulls='skip' leaves them out)", position)
    if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.timedelta64)):
        if -(2**63) <= key < 2**64:
            return (int(key) % 2**64).to_bytes(8, "little")
        raise KeyTypeError(f"int {key} is outside int64 and uint64", position)
    raise KeyTypeError(f"{type(key).__name__} is not a kind of key", position)
