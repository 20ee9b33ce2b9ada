"""Large batches on large arrays, which are ordered by region: the answers of one by one."""

from collections.abc import Iterator

import numpy as np
import pytest
from kernels import COMPILED, NUMPY, needs_compiled
from large_arrays import same_words, zero_words

from mmbloom._system.typing import HashHalves
from mmbloom.sizing import FilterParams

pytestmark = needs_compiled

FEWEST = 1 << 16  # keys that are worth ordering
LARGE = 512 << 20  # bytes of an array, times the blocks of a key and the threads


def params_of(blocks: int, pages: int | None = None) -> FilterParams:
    """Those of the smallest array that is large, or of one of so many pages."""
    num_bits = 32768 * (pages or LARGE // 4096 // blocks)
    return FilterParams(10, 0.1, "blocked", num_bits, 9 * blocks, blocks_per_key=blocks)


def hashes_of(chance: np.random.Generator, n: int) -> HashHalves:
    """Hash halves in some regions of the array, first and last among them; half of them repeat.

    Spread over all pages they would have the test use a gigabyte of memory.
    """
    some = chance.integers(0, 2**64, (2, max(1, n // 2)), np.uint64)
    wide = chance.integers(0, 2**32, len(some[0]), np.uint64) < 2**32 // 100
    near = chance.integers(0, 3, len(some[0]), np.uint64) * np.uint64(2**31 - 2**24)
    high = near + (some[0] >> np.uint64(32)) % np.uint64(2**23)
    some[0] = np.where(wide, some[0], high << np.uint64(32) | some[0] & np.uint64(2**32 - 1))
    h1, h2 = some[:, chance.integers(0, len(some[0]), n)]
    h1[:2], h1[-2:] = (0, 2**64 - 1), (2**64 - 1, 0)
    return np.ascontiguousarray(h1), np.ascontiguousarray(h2)


def in_small_chunks(hashes: HashHalves) -> Iterator[HashHalves]:
    """Cut keys into chunks too small to be ordered."""
    few = FEWEST // 4
    for at in range(0, len(hashes[0]), few):
        yield hashes[0][at : at + few], hashes[1][at : at + few]


@pytest.mark.parametrize(
    ("counted", "threads"),
    [*((False, threads) for threads in (1, 2, 5, 1000)), (True, 1), (True, 3)],
)
@pytest.mark.parametrize("blocks", [1, 2])
def test_as_in_the_order_given(blocks: int, counted: bool, threads: int, seed: int) -> None:
    """Whatever the number of threads: the answers, the count and the array of small chunks."""
    chance, width = np.random.default_rng(seed), 4 if counted else 1
    params = params_of(blocks, LARGE // 4096 // blocks // width)
    changes, ask = [COMPILED.add], COMPILED.contains
    if counted:
        changes = [COMPILED.increment, COMPILED.increment, COMPILED.decrement]
        ask = COMPILED.counted_contains
    ordered, plain = (zero_words(params.num_bits * width // 64) for _ in range(2))
    for n in (FEWEST, FEWEST + 1, 3 * FEWEST + 77):
        hashes, asked = hashes_of(chance, n), hashes_of(chance, n)
        for change in changes:
            order = COMPILED.arrange(*hashes, params, threads, width)
            assert order is not None
            answers, changed = change(ordered, *hashes, params, order)
            done = [change(plain, *chunk, params) for chunk in in_small_chunks(hashes)]
            assert (answers == np.concatenate([each for each, _ in done])).all()
            assert changed == sum(bits for _, bits in done)
            assert counted or 0 < answers.sum() < n
        asked[0][::2], asked[1][::2] = hashes[0][::2], hashes[1][::2]
        found = ask(ordered, *asked, params, threads)
        assert found[::2].all()
        assert not found.all()
        expected = [ask(plain, *chunk, params) for chunk in in_small_chunks(asked)]
        assert (found == np.concatenate(expected)).all()
    assert same_words(ordered, plain)


@pytest.mark.parametrize("threads", [1, 3])
def test_asked_as_in_the_order_given(threads: int, seed: int) -> None:
    """Where queries are ordered, too: an array of 2 GiB for each thread, counting all lines."""
    chance = np.random.default_rng(seed)
    params = params_of(2, (1 << 30) // 4096 * threads)
    hashes, absent = hashes_of(chance, FEWEST), hashes_of(chance, FEWEST)
    words = zero_words(params.num_bits // 64)
    COMPILED.add(words, *hashes, params)
    for asked in (hashes, absent):
        found = COMPILED.contains(words, *asked, params, threads)
        few = [COMPILED.contains(words, *chunk, params) for chunk in in_small_chunks(asked)]
        assert (found == np.concatenate(few)).all()
        assert found.all() == (asked is hashes)


def test_as_the_reference(seed: int) -> None:
    params = params_of(2)
    hashes = hashes_of(np.random.default_rng(seed), FEWEST)
    words, others = (zero_words(params.num_bits // 64) for _ in range(2))
    new, newly_set = COMPILED.add(words, *hashes, params, COMPILED.arrange(*hashes, params, 2))
    expected = NUMPY.add(others, *hashes, params)
    assert (new == expected[0]).all()
    assert newly_set == expected[1]
    assert same_words(words, others)


@pytest.mark.parametrize("threads", [1, 3])
def test_all_keys_equal(threads: int) -> None:
    """One region has all keys, and one thread does them: the first is new."""
    params = params_of(2)
    words = zero_words(params.num_bits // 64)
    hashes = np.full(FEWEST, 2**63 + 5, np.uint64), np.full(FEWEST, 7, np.uint64)
    order = COMPILED.arrange(*hashes, params, threads)
    new, newly_set = COMPILED.add(words, *hashes, params, order)
    assert np.flatnonzero(new).tolist() == [0]
    assert 0 < newly_set <= params.num_hashes
    assert COMPILED.contains(words, *hashes, params, threads).all()


def test_which_batches() -> None:
    """Keys are brought into order where that pays: by several threads for smaller arrays, too."""

    def ordered(params: FilterParams, n: int, *options: int) -> bool:
        hashes = np.zeros((2, n), np.uint64)
        return COMPILED.arrange(*hashes, params, *options) is not None

    for blocks in (1, 2):
        large, small = (params_of(blocks, LARGE // 4096 // blocks - less) for less in (0, 1))
        assert ordered(large, FEWEST)
        assert not ordered(large, FEWEST - 1)
        assert not ordered(small, FEWEST)
        assert ordered(small, FEWEST, 2)
        assert not ordered(params_of(blocks, LARGE // 4096 // blocks // 2 - 1), FEWEST, 2)
    assert ordered(params_of(1, LARGE // 4096 // 16), FEWEST, 1, 4), "four lines of 4 times as much"
    assert not ordered(params_of(1, LARGE // 4096 // 16 - 1), FEWEST, 1, 4)
    assert ordered(params_of(1, LARGE // 4096 // 4), 2 * FEWEST, 1000), "4 threads, not 1,000"
    assert not ordered(params_of(1, LARGE // 4096 // 4 - 1), 2 * FEWEST, 1000)
    assert not ordered(FilterParams(10, 0.1, "standard", 16 * 8 * LARGE, 9), FEWEST)
    assert NUMPY.arrange(*np.zeros((2, FEWEST), np.uint64), params_of(1)) is None


def test_an_order_of_other_keys_is_refused() -> None:
    """Before anything is changed: it would lead beyond the batch, or threads to one block."""
    params = params_of(1)
    words = zero_words(params.num_bits // 64)
    hashes = np.zeros((2, FEWEST), np.uint64)
    order = COMPILED.arrange(*hashes, params)
    others = params_of(2), params_of(1, LARGE // 4096 + 1)
    for other in others:
        of_other = COMPILED.arrange(*hashes, other)
        with pytest.raises(ValueError, match="is not one of 65536 keys for this array"):
            COMPILED.add(words, *hashes, params, of_other)
    with pytest.raises(ValueError, match="is not one of 65535 keys for this array"):
        COMPILED.add(words, *hashes[:, 1:], params, order)
    assert not COMPILED.contains(words, *hashes[:, :1], params).any()
