"""Lines and their keys, by every engine, against `bytes.split` and a model in plain Python.

An input is 12 bytes of choices, then the text: see `check`.
"""

import io
import json
import random
from collections.abc import Callable
from itertools import cycle
from typing import Any
from unittest import mock

import numpy as np
from forms import bytes_of
from kernels import ENGINES

from mmbloom import _engine
from mmbloom.logs import lines
from mmbloom.logs.lines import LineKeys, NoLinesError

_CHOICES = 12
_SEPARATORS = [None, None, b",", b"::", b"\t", b" ", b"aa", b"aab", b"\0", b"\n", b"\xff"]
_PATHS = ["a", "a.b", "0", "a.0", ""]
_HUGE = 2**64  # more than any line has
_BLANKS = b" \t\n"


def check(data: bytes) -> None:
    """Split the text and take keys of its lines, with the choices that the first bytes make."""
    choices, text = data[:_CHOICES].ljust(_CHOICES, b"\0"), data[_CHOICES:]
    end, block, most, first, second, what, field, separator, fields, chars, width, wanted = choices
    terminator = {0: b"\n", 1: b"\0"}.get(end, bytes([end]))
    keys = LineKeys(
        field=_number(field) if what & 3 == 1 and field else None,
        separator=_SEPARATORS[separator % len(_SEPARATORS)],
        json_key=_PATHS[field % len(_PATHS)] if what & 3 == 2 else None,
        skip_fields=_number(fields),
        skip_chars=_number(chars),
        compare_at_most=_number(width) if what & 4 else None,
        ignore_case=bool(what & 8),
    )
    for engine in ENGINES:
        kernels = {name: getattr(engine, name) for name in ("find_lines", "gather", "select_keys")}
        with (
            mock.patch.multiple(_engine, **kernels),
            mock.patch.multiple(lines, BLOCK_BYTES=1 + block % 64, CHUNK_LINES=1 + most % 9),
        ):
            source = _Dripping(text, [1 + first, 1 + second])
            try:
                _compare(lines.read_chunks(source, terminator), text, terminator, keys, wanted)
            except NoLinesError:
                assert text[:2] in {b"\xff\xfe", b"\xfe\xff"} or {0, 13} & {*text}


def _number(choice: int) -> int:
    return choice if choice < 250 else _HUGE - 250 + choice


class _Dripping:
    """A source that gives its bytes in pieces, as a pipe may."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._file, self._sizes = io.BytesIO(data), cycle(sizes)

    def readinto(self, buffer: Any, /) -> int:
        assert len(buffer), "no room to read into: would look like the end"
        return self._file.readinto(memoryview(buffer)[: next(self._sizes)])


def _compare(chunks: Any, text: bytes, terminator: bytes, keys: LineKeys, wanted: int) -> None:
    *expected, rest = text.split(terminator)
    longest = max(map(len, [*expected, rest]))
    found, num_bytes, ended = list[bytes](), 0, False
    for chunk in chunks:
        part = chunk.lines
        assert not ended, "more after an unfinished line"
        assert 0 < len(part) == len(chunk) <= lines.CHUNK_LINES
        assert len(chunk.octets) <= max(lines.BLOCK_BYTES, 2 * longest), "memory without bound"
        found_keys, parts = keys.find(chunk), [key_of(line, keys) for line in part]
        if chunk.terminated or keys == LineKeys(
            ignore_case=keys.ignore_case, separator=keys.separator
        ):
            assert bytes_of(found_keys.keys) == parts
            assert found_keys.part_key is None
        else:  # it may be cut off
            assert found_keys.part_key is not None
            assert bytes_of(found_keys.part_key) == parts
            assert bytes_of(found_keys.keys) == [b"\xff\n\0" + line for line in part]
        end = terminator if chunk.terminated else b""
        chosen = [bool(wanted >> number % 8 & 1) for number in range(len(part))]
        kept = b"".join(line + end for line, yes in zip(part, chosen, strict=True) if yes)
        assert chunk.where(np.array(chosen)).tobytes() == kept
        found += part
        num_bytes += chunk.num_bytes
        ended = not chunk.terminated
    assert found == expected + ([rest] if rest else [])
    assert ended == bool(rest)
    assert num_bytes == len(text)


def key_of(line: bytes, keys: LineKeys) -> bytes:
    """Find the key of a line as one would by hand."""
    part: bytes | None = line
    assert not isinstance(keys.json_key, tuple)
    assert not isinstance(keys.field, tuple)
    if keys.json_key is not None:
        part = _member_of(line, keys.json_key)
    elif keys.field is not None:
        part = field_of(line, keys.field, keys.separator)
    if part is None:
        return b"\xff\n\0" + line
    for _ in range(min(keys.skip_fields, len(part))):
        part = part.lstrip(_BLANKS)
        while part and part[0] not in _BLANKS:
            part = part[1:]
    part = part[keys.skip_chars :]
    if keys.compare_at_most is not None:
        part = part[: keys.compare_at_most]
    return bytes(c + 32 if keys.ignore_case and 65 <= c <= 90 else c for c in part)


def field_of(line: bytes, number: int, separator: bytes | None) -> bytes | None:
    fields, current, at = [], b"", 0
    while at < len(line):
        if separator is None and line[at] in _BLANKS:
            fields += [current] if current else []
            current, at = b"", at + 1
        elif separator is not None and line.startswith(separator, at):
            fields.append(current)
            current, at = b"", at + len(separator)
        else:
            current, at = current + line[at : at + 1], at + 1
    fields += [current] if current or separator is not None else []
    return (fields[number - 1] or None) if number <= len(fields) else None


class _Written:
    def __init__(self, text: str) -> None:
        self.text = text


def _member_of(line: bytes, path: str) -> bytes | None:
    try:
        value = json.loads(line, parse_float=_Written, parse_int=_Written, parse_constant=_Written)
    except (ValueError, RecursionError):
        return None
    for name in path.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    if value is None or value == "" or (isinstance(value, _Written) and value.text == "NaN"):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return b"\xff" + _written(value).encode()


def _written(value: Any) -> str:
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{_written(value[name])}" for name in sorted(value))
        return f"{{{','.join(members)}}}"
    return json.dumps(value)


def seeds() -> list[bytes]:
    texts = [b"a\nb\0c\n\0", b"one two\tThree\n four", b"a,b,,c\n,\n\nd::e::", b"\r\n\xff\n"]
    texts += [b'{"a":"x"}\n{"a":{"b":[1]}}\n[0,"y"]\n', b"xaabaaab\nAaAa\n" + b"long" * 50]
    options = [bytes(_CHOICES)] + [
        bytes([number & 1, 7 * number, number, 3, number, number, 2, number, 1, 2, 3, 5])
        for number in range(12)
    ]
    return [option + text for option in options for text in texts]


def mutate(data: bytes, most: int, chance: random.Random, plain: Callable[..., bytes]) -> bytes:
    """Change one choice or any bytes; a small terminator keeps most texts in lines."""
    if chance.random() < 0.2:
        place = chance.randrange(_CHOICES)
        data = data.ljust(_CHOICES, b"\0")
        data = data[:place] + bytes([chance.choice([0, 1, 2, 3, 255])]) + data[place + 1 :]
        return data[:most]
    return plain(data, most)
