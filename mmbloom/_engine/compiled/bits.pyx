# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The kernels of bit arrays, compiled: those of `reference.bits`, answer for answer, bit for bit.

Every position is below the number of bits by its formula; `shape_of` checks that number against
the array, each slice number is below the number of slices by its formula, and no other loop leaves
its arguments' bounds. All loops run without the interpreter.
"""

import numpy as np

from mmbloom._engine.compiled.hash import hash_keys
from mmbloom.format import header

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free

from mmbloom._engine.compiled.blocks cimport (
    BLOCK_LOOPS, BlockLoops, MAX_HASHES, Shape, block_of, page_of, popcount, prefetch,
)
from mmbloom._engine.compiled.hash cimport look_up
from mmbloom._engine.compiled.overlay cimport (
    Overlay, begin, claim_in_blocks, claim_standard, commit_all, find_with,
    hold_noted, in_blocks, release,
)
from mmbloom._engine.compiled.positions cimport (
    GROUP, length_of, positions_of, positions_of_group, shape_of,
)
from mmbloom._engine.compiled.regions cimport (
    LARGE_TO_ASK, LARGE_TO_CHANGE, Kernel, Order, arrange_keys, in_regions, is_order_of,
    work_in_order,
)
from mmbloom._engine.compiled.hashes cimport (
    Murmur3, SipHash, hash_octets, murmur3_of, siphash_of,
)
from mmbloom._engine.compiled.text cimport LONGEST, Text, find_short_key, spell
from mmbloom._engine.compiled.threads cimport threads_for
from mmbloom._engine.compiled.vectors cimport chosen


cdef enum:
    FEW = 4  # bits, of which 15 of 16 absent keys lack one, if the array is just full
    BIT = 1  # the width of a position


# Places among the counters of a file.
cdef Py_ssize_t KEYS_ADDED = header.KEYS_ADDED
cdef Py_ssize_t POSITIONS_SET = header.POSITIONS_SET
cdef Py_ssize_t BATCHES_BEGUN = header.BATCHES_BEGUN
cdef Py_ssize_t BATCHES_DONE = header.BATCHES_DONE
cdef Py_ssize_t FEWEST_COUNTERS = 1 + max(KEYS_ADDED, POSITIONS_SET, BATCHES_BEGUN, BATCHES_DONE)


cdef inline const BlockLoops *loops() noexcept nogil:
    """Return the loops over blocks of the vectors that serve."""
    return &BLOCK_LOOPS[chosen]


cdef class Arranged:
    """The order of a batch's keys by regions of an array; see `arrange`."""

    cdef Order order

    def __dealloc__(self):
        free(self.order.o1)


cdef Arranged arranged(
    const uint64_t[::1] h1, const uint64_t[::1] h2, const Shape *shape, int width,
    Py_ssize_t threads,
):
    """Bring n keys into order; return None if there is no memory for it."""
    cdef Arranged made = Arranged()
    cdef bint done
    with nogil:
        done = arrange_keys(&made.order, &h1[0], &h2[0], h1.shape[0], shape, width, threads)
    return made if done else None


