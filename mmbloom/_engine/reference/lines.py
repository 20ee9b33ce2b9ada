"""Lines of a buffer, their keys, and the wanted ones gathered: the reference.

Selections mean what they mean for uniq(1), in the C locale; blanks are space, tab and newline, for
fields as well, as awk(1) has it. A line that lacks the chosen field, or in which it is empty, is
its own key as a whole, and shares it with no field of another line: lines that cannot be told
apart by it are not lost.
"""

import re
from collections.abc import Callable
from itertools import islice

import numpy as np

from mmbloom._engine.key_batch import ByteKeys, KeyBatch
from mmbloom._system.typing import Array, Octets, Offsets

# No text in UTF-8 has the byte 0xFF, and no field has both newline and NUL: no field of a line
# starts like this.
WHOLE_LINE = b"\xff\n\0"
_MANY = 2**31  # more fields than any line has, and as many as split can count


def find_lines(
    octets: Octets, start: int, stop: int, terminator: int, limit: int
) -> tuple[Offsets, Offsets]:
    r"""Find the first lines, `limit` at most, that end within octets[start:stop].

    Returns
    -------
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]]; its terminator follows it.

    Examples
    --------
    >>> find_lines(np.frombuffer(b"a\n\nb", np.uint8), 0, 4, 10, 9)
    (array([0, 2]), array([1, 2]))
    """
    ends = np.flatnonzero(octets[start:stop] == terminator)[:limit].astype(np.int64) + start
    starts = np.empty_like(ends)
    starts[:1], starts[1:] = start, ends[:-1] + 1
    return starts, ends


def gather(
    octets: Octets, starts: Offsets, ends: Offsets, wanted: Array[np.bool_], extra: int
) -> Octets:
    """Copy the wanted lines, each with the `extra` bytes that end it, one after the other."""
    if not len(starts):
        return np.empty(0, dtype=np.uint8)
    stops = ends + extra
    # Wanted lines that follow each other are copied in one go.
    begins = wanted.copy()
    begins[1:] &= ~(wanted[:-1] & (starts[1:] == stops[:-1]))
    last = np.append(begins[1:] | ~wanted[1:], True) & wanted
    runs = zip(starts[begins].tolist(), stops[last].tolist(), strict=True)
    view = octets.data
    return np.frombuffer(b"".join([view[start:stop] for start, stop in runs]), dtype=np.uint8)


def lines_of(octets: Octets, starts: Offsets, ends: Offsets) -> list[bytes]:
    """Make an object of each line."""
    if not len(starts):
        return []
    first = int(starts[0])
    data = octets[first : int(ends[-1])].tobytes()
    spans = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
    return [data[start:end] for start, end in spans]


def select_keys(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,
    *,
    field: int | None = None,
    separator: bytes | None = None,
    skip_fields: int = 0,
    skip_chars: int = 0,
    compare_at_most: int | None = None,
    ignore_case: bool = False,
) -> KeyBatch:
    """Find the part of each line that is its key; the options are those of `LineKeys`."""
    lines = lines_of(octets, starts, ends)
    narrow = narrower(skip_fields, skip_chars, compare_at_most, ignore_case=ignore_case)
    if field is None:
        whole = not (skip_fields or skip_chars or ignore_case) and compare_at_most is None
        return ByteKeys.of(list(lines if whole else map(narrow, lines)))
    parts = map(_field_taker(field, separator), lines)
    return ByteKeys.of(
        [
            WHOLE_LINE + line if part is None else narrow(part)
            for line, part in zip(lines, parts, strict=True)
        ]
    )


def narrower(
    skip_fields: int, skip_chars: int, compare_at_most: int | None, *, ignore_case: bool
) -> Callable[[bytes], bytes]:
    """Make the function that skips fields, then bytes, keeps so many, and folds them."""
    skip = _field_skipper(skip_fields)
    cut = slice(skip_chars, None if compare_at_most is None else skip_chars + compare_at_most)
    if ignore_case:
        return lambda part: skip(part)[cut].lower()
    return lambda part: skip(part)[cut]


# Newline is a blank too: it can stand within a line that NUL terminates.
_BLANKS_AND_FIELD = re.compile(rb"[ \t\n]*([^ \t\n]+)")


def _field_skipper(count: int) -> Callable[[bytes], bytes]:
    def skip(line: bytes) -> bytes:
        number, end = 0, 0
        for found in islice(_BLANKS_AND_FIELD.finditer(line), min(count, _MANY)):
            number, end = number + 1, found.end()
        return line[end:] if number == count else b""

    return skip if count else lambda line: line


def _field_taker(field: int, separator: bytes | None) -> Callable[[bytes], bytes | None]:
    place = min(field, _MANY) - 1

    def between_blanks(line: bytes) -> bytes | None:
        found = next(islice(_BLANKS_AND_FIELD.finditer(line), place, None), None)
        return found and found[1]

    def between_separators(line: bytes) -> bytes | None:
        return next(islice(line.split(separator, place + 1), place, None), b"") or None

    return between_blanks if separator is None else between_separators
