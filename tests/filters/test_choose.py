"""Which parameters a new filter gets: none is ignored, and an existing file must agree."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import change_header, check_folder

from mmbloom import BloomFilter, ParameterMismatchError
from mmbloom.sizing import plan

Create = Callable[..., BloomFilter]


def test_defaults(create: Create) -> None:
    """By default 1 %, blocked, SipHash, as planned; the seed is the only thing drawn."""
    params = create(1234).params
    assert params == plan(1234, 0.01, layout="blocked", seed=params.seed, hash="siphash")


DRAW = """
import sys
from mmbloom import BloomFilter
folder, hash = sys.argv[1:]
for number in range(6):
    with BloomFilter.create(f"{folder}/{number}", 10, hash=hash or None) as seen:
        print(seen.params.seed)
"""


@pytest.mark.parametrize(("name", "bits"), [("", 128), ("murmur3", 32)])
def test_random_seeds_differ(tmp_path: Path, name: str, bits: int) -> None:
    """Seeds are drawn anew, over all bits: nobody can craft false positives in advance."""
    seeds = set()
    for process in "ab":  # of their own: in this one, a test draws the same seeds when repeated
        (tmp_path / process).mkdir()
        argv = [sys.executable, "-c", DRAW, str(tmp_path / process), name]
        seeds |= {*map(int, subprocess.check_output(argv).split())}
    assert len(seeds) >= 11
    assert 2 ** (bits - 4) < max(seeds) < 2**bits  # one in 2^48 of failing


@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize(("name", "seed"), [("siphash", 2**128 - 1), ("murmur3", 2**32 - 1)])
def test_all_given(create: Create, layout: Any, name: Any, seed: int) -> None:
    params = plan(500, 0.002, layout=layout, seed=seed, hash=name)
    seen = create(500, 0.002, layout=layout, seed=seed, hash=name)
    assert (seen.params, seen.params.hash, seen.params.seed) == (params, name, seed)
    with BloomFilter.open(seen.path) as again:
        assert again.params == params


def test_like(create: Create) -> None:
    """like= copies parameters and seed: the same keys set the same bits in both."""
    one = create(777, 0.003, layout="standard")
    other = create(None, like=one, name="other")
    assert other.params == one.params
    assert other.info().uuid != one.info().uuid
    other.close()
    one.close()
    again = create(None, like=one, name="third")  # a closed filter still knows
    assert again.params == one.params


@pytest.mark.parametrize(
    "extra",
    [
        {"error_rate": 0.01},
        {"layout": "blocked"},
        {"seed": 1},
        {"hash": "siphash"},
        {"capacity": 777},
    ],
)
def test_like_stands_alone(create: Create, tmp_path: Path, extra: dict[str, Any]) -> None:
    """Beside like= no other size is accepted, not even the same one."""
    one = create(777, seed=1)
    with pytest.raises(ValueError, match="pass it alone"):
        BloomFilter.create(tmp_path / "other", like=one, **extra)
    check_folder(tmp_path, "seen.bloom")


DIFFERENT: list[tuple[dict[str, Any], str, str, str]] = [
    ({"capacity": 1001}, "capacity", "1000", "1001"),
    ({"error_rate": 0.02}, "error_rate", "0.01", "0.02"),
    ({"layout": "standard"}, "layout", "blocked", "standard"),
    ({"seed": 8}, "seed", "7", "8"),
    ({"hash": "siphash"}, "hash", "murmur3", "siphash"),
    ({"hash": None}, "hash", "murmur3", "siphash"),  # seed 7 is asked for, of the default
]


@pytest.mark.parametrize("different", DIFFERENT, ids=lambda different: different[1])
def test_exist_ok_with_other_parameters(
    create: Create, path: str, different: tuple[dict[str, Any], str, str, str]
) -> None:
    """A file of other parameters is ParameterMismatchError with both values, and stays as it is."""
    change, field, found, asked = different
    create(1000, 0.01, seed=7, hash="murmur3").add("a")
    before = Path(path).read_bytes()
    same = {"capacity": 1000, "error_rate": 0.01, "seed": 7, "hash": "murmur3"}
    asked_for = {**same, **change}
    with pytest.raises(ParameterMismatchError) as caught:
        BloomFilter.create(path, exist_ok=True, **asked_for)
    error = caught.value
    assert (error.path, error.field, error.found, error.expected) == (path, field, found, asked)
    assert Path(path).read_bytes() == before


def test_exist_ok_seeds(create: Create, path: str) -> None:
    """Without a seed any seed will do; seed=0 is a seed that was asked for."""
    create(1000, seed=7)
    BloomFilter.create(path, 1000, exist_ok=True).close()
    BloomFilter.create(path, 1000, seed=7, exist_ok=True).close()
    with pytest.raises(ParameterMismatchError):
        BloomFilter.create(path, 1000, seed=0, exist_ok=True)


def test_exist_ok_hashes(create: Create, path: str) -> None:
    """Without hash and seed any will do, so that old files stay in use; a hash given must be."""
    create(1000, hash="murmur3")
    BloomFilter.create(path, 1000, exist_ok=True).close()
    BloomFilter.create(path, 1000, hash="murmur3", exist_ok=True).close()
    with pytest.raises(ParameterMismatchError, match="hash murmur3, expected siphash"):
        BloomFilter.create(path, 1000, hash="siphash", exist_ok=True)


def test_a_mismatch_tells_no_key(create: Create, path: str) -> None:
    """Errors about SipHash's seeds tell two keys apart, and tell neither."""
    create(1000, seed=2**100 + 1)
    with pytest.raises(ParameterMismatchError) as caught:
        BloomFilter.create(path, 1000, seed=2**100 + 2, exist_ok=True)
    error = caught.value
    assert error.found.startswith("secret (fingerprint ")
    assert error.expected.startswith("secret (fingerprint ")
    assert error.found != error.expected
    assert str(2**100)[:10] not in str(error)


def test_exist_ok_like(create: Create, path: str) -> None:
    """like= asks for its seed too: a file with another one cannot be merged with it."""
    one = create(1000, seed=1)
    other = create(1000, seed=2, name="other")
    BloomFilter.create(path, like=one, exist_ok=True).close()
    with pytest.raises(ParameterMismatchError) as caught:
        BloomFilter.create(path, like=other, exist_ok=True)
    assert caught.value.field == "seed"


def test_a_size_planned_otherwise_is_no_mismatch(create: Create, path: str) -> None:
    """What follows from capacity and rate may differ: a later version may plan otherwise.

    A filter to be like another one must be like it in everything, or they cannot be merged.
    """
    first = create(1000, seed=7)
    change_header(path, 28, "<I", first.params.num_hashes + 1)
    with BloomFilter.create(path, 1000, seed=7, exist_ok=True) as seen:
        assert seen.params.num_hashes == first.params.num_hashes + 1
    with pytest.raises(ParameterMismatchError) as caught:
        BloomFilter.create(path, like=first, exist_ok=True)
    assert caught.value.field == "num_hashes"
