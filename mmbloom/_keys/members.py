"""Which member of a line of JSON is its key, and what bytes it is as a key.

Values are compared as they are written, so that no two that differ are one key, and no line is
lost: only the order of an object's members and blanks between them do not count.
"""

import json
import re
from collections.abc import Callable
from typing import Any

# Put before a JSON value that is no string. Text in UTF-8 never has the byte 0xFF, so no string
# makes the same key; nor does a whole line, which is put after a newline (`WHOLE_LINE`).
_NOT_TEXT = b"\xff"

# Numbers are bytes as they are written, and never doubles: two that are the same as doubles would
# be one key, and a line lost. Integers are exact as Python reads them, but for the sign of -0.
_DECODER = json.JSONDecoder(parse_float=str.encode)
_EXACT_DECODER = json.JSONDecoder(parse_float=str.encode, parse_int=str.encode)
_MINUS_ZERO = re.compile("-0(?![0-9.eE])")  # or a part of a text that looks like it
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def names_of(path: str) -> list[str]:
    r"""Cut a path at its dots, but for those of a name, which have a backslash before them.

    Any other backslash is itself.

    Examples
    --------
    >>> names_of("user.id"), names_of(r"labels.app\.kubernetes\.io/name"), names_of(r"a\b")
    (['user', 'id'], ['labels', 'app.kubernetes.io/name'], ['a\\b'])
    """
    return [name.replace(r"\.", ".") for name in re.split(r"(?<!\\)\.", path)]


def member_taker(path: str) -> Callable[[bytes], bytes | None]:
    """Give a function that finds the bytes of a member in a line.

    None if it is not there, or has nothing to tell lines by: null, or the empty string.
    """
    names = names_of(path)

    def take(line: bytes) -> bytes | None:
        try:
            text = line.decode(json.detect_encoding(line), "surrogatepass")
            decoder = _EXACT_DECODER if "-0" in text and _MINUS_ZERO.search(text) else _DECODER
            value = decoder.decode(text)
            for name in names:
                index = isinstance(value, list) and name.isdecimal()
                value = value[int(name)] if index else value[name]
            if value is None or value == "":
                return None
            if isinstance(value, str):
                return value.encode("utf-8", "surrogatepass")
            return _NOT_TEXT + (value if isinstance(value, bytes) else _written(value))
        except (ValueError, LookupError, TypeError, RecursionError):
            return None

    return take


def _written(value: Any) -> bytes:
    try:
        return _ENCODER.encode(value).encode()
    except TypeError:  # it holds numbers as they are written, which are bytes
        return _compact(value).encode()


def _compact(value: Any) -> str:
    """Write a value as `json.dumps` does, and its numbers as they are; nested as deep as may be."""
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
                    inner += ((",",), (f"{json.dumps(name)}:",), item[name])
            else:
                for one in item:
                    inner += ((",",), one)
            start, end = "{}" if isinstance(item, dict) else "[]"
            todo += [(end,), *reversed(inner[1:]), (start,)]
        else:
            parts.append(json.dumps(item))
    return "".join(parts)
