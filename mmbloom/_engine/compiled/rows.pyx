# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Rows of CSV in a buffer, and their keys; see `reference.lines`.

Most files have few quotes, and a row without one is a line. So a search runs ahead to the next
quote, and the bytes before it are searched only for newlines. All loops run without the
interpreter.
"""

import numpy as np

from mmbloom._engine.key_batch import PackedKeys

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcpy

from mmbloom._engine.compiled.spans cimport (
    MARK, Narrowing, Span, check_spans, narrow, narrowing, put_part, put_whole,
)

cdef enum State:  # of a scan, by what comes before it
    FIELD_BEGINS = 0
    PLAIN = 1
    QUOTE_SEEN = 2  # within quotes, or behind them: the next byte tells
    INSIDE = 3  # quotes; `reference.lines.INSIDE`

cdef enum:
    QUOTE = 34
    NEWLINE = 10
    RETURN = 13
    AHEAD = 1 << 14  # bytes that are searched for a quote, few enough for the first cache
    TUPLE = 1  # bytes before several values
    SIZE = 8  # and before each of them

cdef struct Field:
    Span text  # without the quotes, if it has them
    const uint8_t *closed  # the quote that ends it; NULL of a plain field
    const uint8_t *end  # of what follows that


def find_rows(
    const uint8_t[::1] octets, Py_ssize_t start, Py_ssize_t searched, Py_ssize_t stop,
    *, int state, int delimiter, limit,
):
    """Find the first rows that end within octets[start:stop]; see `reference.lines.find_rows`."""
    cdef Py_ssize_t found = 0, most = limit
    if not 0 <= start <= searched <= stop <= octets.shape[0]:
        raise ValueError(
            f"bytes {start} to {stop}, from {searched} on, of a buffer of {octets.shape[0]}"
        )
    starts, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    cdef int64_t[::1] first = starts, last = ends
    cdef const uint8_t *base
    cdef const uint8_t *at
    cdef const uint8_t *plain_to  # there is no quote before it
    cdef const uint8_t *end
    cdef const uint8_t *hit
    if searched < stop:
        base = &octets[0]
        with nogil:
            at, end = base + searched, base + stop
            state = state if start < searched else FIELD_BEGINS
            plain_to = at
            while found < most and at < end:
                if state == FIELD_BEGINS or state == PLAIN:
                    if plain_to <= at:
                        plain_to = at + min(AHEAD, end - at)
                        hit = <const uint8_t *>memchr(at, QUOTE, plain_to - at)
                        plain_to = plain_to if hit == NULL else hit
                    hit = NULL
                    if at < plain_to:
                        hit = <const uint8_t *>memchr(at, NEWLINE, plain_to - at)
                    if hit != NULL:
                        at, state = hit + 1, FIELD_BEGINS
                    else:
                        if at < plain_to:
                            state = FIELD_BEGINS if plain_to[-1] == delimiter else PLAIN
                            at = plain_to
                        if at == end:
                            break
                        if at[0] != QUOTE:
                            continue
                        at += 1
                        state = INSIDE if state == FIELD_BEGINS else PLAIN
                        continue
                elif state == INSIDE:
                    hit = <const uint8_t *>memchr(at, QUOTE, end - at)
                    if hit == NULL:
                        at = end
                    else:
                        at, state = hit + 1, QUOTE_SEEN
                    continue
                else:
                    if at[0] == QUOTE:
                        state = INSIDE
                    elif at[0] == NEWLINE or at[0] == delimiter:
                        state = FIELD_BEGINS
                    else:
                        state = PLAIN
                    at += 1
                    if at[-1] != NEWLINE or state == INSIDE:
                        continue
                first[found], last[found] = start, at - base - 1
                start = at - base
                found += 1
    return starts[:found], ends[:found], state


def select_columns(
    octets, starts, ends, *, columns, several, delimiter, empty_is_key=False, skip_fields=0,
    skip_chars=0, compare_at_most=None, ignore_case=False,
):
    """Find the key of each row; see `reference.lines.select_columns`."""
    cdef Narrowing kept = narrowing(skip_fields, skip_chars, compare_at_most, ignore_case)
    cdef const uint8_t[::1] block = octets
    check_spans(block, starts, ends, 0)
    cdef const int64_t[::1] first = starts, last = ends
    cdef Py_ssize_t n = first.shape[0], number = len(columns)
    cdef int64_t[::1] wanted = np.array([min(one, 1 << 62) for one in columns], dtype=np.int64)
    new_starts, new_ends = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    cdef int64_t[::1] begin = new_starts, stop = new_ends
    cdef bint joined = several, empty = empty_is_key
    cdef uint8_t between = delimiter
    if not n:
        return PackedKeys(np.empty(0, dtype=np.uint8), new_starts, new_ends)
    cdef const uint8_t *base = &block[0]  # never NULL: an empty row of an empty block is copied
    # Room for every value at its longest, which is the row; for the same one as often as asked for.
    room = int((ends - starts).sum()) * max(map(list(columns).count, columns), default=1)
    if number:
        room += n * max(MARK, TUPLE + SIZE * number)
    else:
        room += n * (TUPLE + SIZE) + SIZE * delimiters(base, &first[0], &last[0], n, between)
    made = np.empty(max(room, 1), dtype=np.uint8)
    slots = np.empty(max(number, 1) * sizeof(Field), dtype=np.uint8)
    cdef uint8_t[::1] target = made, fields = slots
    with nogil:
        select_all(
            base, &first[0], &last[0], n, &wanted[0] if number else NULL, number, joined, between,
            empty, &kept, <Field *>&fields[0], &target[0], &begin[0], &stop[0],
        )
    return PackedKeys(made, new_starts, new_ends)


cdef Py_ssize_t delimiters(
    const uint8_t *octets, const int64_t *starts, const int64_t *ends, Py_ssize_t n,
    uint8_t delimiter,
) noexcept:
    cdef Py_ssize_t i, j, count = 0
    with nogil:
        for i in range(n):
            for j in range(starts[i], ends[i]):
                count += octets[j] == delimiter
    return count


cdef void select_all(
    const uint8_t *octets, const int64_t *starts, const int64_t *ends, Py_ssize_t n,
    const int64_t *columns, Py_ssize_t number, bint several, uint8_t delimiter, bint empty_is_key,
    const Narrowing *kept, Field *fields, uint8_t *keys, int64_t *first, int64_t *last,
) noexcept nogil:
    """Write each row's key, one after the other."""
    cdef Py_ssize_t i, j
    cdef uint8_t *to = keys
    cdef uint8_t *begun
    cdef Span row
    cdef Field field
    for i in range(n):
        row.at, row.end = octets + starts[i], octets + ends[i]
        if row.at < row.end and row.end[-1] == RETURN:
            row.end -= 1
        begun = to
        if several:
            to[0] = 0xFE
            to += TUPLE
        if number == 0:
            if row.at < row.end:
                while True:
                    take_field(&row, delimiter, &field)
                    to = put_sized(&field, kept, to)
                    if field.end == row.end:
                        break
                    row.at = field.end + 1
        elif not find_fields(row, delimiter, columns, number, empty_is_key, fields):
            to = put_whole(&row, begun)
        elif several:
            for j in range(number):
                to = put_sized(&fields[j], kept, to)
        else:
            to = put(&fields[0], kept, to)
            if to - begun >= MARK and begun[0] == 0xFF and begun[1] == 10 and begun[2] == 0:
                to = put_whole(&row, begun)
        first[i], last[i] = begun - keys, to - keys


