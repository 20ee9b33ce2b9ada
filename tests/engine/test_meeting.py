"""Which keys of a batch share no block with another one: told ahead of the lock of a claim."""

import numpy as np
import pytest
from kernels import COMPILED, NUMPY, Engine, each_engine, needs_compiled

from mmbloom.format.positions import positions_of_all
from mmbloom.sizing import FilterParams

# Blocks of a key, and of the array: some keys meet, most do, all do.
SIZES = [(1, 640_000), (1, 1600), (1, 64), (3, 640_000), (3, 6400), (3, 64), (8, 64)]
every_size = pytest.mark.parametrize(("blocks", "num_blocks"), SIZES)


def params_of(blocks: int, num_blocks: int) -> FilterParams:
    """Parameters of an array of this number of blocks."""
    return FilterParams(100, 0.01, "blocked", 512 * num_blocks, 2 * blocks, 0, "siphash", blocks)


def sharing(h1: np.ndarray, params: FilterParams) -> list[bool]:
    """Compare the blocks of each key with those of all others."""
    columns = (positions_of_all(h1, h1, params) // np.uint64(512)).T.tolist()
    held = [set(column) for column in columns]
    count: dict[int, int] = {}
    for blocks in held:
        for block in blocks:
            count[block] = count.get(block, 0) + 1
    return [any(count[block] > 1 for block in blocks) for blocks in held]


@every_size
@pytest.mark.parametrize("n", [0, 1, 2, 3000])
def test_of_the_definition(blocks: int, num_blocks: int, n: int, seed: int) -> None:
    """The reference names exactly those that do."""
    h1 = np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)
    h1[n // 2 :: 7] = h1[: len(h1[n // 2 :: 7])]  # some keys are there twice
    params = params_of(blocks, num_blocks)
    assert NUMPY.meeting(h1, params).tolist() == sharing(h1, params)


@needs_compiled
@every_size
@pytest.mark.parametrize("n", [1, 2, 3000, 70_000])
def test_of_the_compiled(blocks: int, num_blocks: int, n: int, seed: int) -> None:
    """The compiled engine names all of these, and where few do, few others."""
    rng, params, others = np.random.default_rng(seed), params_of(blocks, num_blocks), 0
    draws = 1 + 3000 // n  # of few keys all can be others, now and then: the share is what counts
    for _ in range(draws):
        h1 = rng.integers(0, 2**64, n, np.uint64)
        h1[::9] = h1[0]
        theirs, ours = NUMPY.meeting(h1, params), COMPILED.meeting(h1, params)
        assert ours.dtype == np.bool_
        assert not (theirs & ~ours).any()
        others += int(np.count_nonzero(ours & ~theirs))
        if n * blocks > 2 * num_blocks:
            assert ours.all()
    if n * blocks < num_blocks:
        assert others <= draws * n // 10


@each_engine
def test_of_the_standard_layout(engine: Engine) -> None:
    """There all keys may hold any position."""
    params = FilterParams(100, 0.01, "standard", 960, 7)
    assert engine.meeting(np.arange(5, dtype=np.uint64), params).tolist() == [True] * 5
    assert engine.meeting(np.zeros(0, np.uint64), params).shape == (0,)
