# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Chunks of lines claimed, written and marked in one step; see `reference.at_once`.

No bytecode runs between the first key and the last mark. In steps of their own, the loops that
claim, copy, write and mark a chunk each left the processor's caches full of its lines and keys, and
the interpreter, which took up again after each, had to come from memory.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from mmbloom._engine.compiled.bits cimport (
    Claimed, Claiming, check_counters, find_new, fit_surely, mark_new, to_claim,
)
from mmbloom._engine.compiled.lines cimport AT_ONCE, Lines, gather_to, lines_in, size_of
from mmbloom._engine.compiled.status cimport LastLook, Looked, still_holds

cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <stdint.h>
    #include <sys/stat.h>
    #include <unistd.h>
    /* Whether it can be seen that nothing is there, not even a link. */
    static inline int mmbloom_is_absent(const char *path) {
        struct stat there;
        return lstat(path, &there) && (errno == ENOENT || errno == ENOTDIR);
    }
    /* Whether the next byte of a file begins a line. */
    static inline int mmbloom_begins_line(int fd, int terminator) {
        struct stat now;
        uint8_t last;
        if (fstat(fd, &now)) return 0;
        return !now.st_size || (pread(fd, &last, 1, now.st_size - 1) == 1 && last == terminator);
    }
    /* Whether some bytes can be written without waiting. */
    static inline int mmbloom_is_ready(int fd) {
        struct pollfd output = {fd, POLLOUT, 0};
        return poll(&output, 1, 0) != 0;
    }
    """
    bint is_ready "mmbloom_is_ready"(int) noexcept nogil
    bint is_absent "mmbloom_is_absent"(const char *) noexcept nogil
    bint begins_line "mmbloom_begins_line"(int, int) noexcept nogil

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int, const void *, size_t)

cdef enum Done:
    NOTHING
    WRITTEN  # all new lines, or the first bytes of them
    MARKED

cdef struct Part:
    Claiming keys
    Lines lines

cdef struct Target:
    int fd
    int end_fd
    int terminator

cdef struct Bounds:
    const Looked *looked
    const char *absent
    double most_set
    double most_keys


def write_new(
    words, counters, params, parts, *, output, LastLook last_look not None, bytes absent not None,
    sure,
):
    """Claim the keys of lines, write the new lines, and mark them; see the reference."""
    cdef uint64_t[::1] array = words, numbers = counters
    cdef Target target
    cdef Bounds bounds
    cdef Py_ssize_t i, done = 0, num_new = 0, written = 0, number
    cdef Done last = NOTHING
    cdef Part *all_parts
    given = tuple(parts)  # whose arrays live until the step ends
    number = len(given)
    check_counters(numbers)
    target.fd, target.end_fd, target.terminator = output
    bounds.looked, bounds.absent = &last_look.looked, absent
    bounds.most_set, bounds.most_keys = sure
    all_parts = <Part *>malloc(max(1, number) * sizeof(Part))
    if all_parts == NULL:
        raise MemoryError
    try:
        claims = []
        for i in range(number):
            claims.append(to_do(given[i], array.shape[0], params, &all_parts[i]))
        with nogil:
            while done < number:
                last = do_part(
                    &all_parts[done], &array[0], &numbers[0], &target, &bounds, &written
                )
                if last != MARKED:
                    break
                done += 1
                if not is_ready(target.fd):
                    break
        for i in range(done):
            num_new += all_parts[i].keys.num_new
        if last != WRITTEN:
            return done, num_new, None
        (<Claimed>claims[done]).num_new = all_parts[done].keys.num_new
        return done, num_new, (claims[done], written)
    finally:
        free(all_parts)


cdef Claimed to_do(given, Py_ssize_t num_words, params, Part *part):
    """Prove that what is given of a part fits together, and begin its claim."""
    (hashes, meeting), lines = given
    cdef const uint8_t[::1] may_meet = meeting
    claimed = to_claim(num_words, hashes[0], hashes[1], params, may_meet, &part.keys)
    part.lines = lines_in(lines[0], lines[1], lines[2], 1)
    if part.lines.number != part.keys.number or not part.keys.number:
        raise ValueError(f"{part.lines.number} lines, and {part.keys.number} keys")
    return claimed


cdef Done do_part(
    Part *part, uint64_t *words, uint64_t *counters, const Target *target, const Bounds *bounds,
    Py_ssize_t *written,
) noexcept nogil:
    cdef Py_ssize_t size
    if not still_holds(bounds.looked) or not is_absent(bounds.absent):
        return NOTHING
    if not find_new(words, &part.keys):
        return NOTHING  # there is no memory
    if not part.keys.num_new:
        return MARKED
    if not fit_surely(&part.keys, counters, bounds.most_set, bounds.most_keys):
        return NOTHING
    if target.end_fd >= 0 and not begins_line(target.end_fd, target.terminator):
        return NOTHING
    size = size_of(&part.lines, part.keys.answers, 1)
    written[0] = write_once(part, size, target.fd)
    if written[0] <= 0:
        return NOTHING
    if written[0] < size or not still_holds(bounds.looked):
        return WRITTEN
    mark_new(&part.keys, words, counters)
    return MARKED


cdef Py_ssize_t write_once(const Part *part, Py_ssize_t size, int fd) noexcept nogil:
    """Write the new lines, or the first bytes of them; 0 or less if none are."""
    cdef const Lines *lines = &part.lines
    cdef Py_ssize_t written = 0
    cdef uint8_t *copy
    if part.keys.num_new == lines.number and are_consecutive(lines):  # where most are new
        return write(fd, lines.octets + lines.starts[0], size)
    copy = <uint8_t *>malloc(size + AT_ONCE)
    if copy != NULL:
        gather_to(copy, lines, part.keys.answers, 1)
        written = write(fd, copy, size)
        free(copy)
    return written


cdef bint are_consecutive(const Lines *lines) noexcept nogil:
    """Tell whether each line begins behind what ends the one before."""
    cdef Py_ssize_t i
    for i in range(1, lines.number):
        if lines.starts[i] != lines.ends[i - 1] + 1:
            return False
    return True
