"""Spans of a block, the part of one that is compared, as for uniq(1), and its copy; inline code."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove

cdef enum:
    MARK = 3  # bytes before a whole line that is its own key: `reference.lines.WHOLE_LINE`


cdef struct Span:
    const uint8_t *at
    const uint8_t *end


cdef struct Narrowing:
    int64_t skip_fields
    int64_t skip_chars
    int64_t at_most  # -1 for no limit
    bint ignore_case


cdef inline Narrowing narrowing(skip_fields, skip_chars, compare_at_most, ignore_case):
    """Read the options of `LineKeys` that narrow a key."""
    cdef Narrowing chosen
    cdef int64_t most = 0x7FFFFFFFFFFFFFFF
    chosen.skip_fields = min(skip_fields, most)
    chosen.skip_chars = min(skip_chars, most)
    chosen.at_most = -1 if compare_at_most is None else min(compare_at_most, most)
    chosen.ignore_case = ignore_case
    return chosen


cdef inline bint is_blank(uint8_t c) noexcept nogil:
    """Return whether a byte is a blank of uniq(1) and awk(1); NUL-ended lines may have newlines."""
    return c == 32 or 9 <= c <= 10


cdef inline void narrow(const Narrowing *chosen, Span *part) noexcept nogil:
    """Skip fields, then bytes, and keep `at_most` of the rest."""
    cdef int64_t left = chosen.skip_fields
    while left and part.at < part.end:
        while part.at < part.end and is_blank(part.at[0]):
            part.at += 1
        while part.at < part.end and not is_blank(part.at[0]):
            part.at += 1
        left -= 1
    part.at += min(chosen.skip_chars, <int64_t>(part.end - part.at))
    if 0 <= chosen.at_most < part.end - part.at:
        part.end = part.at + chosen.at_most


cdef inline uint8_t folded(uint8_t c) noexcept nogil:
    """Return a small letter for an ASCII capital, and any other byte as it is."""
    return c | 32 if 65 <= c <= 90 else c


cdef inline uint8_t *put_part(const Narrowing *chosen, const Span *part, uint8_t *to) noexcept nogil:
    """Write a part, folded if that is asked for; return where it ends. It may lie behind `to`."""
    cdef Py_ssize_t i, length = part.end - part.at
    if chosen.ignore_case:
        for i in range(length):
            to[i] = folded(part.at[i])
    else:
        memmove(to, part.at, length)
    return to + length


cdef inline uint8_t *put_whole(const Span *line, uint8_t *to) noexcept nogil:
    """Write a line that is its own key, after its mark; return where it ends."""
    to[0], to[1], to[2] = 0xFF, 10, 0
    memcpy(to + MARK, line.at, line.end - line.at)
    return to + MARK + (line.end - line.at)


cdef inline int check_spans(
    const uint8_t[::1] octets, const int64_t[::1] starts, const int64_t[::1] ends,
    Py_ssize_t extra,
) except -1:
    """Check that all lines, and what ends them, lie within the buffer."""
    cdef Py_ssize_t i, wrong = -1, stop = octets.shape[0] - extra
    if starts.shape[0] != ends.shape[0]:
        raise ValueError(f"{starts.shape[0]} starts and {ends.shape[0]} ends")
    with nogil:
        for i in range(starts.shape[0]):
            if not 0 <= starts[i] <= ends[i] <= stop:
                wrong = i
                break
    if wrong >= 0:
        raise ValueError(
            f"line {wrong} is bytes {starts[wrong]} to {ends[wrong]} of a buffer of "
            f"{octets.shape[0]}, with {extra} to end it"
        )
    return 0
