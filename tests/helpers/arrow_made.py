"""Arrow data made by hand, field by field, and the plain meaning of what is read from it.

The structs are declared here once more, from the specification: the tests share no code with
the package, and whatever a producer may get wrong can be written into them.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from forms import bytes_of

from mmbloom._keys.arrow import read

_P, _I = ctypes.c_void_p, ctypes.c_int64
Release = ctypes.CFUNCTYPE(None, _P)
Fill = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P)
Explain = ctypes.CFUNCTYPE(_P, _P)


class Schema(ctypes.Structure):
    _fields_ = (
        *(("format", ctypes.c_char_p), ("name", _P), ("metadata", _P), ("flags", _I)),
        *(("n_children", _I), ("children", _P), ("dictionary", _P)),
        *(("release", Release), ("private_data", _P)),
    )


class Array(ctypes.Structure):
    _fields_ = (
        *(("length", _I), ("null_count", _I), ("offset", _I), ("n_buffers", _I)),
        *(("n_children", _I), ("buffers", _P), ("children", _P), ("dictionary", _P)),
        *(("release", Release), ("private_data", _P)),
    )


class Stream(ctypes.Structure):
    _fields_ = (
        *(("get_schema", Fill), ("get_next", Fill), ("get_last_error", Explain)),
        *(("release", Release), ("private_data", _P)),
    )


_get_pointer = ctypes.PYFUNCTYPE(_P, _P, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, _P)(("PyCapsule_GetName", ctypes.pythonapi))
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, _P, ctypes.c_char_p, _P)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_KINDS = {b"arrow_schema": Schema, b"arrow_array": Array, b"arrow_array_stream": Stream}


def _free(capsule: int) -> None:
    # The address only: the capsule itself is dying, and must not get a reference.
    name = _get_name(capsule)
    address = _get_pointer(capsule, name)
    inside: Any = _KINDS[name].from_address(address)
    if inside.release:
        inside.release(address)
    del _held[capsule]


_destructor = ctypes.PYFUNCTYPE(None, _P)(_free)


def capsule(inside: ctypes.Structure) -> object:
    """Put a struct into a capsule, whose destructor calls the struct's release."""
    # A capsule does not copy its name, which is why it is one of those that stay.
    name = next(name for name, kind in _KINDS.items() if isinstance(inside, kind))
    made: object = _new_capsule(ctypes.addressof(inside), name, ctypes.cast(_destructor, _P))
    _held[id(made)] = inside
    return made


_held: dict[int, ctypes.Structure] = {}


class Made:
    """An Arrow array made by hand.

    `schema` and `array` are the structs, to be made wrong; `freed` counts the releases.
    """

    def __init__(
        self,
        kind: bytes | None,
        length: int,
        buffers: Sequence[Any],
        *,
        dictionary: "Made | None" = None,
        **fields: int,
    ) -> None:
        self.freed = self.schemas_freed = 0
        self._dictionary = dictionary
        self._buffers = [
            np.frombuffer(one, np.uint8) if isinstance(one, bytes) else one for one in buffers
        ]
        addresses = [None if one is None else one.ctypes.data for one in self._buffers]
        self._addresses = (_P * len(buffers))(*addresses)
        self.schema: Any = Schema(format=kind, release=Release(self._free_schema))
        self.array: Any = Array(
            length=length,
            n_buffers=len(buffers),
            buffers=ctypes.addressof(self._addresses),
            release=Release(self._free_array),
            **fields,
        )
        if dictionary:
            self.schema.dictionary = ctypes.addressof(dictionary.schema)
            self.array.dictionary = ctypes.addressof(dictionary.array)

    def hold(self, place: int, octets: bytes) -> None:
        self._buffers[place] = np.frombuffer(octets, np.uint8)
        self._addresses[place] = self._buffers[place].ctypes.data

    def _free_schema(self, address: int) -> None:
        assert Schema.from_address(address).release, "released twice"
        Schema.from_address(address).release = Release()
        self.schemas_freed += 1

    def _free_array(self, address: int) -> None:
        assert Array.from_address(address).release, "released twice"
        Array.from_address(address).release = Release()
        self.freed += 1
        _handed_over.discard(self)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return capsule(self.schema), capsule(self.array)


# A struct that a stream gave is a copy, which does not keep what it points to.
_handed_over: set[Made] = set()


class MadeStream:
    """A stream of arrays made by hand; `codes` are what the calls of get_next answer."""

    def __init__(self, arrays: Sequence[Made], codes: Sequence[int] = (), kind: bytes = b"u"):
        self.freed, self._left, self._codes = 0, list(arrays), list(codes)
        self._schema_of = arrays[0] if arrays else Made(kind, 0, [])
        self.message: Any = ctypes.create_string_buffer(b"no luck")
        self.schema_code = 0
        self.stream: Any = Stream(
            get_schema=Fill(self._get_schema),
            get_next=Fill(self._get_next),
            get_last_error=Explain(
                lambda _: ctypes.addressof(self.message) if self.message else None
            ),
            release=Release(self._free_stream),
        )

    def _get_schema(self, _: int, out: int) -> int:
        ctypes.memmove(out, ctypes.addressof(self._schema_of.schema), ctypes.sizeof(Schema))
        return self.schema_code

    def _get_next(self, _: int, out: int) -> int:
        if self._codes and (code := self._codes.pop(0)):
            ctypes.memset(out, 0xFF, ctypes.sizeof(Array))  # what is left there is not to be read
            return code
        if self._left:
            made = self._left.pop(0)
            _handed_over.add(made)
            ctypes.memmove(out, ctypes.addressof(made.array), ctypes.sizeof(Array))
        else:
            ctypes.memset(out, 0, ctypes.sizeof(Array))
        return 0

    def _free_stream(self, address: int) -> None:
        assert Stream.from_address(address).release, "released twice"
        Stream.from_address(address).release = Release()
        self.freed += 1

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return capsule(self.stream)


def strings(*keys: bytes) -> Made:
    ends = np.cumsum([0, *map(len, keys)]).astype(np.int32)
    return Made(b"u", len(keys), [None, ends, b"".join(keys) or None])


def column_of(keys: object) -> list[bytes | None]:
    """Read a column: its keys, None for null; the null rows too must be safe to hash."""
    column: list[bytes | None] = []
    for batch, valid in read(keys):
        found = bytes_of(batch)
        if valid is not None:
            assert valid.dtype == np.bool_
            assert valid.shape == (len(batch),)
            assert not valid.all()
        marks = [True] * len(found) if valid is None else valid.tolist()
        column += [key if mark else None for key, mark in zip(found, marks, strict=True)]
    return column
