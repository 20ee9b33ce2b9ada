"""Who makes a file of a filter that lost bits is told: the new file, counted anew, hides it."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from mmbloom import BloomFilter, MmbloomWarning, compare, copy, export_guava, intersect, merge
from mmbloom.format.header import MUTABLE_FIELDS, MUTABLE_OFFSET

HEADER_BYTES = 4096


def unite(source: Path, made: Path) -> None:
    """Add the keys of the source to a new filter."""
    with BloomFilter.open(source, "r") as other, BloomFilter.create(made, like=other) as united:
        united.union_update(other)


def merge_second(source: Path, made: Path) -> None:
    """Merge it with an empty filter that comes first."""
    with BloomFilter.open(source, "r") as other:
        BloomFilter.create(made.with_suffix(".empty"), like=other).close()
    merge(made, [made.with_suffix(".empty"), source])


READERS: dict[str, Callable[[Path, Path], object]] = {
    "copy": copy,
    "merge": lambda source, made: merge(made, [source]),
    "merge second": merge_second,
    "intersect": lambda source, made: intersect(made, [source]),
    "compare": lambda source, _made: compare(source, source),
    "union_update": unite,
    "export_guava": export_guava,
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A filter that holds keys."""
    with BloomFilter.create(
        tmp_path / "a", 1000, layout="standard", hash="murmur3", seed=0
    ) as seen:
        seen.update(range(500))
    return tmp_path / "a"


@every_reader
def test_lost_bits_are_told(
    source: Path, tmp_path: Path, read: Callable[[Path, Path], object]
) -> None:
    """One byte of the array became zero: the figures of both sides are named."""
    octets = bytearray(source.read_bytes())
    at = next(i for i in range(HEADER_BYTES, len(octets)) if octets[i])
    lost, octets[at] = octets[at].bit_count(), 0
    source.write_bytes(octets)
    with BloomFilter.open(source, "r") as seen:
        counted = seen.info().positions_set
    found = rf"{source}: {counted - lost} bits are set, but {counted} were counted: bits are lost"
    with pytest.warns(MmbloomWarning, match=found):
        read(source, tmp_path / "made")


@every_reader
def test_counters_that_lag_are_no_loss(
    source: Path, tmp_path: Path, read: Callable[[Path, Path], object]
) -> None:
    """A killed writer leaves counters behind the bits: nothing is lost, nothing is said (law 5)."""
    octets = bytearray(source.read_bytes())
    at = MUTABLE_OFFSET + 8 * MUTABLE_FIELDS.index("positions_set")
    counted = int.from_bytes(octets[at : at + 8], "little")
    octets[at : at + 8] = (counted - 1).to_bytes(8, "little")
    source.write_bytes(octets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(source, tmp_path / "made")
