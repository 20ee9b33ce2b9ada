r"""Conversion of what a caller passes to a batch of keys: all checks are here, none in kernels.

A key is bytes. A str is its UTF-8. An int, or a numpy integer, is 8 bytes: little-endian, two's
complement. An item of a numpy ``S`` array is its bytes without trailing NULs, as numpy reads it.
A tuple of keys is the byte 0xFE, then for each item the length of its bytes, 8 bytes
little-endian, and the bytes: two tuples are the same key only if all their items are.
Keys that the engine can hash where they are in memory are not copied.

`hash_many` hashes keys once, for many filters or another host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import compress, islice
from math import isnan
from operator import index
from typing import Any

import numpy as np

from mmbloom import _engine
from mmbloom._engine.key_batch import ByteKeys, IntegerKeys, KeyBatch, RowKeys, TextKeys
from mmbloom._keys import arrow
from mmbloom._keys.batch import Batch
from mmbloom._system.threads import usable_cores
from mmbloom._system.typing import Array, Bools, HashHalves, Key, Keys, Nulls, Words
from mmbloom.errors import KeyEncodingError, KeyTypeError
from mmbloom.sizing.params import HasHash

# Callers within the package also pass the engine's own forms, such as the keys of lines.
AnyKeys = Keys | KeyBatch

# Keys that are taken from an iterator at a time, so that memory stays bounded.
_SLICE = 1 << 14

_SKIP = "pass nulls='skip' to leave nulls out, where the call accepts it"
_BATCH = "pass a list of keys, an array or a column"
_SEVERAL = (
    "a key is bytes, str, an int or a tuple of these; to pass several keys, call add_many, "
    "contains_many, remove_many or push_many, or, for exclusions, update or difference_update"
)
_CAST = "cast it to integers or strings: .astype('int64') or .astype('str')"


def coerce_one(key: Key) -> bytes:
    r"""Return the bytes of a key, which are hashed; raise if it cannot be a key.

    Examples
    --------
    >>> coerce_one("é"), coerce_one(-2)
    (b'\xc3\xa9', b'\xfe\xff\xff\xff\xff\xff\xff\xff')
    """
    return _to_bytes(key, None)


def coerce(keys: AnyKeys, nulls: Nulls = "error") -> Batch:
    """Return the keys of a call in forms that the engine hashes; every key is checked.

    The batch shares memory with a list, an array or a column. A null is None, a masked item of an
    array, or a null of a column; among objects also nan, and pandas' NA and NaT. The first
    key that cannot be one is an error with its position, a damaged column a ValueError.

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
    return _from_list(list(several(keys)), 0, nulls)


# Columns of these libraries and of these types have items that are the same keys as Python objects.
# Items of other types may look like keys though the column holds none: integers of 128 bits do.
_LIBRARIES = frozenset(("pandas", "polars", "pyarrow"))
_LISTED = frozenset(
    (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
        *("str", "string", "large_string", "string_view", "String"),
        *("binary", "large_binary", "binary_view", "Binary"),
    )
)


def listed(keys: Any, most: int) -> list[Any] | None:
    """Return the items of an array or a column as a list, if there are at most `most`; else None.

    None also for anything else, and for what is not what it looks like: `coerce` decides about it.

    Examples
    --------
    >>> listed(np.array([b"a", b"bc"]), 2), listed(np.array([1.5]), 2), listed(iter("ab"), 2)
    ([b'a', b'bc'], None, None)
    """
    kind = type(keys)
    if kind is np.ndarray:
        few = keys.ndim == 1 and len(keys) <= most and keys.dtype.kind in "iuSU"
        return keys.tolist() if few else None
    if kind.__module__.partition(".")[0] in _LIBRARIES:
        # Not any error: one that a signal handler raises here is the caller's.
        with suppress(AttributeError, TypeError, ValueError):
            of_pyarrow = hasattr(keys, "to_pylist")
            if len(keys) <= most and str(keys.type if of_pyarrow else keys.dtype) in _LISTED:
                return list(keys.to_pylist() if of_pyarrow else keys.to_list())
    return None


