"""Rules that the bytes of a file must obey: a rule that does not hold is a `FormatError`."""

import re

from mmbloom.errors import FormatError, NewerFormatError

_DIGITS = re.compile(r"[0-9a-f]*", re.ASCII)


def is_hexadecimal(found: object, size: int) -> bool:
    """Tell whether a value of JSON is so many bytes, written as hexadecimal digits."""
    return isinstance(found, str) and len(found) == 2 * size and bool(_DIGITS.fullmatch(found))


class Checker:
    """Checks the rules of one file, whose path is for the errors only: nothing is opened."""

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
        """Raise unless a rule holds about a value of any type and length: quoted, and cut short."""
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
