"""A file of counters under verify, copy and info: what is wrong with it is found, and told."""

from pathlib import Path

import pytest
from checks import array_of, counters_of, set_counters
from damages import untouched
from reference import NaiveCounting

from mmbloom import CountingBloomFilter, copy, verify
from mmbloom.sizing import Layout


@pytest.fixture(params=["blocked", "standard"])
def made(path: str, request: pytest.FixtureRequest) -> str:
    """A counting filter that holds 0 to 499, of 1,000 keys that were added."""
    layout: Layout = request.param
    with CountingBloomFilter.create(path, 1000, layout=layout, seed=5) as seen:
        seen.add_many(range(1000))
        seen.remove_many(range(500, 1000))
    return path


def test_sound(made: str) -> None:
    """A filter from which keys were removed is sound, and its keys are found with `pread`."""
    naive = NaiveCounting(Path(made).read_bytes())
    with untouched(made):
        found = verify(made, keys=range(500))
    assert (found.problems, found.notes) == ((), ())
    assert found.kind == "counters"
    assert found.positions_set == naive.popcount()
    assert abs(found.approx_count - 500) < 50
    missing = sum(key not in naive for key in range(500, 1000))
    assert verify(made, keys=range(1000)).keys_missing == missing > 450


@pytest.mark.parametrize("by", [-1, 1])
def test_count_that_is_not_true(made: str, by: int) -> None:
    """More counters in use than were counted, or fewer, is a problem; recount mends it."""
    set_counters(made, positions_set=counters_of(made)["positions_set"] + by)
    (problem,) = verify(made).problems
    assert "counters are not 0" in problem
    set_counters(made, batches_begun=counters_of(made)["batches_begun"] + 1)
    found = verify(made)
    assert (found.ok, found.unfinished_batches, len(found.notes)) == (True, 1, 1)
    with CountingBloomFilter.open(made) as seen:
        seen.recount()
    assert verify(made).ok


def test_copy_and_sealed_copy(made: str, tmp_path: Path) -> None:
    """A copy counts on by itself; a sealed one is read-only, and damage to it is found."""
    copied, sealed = str(tmp_path / "copied"), str(tmp_path / "sealed")
    copy(made, copied)
    copy(made, sealed, seal=True)
    assert array_of(copied) == array_of(made) == array_of(sealed)[: len(array_of(made))]
    assert verify(copied, keys=range(500)).ok
    with CountingBloomFilter.open(copied) as seen:
        assert seen.remove_many(range(500)).all()
        assert seen.approx_count == 0
    assert verify(sealed).sealed_segments == 1
    with CountingBloomFilter.open(sealed) as seen:
        assert seen.contains_many(range(500)).all()
        assert seen.info().sealed
    with open(sealed, "r+b") as file:
        file.seek(5000)
        file.write(b"\xff")
    assert not verify(sealed).ok


def test_info(made: str) -> None:
    """What the file says of itself names its kind."""
    with CountingBloomFilter.open(made, "r") as seen:
        info = seen.info()
    assert (info.kind, info.positions_set) == ("counters", counters_of(made)["positions_set"])
    assert info.file_bytes == 4096 + info.num_bits // 2
