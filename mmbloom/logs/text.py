"""Text that has no lines of bytes: UTF-16, UTF-32, and lines that end in a carriage return alone.

Cut at each newline byte, text in UTF-16 is cut within characters too, and what ends in carriage
returns is one line: lines would be compared that nobody has written, and some of them dropped. So
an input of such text is refused before any of it is given.
"""

from mmbloom._system.typing import Octets
from mmbloom.errors import InputError

_HEAD = 4096  # bytes to know the encoding by
_LEAST = 8  # fewer bytes show nothing
# The mark of UTF-32 in little-endian begins as that of UTF-16 does.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class NoLinesError(InputError):
    """An input is a file of another kind, or text of another encoding."""


def require_lines(octets: Octets, terminator: bytes) -> None:
    """Refuse text without lines that end in this byte, by what comes up to the first of them.

    An input without a newline is lines of an old Mac if it has two carriage returns. One
    is not enough: a line that Windows has ended may wait for its newline.
    """
    require_octets(octets, terminator)
    if terminator == b"\n" and ord("\n") not in octets and octets.tobytes().count(b"\r") > 1:
        raise no_newlines("lines")


def require_octets(octets: Octets, terminator: bytes) -> None:
    """Refuse UTF-16 and UTF-32, by a mark or by their NULs, unless it is NUL that ends lines."""
    head = octets[:_HEAD].tobytes()
    by_mark = (encoding for mark, encoding in _MARKS.items() if head.startswith(mark))
    encoding = next(by_mark, "" if terminator == b"\0" else _by_nuls(head))
    if encoding:
        raise NoLinesError(
            f"is {encoding}, in which a newline byte can be a part of any character: convert it "
            f"first, with iconv -f {encoding} -t UTF-8"
        )


def no_newlines(what: str) -> NoLinesError:
    """Return the error of an input whose lines or rows end in a carriage return alone."""
    return NoLinesError(
        f"ends its {what} in a carriage return alone, so that all are one: convert it first, with "
        "tr '\\r' '\\n'"
    )


def _by_nuls(head: bytes) -> str:
    """Return the encoding of text without a mark; "" of what may have lines of bytes.

    Of each character of most languages the higher bytes are NUL in UTF-32, and of ASCII and Latin-1
    also in UTF-16, where the lowest byte is not. So many NULs, each at its place and hardly one
    elsewhere, are in no log and in no binary file of lines: fields that NUL separates have a
    newline at a place of NULs, and what a crash leaves of a file is NUL everywhere.
    """
    for width in (4, 2):
        places = [head[at::width] for at in range(width)]
        for end, (lowest, *others) in (("LE", places), ("BE", places[::-1])):
            highest = others[width // 2 - 1 :]
            if (
                len(head) >= _LEAST
                and len(head) % width == 0
                and lowest.count(0) * 16 <= len(lowest)
                and all(place.count(0) * 2 > len(place) for place in highest)
                and not any(b"\n" in place for place in highest)
            ):
                return f"UTF-{8 * width}{end}"
    return ""
