"""All vectors that the processor has are there, and no answer depends on which the kernels use."""

import ctypes
import mmap
import platform
from pathlib import Path

import has
import numpy as np
import pytest
from kernels import KINDS, NUMPY, Engine, each_kind, needs_compiled
from workers import in_child

from mmbloom.sizing import FilterParams

pytestmark = needs_compiled

# What each kind asks of a processor, as Linux names it; of those of aarch64 all have NEON.
ASKED = {
    "avx2": {"avx2", "popcnt"},
    "avx512": {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vpopcntdq", "popcnt"},
}


@pytest.mark.skipif(
    platform.machine() == "x86_64" and not has.PROC, reason="this system has no /proc/cpuinfo"
)
def test_all_that_the_processor_has() -> None:
    """The engine does not decide by itself which kinds its other tests are run with."""
    machine = platform.machine()
    named = set(Path("/proc/cpuinfo").read_text().split()) if machine == "x86_64" else set()
    expected = ["scalar", *(kind for kind, asked in ASKED.items() if asked <= named)]
    expected += ["neon"] * (machine in ("aarch64", "arm64"))  # as Linux and macOS name it
    assert expected == KINDS


@each_kind
@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 1, 3, 7])
def test_blocks_on_no_line(engine: Engine, first: int, blocks: int, seed: int) -> None:
    """An array that begins at any word, whose blocks lie across two lines of the cache."""
    chance = np.random.default_rng(seed)
    params = FilterParams(10, 0.1, "blocked", 32768 * 3, 9 * blocks, blocks_per_key=blocks)
    room = np.zeros(params.num_bits // 64 + 8, np.uint64)
    words, expected = room[first : first + params.num_bits // 64], np.zeros_like(room[8:])
    for _ in range(2):
        h1, h2 = chance.integers(0, 2**64, (2, 500), np.uint64)
        assert engine.add(words, h1, h2, params)[1] == NUMPY.add(expected, h1, h2, params)[1]
        assert engine.contains(words, h1, h2, params).all()
    assert (words == expected).all()
    assert not room[:first].any()
    assert not room[first + len(words) :].any()


@each_kind
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("in_each", [7, 9])
def test_what_is_there_is_not_written(engine: Engine, in_each: int, blocks: int, seed: int) -> None:
    """Keys that are there are added to memory that cannot be written: their pages stay clean."""
    num_hashes = in_each * blocks
    params = FilterParams(10, 0.1, "blocked", 32768, num_hashes, blocks_per_key=blocks)
    room = mmap.mmap(-1, params.num_bits // 8)
    words = np.frombuffer(room, np.uint64)
    h1, h2 = np.random.default_rng(seed).integers(0, 2**64, (2, 100), np.uint64)
    engine.add(words, h1, h2, params)

    def add_again() -> tuple[bool, int]:
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        place = ctypes.c_void_p(words.ctypes.data)
        assert protect(place, ctypes.c_size_t(len(room)), mmap.PROT_READ) == 0
        new, newly_set = engine.add(words, h1, h2, params)
        return bool(new.any()), newly_set

    assert in_child(add_again) == (False, 0)
