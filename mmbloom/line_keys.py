"""Which part of a line is its key: fields, characters, case, JSON members.

The options mean what they mean for uniq(1), in the C locale. A line that lacks the chosen
field or member is its own key as a whole, and shares it with no field or member of another
line: lines that cannot be told apart by it are not lost.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

Extract = Callable[[bytes], bytes]

_MANY = 2**31  # more fields than any line has, and as many as split can count

# No text in UTF-8 has the byte 0xFF, no field has both newline and NUL: what starts so can
# be no string and no field.
_NOT_TEXT = b"\xff"
_WHOLE_LINE = b"\xff\n\0"


@dataclass(frozen=True, slots=True)
class LineKeys:
    r"""Turn lines into keys; with no option given, lines are their own keys.

    Attributes
    ----------
    field : int, optional
        Take this field, counted from 1.
    separator : bytes, optional
        What separates fields; runs of blanks by default.
    json_key : str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays. The string
        "5" and the number 5 are two keys.
    skip_fields : int
        Then skip so many fields, each some blanks and the non-blanks after them.
    skip_chars : int
        Then skip so many bytes.
    compare_at_most : int, optional
        Then keep so many bytes at most.
    ignore_case : bool
        Then fold ASCII letters.

    Examples
    --------
    >>> LineKeys(field=2, separator=b",")([b"1,a", b"2,b", b"c"])
    [b'a', b'b', b'\xff\n\x00c']
    """

    field: int | None = None
    separator: bytes | None = None
    json_key: str | None = None
    skip_fields: int = 0
    skip_chars: int = 0
    compare_at_most: int | None = None
    ignore_case: bool = False

    def __call__(self, lines: list[bytes]) -> list[bytes]:
        """Extract the key of each line."""
        select, steps = self._selection(), self._steps()
        if select is None:
            for step in steps:
                lines = list(map(step, lines))
            return lines
        return [_key(line, select, steps) for line in lines]

    def _selection(self) -> Callable[[bytes], bytes | None] | None:
        if self.field is not None:
            return _field_taker(self.field, self.separator)
        return None if self.json_key is None else _member_taker(self.json_key)

    def _steps(self) -> list[Extract]:
        steps: list[Extract] = []
        if self.skip_fields:
            steps.append(_field_skipper(self.skip_fields))
        if self.skip_chars or self.compare_at_most is not None:
            steps.append(_slicer(self.skip_chars, self.compare_at_most))
        if self.ignore_case:
            steps.append(bytes.lower)
        return steps


def _key(line: bytes, select: Callable[[bytes], bytes | None], steps: list[Extract]) -> bytes:
    part = select(line)
    if part is None:
        return _WHOLE_LINE + line
    for step in steps:
        part = step(part)
    return part


def _field_taker(field: int, separator: bytes | None) -> Callable[[bytes], bytes | None]:
    def take(line: bytes) -> bytes | None:
        parts = line.split(separator, min(field, _MANY))
        return parts[field - 1] if len(parts) >= field else None

    return take


def _field_skipper(count: int) -> Extract:
    # Newline is a blank too: it can stand within a line that NUL terminates.
    field = re.compile(rb"[ \t\n]*[^ \t\n]+")

    def skip(line: bytes) -> bytes:
        number, end = 0, 0
        for found in islice(field.finditer(line), min(count, _MANY)):
            number, end = number + 1, found.end()
        return line[end:] if number == count else b""

    return skip


def _slicer(skip: int, at_most: int | None) -> Extract:
    part = slice(skip, None if at_most is None else skip + at_most)
    return lambda line: line[part]


def _member_taker(path: str) -> Callable[[bytes], bytes | None]:
    names = path.split(".")

    def take(line: bytes) -> bytes | None:
        try:
            value = json.loads(line)
            for name in names:
                index = isinstance(value, list) and name.isdecimal()
                value = value[int(name)] if index else value[name]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        return _NOT_TEXT + json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    return take
