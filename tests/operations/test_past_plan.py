"""Each operation on whole filters tells at its end of more keys than planned, and of no others."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unions import make_growing

import mmbloom
from mmbloom import BloomFilter, CapacityWarning, CountingBloomFilter

# What becomes of a filter, in the folder of a test, and the name that the warning begins with.
Operation = Callable[[Path], object]
OPERATIONS: dict[str, tuple[Operation, str]] = {
    "copy": (lambda here: mmbloom.copy(here / "seen", here / "made"), "seen"),
    "merge": (lambda here: mmbloom.merge(here / "made", [here / "seen"]), "made"),
    "intersect": (lambda here: mmbloom.intersect(here / "made", [here / "seen"]), "seen"),
    "compare": (lambda here: mmbloom.compare(here / "none", here / "seen"), "seen"),
    "repair": (lambda here: mmbloom.repair(here / "seen", here / "made"), "made"),
    "export": (lambda here: mmbloom.export_guava(here / "seen", here / "made"), "seen"),
}


def make(here: Path, number: int) -> None:
    """Make a filter for 100 keys, which each operation takes, with a number of them; and none."""
    like: dict[str, Any] = {"capacity": 100, "layout": "standard", "hash": "murmur3", "seed": 0}
    with BloomFilter.create(here / "seen", **like) as seen, warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)
        seen.update(range(number))
    BloomFilter.create(here / "none", **like).close()


@pytest.mark.parametrize("name", OPERATIONS)
def test_of_a_file(tmp_path: Path, name: str) -> None:
    """Three times the plan is told of, once, in the name of the caller, when all is done.

    Also where warnings are errors.
    """
    operation, named = OPERATIONS[name]
    make(tmp_path, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CapacityWarning, match="capacity of 100"):
            operation(tmp_path)
    if name != "compare":
        assert name == "export" or mmbloom.verify(tmp_path / "made").ok
        (tmp_path / "made").unlink()
    with pytest.warns(CapacityWarning) as caught:
        operation(tmp_path)
    assert [warning.filename for warning in caught] == [__file__]
    said = str(caught[0].message)
    assert said.startswith(f"{tmp_path / named}: holds about ")
    assert "keys and has a capacity of 100; " in said
    assert (tmp_path / "made").exists() == (name != "compare")


@pytest.mark.parametrize("name", OPERATIONS)
def test_not_of_one_with_room(tmp_path: Path, name: str) -> None:
    make(tmp_path, 100)
    OPERATIONS[name][0](tmp_path)


def test_of_each_source_of_an_intersection(tmp_path: Path) -> None:
    """Sources past their plan are told of, each once, though the result is not past its own."""
    make(tmp_path, 300)
    with pytest.warns(CapacityWarning) as caught:
        mmbloom.intersect(tmp_path / "made", [tmp_path / name for name in ("seen", "none", "seen")])
    assert [str(warning.message).partition(": holds")[0] for warning in caught] == [
        str(tmp_path / "seen")
    ]


def test_of_one_that_is_compared_with_itself(tmp_path: Path) -> None:
    """It is told of once; methods that compare answer and tell nothing, as any other query."""
    make(tmp_path, 300)
    with pytest.warns(CapacityWarning) as caught:
        mmbloom.compare(tmp_path / "seen", tmp_path / "seen")
    assert len(caught) == 1
    with BloomFilter.open(tmp_path / "seen") as seen:
        assert seen.jaccard(tmp_path / "seen") == 1
        assert seen.common_count(tmp_path / "none") == 0


def test_of_what_is_imported(tmp_path: Path) -> None:
    """What a foreign file was planned for is what the caller says."""
    make(tmp_path, 100)
    mmbloom.export_guava(tmp_path / "seen", tmp_path / "theirs")
    mmbloom.import_guava(tmp_path / "theirs", tmp_path / "fits", capacity=100)
    with pytest.warns(CapacityWarning, match=f"{tmp_path / 'ours'}: .* capacity of 20;"):
        mmbloom.import_guava(tmp_path / "theirs", tmp_path / "ours", capacity=20)


def test_of_a_plain_filter_of_a_counting_one(tmp_path: Path) -> None:
    """`to_bloom` writes a file as the others do."""
    with CountingBloomFilter.create(tmp_path / "counts", 100) as counts:
        with pytest.warns(CapacityWarning):
            counts.update(range(300))
        with pytest.warns(CapacityWarning, match=f"{tmp_path / 'plain'}: holds about "):
            counts.to_bloom(tmp_path / "plain")


@pytest.mark.parametrize("operation", [mmbloom.copy, mmbloom.repair])
def test_of_a_folder(tmp_path: Path, operation: Callable[[Path, Path], object]) -> None:
    """Of a folder one warning counts its files past their plan."""
    one, two = (make_growing(tmp_path / n, k, error_rate=0.01) for n, k in
                (("one", range(20)), ("two", range(20, 40))))  # fmt: skip
    with pytest.warns(CapacityWarning):
        mmbloom.merge(tmp_path / "both", [one, two])
    said = "1 of 1 files are past their capacity, 0000000000.bloom holds about "
    with pytest.warns(CapacityWarning, match=said) as caught:
        operation(tmp_path / "both", tmp_path / "made")
    assert len(caught) == 1
    operation(one, tmp_path / "fits")