def several(keys: Any) -> Iterable[Any]:
    """Return what is given; raise `KeyTypeError` for a single key, or what cannot be iterated.

    Examples
    --------
    >>> several(("a", "b"))
    ('a', 'b')
    """
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise KeyTypeError(
            f"a batch was expected, got a single {type(keys).__name__}", None, _BATCH
        )
    if not isinstance(keys, Iterable):
        raise KeyTypeError(f"a batch was expected, got {type(keys).__name__}", None, _BATCH)
    return keys


def batches(keys: AnyKeys, nulls: Nulls = "error") -> Iterator[Batch]:
    """Yield an iterable of any length as batches, in bounded memory.

    Each has at most 16,384 keys; but a list, an array or a column is one batch, as it is in memory
    already. Raise as `coerce` when a batch with a wrong key is reached; its position counts from
    the first key of all.

    Examples
    --------
    >>> [batch.num_keys for batch in batches(range(20_000))]
    [16384, 3616]
    """
    whole = (np.ndarray, list, str, bytes, bytearray, memoryview)
    if isinstance(keys, whole) or arrow.is_arrow(keys) or not isinstance(keys, Iterable):
        yield coerce(keys, nulls)
        return
    rest, done = iter(keys), 0
    while piece := list(islice(rest, _SLICE)):
        yield _from_list(piece, done, nulls)
        done += len(piece)


def _from_array(keys: Array[Any], nulls: Nulls) -> Batch:
    rows = keys.ndim == 2 and keys.dtype == np.uint8
    if keys.ndim != 1 and not rows:
        raise ValueError(
            f"an array of keys has one dimension, or two with dtype uint8 (one key per row); this "
            f"one has {keys.ndim} with dtype {keys.dtype}"
        )
    if not rows and (keys.dtype.kind == "O" or keys.size == 0):
        return _from_list(keys.tolist(), 0, nulls)  # a masked item is None there
    # The type is checked first because importing numpy.ma takes 7 ms.
    if type(keys) is not np.ndarray and isinstance(keys, np.ma.MaskedArray):
        return _from_masked(keys, nulls)
    if rows:
        return Batch([RowKeys(keys, padded=False)], len(keys))
    if keys.dtype.kind in "iu":
        return Batch([IntegerKeys(keys)], len(keys))
    if keys.dtype.kind == "S":
        rows_of = keys[:, np.newaxis].view(np.uint8)
        return Batch([RowKeys(rows_of, padded=True)], len(keys))
    if keys.dtype.kind == "U":
        # Checked before anything is added: a batch with a wrong key adds nothing.
        if (wrong := _engine.first_unencodable(keys)) >= 0:
            raise KeyEncodingError(wrong)
        return Batch([TextKeys(keys)], len(keys))
    raise KeyTypeError(f"an array of dtype {keys.dtype} cannot hold keys", None, _CAST)


def _from_masked(keys: Any, nulls: Nulls) -> Batch:
    mask = np.ma.getmaskarray(keys)
    masked = np.asarray(mask if mask.ndim == 1 else mask.any(axis=1))
    if not masked.any():
        return _from_array(keys.data, nulls)
    if nulls == "error":
        raise KeyTypeError("a masked item is a null", int(masked.argmax()), _SKIP)
    return _among_nulls(lambda: _from_array(keys.data[~masked], nulls), ~masked)


def _from_column(keys: Any, nulls: Nulls) -> Batch:
    parts: list[KeyBatch] = []
    presents: list[Bools] = []
    done = 0
    # Arrow would convert a column of Python objects to a single type, or refuse it; and it has no
    # sparse columns.
    if str(getattr(keys, "dtype", "")).startswith(("object", "Sparse[")):
        return _from_list(list(keys), 0, nulls)
    try:
        column = arrow.read(keys)
    except ImportError:  # pandas may need pyarrow to export a Series; its items are there anyway
        return _from_list(list(keys), 0, nulls)
    for part, valid in column:
        if valid is not None and nulls == "error":
            raise KeyTypeError("a null", done + int(valid.argmin()), _SKIP)
        parts.append(part if valid is None else part[valid])
        presents.append(np.ones(len(part), dtype=np.bool_) if valid is None else valid)
        done += len(part)
    num_keys = sum(map(len, parts))
    if num_keys == done:
        return Batch(parts, num_keys)
    return Batch(parts, num_keys, presents[0] if len(presents) == 1 else np.concatenate(presents))


