# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Lines claimed, written and marked in one step; see `reference.at_once`.

No bytecode runs between the first key and the last mark. In steps of their own, the loops that
claim, copy, write and mark a chunk each left the processor's caches full of its lines and keys, and
the interpreter, which took up again after each, had to come from memory.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from mmbloom._engine.compiled.bits cimport (
    Claimed, check_counters, find_new, fit_surely, mark_new, to_claim,
)
from mmbloom._engine.compiled.lines cimport AT_ONCE, Lines, gather_to, lines_in, size_of
from mmbloom._engine.compiled.status cimport LastLook, Looked, still_holds

cdef extern from *:
    """
    #include <errno.h>
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
    """
    bint is_absent "mmbloom_is_absent"(const char *) noexcept nogil
    bint begins_line "mmbloom_begins_line"(int, int) noexcept nogil

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int, const void *, size_t)

cdef enum Done:
    NO_MEMORY
    NOTHING
    WRITTEN  # all lines, or the first bytes of them
    MARKED

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
    words, counters, hashes, params, meeting, *, lines, output, LastLook last_look not None,
    bytes absent not None, sure,
):
    """Claim the keys of lines, write the new lines, and mark them; see the reference."""
    cdef uint64_t[::1] array = words, numbers = counters
    cdef const uint8_t[::1] may_meet = meeting
    cdef Claimed claimed = to_claim(array.shape[0], hashes[0], hashes[1], params, may_meet)
    cdef Lines given = lines_in(lines[0], lines[1], lines[2], 1)
    cdef Target target
    cdef Bounds bounds
    cdef Py_ssize_t written = 0
    cdef Done done
    check_counters(numbers)
    if given.number != may_meet.shape[0] or not given.number:
        raise ValueError(f"{given.number} lines, and {may_meet.shape[0]} keys")
    target.fd, target.end_fd, target.terminator = output
    bounds.looked, bounds.absent = &last_look.looked, absent
    bounds.most_set, bounds.most_keys = sure
    with nogil:
        done = do_all(
            claimed, &array[0], &numbers[0], may_meet, &given, &target, &bounds, &written
        )
    if done == NO_MEMORY:
        raise MemoryError
    if done == NOTHING:
        return None
    return claimed, None if done == MARKED else written


cdef Done do_all(
    Claimed claimed, uint64_t *words, uint64_t *counters, const uint8_t[::1] meeting,
    const Lines *lines, const Target *target, const Bounds *bounds, Py_ssize_t *written,
) noexcept nogil:
    cdef Py_ssize_t size
    if not still_holds(bounds.looked) or not is_absent(bounds.absent):
        return NOTHING
    if not find_new(claimed, words, meeting):
        return NO_MEMORY
    if not claimed.num_new:
        return MARKED
    if not fit_surely(claimed, counters, bounds.most_set, bounds.most_keys):
        return NOTHING
    if target.end_fd >= 0 and not begins_line(target.end_fd, target.terminator):
        return NOTHING
    size = size_of(lines, &claimed.answers[0], 1)
    written[0] = write_once(lines, &claimed.answers[0], size, target.fd)
    if written[0] <= 0:
        return NOTHING
    if written[0] < size or not still_holds(bounds.looked):
        return WRITTEN
    mark_new(claimed, words, counters)
    return MARKED


cdef Py_ssize_t write_once(
    const Lines *lines, const uint8_t *new, Py_ssize_t size, int fd
) noexcept nogil:
    """Write the new lines, or the first bytes of them; 0 or less if none are."""
    cdef Py_ssize_t written = 0, begin = lines.starts[0]
    cdef uint8_t *copy
    if lines.ends[lines.number - 1] + 1 - begin == size:  # all: as a rule where most lines are new
        return write(fd, lines.octets + begin, size)
    copy = <uint8_t *>malloc(size + AT_ONCE)
    if copy != NULL:
        gather_to(copy, lines, new, 1)
        written = write(fd, copy, size)
        free(copy)
    return written
