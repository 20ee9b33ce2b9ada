"""Which part of a line is its key: fields, characters, case, JSON members.

The options mean what they mean for uniq(1), in the C locale. A line that lacks the chosen
field or member is its own key as a whole: lines that cannot be told apart by it are not
lost.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

Extract = Callable[[bytes], bytes]

_MANY = 2**31  # more fields than any line has; re cannot count much further


@dataclass(frozen=True, slots=True)
class LineKeys:
    """Turn lines into keys; with no option given, lines are their own keys.

    Attributes
    ----------
    field : int, optional
        Take this field, counted from 1.
    separator : bytes, optional
        What separates fields; runs of blanks by default.
    json_key : str, optional
        Take this member of a line of JSON, as in "user.id"; digits index arrays. A string
        is its UTF-8, anything else its compact JSON.
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
    [b'a', b'b', b'c']
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
        for step in self._steps():
            lines = list(map(step, lines))
        return lines

    def _steps(self) -> list[Extract]:
        steps: list[Extract] = []
        if self.field is not None:
            steps.append(_field_taker(self.field, self.separator))
        if self.json_key is not None:
            steps.append(_member_taker(self.json_key))
        if self.skip_fields:
            steps.append(_field_skipper(self.skip_fields))
        if self.skip_chars or self.compare_at_most is not None:
            steps.append(_slicer(self.skip_chars, self.compare_at_most))
        if self.ignore_case:
            steps.append(bytes.lower)
        return steps


def _field_taker(field: int, separator: bytes | None) -> Extract:
    def take(line: bytes) -> bytes:
        parts = line.split(separator, min(field, _MANY))
        return parts[field - 1] if len(parts) >= field else line

    return take


def _field_skipper(count: int) -> Extract:
    # Newline is a blank too: it can stand within a line that NUL terminates.
    fields = re.compile(rb"(?:[ \t\n]*[^ \t\n]*){0,%d}" % min(count, _MANY))
    return lambda line: fields.sub(b"", line, count=1)


def _slicer(skip: int, at_most: int | None) -> Extract:
    part = slice(skip, None if at_most is None else skip + at_most)
    return lambda line: line[part]


def _member_taker(path: str) -> Extract:
    names = path.split(".")

    def take(line: bytes) -> bytes:
        try:
            value = json.loads(line)
            for name in names:
                value = value[int(name)] if isinstance(value, list) else value[name]
        except (ValueError, LookupError, TypeError, RecursionError):
            return line
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    return take
