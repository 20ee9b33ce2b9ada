"""Checks of the bytes of a file, and JSON records: a broken rule raises `FormatError`."""

import re
from collections.abc import Mapping
from typing import Any

from mmbloom.errors import FormatError, NewerFormatError

_DIGITS = re.compile(r"[0-9a-f]*", re.ASCII)


def is_hexadecimal(found: object, size: int) -> bool:
    """Return whether a value of JSON is `size` bytes, written as hexadecimal digits."""
    return isinstance(found, str) and len(found) == 2 * size and bool(_DIGITS.fullmatch(found))


class Checker:
    """The checks of one file. Nothing is opened: its path is for the errors only."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, ok: bool, field: str, found: object, expected: str) -> None:
        """Raise `FormatError` unless a rule about a field of the file holds.

        Examples
        --------
        >>> check = Checker("seen.bloom")
        >>> check(True, "version", 1, "1")
        >>> check(False, "version", 0, "1")
        Traceback (most recent call last):
        mmbloom.errors.FormatError: seen.bloom: version is 0, expected 1
        """
        if not ok:
            raise FormatError(self.path, field, str(found), expected)

    def value(self, ok: bool, field: str, found: object, expected: str) -> None:
        """Raise unless a rule holds; a value of any type is quoted, and cut to 200 characters."""
        if not ok:
            raise FormatError(self.path, field, f"{found!r:.200}", expected)

    def version(self, field: str, found: object, known: int) -> None:
        """Raise unless a version is the known one: `NewerFormatError` if it is a later one."""
        if type(found) is int and found > known:
            raise NewerFormatError(self.path, field, str(found), f"{known}; use a newer mmbloom")
        self.value(type(found) is int and found == known, field, found, str(known))

    def octets(self, field: str, found: object, size: int) -> bytes:
        """Read bytes that are written as hexadecimal digits; raise if they are not."""
        self.value(is_hexadecimal(found, size), field, found, f"{2 * size} hexadecimal digits")
        return bytes.fromhex(str(found))

    def record(self, raw: bytes, what: str, format_name: str, version: int) -> dict[str, Any]:
        """Read an object of JSON, called `what` in errors, of this format and version.

        Raise `FormatError` if it is no object or has a field twice, `NewerFormatError` if its
        version is a later one.
        """
        import json  # noqa: PLC0415  a file of one filter has no record

        try:
            record = json.loads(raw.decode(), object_pairs_hook=_object, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise FormatError(self.path, "text", f"not JSON ({error})", "JSON in UTF-8") from None
        self.value(isinstance(record, dict), what, type(record).__name__, "an object")
        found = record.get("format")
        self.value(found == format_name, "format", found, repr(format_name))
        self.version("version", record.get("version"), version)
        return dict(record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field appears twice")
    return record


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def record_text(fields: Mapping[str, object]) -> bytes:
    r"""Return a record as text that people can read as well.

    Examples
    --------
    >>> record_text({"format": "mmbloom folder", "version": 1})
    b'{\n "format": "mmbloom folder",\n "version": 1\n}\n'
    """
    import json  # noqa: PLC0415  as above

    return (json.dumps(fields, indent=1) + "\n").encode()
