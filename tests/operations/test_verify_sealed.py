"""mmbloom.verify of sealed copies: every flip is found (law 19), what is advised can be done."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checks import counters_of, set_counters
from damages import KEYS, MIB, clear_a_bit, filter_of, flip, sealed_of, set_a_bit

from mmbloom import FormatError, copy, verify


def test_every_mib_of_a_sealed_copy(tmp_path: Path, seed: int) -> None:
    """Law 19: one flipped bit anywhere in any MiB is found, and the MiB named."""
    pieces, chance = 5, np.random.default_rng(seed)
    path = sealed_of(tmp_path / "a", (pieces - 1) * MIB + 192)
    assert verify(path).sealed_segments == pieces
    for number in range(pieces):
        last = min(MIB, (pieces - 1) * MIB + 192 - number * MIB) - 1
        for at in (0, int(chance.integers(last)), last):
            bit = int(chance.integers(8))
            flip(path, 4096 + number * MIB + at, bit)
            found = verify(path)
            said = [problem for problem in found.problems if "go back to another copy" in problem]
            assert len(said) == 1
            assert said[0].startswith(f"MiB {number} of the array has the checksum 0x")
            flip(path, 4096 + number * MIB + at, bit)
    assert verify(path).ok


def test_two_flips_that_the_count_does_not_see(tmp_path: Path) -> None:
    """Law 19: as many bits cleared as set are found in a sealed copy, and not in a living one."""
    live, sealed = filter_of(tmp_path / "a", 8192), sealed_of(tmp_path / "b", 8192)
    for path in (live, sealed):
        clear_a_bit(path)
        flip(path, Path(path).read_bytes().index(0, 4096), 2)
    assert verify(live).ok
    assert not verify(live, keys=list(KEYS)).ok
    assert len(verify(sealed).problems) == 1


@pytest.mark.parametrize("at", range(12))
def test_damaged_seal(tmp_path: Path, at: int) -> None:
    """Law 19: a flipped bit in any byte of the table of checksums is a problem."""
    path = sealed_of(tmp_path / "a", MIB + 64)
    flip(path, 4096 + MIB + 64 + at, at % 8)
    found = verify(path)
    assert len(found.problems) == 1
    assert "checksum of the seal" in found.problems[0]
    assert found.sealed_segments == 0


COUNTED_WRONG: dict[str, Callable[[str], object]] = {
    "nothing": lambda _: None,
    "bit cleared": clear_a_bit,
    "bit set": set_a_bit,
    "too many keys": lambda p: set_counters(p, keys_added=10**6),
    "too many batches done": lambda p: set_counters(p, batches_done=99),
    "too many bits": lambda p: set_counters(p, positions_set=2**64 - 1),
    "too few bits": lambda p: set_counters(p, positions_set=500),
    "batch not done": lambda p: set_counters(p, batches_begun=99),
}
DAMAGES: dict[str, Callable[[str], object]] = {
    "nothing": lambda _: None,
    "array": lambda p: flip(p, 4096 + 8192 - 1, 7),
    "seal": lambda p: flip(p, 4096 + 8192),
}


@pytest.mark.filterwarnings("ignore:.* bits are set, but:mmbloom.MmbloomWarning")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("wrong", COUNTED_WRONG)
def test_advice_about_a_sealed_copy_can_be_taken(tmp_path: Path, wrong: str, damage: str) -> None:
    """A copy is advised where one helps, not where it is refused; nor to add keys, which is."""
    path = sealed_of(tmp_path / "a", 8192)
    COUNTED_WRONG[wrong](path)
    DAMAGES[damage](path)
    found = verify(path)
    said = " ".join([*found.problems, *found.notes])
    assert "add them again" not in said
    assert "--recount" not in said
    try:
        copy(path, tmp_path / "b")
    except FormatError:
        assert "copy it" not in said
        assert "go back to another copy" in said
    else:
        assert ("copy it" in said) == (wrong != "nothing")
        assert verify(tmp_path / "b").ok


def test_what_a_flip_did_to_a_sealed_copy(tmp_path: Path) -> None:
    """The checksum says that the array changed, the counters which way; no more is said."""
    path = sealed_of(tmp_path / "a", 8192)
    counted = counters_of(path)["positions_set"]
    for change, flipped in ((set_a_bit, 1), (clear_a_bit, 0), (clear_a_bit, -1)):
        change(path)
        piece, *rest = verify(path).problems
        assert "MiB 0 of the array has the checksum" in piece
        assert [
            f"{counted + flipped} bits are set, but {counted} were counted" in p for p in rest
        ] == [True] * (flipped != 0)