def arrange(
    const uint64_t[::1] h1, const uint64_t[::1] h2, params, Py_ssize_t threads=1, int width=1
):
    """Bring n keys into order if that pays for a change; see `reference.bits.arrange`."""
    cdef Shape shape = shape_of(params, params.num_bits // 64)
    cdef Py_ssize_t n = length_of(h1, h2)
    cdef int some = threads_for(n, threads)
    if not in_regions(&shape, n, width, LARGE_TO_CHANGE // <uint64_t>some):
        return None
    return arranged(h1, h2, &shape, width, some)


cdef tuple run(
    Kernel kernel, const uint64_t *words, const uint64_t[::1] h1, const uint64_t[::1] h2,
    const Shape *shape, order,
):
    """Run a kernel on n keys; return the answers, a bool array, and the kernel's own result.

    A batch that `arranged` has brought into order runs region after region, in several threads.
    """
    cdef Py_ssize_t n = length_of(h1, h2)
    cdef uint64_t changed = 0
    cdef Arranged regions = order
    answers = np.empty(n, dtype=np.bool_)
    cdef uint8_t[::1] at = answers
    if regions is not None and not is_order_of(&regions.order, n, shape):
        raise ValueError(f"the order is not one of {n} keys for this array")
    if n:
        with nogil:
            if regions is not None:
                changed = work_in_order(&regions.order, kernel, words, &at[0])
            else:
                changed = kernel(words, &h1[0], &h2[0], n, shape, &at[0])
    return answers, changed


cdef object ask(
    Kernel kernel, const uint64_t *words, const Shape *shape, int width, keys, key_hash,
    Py_ssize_t threads,
):
    """Run a kernel that changes nothing on the keys of a batch; return a bool array."""
    cdef Py_ssize_t n = len(keys)
    if not in_regions(shape, n, width, LARGE_TO_ASK * <uint64_t>threads_for(n, threads)):
        return look_up(kernel, words, shape, keys, key_hash, threads)
    h1, h2 = hash_keys(keys, key_hash, threads)
    return run(kernel, words, h1, h2, shape, arranged(h1, h2, shape, width, threads))[0]


def contains(const uint64_t[::1] words, keys, params, Py_ssize_t threads=1):
    """Test a batch; see `reference.bits.contains`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    return ask(find, &words[0], &shape, BIT, keys, params.key_hash, threads)


cdef uint64_t find(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    if shape.blocked or shape.paged:
        loops().find(words, h1, h2, n, shape, answers)
    else:
        find_standard(words, h1, h2, n, shape, answers)
    return 0


cdef void find_standard(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef uint64_t p, found
    cdef Py_ssize_t j, some, first = 0
    cdef int i, k = shape.num_hashes
    while first < n:
        some = positions_of_group(
            shape, h1 + first, h2 + first, n - first, words, 1, False, positions
        )
        for j in range(some):
            found = 1
            for i in range(k):
                p = positions[j * k + i]
                found &= words[p >> 6] >> (p & 63)
            answers[first + j] = found & 1
        first += some


def contains_any(arrays, keys, params, Py_ssize_t threads=1):
    """Test a batch in several arrays; see `reference.bits.contains_any`."""
    cdef const uint64_t[::1] words
    cdef Shape shape
    held = list(arrays)  # so that their memory stays while the interpreter is released
    if not held:
        return np.zeros(len(keys), dtype=np.bool_)
    cdef uint64_t[::1] starts = np.full(1 + len(held), len(held), dtype=np.uint64)
    for number, array in enumerate(held, 1):
        words = array
        shape = shape_of(params, words.shape[0])
        starts[number] = <uint64_t>&words[0]
    return look_up(find_in_any, &starts[0], &shape, keys, params.key_hash, threads)


cdef uint64_t find_in_any(
    const uint64_t *starts, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    """Test n keys in so many arrays as `starts` begins with; where each begins follows."""
    # A key's positions are the same in all arrays, and are worked out once. Most keys are in
    # none: at most every second bit is set, so that the first few tell. Only the first line is
    # asked for: with those of all blocks of a key, absent keys took 1.3 to 1.4 times as long in
    # four files, and present ones 1.1 times.
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef Py_ssize_t j, a, some, first = 0
    cdef int i, k = shape.num_hashes, few = min(shape.num_hashes, FEW)
    cdef uint64_t p, found
    cdef Py_ssize_t num_arrays = starts[0]
    cdef const uint64_t *words
    while first < n:
        some = min(n - first, GROUP)
        for j in range(some):
            positions_of(shape, h1[first + j], h2[first + j], NULL, 0, False, positions + j * k)
            for a in range(1, num_arrays + 1):
                prefetch(<const uint64_t *>starts[a] + (positions[j * k] >> 6), False)
        for j in range(some):
            answers[first + j] = 0
            for a in range(1, num_arrays + 1):
                words, found = <const uint64_t *>starts[a], 1
                for i in range(few):
                    p = positions[j * k + i]
                    found &= words[p >> 6] >> (p & 63)
                if found & 1:
                    for i in range(few, k):
                        p = positions[j * k + i]
                        found &= words[p >> 6] >> (p & 63)
                    if found & 1:
                        answers[first + j] = 1
                        break
        first += some
    return 0


def add(uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params, order=None):
    """Test and set n keys, one by one; see `reference.bits.add`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    return run(set_keys, &words[0], h1, h2, &shape, order)


cdef uint64_t set_keys(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t *writable = <uint64_t *>words
    if shape.blocked or shape.paged:
        return loops().set(writable, h1, h2, n, shape, answers)
    return set_standard(writable, h1, h2, n, shape, answers)


cdef uint64_t set_standard(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n,
    const Shape *shape, uint8_t *answers,
) noexcept nogil:
    cdef uint64_t[GROUP * MAX_HASHES] positions
    cdef uint64_t p, word, clear, newly_set = 0
    cdef Py_ssize_t j, some, first = 0
    cdef int i, k = shape.num_hashes
    while first < n:
        some = positions_of_group(
            shape, h1 + first, h2 + first, n - first, words, 1, True, positions
        )
        for j in range(some):
            clear = 0
            for i in range(k):
                p = positions[j * k + i]
                word = words[p >> 6]
                if not word >> (p & 63) & 1:
                    words[p >> 6] = word | <uint64_t>1 << (p & 63)
                    clear += 1
            answers[first + j] = clear != 0
            newly_set += clear
        first += some
    return newly_set


cdef class Claimed:
    """The result of `claim`, before anything is set; see `reference.bits.Claimed`."""

    cdef readonly object new
    cdef readonly Py_ssize_t num_new
    cdef Overlay overlay
    cdef Shape shape
    cdef const uint64_t[::1] h1, h2  # which the notes lead to until the claim is committed

    def __dealloc__(self):
        release(&self.overlay)


cdef int check_claimed(Claimed claimed, Py_ssize_t num_words) except -1:
    if <uint64_t>num_words != claimed.shape.num_bits // 64:
        known = claimed.shape.num_bits // 64
        raise ValueError(f"the claim is of an array of {known} words, this one has {num_words}")
    return 0


def claim(const uint64_t[::1] words, const uint64_t[::1] h1, const uint64_t[::1] h2, params):
    """Return which of n keys are new, and set nothing; see `reference.bits.claim`."""
    cdef Py_ssize_t i, num_new = 0, n = length_of(h1, h2)
    cdef Claimed claimed = Claimed()
    cdef bint done = True
    claimed.shape = shape_of(params, words.shape[0])
    claimed.new = np.empty(n, dtype=np.bool_)
    claimed.h1, claimed.h2 = h1, h2
    claimed.overlay.shape = &claimed.shape
    cdef uint8_t[::1] answers = claimed.new
    if n:
        claimed.overlay.h1, claimed.overlay.h2 = &h1[0], &h2[0]
        with nogil:
            done = begin(&claimed.overlay, n) and claim_keys(
                &words[0], n, &claimed.overlay, &answers[0]
            )
            if done:
                for i in range(n):
                    num_new += answers[i]
    if not done:
        raise MemoryError
    claimed.num_new = num_new
    return claimed


cdef bint claim_keys(
    const uint64_t *words, Py_ssize_t n, Overlay *overlay, uint8_t *answers
) noexcept nogil:
    if in_blocks(overlay.shape):
        return claim_in_blocks(words, n, overlay, answers, loops())
    find_standard(words, overlay.h1, overlay.h2, n, overlay.shape, answers)
    return claim_standard(words, n, overlay, answers)


def contains_with(
    const uint64_t[::1] words, Claimed claimed not None, const uint64_t[::1] h1,
    const uint64_t[::1] h2, params,
):
    """Test n keys as if a claim were committed; see `reference.bits.contains_with`."""
    cdef Shape shape = shape_of(params, words.shape[0])
    check_claimed(claimed, words.shape[0])
    found = run(find, &words[0], h1, h2, &shape, None)[0]
    cdef uint8_t[::1] answers = found
    cdef Py_ssize_t n = answers.shape[0]
    cdef bint held
    if n and claimed.overlay.used + claimed.overlay.noted:
        with nogil:
            held = hold_noted(&words[0], &claimed.overlay, loops())
            if held:
                find_with(&words[0], &claimed.overlay, &h1[0], &h2[0], n, &shape, &answers[0])
        if not held:
            raise MemoryError
    return found


def commit(uint64_t[::1] words, Claimed claimed not None):
    """Set the bits that `claim` found, and count those that were clear."""
    cdef uint64_t newly_set = 0
    check_claimed(claimed, words.shape[0])
    if claimed.overlay.used + claimed.overlay.noted:
        with nogil:
            newly_set = commit_all(&words[0], &claimed.overlay, loops())
    return newly_set


cdef class OneKey:
    """One key at a time on one bit array; see `reference.bits.OneKey`."""

    def __cinit__(self, words, counters, params, to_bytes):
        self.words = words
        self.shape = shape_of(params, self.words.shape[0])
        self.keyed = params.hash == "siphash"
        if self.keyed:
            self.siphash = siphash_of(params.seed & 0xFFFFFFFFFFFFFFFF, params.seed >> 64)
        elif params.hash == "murmur3":
            self.murmur3 = murmur3_of(params.seed)
        else:
            raise AssertionError(f"{params.hash!r} is no hash of this engine")
        self.to_bytes = to_bytes
        self.writable = words.flags.writeable
        if self.writable:
            self.counters = counters
            if self.counters.shape[0] < FEWEST_COUNTERS:
                raise ValueError(
                    f"{self.counters.shape[0]} counters, expected {FEWEST_COUNTERS} or more"
                )

    cdef int hash(self, key, uint64_t *h1, uint64_t *h2) except -1:
        cdef uint8_t[4 * LONGEST] scratch
        cdef Text text
        cdef int64_t number
        if not find_short_key(<PyObject *>key, &text, &number):
            key = self.to_bytes(key)
            if type(key) is not bytes:
                raise TypeError(f"a key was spelled as {type(key).__name__}, not as bytes")
            find_short_key(<PyObject *>key, &text, &number)
        spell(&text, scratch)
        self.hash_octets(text.at, text.length, h1, h2)
        return 0

    cdef void hash_octets(
        self, const uint8_t *octets, size_t length, uint64_t *h1, uint64_t *h2
    ) noexcept:
        if self.keyed:
            hash_octets[SipHash](octets, length, &self.siphash, h1, h2)
        else:
            hash_octets[Murmur3](octets, length, &self.murmur3, h1, h2)

    cdef bint has(self, uint64_t h1, uint64_t h2) noexcept:
        """Test a hashed key."""
        cdef uint8_t found
        find(&self.words[0], &h1, &h2, 1, &self.shape, &found)
        return found != 0

    cdef bint put(self, uint64_t h1, uint64_t h2) noexcept:
        """Set a key's bits and count them; return True if one was clear. The array is writable."""
        cdef uint8_t new
        # Tested first: a key that is there leaves every byte, and the batch counters, alone.
        if self.has(h1, h2):
            return False
        self.put_all(&h1, &h2, 1, &new)
        return True

    cdef void put_all(
        self, const uint64_t *h1, const uint64_t *h2, Py_ssize_t n, uint8_t *answers
    ) noexcept nogil:
        """Set the bits of keys, and count those that were clear; 1 for each key that had one."""
        cdef uint64_t newly_set, new = 0
        cdef Py_ssize_t i
        self.counters[BATCHES_BEGUN] += 1
        newly_set = set_keys(&self.words[0], h1, h2, n, &self.shape, answers)
        if not newly_set:
            self.counters[BATCHES_BEGUN] -= 1  # as one by one: what is there is no batch
            return
        for i in range(n):
            new += answers[i]
        self.counters[KEYS_ADDED] += new
        self.counters[POSITIONS_SET] += newly_set
        self.counters[BATCHES_DONE] += 1

    def contains(self, key):
        """Test a key."""
        cdef uint64_t h1, h2
        self.hash(key, &h1, &h2)
        return self.has(h1, h2)

    def add(self, key):
        """Set a key's bits and count them; return True if one was clear. Needs the write lock."""
        cdef uint64_t h1, h2
        if not self.writable:
            raise ValueError("the array is read-only")
        self.hash(key, &h1, &h2)
        return self.put(h1, h2)

    def positions_set(self):
        """Read the counter of bits set."""
        return self.counters[POSITIONS_SET]


def count_set(const uint64_t[::1] words):
    """Count the set bits."""
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(words.shape[0]):
            total += popcount(words[i])
    return total


cdef Shape whole_of(params, Py_ssize_t slices) except *:
    """Return the parameters that the loops use, after checking the number of slices."""
    cdef Shape shape = shape_of(params, params.num_bits // 64)
    if not (shape.blocked or shape.paged):
        raise ValueError("layout is 'standard', expected 'blocked'")
    pages = pages_of(&shape)
    if not 1 <= slices <= min(pages, 0x7FFFFFFF):
        raise ValueError(f"slices is {slices}, expected 1 to {pages}")
    return shape


cdef inline uint64_t pages_of(const Shape *shape) noexcept nogil:
    """Count the pages, of which the last may have fewer blocks than the others."""
    return (shape.num_blocks + 63) // 64


cdef inline uint64_t unit_of(const Shape *shape, uint64_t h1) noexcept nogil:
    """Return the block of a key, or its page if it has several blocks."""
    return block_of(shape, h1) if shape.blocked else page_of(shape, h1) // 64


cdef inline int32_t slice_of(
    const Shape *shape, uint64_t h1, uint64_t slices, uint64_t pages
) noexcept nogil:
    cdef uint64_t page = unit_of(shape, h1)
    if shape.blocked:
        page //= 64
    return <int32_t>(((page + 1) * slices - 1) // pages)


def slices_of(const uint64_t[::1] h1, params, slices):
    """Return the number of the slice of each key; see `reference.bits.slices_of`."""
    cdef Shape shape = whole_of(params, slices)
    cdef uint64_t count = slices, pages = pages_of(&shape)
    cdef Py_ssize_t i, n = h1.shape[0]
    numbers = np.empty(n, np.int32)
    cdef int32_t[::1] found = numbers
    with nogil:
        for i in range(n):
            found[i] = slice_of(&shape, h1[i], count, pages)
    return numbers


def partition(const uint64_t[::1] h1, const uint64_t[::1] h2, params, slices):
    """Group keys by slice; see `reference.bits.partition`."""
    cdef Shape shape = whole_of(params, slices)
    cdef uint64_t count = slices, pages = pages_of(&shape)
    cdef Py_ssize_t i, at, n = length_of(h1, h2)
    cdef int32_t j
    starts = np.zeros(slices + 1, np.intp)
    rows, grouped1, grouped2 = np.empty(n, np.intp), np.empty(n, np.uint64), np.empty(n, np.uint64)
    cdef Py_ssize_t[::1] begin = starts, order = rows
    cdef Py_ssize_t[::1] next_of = np.zeros(slices + 1, np.intp)
    cdef uint64_t[::1] g1 = grouped1, g2 = grouped2
    # Kept: another thread may change the hashes between the two passes.
    cdef int32_t[::1] numbers = np.empty(n, np.int32)
    with nogil:
        for i in range(n):
            numbers[i] = slice_of(&shape, h1[i], count, pages)
            begin[numbers[i] + 1] += 1
        for i in range(<Py_ssize_t>count):
            begin[i + 1] += begin[i]
            next_of[i] = begin[i]
        for i in range(n):
            j = numbers[i]
            at = next_of[j]
            next_of[j] = at + 1
            order[at], g1[at], g2[at] = i, h1[i], h2[i]
    return starts, rows, (grouped1, grouped2)


def rebase(const uint64_t[::1] h1, params, first, units):
    """Return hash halves relative to a part; see `reference.bits.rebase`."""
    cdef Shape shape = whole_of(params, 1)
    cdef uint64_t start = first, size = units, local, high
    cdef Py_ssize_t i, n = h1.shape[0], foreign = -1
    if not 1 <= units <= 0x80000000:
        raise ValueError(f"units is {units}, expected 1 to 2**31")
    rebased = np.empty(n, np.uint64)
    cdef uint64_t[::1] of_part = rebased
    with nogil:
        for i in range(n):
            local = unit_of(&shape, h1[i]) - start  # wraps below it
            if local >= size:
                foreign = i
                break
            high = ((local << 32) + size - 1) // size
            of_part[i] = (high << 32) | (h1[i] & <uint64_t>0xFFFFFFFF)
    return (np.asarray(h1), foreign) if foreign >= 0 else (rebased, -1)
