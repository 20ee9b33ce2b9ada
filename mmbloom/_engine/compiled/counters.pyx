# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The kernels of four-bit counters, compiled: see `reference.counters`, answer for answer.

The counters of a key lie in up to k cache lines, four of them in a block. So the positions of
later keys are computed ahead, and their lines prefetched, while the counters of this key change.

Every position is below the number of counters by its formula; `counted_shape` checks that number
against the array. All loops run without the interpreter.
"""

from libc.stdint cimport uint8_t, uint64_t

from mmbloom._engine.compiled.bits cimport ask, run
from mmbloom._engine.compiled.blocks cimport MAX_HASHES, Shape
from mmbloom._engine.compiled.positions cimport positions_of, shape_of


cdef extern from *:
    """
    /* The compiler must not put a store below before one above: see `count_down`. */
    static inline void mmbloom_in_order(void) { __asm__ volatile("" ::: "memory"); }
    """
    void in_order "mmbloom_in_order"() noexcept nogil


cdef enum:
    DISTANCE = 16  # keys between prefetching counters and touching them; a power of two
    SATURATED = 15
    WIDTH = 4  # bits of a counter


# The positions of the next `DISTANCE` keys. One key enters as one leaves: working in groups, as for
# bits, takes 15 to 20 % longer on a large array.
cdef struct Queue:
    uint64_t[DISTANCE * MAX_HASHES] positions


cdef inline Shape counted_shape(object params, Py_ssize_t num_words) except *:
    """Like `shape_of`, for an array of sixteen positions a word."""
    if num_words % 4:
        raise ValueError(f"the array has {num_words} words, expected a multiple of 4")
    return shape_of(params, num_words // 4)


cdef inline int keep_distinct(uint64_t *positions, int num_hashes) noexcept nogil:
    """Drop the repeats among a key's positions; return how many are left."""
    cdef uint64_t[8] seen  # a bit for each remainder by 512, which few positions share
    cdef uint64_t p, bit
    cdef int i, some = 0
    for i in range(8):
        seen[i] = 0
    for i in range(num_hashes):
        p = positions[i]
        bit = <uint64_t>1 << (p & 63)
        if seen[p >> 6 & 7] & bit and is_among(positions, some, p):
            continue
        seen[p >> 6 & 7] |= bit
        positions[some] = p
        some += 1
    return some


cdef inline bint is_among(const uint64_t *positions, int some, uint64_t p) noexcept nogil:
    cdef int i
    for i in range(some):
        if positions[i] == p:
            return True
    return False


cdef inline uint8_t count_at(const uint8_t *octets, uint64_t p) noexcept nogil:
    return octets[p >> 1] >> ((p & 1) << 2) & 15


cdef inline uint64_t *queued(Queue *queue, Py_ssize_t j) noexcept nogil:
    """Return the place of the positions of key j."""
    return queue.positions + (j & (DISTANCE - 1)) * MAX_HASHES


cdef inline void enqueue(
    Queue *queue, const uint8_t *octets, const uint64_t *h1, const uint64_t *h2, Py_ssize_t j,
    Py_ssize_t n, const Shape *shape,
) noexcept nogil:
    """Put the positions of key j, if there is one, into the queue, and prefetch their lines."""
    if j < n:
        positions_of(shape, h1[j], h2[j], octets, WIDTH, False, queued(queue, j))


def counted_contains(const uint64_t[::1] words, keys, params, Py_ssize_t threads=1):
    """Test a batch; see `reference.counters.counted_contains`."""
    cdef Shape shape = counted_shape(params, words.shape[0])
    return ask(find_counted, &words[0], &shape, WIDTH, keys, params.key_hash, threads)


cdef uint64_t find_counted(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef const uint8_t *octets = <const uint8_t *>words
    cdef Queue queue
    cdef Py_ssize_t j
    cdef int i, found
    cdef const uint64_t *positions
    for j in range(DISTANCE):
        enqueue(&queue, octets, h1, h2, j, n, shape)
    for j in range(n):
        positions = queued(&queue, j)
        found = 1
        for i in range(shape.num_hashes):
            found &= count_at(octets, positions[i]) != 0
        answers[j] = found
        enqueue(&queue, octets, h1, h2, j + DISTANCE, n, shape)
    return 0


def increment(
    uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params, order=None
):
    """Test and count n keys, one by one; see `reference.counters.increment`."""
    cdef Shape shape = counted_shape(params, words.shape[0])
    return run(count_up, &words[0], h1, h2, &shape, order)


cdef uint64_t count_up(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint8_t *octets = <uint8_t *>words
    cdef Queue queue
    cdef Py_ssize_t j
    cdef int i, some
    cdef uint64_t *positions
    cdef uint8_t count
    cdef uint64_t p, zero, newly_set = 0
    for j in range(DISTANCE):
        enqueue(&queue, octets, h1, h2, j, n, shape)
    for j in range(n):
        positions = queued(&queue, j)
        some = keep_distinct(positions, shape.num_hashes)
        zero = 0
        for i in range(some):
            p = positions[i]
            count = count_at(octets, p)
            zero += count == 0
            octets[p >> 1] += (count != SATURATED) << ((p & 1) << 2)
        answers[j] = zero != 0
        newly_set += zero
        enqueue(&queue, octets, h1, h2, j + DISTANCE, n, shape)
    return newly_set


def decrement(
    uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params, order=None
):
    """Test n keys, and decrement those that are there; see `reference.counters.decrement`."""
    cdef Shape shape = counted_shape(params, words.shape[0])
    return run(count_down, &words[0], h1, h2, &shape, order)


cdef uint64_t count_down(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint8_t *octets = <uint8_t *>words
    cdef Queue queue
    cdef Py_ssize_t j
    cdef int i, some
    cdef uint64_t *positions
    cdef uint8_t count, least
    cdef uint64_t p, newly_clear = 0
    for j in range(DISTANCE):
        enqueue(&queue, octets, h1, h2, j, n, shape)
    for j in range(n):
        positions = queued(&queue, j)
        some = keep_distinct(positions, shape.num_hashes)
        least = SATURATED
        for i in range(some):
            count = count_at(octets, positions[i])
            least = min(least, count)
        answers[j] = least != 0
        if least == 1:
            # The counters that become 0 first: a kill in between leaves a key that is not found, so
            # removing it again takes nothing from other keys.
            for i in range(some):
                p = positions[i]
                count = count_at(octets, p)
                newly_clear += count == 1
                octets[p >> 1] -= (count == 1) << ((p & 1) << 2)
            in_order()
        if least:
            for i in range(some):
                p = positions[i]
                count = count_at(octets, p)
                octets[p >> 1] -= (count != 0 and count != SATURATED) << ((p & 1) << 2)
        enqueue(&queue, octets, h1, h2, j + DISTANCE, n, shape)
    return newly_clear
