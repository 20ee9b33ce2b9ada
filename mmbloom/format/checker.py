"""Checks of the bytes of a file: a rule that does not hold raises `FormatError`."""

import re

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