cdef bint find_fields(
    Span row, uint8_t delimiter, const int64_t *columns, Py_ssize_t number, bint empty_is_key,
    Field *fields,
) noexcept nogil:
    """Find the wanted fields of a row; return False if the row is its own key."""
    cdef int64_t here = 0
    cdef Py_ssize_t j, left = number
    cdef Field field
    cdef bint more = row.at < row.end
    for j in range(number):
        fields[j].text.at = fields[j].text.end = fields[j].end = row.end
        fields[j].closed = NULL
    while more and left:
        take_field(&row, delimiter, &field)
        here += 1
        for j in range(number):
            if columns[j] == here:
                fields[j] = field
                left -= 1
        more = field.end < row.end
        row.at = field.end + 1
    for j in range(number):
        if is_empty(&fields[j]) and not empty_is_key:
            return False
    return True


cdef void take_field(const Span *row, uint8_t delimiter, Field *field) noexcept nogil:
    """Take the field that begins a row, and is also its last if no delimiter follows."""
    cdef const uint8_t *at = row.at
    field.closed = NULL
    if at < row.end and at[0] == QUOTE:
        at += 1
        field.text.at = at
        while True:
            at = <const uint8_t *>memchr(at, QUOTE, row.end - at)
            if at == NULL:  # the quote is open
                field.closed = field.text.end = field.end = row.end
                return
            if at + 1 == row.end or at[1] != QUOTE:
                break
            at += 2
        field.closed = field.text.end = at
        at += 1
    else:
        field.text.at = at
    field.end = <const uint8_t *>memchr(at, delimiter, row.end - at) if at < row.end else NULL
    if field.end == NULL:
        field.end = row.end
    if field.closed == NULL:
        field.text.end = field.end


cdef bint is_empty(const Field *field) noexcept nogil:
    return field.text.at == field.text.end and (
        field.closed == NULL or field.closed + 1 >= field.end
    )


cdef uint8_t *put_sized(const Field *field, const Narrowing *kept, uint8_t *to) noexcept nogil:
    """Write the size of a value, little-endian, and the value."""
    cdef uint8_t *end = put(field, kept, to + SIZE)
    cdef uint64_t size = end - to - SIZE
    memcpy(to, &size, SIZE)
    return end


cdef uint8_t *put(const Field *field, const Narrowing *kept, uint8_t *to) noexcept nogil:
    """Write a value, narrowed; return where it ends."""
    cdef Span part
    cdef const uint8_t *at = field.text.at
    cdef const uint8_t *quote
    cdef uint8_t *begun = to
    if field.closed == NULL:
        part = field.text
    else:
        while True:
            quote = NULL
            if at < field.closed:
                quote = <const uint8_t *>memchr(at, QUOTE, field.closed - at)
            if quote == NULL:
                break
            memcpy(to, at, quote + 1 - at)
            to += quote + 1 - at
            at = quote + 2
        memcpy(to, at, field.closed - at)
        to += field.closed - at
        if field.closed < field.end:
            memcpy(to, field.closed + 1, field.end - field.closed - 1)
            to += field.end - field.closed - 1
        part.at, part.end = begun, to
    narrow(kept, &part)
    return put_part(kept, &part, begun)
