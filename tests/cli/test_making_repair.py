"""mmbloom repair: what was lost is said, and the exit code tells whether anything was."""

import os
from pathlib import Path

import pytest
from checks import change_header, check_folder
from cli_runner import Ended, inside, is_one_line, mmbloom, refused
from damages import clear_a_bit, flip, untouched

from mmbloom import BloomFilter, GrowingFilter, verify

LINES = [f"line {number}" for number in range(300)]
HASH = ("--hash", "siphash", "--seed", "7")
MADE = ("-n", "1000", "-p", "0.001", "--layout", "standard", *HASH)
SIZES = ("--num-bits", "14400", "--num-hashes", "10", "--layout", "standard", *HASH)


@pytest.fixture
def used(path: str) -> str:
    with BloomFilter.create(path, 1000, 0.001, layout="standard", seed=7) as seen:
        seen.add_many(LINES)
        assert (seen.params.num_bits, seen.params.num_hashes) == (14400, 10)
    return path


def repaired(used: str, *options: str) -> Ended:
    """Repair to b; the damaged file is as ever, and all is said on stderr."""
    with untouched(used):
        done = inside("repair", used, Path(used).with_name("b"), *options)
    assert done.out == b""
    return done


def test_nothing_wrong(used: str, tmp_path: Path) -> None:
    done = mmbloom("repair", used, tmp_path / "b")
    assert (done.code, done.out) == (0, b"")
    assert is_one_line(done.err, str(tmp_path / "b"), "bits set", "300 keys added")
    assert verify(tmp_path / "b", keys=LINES).ok


@pytest.mark.parametrize("options", [MADE, SIZES, (*SIZES, "-n", "1000", "-p", "0.001")])
@pytest.mark.parametrize("at", [0, 9, 40, 112, 510])
def test_damaged_header(used: str, tmp_path: Path, options: tuple[str, ...], at: int) -> None:
    flip(used, at)
    done = repaired(used, *options)
    assert done.code == 0
    assert "header rebuilt; its " in done.err
    assert "MISSING" not in done.err
    assert verify(tmp_path / "b", keys=LINES).ok
    with BloomFilter.open(tmp_path / "b") as seen:
        assert (seen.params.num_bits, seen.params.num_hashes, seen.params.seed) == (14400, 10, 7)
        assert seen.params.capacity == (1000 if "-n" in options else seen.params.capacity)


def test_damaged_header_and_no_parameters(used: str) -> None:
    flip(used, 40)
    assert refused(repaired(used), 3, used, "header checksum", "give the parameters")
    check_folder(Path(used).parent, "seen.bloom")


def test_damaged_header_of_several_blocks(tmp_path: Path) -> None:
    """Sizes alone do not tell how many blocks a key has: it is asked for, never guessed."""
    path = str(tmp_path / "a")
    with BloomFilter.create(path, 3000, 1e-6, seed=7) as seen:
        seen.add_many(LINES)
        assert (seen.params.num_bits, seen.params.num_hashes) == (98304, 14)
        assert seen.params.blocks_per_key == 2
    done = inside("info", path)
    assert b"blocked, 14 hashes in 2 blocks of a page" in done.out
    flip(path, 128)
    sizes = ("--num-bits", "98304", "--num-hashes", "14", "--layout", "blocked", *HASH)
    for options, said in (
        (sizes, "also give --blocks-per-key"),
        ((*sizes, "--blocks-per-key", "3"), "blocks_per_key is 3"),
        (
            ("-n", "3000", "--layout", "blocked", *HASH, "--blocks-per-key", "2"),
            "applies only with",
        ),
    ):
        assert refused(repaired(path, *options), 2, said)
    assert repaired(path, *sizes, "--blocks-per-key", "2").code == 0
    assert verify(tmp_path / "b", keys=LINES).ok
    with BloomFilter.open(tmp_path / "b") as seen:
        assert seen.params.blocks_per_key == 2


@pytest.mark.parametrize("how", ["truncated", "bit cleared"])
def test_losses(used: str, tmp_path: Path, how: str) -> None:
    if how == "truncated":
        os.truncate(used, 5000)
    else:
        clear_a_bit(used)
    done = repaired(used)
    assert done.code == 1
    assert done.err.count("BITS MAY BE MISSING: ") == (2 if how == "truncated" else 1)
    assert "add them again if you can" in done.err
    assert verify(tmp_path / "b").ok


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", "7"),
        ("--hash", "siphash"),
        ("-n", "1000", "--layout", "standard", "--seed", "7"),
        ("--layout", "standard"),
        ("-p", "0.01"),
        ("-n", "1000", *HASH),
        ("-n", "1000", "--layout", "standard"),
        ("--num-bits", "14400", "--layout", "standard", *HASH),
        ("--num-hashes", "10", "-n", "9", "--layout", "standard", *HASH),
        (*SIZES[:1], "14401", *SIZES[2:]),
        (*SIZES[:3], "65", *SIZES[4:]),
        (*SIZES[:3], "1e18", *SIZES[4:]),
        (*SIZES[:1], "1e18", *SIZES[2:]),
        (*SIZES[:-1], str(2**128)),
        (*SIZES[:-3], "murmur3", "--seed", "4294967296"),
        (*SIZES[:3], "0", *SIZES[4:]),
    ],
    ids=" ".join,
)
def test_wrong_usage(used: str, options: tuple[str, ...]) -> None:
    flip(used, 40)
    done = repaired(used, *options)
    assert done.code == 2
    assert done.err.count("\n") == 1
    check_folder(Path(used).parent, "seen.bloom")


def test_parameters_that_a_sound_header_denies(used: str) -> None:
    done = repaired(used, *MADE[:-1], "8")
    assert refused(done, 3, used, "seed secret (", "params have secret (")
    check_folder(Path(used).parent, "seen.bloom")


def test_newer_format(used: str) -> None:
    change_header(used, 8, "<I", 2)
    for options in ((), MADE):
        assert refused(repaired(used, *options), 3, used, "newer mmbloom")
    check_folder(Path(used).parent, "seen.bloom")


@pytest.mark.parametrize("options", [MADE, SIZES], ids=["planned", "counted"])
def test_header_of_a_folder(tmp_path: Path, options: tuple[str, ...]) -> None:
    """What a header would say is refused for a folder, which knows that itself: exit 2."""
    GrowingFilter.create(tmp_path / "seen", 10).close()
    done = inside("repair", tmp_path / "seen", tmp_path / "b", *options)
    assert refused(done, 2, str(tmp_path / "seen"), "folder")
    check_folder(tmp_path, "seen")