def _may_be_null(kind: type) -> bool:
    """Return whether items of a type may be a missing key."""
    of_pandas = kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas.")
    return of_pandas or issubclass(kind, (type(None), float, np.floating))


def _is_null(key: Any) -> bool:
    """Return whether an item is a missing key, as in pandas' columns of objects."""
    kind = type(key)
    number = issubclass(kind, (float, np.floating))
    return isnan(key) if number else _may_be_null(kind)


def _from_list(keys: list[Any], offset: int, nulls: Nulls = "error") -> Batch:
    if _engine.plain(keys):
        return Batch([ByteKeys(items=keys, start=0, stop=len(keys))], len(keys))
    kinds = set(map(type, keys))
    if nulls == "skip" and (odd := {kind for kind in kinds if _may_be_null(kind)}):
        kept = (type(key) not in odd or not _is_null(key) for key in keys)
        present = np.fromiter(kept, np.bool_, len(keys))
        left = list(compress(keys, present.tolist()))
        return _among_nulls(lambda: _from_list(left, 0), present, offset)
    if kinds == {int}:
        try:
            return Batch([IntegerKeys(np.array(keys, dtype="<i8"))], len(keys))
        except OverflowError:  # some key fits uint64 only, or no 64-bit type at all
            pass
    spelled: list[bytes | str] = [_to_bytes(key, offset + i) for i, key in enumerate(keys)]
    return Batch([ByteKeys.of(spelled)], len(keys))


def _among_nulls(left: Callable[[], Batch], present: Bools, offset: int = 0) -> Batch:
    """Build the batch without nulls; errors report positions in the original input."""
    try:
        batch = left()
    except (KeyTypeError, KeyEncodingError) as error:
        if error.position is None:  # it is about the whole array
            raise
        raise error.at(offset + int(np.flatnonzero(present)[error.position])) from None
    return Batch(batch.parts, batch.num_keys, present)


_TUPLE = b"\xfe"  # UTF-8 never has it, so no str is the same key


def joined(items: Sequence[bytes]) -> bytes:
    r"""Return the bytes of the tuple of several keys, from the bytes of each.

    Examples
    --------
    >>> joined([b"ab", b"c"])
    b'\xfe\x02\x00\x00\x00\x00\x00\x00\x00ab\x01\x00\x00\x00\x00\x00\x00\x00c'
    """
    parts = [_TUPLE]
    for item in items:
        parts += len(item).to_bytes(8, "little"), item
    return b"".join(parts)


def columns(*values: Keys) -> list[tuple[Any, ...]]:
    """Combine columns into composite keys: one tuple per row, and each tuple is one key.

    Parameters
    ----------
    *values : iterable, ndarray or Arrow column, each of length n
        The columns, such as those of a dataframe, without nulls.

    Returns
    -------
    list of tuple, length n
        Keys for any filter method that takes several keys; that method checks the items. The list
        is built row by row, which takes far longer than hashing a column.

    Raises
    ------
    KeyTypeError
        If a column is a single key, or not iterable.
    ValueError
        If the columns differ in length, or an array has more than one dimension.

    Examples
    --------
    >>> import numpy as np
    >>> columns(["ann", "bob"], np.array([20260101, 20260102]))
    [('ann', 20260101), ('bob', 20260102)]
    """
    items = [_items_of(column) for column in values]
    lengths = list(map(len, items))
    if len(set(lengths)) > 1:
        raise ValueError(f"the columns have {lengths} items, expected equal lengths")
    return list(zip(*items, strict=True))


def _items_of(column: Any) -> list[Any]:
    """Return the items of a column as a list of Python objects."""
    if len(shape := getattr(column, "shape", (0,))) != 1:  # list() of a table is its names
        raise ValueError(
            f"a column has one dimension, but this {type(column).__name__} has {len(shape)}: pass "
            "each column separately"
        )
    for name in ("to_pylist", "to_list", "tolist"):  # of pyarrow; polars and pandas; numpy
        if hasattr(column, name):
            items: list[Any] = getattr(column, name)()
            return items
    return list(several(column))


