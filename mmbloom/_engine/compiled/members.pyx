# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The member of a line of JSON that is its key, found without a parser; see `reference.lines`.

A line is scanned to its end, as a line that is not JSON has no member. If the scan is not sure, it
leaves the line to the parser: a line that is no object, is not JSON in plain UTF-8, or is nested
deep; a relevant name that has an escape or comes twice; a value that is an object, an array, or a
string with an escape. For all other lines it returns what Python's parser does.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from mmbloom._engine.compiled.octets cimport load_8
from mmbloom._engine.compiled.spans cimport MARK, Span, check_spans, put_whole

cdef extern from *:
    """
    #define EACH UINT64_C(0x0101010101010101)
    """
    const uint64_t EACH  # a one in each of eight bytes
    int trailing_zeros "__builtin_ctzll"(unsigned long long word) noexcept nogil


cdef enum:
    DEEPEST = 64  # open objects and arrays; Python's limit is deeper
    MOST_DIGITS = 600  # of a number; Python's limit for integers is 640 or more
    MOST_NAMES = 32  # of a path

cdef enum Verdict:
    DECLINED
    MISSING  # or null, or the empty string
    TEXT
    OTHER  # a number, true or false

cdef struct Path:
    int depth
    Span[MOST_NAMES] names

# Of each byte within a string: 0 if it stands for itself, 1 if it needs a check.
cdef uint8_t[256] special
cdef int _octet
for _octet in range(256):
    special[_octet] = _octet < 0x20 or _octet >= 0x80 or _octet in b'"\\'


def find_members(
    const uint8_t[::1] octets, const int64_t[::1] starts, const int64_t[::1] ends, names
):
    """Find the member at a path in each line; see `reference.lines.find_members`."""
    cdef Py_ssize_t i, n = starts.shape[0], room = 0
    cdef Path path
    cdef Span line, value
    cdef Verdict verdict
    cdef list held = list(names)
    cdef bytes name
    cdef uint8_t *to
    declined = np.ones(n, dtype=np.bool_)
    first, last = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    cdef uint8_t[::1] left = declined
    cdef int64_t[::1] begin = first, stop = last
    check_spans(octets, starts, ends, 0)
    for i in range(n):
        room += ends[i] - starts[i] + MARK
    keys = np.empty(room, dtype=np.uint8)
    if not 0 < len(held) <= MOST_NAMES or not room:
        return keys[:0], first, last, declined
    path.depth = len(held)
    for i in range(path.depth):
        name = <bytes?>held[i]
        path.names[i].at = <const uint8_t *><const char *>name
        path.names[i].end = path.names[i].at + len(held[i])
    cdef uint8_t[::1] made = keys
    with nogil:
        to = &made[0]
        for i in range(n):
            line.at, line.end = &octets[0] + starts[i], &octets[0] + ends[i]
            if line.at == line.end:
                continue
            verdict = scan(line.at, line.end, &path, &value)
            if verdict == DECLINED:
                continue
            left[i], begin[i] = 0, to - &made[0]
            if verdict == MISSING:
                to = put_whole(&line, to)
            else:
                if verdict == OTHER:
                    to[0] = 0xFF
                    to += 1
                memcpy(to, value.at, value.end - value.at)
                to += value.end - value.at
            stop[i] = to - &made[0]
    return keys[: to - &made[0]], first, last, declined


cdef Verdict scan(
    const uint8_t *at, const uint8_t *end, const Path *path, Span *value
) noexcept nogil:
    """Scan a line, one object around all of it, for the member at a path."""
    cdef bint[DEEPEST] is_object
    cdef uint64_t seen = 0  # a bit for each name of the path that was met
    cdef int depth = 0, following = 0  # open ones; those of them that are on the path
    cdef bint wanted, escaped
    cdef const uint8_t *token
    cdef Verdict verdict = MISSING
    at = after_blanks(at, end)
    if at == end or at[0] != c"{":
        return DECLINED
    while True:
        # A value begins here, or the name before it.
        if depth == 0:
            wanted = True  # it is on the path
        elif is_object[depth - 1]:
            at = after_name(at, end, path, depth, following, &seen, &wanted)
            if at == NULL:
                return DECLINED
        else:
            wanted = False
        if at == end:
            return DECLINED
        token = at
        if at[0] == c"{" or at[0] == c"[":
            if depth == DEEPEST or (wanted and (at[0] == c"[" or following == path.depth)):
                return DECLINED
            is_object[depth] = at[0] == c"{"
            depth += 1
            following += wanted
            at = after_blanks(at + 1, end)
            if at == end:
                return DECLINED
            if at[0] != (c"}" if is_object[depth - 1] else c"]"):
                continue
        else:
            if wanted and following < path.depth:
                return DECLINED  # the path goes on, and there is nothing to go into
            if at[0] == c'"':
                at = after_string(at, end, &escaped)
                if at == NULL or (wanted and escaped):
                    return DECLINED
                if wanted:
                    value.at, value.end = token + 1, at - 1
                    verdict = TEXT if value.end > value.at else MISSING
            else:
                at = after_word(at, end) if at[0] >= c"a" else after_number(at, end)
                if at == NULL:
                    return DECLINED
                if wanted:
                    value.at, value.end = token, at
                    verdict = MISSING if token[0] == c"n" else OTHER
            at = after_blanks(at, end)
        # A value has ended, or nothing is in what was opened.
        while True:
            if at == end:
                return DECLINED
            if at[0] != c"}" and at[0] != c"]":
                break
            if is_object[depth - 1] != (at[0] == c"}"):
                return DECLINED
            if following == depth:
                following -= 1
            depth -= 1
            at = after_blanks(at + 1, end)
            if depth == 0:
                return verdict if at == end else DECLINED
        if at[0] != c",":
            return DECLINED
        at = after_blanks(at + 1, end)


