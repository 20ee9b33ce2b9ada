r"""Rows of CSV in a buffer, and their keys: the reference.

A field that begins with a quote ends at the next quote that stands alone, and two within it are
one; what follows up to the delimiter is taken as it is, and so is a quote that does not begin a
field. That is RFC 4180, and of what it forbids what Python's `csv` makes of it. A row ends at a
newline outside of quotes; a carriage return before that, or at the end of the input, is no part of
its last field. Any other is a byte like others, where `csv` would raise an error.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mmbloom._engine.key_batch import ByteKeys, KeyBatch
from mmbloom._engine.reference.lines import WHOLE_LINE, lines_of, narrower
from mmbloom._system.typing import Octets, Offsets

INSIDE = 3  # where a scan has stopped: within quotes, so that a newline ends no row
_TUPLE = b"\xfe"  # as `mmbloom._keys.coerce.joined` begins the key of several values


def find_rows(
    octets: Octets,
    start: int,
    searched: int,  # noqa: ARG001  the compiled one goes on from there
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