def _to_bytes(key: Any, position: int | None, where: str = "") -> bytes:
    # By the real type and its own methods: a mock pretends to be another type, and a subclass can
    # override its conversion to return anything.
    kind = type(key)
    if issubclass(kind, bytes):
        return bytes.__getitem__(key, slice(None))  # a copy only of a subclass
    if issubclass(kind, str):
        try:
            return str.encode(key)
        except UnicodeEncodeError:
            raise KeyEncodingError(position) from None
    if issubclass(kind, (bytearray, memoryview)):
        return memoryview(key).tobytes()
    if issubclass(kind, tuple) and not where:
        items = tuple.__iter__(key)
        return joined([_to_bytes(item, position, " within a tuple") for item in items])
    # bool is a subclass of int, timedelta64 of numpy's integer, but neither is a number here.
    if issubclass(kind, (int, np.integer)) and not issubclass(kind, (bool, np.timedelta64)):
        number = index(key)
        if -(2**63) <= number < 2**64:
            return (number % 2**64).to_bytes(8, "little")
        # Python refuses to convert an int of thousands of digits to text.
        bits = number.bit_length()
        shown = f"int {number}" if bits <= 128 else f"an int of {bits} bits"
        raise KeyTypeError(f"{shown} does not fit int64 or uint64", position)
    if position is not None and not where and _is_null(key):
        raise KeyTypeError(f"{key} is a null", position, _SKIP)
    name = "a tuple" if issubclass(kind, tuple) else "None" if key is None else kind.__name__
    said = f"{name}{where} cannot be a key"
    if position is None and not where and isinstance(key, Iterable):
        raise KeyTypeError(said, None, _SEVERAL)
    raise KeyTypeError(said, position)


def hash_many(keys: Keys, params: HasHash, *, threads: int | None = None) -> HashHalves:
    """Hash a batch of keys once, for any number of filters that share a hash and seed.

    Parameters
    ----------
    keys : iterable of bytes, str, int or tuple; ndarray; or Arrow column
        Same as for `BloomFilter.add_many`, but without nulls.
    params : FilterParams
        The parameters of one of the filters. Only the hash and seed matter: filters of other sizes,
        layouts and kinds accept the same hashes.
    threads : int, optional
        Number of threads to hash with, as for `BloomFilter.open`.

    Returns
    -------
    h1, h2 : ndarray of uint64, shape (n,)
        The two halves of each key's hash, for `add_hashes` and `contains_hashes`.

    Raises
    ------
    KeyTypeError, KeyEncodingError, ValueError
        If a key is invalid, or a column is damaged; the error names the position. Nulls are errors:
        remove them first.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmbloom import BloomFilter, hash_many
    >>> folder = tempfile.mkdtemp()
    >>> with (
    ...     BloomFilter.create(os.path.join(folder, "day"), capacity=1000, seed=7) as day,
    ...     BloomFilter.create(os.path.join(folder, "year"), capacity=99_000, seed=7) as year,
    ... ):
    ...     h1, h2 = hash_many(["a", "b"], day.params)
    ...     print(day.add_hashes(h1, h2), year.contains_hashes(h1, h2))
    [ True  True] [False False]
    """
    return coerce(keys).hashes(params.key_hash, threads or usable_cores())


def checked_hashes(h1: Words, h2: Words) -> HashHalves:
    """Return the hashes that a caller passes, as kernels take them.

    Raises
    ------
    TypeError
        If one is no array of uint64.
    ValueError
        If one has not exactly one dimension, or they differ in length.
    """
    for name, half in (("h1", h1), ("h2", h2)):
        if not isinstance(half, np.ndarray) or half.dtype.newbyteorder("=") != np.uint64:
            found = f"of {half.dtype}" if isinstance(half, np.ndarray) else type(half).__name__
            raise TypeError(f"{name} is {found}, expected an array of uint64 from hash_many")
        if half.ndim != 1:
            raise ValueError(f"{name} has {half.ndim} dimensions, expected 1")
    if len(h1) != len(h2):
        raise ValueError(f"h1 and h2 differ in length: {len(h1)} and {len(h2)}")
    # Kernels need the machine's byte order, without gaps.
    return np.ascontiguousarray(h1, np.uint64), np.ascontiguousarray(h2, np.uint64)