cdef inline const uint8_t *after_blanks(const uint8_t *at, const uint8_t *end) noexcept nogil:
    while at < end and at[0] <= 32 and at[0] in (32, 9, 10, 13):  # as a rule the first says it
        at += 1
    return at


cdef inline const uint8_t *after_name(
    const uint8_t *at, const uint8_t *end, const Path *path, int depth, int following,
    uint64_t *seen, bint *wanted,
) noexcept nogil:
    """Return where the value of a name begins, and whether the name is the next of the path."""
    cdef bint escaped
    cdef const uint8_t *name = at + 1
    cdef size_t length
    cdef int level = following - 1
    cdef Span sought
    if at == end or at[0] != c'"':
        return NULL
    at = after_string(at, end, &escaped)
    if at == NULL:
        return NULL
    wanted[0] = False
    if following == depth:  # of an object of the path
        if escaped:
            return NULL
        length = at - 1 - name
        sought = path.names[level]
        if length == <size_t>(sought.end - sought.at) and memcmp(name, sought.at, length) == 0:
            if seen[0] >> level & 1:
                return NULL  # the last one of a name counts
            seen[0] |= <uint64_t>1 << level
            wanted[0] = True
    at = after_blanks(at, end)
    if at == end or at[0] != c":":
        return NULL
    return after_blanks(at + 1, end)


cdef inline const uint8_t *after_string(
    const uint8_t *at, const uint8_t *end, bint *escaped
) noexcept nogil:
    """Return where a string ends that begins here; NULL if it is none of JSON, or of UTF-8."""
    cdef int i
    escaped[0] = False
    at += 1
    while True:
        at = at_special(at, end)
        if at == end:
            return NULL
        if at[0] == c'"':
            return at + 1
        if at[0] < 0x20:
            return NULL
        if at[0] != c"\\":
            at = after_point(at, end)
            if at == NULL:
                return NULL
            continue
        escaped[0] = True
        if end - at < 2:
            return NULL
        if at[1] == c"u":
            if end - at < 6:
                return NULL
            for i in range(2, 6):
                if not (
                    c"0" <= at[i] <= c"9" or c"a" <= at[i] <= c"f" or c"A" <= at[i] <= c"F"
                ):
                    return NULL
            at += 6
        elif at[1] in (c'"', c"\\", c"/", c"b", c"f", c"n", c"r", c"t"):
            at += 2
        else:
            return NULL


cdef inline const uint8_t *at_special(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return where the first byte that needs a check is; the end if there is none."""
    cdef uint64_t word, found
    # Eight bytes at once: the high bit is set in a byte that is less than what is subtracted. That
    # borrows only from later bytes, so the first one found is right.
    while end - at >= 8:
        word = load_8(at)
        found = (
            word
            | (word - 0x20 * EACH)
            | ((word ^ c'"' * EACH) - EACH)
            | ((word ^ c"\\" * EACH) - EACH)
        ) & 0x80 * EACH
        if found:
            return at + (trailing_zeros(found) >> 3)
        at += 8
    while at < end and not special[at[0]]:
        at += 1
    return at


cdef const uint8_t *after_point(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return where a code point of two bytes or more ends; NULL if it is no UTF-8."""
    cdef int i, more
    cdef uint8_t lead = at[0], low = 0x80, high = 0xBF  # of the second byte
    if 0xC2 <= lead <= 0xDF:
        more = 1
    elif 0xE0 <= lead <= 0xEF:
        more = 2
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F  # above are surrogates
    elif 0xF0 <= lead <= 0xF4:
        more = 3
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    else:
        return NULL
    if end - at <= more or not low <= at[1] <= high:
        return NULL
    for i in range(2, more + 1):
        if not 0x80 <= at[i] <= 0xBF:
            return NULL
    return at + more + 1


cdef const uint8_t *after_word(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return where true, false or null ends; NULL if it is none of them."""
    if end - at >= 4 and (memcmp(at, b"true", 4) == 0 or memcmp(at, b"null", 4) == 0):
        return at + 4
    return at + 5 if end - at >= 5 and memcmp(at, b"false", 5) == 0 else NULL


cdef inline const uint8_t *after_digits(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return where one digit or more end; NULL if there is none."""
    cdef const uint8_t *first = at
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    return at if at > first else NULL


cdef const uint8_t *after_number(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return where a number ends; NULL if it is none, or longer than Python may take."""
    cdef const uint8_t *first = at
    if at[0] == c"-":
        at += 1
    if at < end and at[0] == c"0":
        at += 1
    else:
        at = after_digits(at, end)
    if at != NULL and at < end and at[0] == c".":
        at = after_digits(at + 1, end)
    if at != NULL and at < end and (at[0] == c"e" or at[0] == c"E"):
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            at += 1
        at = after_digits(at, end)
    return at if at != NULL and at - first <= MOST_DIGITS else NULL
