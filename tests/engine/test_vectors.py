"""Which vectors the kernels use, and that no answer depends on it."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from kernels import COMPILED, KINDS, NUMPY, VECTORS, claim, needs_compiled
from workers import in_child

from mmbloom.sizing import FilterParams

pytestmark = needs_compiled

ALL = ("scalar", "neon", "avx2", "avx512")
LACKING = [kind for kind in ALL if kind not in KINDS]


def used(vectors: str | None, engine: str = "compiled") -> "subprocess.CompletedProcess[str]":
    """Name the vectors of a new process, which was asked for some by the variable."""
    env = {name: value for name, value in os.environ.items() if name != "MMBLOOM_VECTORS"}
    env |= {"MMBLOOM_ENGINE": engine} | ({} if vectors is None else {"MMBLOOM_VECTORS": vectors})
    code = "import mmbloom; print(mmbloom.engine)"
    if engine == "compiled":
        code += "; from mmbloom._engine.compiled.vectors import used; print(used())"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False
    )


def test_best_by_itself() -> None:
    """Unset or empty, the variable leaves the best kind that there is."""
    assert KINDS[0] == "scalar"
    for free in (None, ""):
        assert used(free).stdout == f"compiled\n{KINDS[-1]}\n"


def test_each_by_name() -> None:
    """Each kind that this machine can run is used where it is asked for."""
    for kind in KINDS:
        assert used(kind).stdout == f"compiled\n{kind}\n"


@pytest.mark.parametrize("kind", [*LACKING, "sse9", "AVX2", " scalar"])
def test_none_that_is_not_there(kind: str) -> None:
    """What this machine cannot run is an error that says so, and what there is."""
    why = "which this processor lacks" if kind in ALL else "which is no kind of vectors"
    said = f"MMBLOOM_VECTORS is {kind!r}, {why}: expected one of {', '.join(KINDS)}, or unset it"
    done = used(kind)
    assert done.returncode == 1
    assert done.stderr.endswith(f"ValueError: {said}\n")
    assert VECTORS is not None
    before = VECTORS.used()
    with pytest.raises(ValueError, match="expected one of"):
        VECTORS.use(kind)
    assert VECTORS.used() == before


def test_numpy_has_none() -> None:
    """The numpy engine looks at no vectors."""
    assert used("sse9", engine="numpy").stdout == "numpy\n"


@pytest.mark.usefixtures("each_vectors")
@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 1, 3, 7])
def test_blocks_on_no_line(first: int, blocks: int, seed: int) -> None:
    """An array that begins at any word, whose blocks lie across two lines of the cache."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, "blocked", 32768 * 3, 9 * blocks, blocks_per_key=blocks)
    room = np.zeros(params.num_bits // 64 + 8, np.uint64)
    words, expected = room[first : first + params.num_bits // 64], np.zeros_like(room[8:])
    for _ in range(2):
        h1, h2 = chance.integers(0, 2**64, (2, 500), np.uint64)
        assert COMPILED.add(words, h1, h2, params)[1] == NUMPY.add(expected, h1, h2, params)[1]
        assert COMPILED.contains(words, h1, h2, params).all()
    assert (words == expected).all()
    assert not room[:first].any()
    assert not room[first + len(words) :].any()


@pytest.mark.usefixtures("each_vectors")
@pytest.mark.parametrize("num_hashes", [1, 7, 8, 9, 16, 17, 63, 64])
def test_one_key_again_and_again(num_hashes: int, seed: int) -> None:
    """Of a batch of equal keys the first is new, whether added or claimed."""
    params = FilterParams(10, 0.1, "blocked", 512 * 5, num_hashes)
    h1, h2 = (np.full(700, half, np.uint64) for half in (seed, seed * 2**31 + 1))
    words = np.zeros(params.num_bits // 64, np.uint64)
    claimed = claim(COMPILED, words, h1, h2, params)
    assert np.flatnonzero(claimed.new).tolist() == [0]
    assert not words.any()
    newly_set = COMPILED.commit(words, claimed)
    assert newly_set == COMPILED.count_set(words) > 0
    other = np.zeros_like(words)
    new, set_by_add = COMPILED.add(other, h1, h2, params)
    assert (np.flatnonzero(new).tolist(), set_by_add) == ([0], newly_set)
    assert (other == words).all()


@pytest.mark.usefixtures("each_vectors")
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("in_each", [7, 9])
def test_what_is_there_is_not_written(in_each: int, blocks: int, seed: int) -> None:
    """Keys that are there are added to memory that cannot be written: their pages stay clean."""
    num_hashes = in_each * blocks
    params = FilterParams(10, 0.1, "blocked", 32768, num_hashes, blocks_per_key=blocks)
    room = mmap.mmap(-1, params.num_bits // 8)
    words = np.frombuffer(room, np.uint64)
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, 100), np.uint64)
    COMPILED.add(words, h1, h2, params)

    def add_again() -> tuple[bool, int]:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        place = ctypes.c_void_p(words.ctypes.data)
        assert protect(place, ctypes.c_size_t(len(room)), mmap.PROT_READ) == 0
        new, newly_set = COMPILED.add(words, h1, h2, params)
        return bool(new.any()), newly_set

    assert in_child(add_again) == (False, 0)
