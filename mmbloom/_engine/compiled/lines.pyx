# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The lines of a buffer, their keys, and copies of the wanted ones; see `reference.lines`.

No object is made for a line: it is a span of the block that was read. All loops run without the
interpreter.
"""

import numpy as np

from mmbloom._engine.key_batch import PackedKeys

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

from mmbloom._engine.compiled.spans cimport (
    MARK, Narrowing, Span, check_spans, is_blank, narrow, narrowing, put_part, put_whole,
)

cdef struct Selection:
    int64_t field  # counted from 1; 0 for all of the line
    const uint8_t *separator  # NULL for runs of blanks
    size_t separator_length

cdef enum:
    AT_ONCE = 32  # bytes of a line that are copied whether it is wanted or not


def find_lines(const uint8_t[::1] octets, Py_ssize_t start, Py_ssize_t stop, int terminator, limit):
    """Find the first lines that end within octets[start:stop]; see `reference.lines.find_lines`."""
    cdef Py_ssize_t found = 0, most = limit
    if not 0 <= start <= stop <= octets.shape[0]:
        raise ValueError(f"bytes {start} to {stop} of a buffer of {octets.shape[0]}")
    both = np.empty((2, most), dtype=np.int64)
    cdef int64_t[:, ::1] spans = both
    cdef int64_t *first
    cdef int64_t *last
    cdef const uint8_t *base
    cdef const uint8_t *hit
    if start < stop and most:
        base, first, last = &octets[0], &spans[0, 0], &spans[1, 0]
        with nogil:
            while found < most and start < stop:
                hit = <const uint8_t *>memchr(base + start, terminator, stop - start)
                if hit == NULL:
                    break
                first[found] = start
                last[found] = hit - base
                start = hit - base + 1
                found += 1
    return both[0, :found], both[1, :found]


def gather(
    const uint8_t[::1] octets, const int64_t[::1] starts, const int64_t[::1] ends,
    wanted, Py_ssize_t extra,
):
    """Copy the wanted lines, one after the other; see `reference.lines.gather`."""
    cdef const uint8_t[::1] chosen = wanted
    cdef Py_ssize_t i, n = starts.shape[0], size = 0
    check_spans(octets, starts, ends, extra)
    if chosen.shape[0] != n:
        raise ValueError(f"{chosen.shape[0]} answers for {n} lines")
    with nogil:
        for i in range(n):
            size += (ends[i] - starts[i] + extra) * (chosen[i] != 0)
    out = np.empty(size + AT_ONCE, dtype=np.uint8)
    cdef uint8_t[::1] target = out
    if n:
        with nogil:
            gather_to(&target[0], octets, &starts[0], &ends[0], n, &chosen[0], extra)
    return out[:size]


cdef void gather_to(
    uint8_t *at, const uint8_t[::1] octets, const int64_t *starts, const int64_t *ends,
    Py_ssize_t n, const uint8_t *chosen, Py_ssize_t extra,
) noexcept nogil:
    cdef Py_ssize_t i, size, last = octets.shape[0] - AT_ONCE
    for i in range(n):
        size = ends[i] - starts[i] + extra
        if size <= AT_ONCE and starts[i] <= last:
            # Without a branch, which would be mispredicted for every third line of a log: the next
            # line overwrites one that is not wanted.
            memcpy(at, &octets[0] + starts[i], AT_ONCE)
            at += size * (chosen[i] != 0)
        elif chosen[i]:
            memcpy(at, &octets[0] + starts[i], size)
            at += size


def select_keys(
    octets, starts, ends, *, field=None, separator=None, skip_fields=0, skip_chars=0,
    compare_at_most=None, ignore_case=False,
):
    """Find the part of each line that is its key; see `reference.lines.select_keys`."""
    cdef Selection chosen
    cdef const uint8_t[::1] between = separator or b" "
    cdef int64_t most = 0x7FFFFFFFFFFFFFFF
    cdef Narrowing kept = narrowing(skip_fields, skip_chars, compare_at_most, ignore_case)
    chosen.field = min(field or 0, most)
    chosen.separator = &between[0] if separator else NULL
    chosen.separator_length = len(separator or b"")
    plain = not (chosen.field or kept.skip_fields or kept.skip_chars or ignore_case)
    if plain and kept.at_most < 0:
        return PackedKeys(octets, starts, ends)
    cdef const uint8_t[::1] block = octets
    check_spans(block, starts, ends, 0)
    cdef const int64_t[::1] old_starts = starts, old_ends = ends
    cdef Py_ssize_t n = old_starts.shape[0]
    new_starts, new_ends = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    cdef int64_t[::1] first = new_starts, last = new_ends
    # Keys that are no plain span of the line are copied: folded ones, and marked whole lines.
    cdef bint copied = chosen.field or ignore_case
    keys = np.empty(int((ends - starts).sum()) + MARK * n if copied else 0, dtype=np.uint8)
    cdef uint8_t[::1] target = keys
    if not n:
        return PackedKeys(octets, starts, ends)
    with nogil:
        select_all(
            &block[0],  # never NULL, as in `lines_in`
            &old_starts[0], &old_ends[0], n, &chosen, &kept,
            &target[0] if copied else NULL, &first[0], &last[0],
        )
    return PackedKeys(keys if copied else octets, new_starts, new_ends)


cdef void select_all(
    const uint8_t *octets, const int64_t *starts, const int64_t *ends, Py_ssize_t n,
    const Selection *chosen, const Narrowing *kept, uint8_t *keys, int64_t *first, int64_t *last,
) noexcept nogil:
    """Write each line's key, as a span of the lines or, with `keys`, of a copy made there."""
    cdef Py_ssize_t i
    cdef uint8_t *to = keys
    cdef uint8_t *begun
    cdef Span line, part
    for i in range(n):
        line.at, line.end = octets + starts[i], octets + ends[i]
        part, begun = line, to
        if chosen.field and not take_field(chosen, &part):
            to = put_whole(&line, to)
        else:
            narrow(kept, &part)
            if keys == NULL:
                first[i], last[i] = part.at - octets, part.end - octets
                continue
            to = put_part(kept, &part, to)
        first[i], last[i] = begun - keys, to - keys


cdef bint take_field(const Selection *chosen, Span *part) noexcept nogil:
    """Narrow a line to one field; return False if it has fewer, or the field is empty."""
    cdef int64_t left = chosen.field
    cdef const uint8_t *end
    if chosen.separator == NULL:
        while True:
            while part.at < part.end and is_blank(part.at[0]):
                part.at += 1
            if part.at == part.end:
                return False
            end = part.at
            while end < part.end and not is_blank(end[0]):
                end += 1
            left -= 1
            if left == 0:
                part.end = end
                return True
            part.at = end
    while True:
        end = find(part, chosen.separator, chosen.separator_length)
        left -= 1
        if left == 0:
            part.end = end
            return part.at < end
        if end == part.end:
            return False
        part.at = end + chosen.separator_length


cdef const uint8_t *find(
    const Span *part, const uint8_t *wanted, size_t length
) noexcept nogil:
    """Find where a separator starts, or the end of the part if there is none."""
    cdef const uint8_t *at = part.at
    while <size_t>(part.end - at) >= length:
        at = <const uint8_t *>memchr(at, wanted[0], part.end - at - length + 1)
        if at == NULL:
            break
        if memcmp(at, wanted, length) == 0:
            return at
        at += 1
    return part.end
