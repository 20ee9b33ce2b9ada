r"""The exclusions file: its name and its lines.

For a filter file ``FILE`` it is ``FILE.exclusions``, beside the file itself, not beside a link to
it. For a folder it is the file ``exclusions`` inside it. A reader trusts it only if no other user
could have written to it (see docs/SECURITY.md).

The file has one key per line, in UTF-8, so that people can read and edit it. Characters that cannot
be seen or typed are escaped, and so is the backslash: ``\\``, ``\n``, ``\r``, ``\t``, and ``\xNN``
for any byte. The empty key is the line ``\empty``; an empty line is ignored. There are no comments,
because a key may begin with any character.
"""

import os
import re
from collections.abc import Iterable

from mmbloom.errors import FormatError

_SUFFIX = ".exclusions"
IN_FOLDER = "exclusions"  # their file in a folder of filters
_EMPTY = r"\empty"
_NAMED = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_STANDS_FOR = {written[1].encode(): key.encode() for key, written in _NAMED.items()}
_ESCAPE = re.compile(rb"\\(?:([\\nrt])|x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")  # but for the tab, which a person may type
_EXPECTED = r"a key in UTF-8, with the escapes \\ \n \r \t \xNN; correct that line"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some editors begin with


def exclusions_path(filter_path: str) -> str:
    """Return the path of a filter's exclusions: links to the filter share it."""
    return os.path.realpath(filter_path) + _SUFFIX


def exclusions_path_in(folder: str) -> str:
    """Return the path of a folder's exclusions: in the folder, to move with it."""
    return os.path.join(folder, IN_FOLDER)


def grown_from(path: str) -> str:
    """Return the path that a file of these exclusions would have; of a folder's, no such path."""
    return path.removesuffix(_SUFFIX)


def filter_of(path: str) -> str:
    """Return the path of the filter for a path that either function above returned.

    Examples
    --------
    >>> filter_of("/data/seen.bloom.exclusions"), filter_of("/data/growing/exclusions")
    ('/data/seen.bloom', '/data/growing')
    """
    folder, name = os.path.split(path)
    return folder if name == IN_FOLDER else path.removesuffix(_SUFFIX)


def write_keys(keys: Iterable[bytes]) -> bytes:
    r"""Return the lines of keys.

    Examples
    --------
    >>> write_keys([b"a@b.example", b"C:\\", b"\xff ", b""]).decode().splitlines()
    ['a@b.example', 'C:\\\\', '\\xff\\x20', '\\empty']
    """
    return b"".join(_written(key).encode() + b"\n" for key in keys)


def read_keys(raw: bytes, path: str) -> Iterable[bytes]:
    r"""Read what `write_keys` or a person wrote; the exact inverse of it.

    Raise `FormatError`, with this path and the line, if a line is no key.

    Examples
    --------
    >>> list(read_keys(b"a\r\n\n\\x00\\n", "seen.bloom.exclusions"))
    [b'a', b'\x00\n']
    """
    for number, line in enumerate(raw.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), start=1):
        # An editor wrote this carriage return: one of the key would be escaped.
        if text := line.removesuffix(b"\r"):
            yield _read(text, path, f"line {number}")


def _written(key: bytes) -> str:
    if not key:
        return _EMPTY
    text = key.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text and text == text.strip(" "):
        return text
    inner = "".join(map(_escaped, text))
    # Spaces at the ends are invisible, and editors cut them.
    body = inner.lstrip(" ")
    start, body = len(inner) - len(body), body.rstrip(" ")
    return r"\x20" * start + body + r"\x20" * (len(inner) - start - len(body))


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _read(line: bytes, path: str, place: str) -> bytes:
    def unreadable(found: str) -> FormatError:
        return FormatError(path, place, found, _EXPECTED)

    try:
        line.decode()
    except UnicodeDecodeError:
        raise unreadable("not UTF-8") from None
    if control := _CONTROL.search(line):
        raise unreadable(f"not text: it has the byte \\x{control[0][0]:02x}")
    if line == _EMPTY.encode():
        return b""

    def stands_for(escape: re.Match[bytes]) -> bytes:
        name, digits, _ = escape.groups()
        if name:
            return _STANDS_FOR[name]
        if digits:
            return bytes.fromhex(digits.decode())
        shown = escape[0].decode("utf-8", "replace")
        raise unreadable(f"not a key: {shown!r} is not an escape")

    return _ESCAPE.sub(stands_for, line)
