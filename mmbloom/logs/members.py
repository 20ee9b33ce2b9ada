"""Find the member of a JSON line that is its key, and the bytes of that key.

Values are compared as they are written, so that two different values never become one key and no
line is lost. Only the order of an object's members and the blanks between them are ignored.
"""

import json
import re
from collections.abc import Callable
from typing import Any

# Put before a JSON value that is no string. Text in UTF-8 never has the byte 0xFF, so no string
# makes the same key; nor does a whole line, which is put after a newline (`WHOLE_LINE`).
_NOT_TEXT = b"\xff"

# Numbers are bytes as they are written, and never doubles: two that are the same as doubles would
# be one key, and a line lost. Nor are they integers, of which Python reads 4,300 digits at most.
_DECODER = json.JSONDecoder(parse_float=str.encode, parse_int=str.encode, parse_constant=str.encode)
# JSON has no such number: Python's json writes it for a float that is missing.
_MISSING = (None, "", b"NaN")
_ENCODER = json.JSONEncoder()


def names_of(path: str) -> list[str]:
    r"""Split a path at its dots, except at dots escaped with a backslash.

    A backslash before any other character stands for itself.

    Examples
    --------
    >>> names_of("user.id"), names_of(r"labels.app\.kubernetes\.io/name"), names_of(r"a\b")
    (['user', 'id'], ['labels', 'app.kubernetes.io/name'], ['a\\b'])
    """
    return [name.replace(r"\.", ".") for name in re.split(r"(?<!\\)\.", path)]


def member_taker(path: str) -> Callable[[bytes], bytes | None]:
    """Return a function that finds the bytes of a member in a line.

    The function returns None if the member is missing, null, NaN or the empty string. It raises
    `RecursionError` if the line is nested too deep for Python's parser.
    """
    names = names_of(path)

    def take(line: bytes) -> bytes | None:
        try:
            text = line.decode(json.detect_encoding(line), "surrogatepass")
            value = _DECODER.decode(text)
            for name in names:
                index = isinstance(value, list) and name.isdecimal()
                value = value[int(name)] if index else value[name]
            if value in _MISSING:
                return None
            if isinstance(value, str):
                return value.encode("utf-8", "surrogatepass")
            return _NOT_TEXT + _written(value).encode()
        except (ValueError, LookupError, TypeError):
            return None

    return take


def _written(value: Any) -> str:
    """Return a value as `json.dumps` writes it, with its numbers as they came."""
    parts: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            parts.append(item.decode())
        elif isinstance(item, tuple):  # what stands around values
            parts.append(item[0])
        elif isinstance(item, dict | list):
            inner: list[Any] = []
            if isinstance(item, dict):
                for name in sorted(item):
                    inner += ((",",), (f"{_ENCODER.encode(name)}:",), item[name])
            else:
                for one in item:
                    inner += ((",",), one)
            start, end = "{}" if isinstance(item, dict) else "[]"
            todo += [(end,), *reversed(inner[1:]), (start,)]
        else:
            parts.append(_ENCODER.encode(item))
    return "".join(parts)
