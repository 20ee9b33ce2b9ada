"""mmbloom.repair: what is there of a damaged filter is kept, and what may be missing is said."""

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from checks import array_of, change_header, check_folder, check_settled, counters_of, set_counters
from damages import KEYS, MIB, clear_a_bit, filter_of, flip, sealed_of, set_a_bit, untouched
from golden import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbloom import (
    BloomFilter,
    FilterParams,
    FormatError,
    NewerFormatError,
    ParameterMismatchError,
    Repair,
    repair,
    verify,
)
from mmbloom.sizing import Layout, capacity_of, false_positive_rate, plan

HUNDREDTH = -(-(SIZE := 2 * MIB + 64) // 100)
PARAMS = FilterParams(10**7, 0.01, "standard", 8 * SIZE, 7, 5)  # of filter_of


def mended(folder: Path, params: FilterParams | None = None) -> Repair:
    """Repair a to b; check that a is as ever, b sound, and its bits are those that a has."""
    source, target = str(folder / "a"), str(folder / "b")
    with untouched(source):
        done = repair(source, target, params=params)
    there = array_of(source)[: len(array_of(target))]
    assert array_of(target) == there.ljust(len(array_of(target)), b"\0")
    check_settled(target)
    found = verify(target)
    assert (found.problems, found.notes, found.sealed_segments) == ((), (), 0)
    assert done.positions_set == found.positions_set
    assert done.keys_added == counters_of(target)["keys_added"]
    check_folder(folder, "a", "b")
    return done


@pytest.mark.parametrize("layout", ["standard", "blocked"])
@pytest.mark.parametrize("params", [False, True])
def test_sound_filter(tmp_path: Path, layout: Layout, params: bool) -> None:
    """A filter that nothing is wrong with is repaired to its like: no loss, no note."""
    path = filter_of(tmp_path / "a", SIZE, layout=layout)
    with BloomFilter.open(path, "r") as seen:
        done = mended(tmp_path, seen.params if params else None)
    assert (done.header_damage, done.losses, done.notes) == ("", (), ())
    assert done.keys_added == counters_of(path)["keys_added"]
    assert verify(tmp_path / "b", keys=list(KEYS)).ok


@pytest.mark.parametrize("left", [HUNDREDTH, HUNDREDTH + 7, MIB, MIB + 1, SIZE - 1])
@pytest.mark.parametrize("sealed", [False, True])
def test_truncated(tmp_path: Path, left: int, sealed: bool) -> None:
    """What was cut off is zeros, and a loss, of so many bytes."""
    path = (sealed_of if sealed else filter_of)(tmp_path / "a", SIZE)
    os.truncate(path, 4096 + left)
    done = mended(tmp_path)
    assert f"the last {SIZE - left} bytes of the array are missing; now zeros" in done.losses
    missing = verify(tmp_path / "b", keys=list(KEYS)).keys_missing
    assert missing > 0 or left == SIZE - 1
    assert os.path.getsize(tmp_path / "b") == 4096 + SIZE


@pytest.mark.parametrize("left", [1, 4096, HUNDREDTH - 1])
def test_too_little_to_save(tmp_path: Path, left: int) -> None:
    """Law 13: less than a hundredth of what a header claims is refused, and makes no file of it."""
    path = filter_of(tmp_path / "a", SIZE)
    os.truncate(path, 4096 + left)
    with pytest.raises(
        FormatError, match=r"file size is \d+ bytes, .* too little is left to repair"
    ):
        repair(path, tmp_path / "b")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("size", [0, 100, 4095, 4096])
def test_no_array_at_all(tmp_path: Path, size: int) -> None:
    path = filter_of(tmp_path / "a", SIZE)
    os.truncate(path, size)
    for params in (None, PARAMS):
        with pytest.raises(FormatError) as caught:
            repair(path, tmp_path / "b", params=params)
        assert caught.value.field == "length"
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("more", [1, 4, 12, 100_000])
@pytest.mark.parametrize("sealed", [False, True])
def test_extended(tmp_path: Path, more: int, sealed: bool) -> None:
    """What is too much at the end is left out, and nothing is lost."""
    path = (sealed_of if sealed else filter_of)(tmp_path / "a", SIZE)
    with open(path, "ab") as file:
        file.write(b"x" * more)
    done = mended(tmp_path)
    assert done.losses == ()
    assert f"{more} bytes after the end were left out" in done.notes
    assert ("the file was sealed; the new one is not" in done.notes) == sealed
    assert verify(tmp_path / "b", keys=list(KEYS)).ok


# magic, version, header size, kind, layout, hash, k, m, seed, reserved, capacity, rate, created,
# uuid, compatible, sealed, incompatible, padding, checksum
FIELDS = [0, 8, 11, 12, 16, 20, 24, 28, 32, 40, 44, 48, 56, 64, 72, 88, 96, 104, 300, 508]


@pytest.mark.parametrize("at", FIELDS)
@pytest.mark.parametrize("sealed", [False, True])
def test_flipped_bit_of_the_header(tmp_path: Path, at: int, sealed: bool) -> None:
    """Any flipped bit of the header is mended with the parameters, and nothing is lost."""
    path = (sealed_of if sealed else filter_of)(tmp_path / "a", SIZE)
    flip(path, at, 1)
    if not 8 <= at < 12:  # a version number that alone is wrong is known from the checksum
        with pytest.raises(FormatError, match="give the parameters") as caught:
            repair(path, tmp_path / "b")
        assert not isinstance(caught.value, NewerFormatError)
        check_folder(tmp_path, "a")
    done = mended(tmp_path, PARAMS)
    assert done.header_damage == (
        "magic" if at == 0 else "format version" if at < 12 else "header checksum"
    )
    assert done.losses == ()
    assert done.notes == (("the file was sealed; the new one is not",) if sealed else ())
    with BloomFilter.open(tmp_path / "b") as seen:
        assert seen.params == PARAMS
        assert seen.contains_many(list(KEYS)).all()


def test_header_that_is_gone(tmp_path: Path) -> None:
    """A first page of zeros, counters and all, is made anew; the keys added are estimated."""
    path = filter_of(tmp_path / "a", SIZE)
    with open(path, "r+b") as file:
        file.write(bytes(4096))
    done = mended(tmp_path, PARAMS)
    assert (done.header_damage, done.losses) == ("magic", ())
    assert abs(done.keys_added - len(KEYS)) < 10
    assert verify(tmp_path / "b", keys=list(KEYS)).ok


def test_wrong_parameters_for_a_lost_header(tmp_path: Path) -> None:
    """A size that does not fit the file is said: too large is a loss, too small a note."""
    path = filter_of(tmp_path / "a", SIZE)
    flip(path, 0)
    small = FilterParams(10**6, 0.01, "standard", 8 * MIB, 7, 5)
    done = mended(tmp_path, small)
    assert f"{SIZE - MIB} bytes after the end were left out" in done.notes
    os.unlink(tmp_path / "b")
    done = mended(tmp_path, FilterParams(10**6, 0.01, "standard", 8 * 3 * MIB, 7, 5))
    assert f"the last {3 * MIB - SIZE} bytes of the array are missing; now zeros" in done.losses


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_bits", 8 * MIB), ("num_hashes", 6), ("layout", "blocked"), ("seed", 6)],
)
def test_sound_header_is_not_overruled(tmp_path: Path, field: str, value: object) -> None:
    path = filter_of(tmp_path / "a", SIZE)
    there = {name: getattr(PARAMS, name) for name in PARAMS.__slots__}
    given_params = FilterParams(**{**there, "num_bits": 8 * SIZE // 512 * 512, field: value})
    for flipped in (False, True):  # nor is one whose version number alone is damaged
        with untouched(path), pytest.raises(ParameterMismatchError) as caught:
            repair(path, tmp_path / "b", params=given_params)
        assert caught.value.path == path
        assert flipped or caught.value.field in {field, "num_bits"}
        flip(path, 9)
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("params", [None, PARAMS])
def test_newer_format_is_refused(tmp_path: Path, params: FilterParams | None) -> None:
    """A file of a later mmbloom is not ours to mend, whatever is said of it."""
    path = filter_of(tmp_path / "a", SIZE)
    change_header(path, 104, "<Q", 4)
    with pytest.raises(NewerFormatError):
        repair(path, tmp_path / "b", params=params)
    change_header(path, 104, "<Q", 0)
    change_header(path, 8, "<I", 2)
    with pytest.raises(NewerFormatError, match="format version is 2"):
        repair(path, tmp_path / "b", params=params)
    check_folder(tmp_path, "a")


def test_counters_are_refused(tmp_path: Path) -> None:
    """A file of counters is no Bloom filter, damaged or not."""
    with pytest.raises(FormatError) as caught:
        repair(GOLDEN / "standard-counters.bloom", tmp_path / "b")
    assert caught.value.field == "kind"
    check_folder(tmp_path)


@pytest.mark.parametrize("header", [False, True], ids=["header sound", "header damaged"])
def test_damaged_pieces_of_a_sealed_filter(tmp_path: Path, header: bool) -> None:
    """Law 19: which MiB are not what was sealed is a loss, named; also when the header is gone."""
    path = sealed_of(tmp_path / "a", SIZE)
    if header:
        flip(path, 100)
    flip(path, 4096 + MIB + 5, 3)
    flip(path, 4096 + SIZE - 1, 3)
    done = mended(tmp_path, PARAMS)
    assert "2 MiB of the array differ from what was sealed: 1, 2" in done.losses
    assert "the file was sealed; the new one is not" in done.notes


@pytest.mark.parametrize("at", [SIZE, SIZE + 5, SIZE + 15])
def test_damaged_seal(tmp_path: Path, at: int) -> None:
    """Law 19: an array whose seal is damaged cannot be checked: bits may be missing."""
    path = sealed_of(tmp_path / "a", SIZE)
    flip(path, 4096 + at)
    assert mended(tmp_path).losses == (
        "the seal itself is damaged, so the array could not be checked",
    )


COUNTERS: dict[str, tuple[Callable[[str], object], str, str]] = {
    "bit cleared": (clear_a_bit, "bits were set when last counted", ""),
    "bit set": (set_a_bit, "", "were counted: recounted"),
    "interrupted": (lambda p: set_counters(p, batches_begun=9), "", "8 batches were interrupted"),
    "done before begun": (lambda p: set_counters(p, batches_done=9), "", "counters were damaged"),
    "absurd": (lambda p: set_counters(p, positions_set=2**60), "", "counters were damaged"),
    "keys": (lambda p: set_counters(p, keys_added=2**60), "", ""),
    "no keys": (lambda p: set_counters(p, keys_added=0), "", ""),
    "too few counted": (
        lambda p: set_counters(p, positions_set=9),
        "",
        "9 were counted: recounted",
    ),
}


@pytest.mark.parametrize("name", COUNTERS)
@pytest.mark.parametrize("num_hashes", [1, 7])
def test_counters_that_do_not_fit(tmp_path: Path, name: str, num_hashes: int) -> None:
    """Bits that were counted and are not there are a loss; all else of counters is a note."""
    path = filter_of(tmp_path / "a", 8192, num_hashes=num_hashes, keys=range(2000))
    damage, loss, note = COUNTERS[name]
    damage(path)
    done = mended(tmp_path)
    assert [loss in said for said in done.losses] == ([True] if loss else [])
    assert [note in said for said in done.notes] == ([True] if note else [])
    assert abs(done.keys_added - 2000) < 100


@pytest.mark.parametrize("filled", [range(1), range(60)])
@pytest.mark.parametrize("num_hashes", [1, 7, 64])
def test_estimate_is_never_impossible(tmp_path: Path, filled: range, num_hashes: int) -> None:
    """Keys added are estimated within what the bits can hold: the new file is sound."""
    path = filter_of(tmp_path / "a", 8, num_hashes=num_hashes, keys=filled)
    set_counters(path, keys_added=2**64 - 1)
    done = mended(tmp_path)
    assert -(-done.positions_set // num_hashes) <= done.keys_added <= done.positions_set


def test_huge_rest_is_not_read(tmp_path: Path) -> None:
    """Law 17: a sealed file with terabytes behind it is mended in little memory."""
    path = sealed_of(tmp_path / "a", 4096)
    os.truncate(path, 1 << 40)
    done = repair(path, tmp_path / "b")
    assert done.losses == ()
    with open(path, "rb") as file:
        assert array_of(str(tmp_path / "b")) == file.read(8192)[4096:]


def test_every_bit_is_kept(tmp_path: Path, seed: int) -> None:
    path = filter_of(tmp_path / "a", SIZE)
    noise = np.random.default_rng(seed).bytes(SIZE)
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(noise)
    mended(tmp_path)
    assert zlib.crc32(array_of(str(tmp_path / "b"))) == zlib.crc32(noise)
    assert struct.unpack_from("<Q", (tmp_path / "b").read_bytes(), 32) == (8 * SIZE,)


@settings(max_examples=60)
@given(st.integers(1, 10**10), st.floats(1e-9, 0.9), st.sampled_from(["standard", "blocked"]))
def test_capacity_of_inverts_plan(capacity: int, error_rate: float, layout: Layout) -> None:
    """capacity_of gives the most keys that keep the rate: what was planned for, or more."""
    made = plan(capacity, error_rate, layout=layout)
    bits, hashes, blocks = made.num_bits, made.num_hashes, made.blocks_per_key
    found = capacity_of(bits, hashes, error_rate, layout=layout, blocks_per_key=blocks)

    def rate(keys: int) -> float:
        return false_positive_rate(keys, bits, hashes, layout=layout, blocks_per_key=blocks)

    assert rate(found) <= error_rate or found == 1
    assert rate(found + max(1, found // 10**6)) > error_rate
    if layout == "blocked":
        assert found >= capacity
    else:  # whose k is rounded: the textbook's plan keeps the rate but nearly
        assert found >= 0.9 * capacity - 1
