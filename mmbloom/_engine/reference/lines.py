r"""Lines of a buffer, rows of CSV, their keys, and the wanted ones gathered: the reference.

Selections of lines mean what they mean for uniq(1), in the C locale; blanks are space, tab and
newline, for fields as well, as awk(1) has it. A line that lacks the chosen field, or in which it is
empty, is its own key as a whole, and shares it with no field of another line: lines that cannot be
told apart by it are not lost.

A field of a row that begins with a quote ends at the next quote that stands alone, and two within
it are one; what follows up to the delimiter is taken as it is, and so is a quote that does not
begin a field. That is RFC 4180, and of what it forbids what Python's `csv` makes of it. A row ends
at a newline outside of quotes; a carriage return before that, or at the end of the input, is no
part of its last field. Any other is a byte like others, where `csv` would raise an error.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice

import numpy as np

from mmbloom._engine.key_batch import ByteKeys, KeyBatch
from mmbloom._system.typing import Bools, Octets, Offsets

# No text in UTF-8 has the byte 0xFF, and no field has both newline and NUL: no field of a line
# starts like this.
WHOLE_LINE = b"\xff\n\0"
INSIDE = 3  # where a scan of rows has stopped: within quotes, so that a newline ends no row
_TUPLE = b"\xfe"  # as `mmbloom._keys.coerce.joined` begins the key of several values
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


def gather(octets: Octets, starts: Offsets, ends: Offsets, wanted: Bools, extra: int) -> Octets:
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


def find_rows(
    octets: Octets,
    start: int,
    searched: int,
    stop: int,
    *,
    state: int,
    delimiter: int,
    limit: int,
) -> tuple[Offsets, Offsets, int]:
    r"""Find the first rows, `limit` at most, that end within octets[start:stop].

    Parameters
    ----------
    octets : ndarray of uint8, shape (m,)
        A block.
    start, searched, stop : int
        Where the first row begins, up to where an earlier call has searched it, and how far the
        block is filled.
    state : int
        What that call has returned; it counts where something was searched.
    delimiter : int
        The byte between fields.
    limit : int
        How many rows at most.

    Returns
    -------
    starts, ends : ndarray of int64, shape (n,)
        Row i is octets[starts[i]:ends[i]]; its newline follows it.
    state : int
        How what follows the last row ends: with `INSIDE` within quotes. It says nothing where
        `limit` rows were found.

    Examples
    --------
    >>> octets = np.frombuffer(b'1,"a\nb"\n2,"', np.uint8)
    >>> find_rows(octets, 0, 0, 11, state=0, delimiter=44, limit=9)
    (array([0]), array([7]), 3)
    """
    data, whole, at, ends = octets[start:stop].tobytes(), _whole(delimiter), 0, list[int]()
    found = whole.match(data)
    while found and data[found.end() : found.end() + 1] == b"\n" and len(ends) < limit:
        at = found.end() + 1
        ends.append(start + at - 1)
        found = whole.match(data, at)
    starts = [start, *(end + 1 for end in ends[:-1])] if ends else []
    state = 0 if found and found.end() == len(data) else INSIDE
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), state


def select_columns(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,
    *,
    columns: Sequence[int],
    several: bool,
    delimiter: int,
    empty_is_key: bool = False,
    skip_fields: int = 0,
    skip_chars: int = 0,
    compare_at_most: int | None = None,
    ignore_case: bool = False,
) -> KeyBatch:
    r"""Find the key of each row: the value of a column, or the tuple of several.

    Parameters
    ----------
    octets, starts, ends : ndarray
        Row i is octets[starts[i]:ends[i]].
    columns : sequence of int
        Counted from 1; none for all fields of each row.
    several : bool
        Whether the key is that of a tuple.
    delimiter : int
        The byte between fields.
    empty_is_key : bool
        Whether a field that is empty or missing is the empty key. If not, a row with one of
        these is its own key, after `WHOLE_LINE`; and so is one whose key would begin as that does.
    skip_fields, skip_chars, compare_at_most, ignore_case
        As for `LineKeys`, of each value.

    Examples
    --------
    >>> row = np.frombuffer(b'1,"a ""b"" c"\r', np.uint8), np.array([0]), np.array([14])
    >>> select_columns(*row, columns=[2], several=False, delimiter=ord(",")).items
    [b'a "b" c']
    """
    narrow = narrower(skip_fields, skip_chars, compare_at_most, ignore_case=ignore_case)
    keys: list[bytes | str] = []
    for row in lines_of(octets, starts, ends):
        values = fields_of(row, delimiter)
        if columns:
            values = [values[number - 1] if number <= len(values) else b"" for number in columns]
        parts = list(map(narrow, values))
        tuple_of = (len(part).to_bytes(8, "little") + part for part in parts)
        key = _TUPLE + b"".join(tuple_of) if several else parts[0]
        lacks = columns and not (empty_is_key or all(values))
        is_whole = lacks or key.startswith(WHOLE_LINE)
        keys.append(WHOLE_LINE + row.removesuffix(b"\r") if is_whole else key)
    return ByteKeys.of(keys)


def fields_of(row: bytes, delimiter: int) -> list[bytes]:
    r"""Return the values of a row's fields; none of an empty row.

    Examples
    --------
    >>> fields_of(b'a,"b,c",\r', ord(","))
    [b'a', b'b,c', b'']
    """
    row = row.removesuffix(b"\r")
    if b'"' not in row:
        return row.split(bytes([delimiter])) if row else []
    values, at, pattern = list[bytes](), 0, _field(delimiter)
    while at <= len(row):
        found = pattern.match(row, at)
        assert found  # noqa: S101  an empty field does
        quoted, rest, plain = found.groups(b"")
        values.append(quoted.replace(b'""', b'"') + rest + plain)
        at = found.end() + 1
    return values


def find_members(
    octets: Octets,
    starts: Offsets,
    ends: Offsets,
    names: list[bytes],
) -> tuple[Octets, Offsets, Offsets, Bools]:
    """Find the member of a line of JSON at a path, as far as no parser is needed: for no line here.

    `mmbloom.logs.members` has the definition, by Python's parser. The compiled engine finds the
    member of plain lines, and declines the others.

    Parameters
    ----------
    octets : ndarray of uint8, shape (m,)
        A block.
    starts, ends : ndarray of int64, shape (n,)
        Line i is octets[starts[i]:ends[i]].
    names : list of bytes
        Those of the path in UTF-8, outermost first.

    Returns
    -------
    keys : ndarray of uint8
        The keys that were found, one after the other.
    first, last : ndarray of int64, shape (n,)
        Key i is keys[first[i]:last[i]].
    declined : ndarray of bool, shape (n,)
        True for each line that is left to the parser.
    """
    none = np.zeros(len(starts), dtype=np.int64)
    return octets[:0], none, none, np.ones(len(starts), dtype=np.bool_)


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


_QUOTED = rb'"([^"]*+(?:""[^"]*+)*+)'


@lru_cache
def _field(delimiter: int) -> "re.Pattern[bytes]":
    """Match a field, also one whose quote is open, as what is quoted, what follows, or plain."""
    other = b"[^%b]*+" % re.escape(bytes([delimiter]))
    return re.compile(rb'%b(?:"(%b))?|(%b)' % (_QUOTED, other, other))


@lru_cache
def _whole(delimiter: int) -> "re.Pattern[bytes]":
    """Match fields up to a newline, or up to a quote that is not closed.

    A field is then empty: Python 3.11.4 takes for a match what fails amid a possessive group.
    """
    between = re.escape(bytes([delimiter]))
    other = rb"[^%b\n]*+" % between
    field = rb'(?:%b"%b|(?!")%b|)' % (_QUOTED, other, other)
    return re.compile(rb"%b(?:%b%b)*+" % (field, between, field))
