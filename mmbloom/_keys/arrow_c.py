"""Arrow's C interface: structs of other libraries, their memory, and when it is freed.

This is the only file that follows a pointer; it does not know what a key is. The structs are
those of https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html, the
capsules those of CDataInterface/PyCapsuleInterface.html.

1. Memory outlives its views: every array made here refers to the owner that frees its memory.
2. A struct from a stream is freed once, here; a struct in a capsule is freed by the capsule.
3. What can be checked and is wrong is a ValueError. The real length of a buffer cannot be checked.

The binding is our own, and short. Apache's nanoarrow was tried behind the same tests: it follows
NULL callbacks and buffer lists, which ends the process, and refuses the columns of nulls that
polars exports.
"""

import ctypes
import errno
import math
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mmbloom._system.typing import Array

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Explain = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)

# A prototype of our own: setting `pythonapi.PyCapsule_GetPointer.restype` would change it for
# every user of ctypes in the process.
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


# The name of an extension type: what a library stores in the columns of another type.
_EXTENSION = b"ARROW:extension:name"

# No process has more memory: nothing is at a larger offset, nor where one that wraps around points.
_MOST_BYTES = min(1 << 56, sys.maxsize)
_TOO_LARGE = "broken Arrow array: a buffer is larger than memory can be"


class _Schema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", _Release),
        ("private_data", ctypes.c_void_p),
    )


class _Array(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", _Release),
        ("private_data", ctypes.c_void_p),
    )


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", _Fill),
        ("get_next", _Fill),
        ("get_last_error", _Explain),
        ("release", _Release),
        ("private_data", ctypes.c_void_p),
    )


class _Owned:
    """The owner of a struct from a stream; releases it when nothing refers to it any more.

    A `weakref.finalize` would run at exit, while views are still in use.
    """

    def __init__(self, struct: ctypes.Structure) -> None:
        self._release, self._struct = struct.release, ctypes.byref(struct)

    def __del__(self) -> None:
        self._release(self._struct)  # uses no global name: at exit it may be gone


class _Memory:
    """Memory at an address, for numpy: an array refers to this object, and this to the owner."""

    def __init__(self, address: int, dtype: np.dtype[Any], shape: tuple[int, ...], owner: object):
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),  # True: read-only
            "typestr": dtype.str,
            "shape": shape,
        }
        self._owner = owner


def _view(address: int, dtype: "DTypeLike", shape: tuple[int, ...], owner: object) -> Array[Any]:
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size == 0:  # the address may be NULL, or anything
        return np.empty(shape, kind)
    if not address:
        raise ValueError("broken Arrow array: a buffer is missing")
    if size >= _MOST_BYTES or address > 2 * sys.maxsize:
        raise ValueError(_TOO_LARGE)
    return np.asarray(_Memory(address, kind, shape, owner))


class Node:
    """One Arrow array, or the dictionary of one; the contents of its buffers are not checked.

    Attributes
    ----------
    length, offset, null_count : int
        The rows, the rows to skip before them, and the nulls among them (-1: not counted).
    n_buffers : int
        The buffers, NULL ones included.
    """

    def __init__(self, struct: Any, owner: object, name: str = "row", first: int = 0) -> None:
        if not struct.release:
            raise ValueError("broken Arrow array: it was released before it was read")
        for field in ("length", "offset", "n_buffers"):
            if getattr(struct, field) < 0:
                raise ValueError(f"broken Arrow array: {field} is {getattr(struct, field)}")
        self.length, self.offset = int(struct.length), int(struct.offset)
        self.null_count, self.n_buffers = int(struct.null_count), int(struct.n_buffers)
        self._struct, self._owner, self._name, self._first = struct, owner, name, first
        if self.offset + self.length >= sys.maxsize:
            raise ValueError(_TOO_LARGE)
        self._addresses = _view(struct.buffers or 0, np.uintp, (self.n_buffers,), owner)

    def has_buffer(self, place: int) -> bool:
        """Return whether a buffer is not NULL."""
        return bool(self._addresses[place])

    def buffer(self, place: int, dtype: "DTypeLike", count: int, skip: int = 0) -> Array[Any]:
        """Return a read-only view of `count` items of a buffer, after the first `skip`.

        It keeps the memory alive. Raise ValueError if the buffer is NULL and `count` is not 0.
        """
        return self._items(place, dtype, (count,), skip)

    def rows(self, place: int, dtype: "DTypeLike", width: int = 1, more: int = 0) -> Array[Any]:
        """Return a view, as `buffer` does, of a buffer with `width` items for each row.

        Its shape is (length + more, width).
        """
        return self._items(place, dtype, (self.length + more, width), self.offset * width)

    def dictionary(self) -> "Node":
        """Return the array of values that the rows point into; ValueError if it is missing."""
        if not self._struct.dictionary:
            raise ValueError("broken Arrow array: its dictionary is missing")
        struct = _Array.from_address(self._struct.dictionary)
        return Node(struct, self._owner, "dictionary value")

    def broken(self, what: str, row: int) -> ValueError:
        """Return the error about a row of the column."""
        return ValueError(f"broken Arrow array: {what} at {self._name} {self._first + row}")

    def _items(
        self, place: int, dtype: "DTypeLike", shape: tuple[int, ...], skip: int
    ) -> Array[Any]:
        address, size = int(self._addresses[place]), np.dtype(dtype).itemsize
        if (skip + math.prod(shape)) * size >= _MOST_BYTES:
            raise ValueError(_TOO_LARGE)
        return _view(address + skip * size if address else 0, dtype, shape, self._owner)


