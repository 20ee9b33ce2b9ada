"""The keys of the benchmarks: the i-th key is the same everywhere, in whatever form.

A text key is a line of a log, 34 to 41 characters; a number key is any 64-bit integer. Keys
i and j differ whenever i and j do. Each call makes new objects: `bytes` and `str` keep the
hash that Python once computed, and no contender should find the hash that another paid for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_HOSTS = np.array([b"192.168.%d.%d GET" % (i % 255, i % 77) for i in range(1009)])
_PAGES = np.array([b" /item/", b" /cart/item/", b" /search/", b" /login/"])
_DIGITS = np.array([b"%04d" % i for i in range(10_000)])
_ODD = np.uint64(0x9E3779B97F4A7C15)
_REPEATS = 16


def lines(start: int, count: int) -> bytes:
    """Make text keys, a line each."""
    which = np.arange(start, start + count)
    parts = {
        "host": _HOSTS[which % len(_HOSTS)],
        "page": _PAGES[which % len(_PAGES)],
        "high": _DIGITS[which // 10**8 % 10**4],
        "middle": _DIGITS[which // 10**4 % 10**4],
        "low": _DIGITS[which % 10**4],
        "end": np.array([b"\n"]),
    }
    rows = np.empty(count, [(name, part.dtype) for name, part in parts.items()])
    for name, part in parts.items():
        rows[name] = part
    flat = rows.view(np.uint8)
    return bytes(flat[flat != 0])  # numpy pads its strings with NULs


def numbers(start: int, count: int) -> npt.NDArray[np.int64]:
    """Make number keys: distinct, for to multiply by an odd number is a bijection."""
    which = np.arange(start, start + count, dtype=np.uint64)
    return (which * _ODD).view(np.int64)


def byte_strings(start: int, count: int) -> list[bytes]:
    """Make text keys as a list of `bytes`."""
    return lines(start, count).splitlines()


def strings(start: int, count: int) -> list[str]:
    """Make text keys as a list of `str`."""
    return lines(start, count).decode().splitlines()


def _narrow(start: int, count: int) -> npt.NDArray[np.int32]:
    every_other = np.empty((count, 2), dtype=np.int32)
    every_other[:, 0] = np.arange(start, start + count)
    return every_other[:, 0]


def _arrow(start: int, count: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  need not be installed

    return pa.array(strings(start, count))


def _arrow_numbers(start: int, count: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  need not be installed

    return pa.array(numbers(start, count))


def _arrow_view(start: int, count: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  need not be installed

    return pa.array(strings(start, count), pa.string_view())


def _arrow_dictionary(start: int, count: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  need not be installed

    values = _arrow(start, -(-count // _REPEATS))
    places = np.arange(count, dtype=np.int32) % np.int32(len(values))
    return pa.DictionaryArray.from_arrays(pa.array(places), values)


Form = Callable[[int, int], Any]

FORMS: dict[str, Form] = {
    "list of bytes": byte_strings,
    "list of str": strings,
    "list of int": lambda start, count: numbers(start, count).tolist(),
    "int64 array": numbers,
    "int32 array, strided": _narrow,
    "S array": lambda start, count: np.array(byte_strings(start, count)),
    "U array": lambda start, count: np.array(strings(start, count)),
    "Arrow strings": _arrow,
    "Arrow int64": _arrow_numbers,
    "Arrow string views": _arrow_view,
    f"Arrow dictionary, each key {_REPEATS} times": _arrow_dictionary,
}
"""Name to a function of the first key's number and how many."""
