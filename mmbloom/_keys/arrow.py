"""Arrow columns become batches of keys: nothing is copied, and everything is checked.

pyarrow, polars, pandas and others export their memory through two methods, so none of them is
imported here. The bytes of a text are its key. A null row is marked as null; what it holds is made
safe to hash, because the engine may hash it before it is left out. Only `arrow_c` follows
pointers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mmbloom._engine.key_batch import (
    ByteKeys,
    DictionaryKeys,
    IntegerKeys,
    KeyBatch,
    PackedKeys,
    RowKeys,
    ViewKeys,
)
from mmbloom._keys.arrow_c import Kind, Node, open_column
from mmbloom._system.typing import Array
from mmbloom.errors import KeyTypeError

# Which rows are valid; None if all are.
Valid = Array[np.bool_] | None

_SLICE = 1 << 14  # rows that are checked at a time, so that memory stays bounded
_INLINE = 12  # a key of at most this many bytes is in the view itself

# The numpy type of each format letter:
# https://arrow.apache.org/docs/format/CDataInterface.html#data-type-description-format-strings
_INTEGERS = dict(zip("cCsSiIlL", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), strict=True))
_OFFSETS = {"u": "i4", "z": "i4", "U": "i8", "Z": "i8"}  # text and binary, by their offsets
_VIEWS = ("vu", "vz")
_FIXED = "w:"  # and the width
_NULL = "n"

_CAST = "cast it to integers or strings"

# Extension types whose storage is the value. The storage of others can be ambiguous: pandas' months
# and days are both numbers, and a month would be the same key as some day.
_TAKEN = ("arrow.uuid", "arrow.json")
_STORED = "cast it to strings, or pass its storage if that alone is the value"

# Formats that hold no keys, by their first letters: what they are, and what to do.
_REFUSED = {
    "b": ("bool", _CAST),
    "e": ("float16", _CAST),
    "f": ("float32", _CAST),
    "g": ("float64", _CAST),
    "d:": ("decimals", _CAST),
    "td": ("dates", _CAST),
    "tt": ("times of day", _CAST),
    "ts": ("timestamps", _CAST),
    "tD": ("durations", _CAST),
    "ti": ("intervals", _CAST),
    "+l": ("lists", "flatten it"),
    "+L": ("large lists", "flatten it"),
    "+vl": ("list views", "flatten it"),
    "+vL": ("large list views", "flatten it"),
    "+w": ("fixed-size lists", "flatten it"),
    "+s": ("structs (or a table)", "pass one column"),
    "+m": ("maps", "pass its keys or its values"),
    "+u": ("unions", "pass one of its children"),
    "+r": ("run-end encoded values", "decode it"),
}


def is_arrow(keys: object) -> bool:
    """Return whether an object exports Arrow data: an array, or a stream of arrays."""
    return hasattr(keys, "__arrow_c_array__") or hasattr(keys, "__arrow_c_stream__")


def read(keys: object) -> list[tuple[KeyBatch, Valid]]:
    """Read an Arrow column as batches of keys: strings, binary, integers, or a dictionary of these.

    Return one pair for each Arrow array of the column: its rows, a view of the producer's memory
    that keeps it alive; and which of them are valid, None if all are. Of extension types, UUIDs are
    16 bytes, and JSON is text.

    Raises
    ------
    KeyTypeError
        If a column of this type holds no keys.
    ValueError
        If the data is broken. The error names the first broken row.
    OSError
        If the producer of a stream fails.

    Examples
    --------
    >>> import pyarrow
    >>> ((batch, valid),) = read(pyarrow.array([7, None]))
    >>> batch.items.dtype, valid
    (dtype('int64'), array([ True, False]))
    """
    # Polars exports the addresses of Python objects, as if they were binary keys.
    if str(getattr(keys, "dtype", "")) == "Object":
        raise KeyTypeError(
            "a column of Python objects", None, "cast it to strings, or pass .to_list()"
        )
    kinds, arrays = open_column(keys)
    # Checked before the data, which the producer may need long to make.
    formats = _checked_formats(kinds)
    return [_read_array(array, formats) for array in arrays]


def _checked_formats(kinds: tuple[Kind, ...]) -> tuple[str, ...]:
    """Return the formats of a column and its dictionary; raise if they hold no keys."""
    for kind in kinds:
        if kind.extension not in (None, *_TAKEN):
            found = f"an Arrow column of the extension type {kind.extension} cannot hold keys"
            raise KeyTypeError(found, None, _STORED)
    formats = tuple(kind.format for kind in kinds)
    if len(formats) > 2:
        raise KeyTypeError("a dictionary of dictionaries cannot hold keys", None, "decode it")
    if len(formats) == 2 and formats[0] not in _INTEGERS:
        raise ValueError(f"broken Arrow schema: dictionary indices of format {formats[0]!r}")
    last = formats[-1]
    if last in (*_INTEGERS, *_OFFSETS, *_VIEWS, _NULL):
        return formats
    if last.startswith(_FIXED):
        if not last[len(_FIXED) :].isdecimal():
            raise ValueError(f"broken Arrow schema: format {last!r}")
        return formats
    for start, (found, advice) in _REFUSED.items():
        if last.startswith(start):
            raise KeyTypeError(f"an Arrow column of {found} cannot hold keys", None, advice)
    raise KeyTypeError(f"an Arrow column of format {last!r} cannot hold keys", None, _CAST)


def _read_array(array: Node, formats: tuple[str, ...]) -> tuple[KeyBatch, Valid]:
    kind = formats[0]
    if kind == _NULL:  # the column of an empty list, or of nothing but None
        valid = np.zeros(array.length, dtype=np.bool_) if array.length else None
        # Rows of no bytes take no memory, however many there are.
        return RowKeys(np.empty((array.length, 0), np.uint8), padded=False), valid
    expected = 3 if kind in _OFFSETS or kind in _VIEWS else 2
    if array.n_buffers < expected or (array.n_buffers > expected and kind not in _VIEWS):
        raise ValueError(
            f"broken Arrow array: {array.n_buffers} buffers, expected {expected} for {kind!r}"
        )
    valid = _validity(array)
    if len(formats) == 2:
        values, known = _read_array(array.dictionary(), formats[1:])
        return _dictionary(array, _INTEGERS[kind], valid, values, known)
    if kind in _INTEGERS:
        return IntegerKeys(array.rows(1, _INTEGERS[kind])[:, 0]), valid
    if kind in _OFFSETS:
        return _packed(array, _OFFSETS[kind]), valid
    if kind in _VIEWS:
        return _views(array, valid), valid
    return RowKeys(array.rows(1, np.uint8, int(kind.removeprefix(_FIXED))), padded=False), valid


def _validity(array: Node) -> Valid:
    if array.null_count == 0 or array.length == 0:
        return None
    if not array.has_buffer(0):
        if array.null_count > 0:
            raise ValueError("broken Arrow array: it has a null count but no validity bitmap")
        return None
    whole, odd = divmod(array.offset, 8)
    bits = array.buffer(0, np.uint8, (odd + array.length + 7) // 8, skip=whole)
    valid = np.unpackbits(bits, count=odd + array.length, bitorder="little")[odd:].view(np.bool_)
    return None if valid.all() else valid


def _packed(array: Node, dtype: str) -> PackedKeys:
    # n rows have n + 1 offsets, but producers omit the one offset of an empty column.
    offsets = array.rows(1, dtype, more=1)[:, 0] if array.length else np.zeros(1, dtype)
    if offsets[0] < 0:
        raise array.broken("a negative offset", 0)
    # Null rows are checked too: the next row begins where one ends.
    for start in range(0, array.length, _SLICE):
        part = offsets[start : start + _SLICE + 1]
        falls = part[1:] < part[:-1]
        if falls.any():
            raise array.broken("offsets that decrease", start + int(falls.argmax()))
    return PackedKeys(array.buffer(2, np.uint8, int(offsets[-1])), offsets[:-1], offsets[1:])


def _views(array: Node, valid: Valid) -> ViewKeys:
    count = array.n_buffers - 3  # without validity, views and the last buffer, which has the sizes
    sizes = array.buffer(count + 2, np.int64, count)
    if (sizes < 0).any():
        raise ValueError("broken Arrow array: a buffer of negative size")
    buffers = [array.buffer(2 + i, np.uint8, size) for i, size in enumerate(sizes.tolist())]
    ends = np.append(sizes, -1)  # -1: the end of a buffer that does not exist

    def outside(views: Array[Any]) -> Array[np.bool_]:
        length, _, place, start = views.T
        known = (place >= 0) & (place < count)
        end = start.astype(np.int64) + length
        beyond = (start < 0) | (end > ends[np.where(known, place, count)])
        result: Array[np.bool_] = (length < 0) | ((length > _INLINE) & beyond)
        return result

    views = _checked(array, array.rows(1, np.int32, 4), valid, outside, "a view out of bounds")
    return ViewKeys(views.view(np.uint8), buffers)


def _dictionary(
    array: Node, dtype: str, valid: Valid, values: KeyBatch, known: Valid
) -> tuple[DictionaryKeys, Valid]:
    def outside(indices: Array[Any]) -> Array[np.bool_]:
        result: Array[np.bool_] = (indices < 0) | (indices >= len(values))
        return result

    # An unsigned index too large for intp becomes negative, which is refused as well.
    indices = array.rows(1, dtype)[:, 0].astype(np.intp, copy=False)
    indices = _checked(array, indices, valid, outside, "an index outside the dictionary")
    if known is not None:
        pointed = known[indices]
        valid = pointed if valid is None else valid & pointed
        valid = None if valid.all() else valid
    if len(values) == 0:  # all rows are null, and their index 0 needs a value
        values = ByteKeys.of([b""])
    return DictionaryKeys(values, indices), valid


def _checked(
    array: Node,
    rows: Array[Any],
    valid: Valid,
    outside: Callable[[Array[Any]], Array[np.bool_]],
    what: str,
) -> Array[Any]:
    """Check rows: raise for a valid one that is outside; set a null one to zero in a copy."""
    safe = rows
    for start in range(0, array.length, _SLICE):
        part = slice(start, start + _SLICE)
        wrong = outside(rows[part])
        if not wrong.any():
            continue
        lies = wrong if valid is None else wrong & valid[part]
        if lies.any():
            raise array.broken(what, start + int(lies.argmax()))
        if safe is rows:
            safe = rows.copy()
        safe[part][wrong] = 0
    return safe