class Kind(NamedTuple):
    """The type of a column, or of its dictionary.

    Attributes
    ----------
    format : str
        Its format string.
    extension : str or None
        The name of its extension type, if it is of one.
    """

    format: str
    extension: str | None


def open_column(keys: object) -> tuple[tuple[Kind, ...], Iterator[Node]]:
    """Return the types and arrays of an object that exports Arrow data.

    Returns
    -------
    kinds : tuple of Kind
        That of the column. If it has a dictionary, then also that of the dictionary's values; a
        third one means that these have a dictionary of their own.
    arrays : iterator of Node
        The arrays, each taken from the stream when it is asked for.

    Raises
    ------
    ValueError
        If the object does not give Arrow data, or its stream says that the data is invalid.
    OSError
        If its stream fails for another reason.
    """
    # An object with both methods may consist of several arrays, which only a stream can give.
    if hasattr(keys, "__arrow_c_stream__"):
        stream = _struct(_Stream, keys.__arrow_c_stream__(), b"arrow_array_stream")
        schema = _Schema()
        _fill(stream, "get_schema", schema)
        if not schema.release:
            raise ValueError("broken Arrow stream: it has no schema")
        try:
            return _kinds(schema), _arrays(stream)
        finally:
            schema.release(ctypes.byref(schema))
    if not hasattr(keys, "__arrow_c_array__"):
        raise ValueError(f"{type(keys).__name__} does not export Arrow data")
    capsules = keys.__arrow_c_array__()
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise ValueError("__arrow_c_array__ did not return two capsules")
    kinds = _kinds(_struct(_Schema, capsules[0], b"arrow_schema"))
    array = _struct(_Array, capsules[1], b"arrow_array")
    return kinds, iter([Node(array, array)])


def _struct(kind: type[ctypes.Structure], capsule: object, name: bytes) -> Any:
    try:
        struct = kind.from_address(_get_pointer(capsule, name))
    except ValueError:
        raise ValueError(f"not an {name.decode()} capsule: {capsule!r}") from None
    if not struct.release:
        raise ValueError(f"this {name.decode()} capsule was used before, and is empty")
    struct.capsule = capsule  # which has the struct, and frees it
    return struct


def _arrays(stream: Any) -> Iterator[Node]:
    first = 0
    while True:
        array = _Array()
        _fill(stream, "get_next", array)
        if not array.release:  # the end of the stream
            return
        node = Node(array, _Owned(array), first=first)
        yield node
        first += node.length


def _fill(stream: Any, function: str, struct: ctypes.Structure) -> None:
    # Calling NULL ends the process.
    call, explain = getattr(stream, function), stream.get_last_error
    if not call:
        raise ValueError(f"broken Arrow stream: it has no {function}")
    code = call(ctypes.byref(stream), ctypes.byref(struct))
    if code:
        reason = (explain(ctypes.byref(stream)) if explain else None) or os.strerror(code).encode()
        message = f"the Arrow stream failed: {reason.decode(errors='replace')}"
        raise ValueError(message) if code == errno.EINVAL else OSError(code, message)


def _kinds(schema: Any) -> tuple[Kind, ...]:
    kinds: list[Kind] = []
    while True:
        if not schema.release:
            raise ValueError("broken Arrow schema: it was released before it was read")
        if schema.format is None:
            raise ValueError("broken Arrow schema: it has no format")
        kinds.append(Kind(schema.format.decode(errors="backslashreplace"), _extension_of(schema)))
        if not schema.dictionary or len(kinds) == 3:
            return tuple(kinds)
        schema = _Schema.from_address(schema.dictionary)


def _extension_of(schema: Any) -> str | None:
    """Find the name of an extension type in the metadata: a count, then keys and values."""
    place = schema.metadata

    def number() -> int:
        nonlocal place
        found = ctypes.c_int32.from_address(place).value
        if found < 0:
            raise ValueError(f"broken Arrow schema: metadata of length {found}")
        place += 4
        return found

    def octets() -> bytes:
        nonlocal place
        size = number()
        place += size
        return ctypes.string_at(place - size, size)

    for _ in range(number() if place else 0):
        key, value = octets(), octets()
        if key == _EXTENSION:
            return value.decode(errors="backslashreplace")
    return None
