"""union_update: all bits of another filter, no other, counted, and nobody's keys lost."""

import itertools
import mmap
import os
import shutil
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checks import (
    HEADER_BYTES,
    array_of,
    check_settled,
    counters_of,
    flock_is_free,
    seal,
    set_counters,
)
from damages import flip
from faults import die_when_written
from naive import LAYOUTS
from reference import NaiveFilter
from unions import bits_of, check_union, make, make_random
from workers import ChildDiedError, in_child, peak_memory

from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    FileChangedError,
    FormatError,
    IncompatibleFiltersError,
    MmbloomWarning,
)
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom.sizing import Layout

PAGE = mmap.PAGESIZE


def unite(path: str, other: Any, **options: Any) -> None:
    with BloomFilter.open(path, **options) as seen:
        seen.union_update(other)


@pytest.mark.parametrize("how", ["path", "Path", "r", "r+", "sealed"])
def test_union_of_any_other(tmp_path: Path, two: list[str], how: str) -> None:
    """By path, by open filter or by one for reading only: the same OR, and the other unchanged."""
    before = shutil.copy(two[0], tmp_path / "before")
    plain = shutil.copy(two[1], tmp_path / "plain")
    if how == "sealed":
        seal(two[1])
    status, raw = os.stat(two[1]), Path(two[1]).read_bytes()
    if how in {"path", "Path", "sealed"}:
        unite(two[0], Path(two[1]) if how == "Path" else two[1])
    else:
        with BloomFilter.open(two[1], how) as other:  # type: ignore[arg-type]
            unite(two[0], other)
    check_union(two[0], before, plain)
    assert counters_of(two[0])["keys_added"] == pytest.approx(500, rel=0.05)
    assert Path(two[1]).read_bytes() == raw
    assert os.stat(two[1]).st_mtime_ns == status.st_mtime_ns
    with BloomFilter.open(two[0]) as seen:
        assert seen.contains_many(range(500)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_union_of_many_pieces(tmp_path: Path, seed: int, layout: Layout) -> None:
    """Arrays of some MiB and a bit are united to their last word, and counted exactly."""
    sources = [
        make_random(tmp_path / name, 3_000_000, layout, seed + i) for i, name in enumerate("ab")
    ]
    assert len(array_of(sources[0])) % (1 << 20)
    before = shutil.copy(sources[0], tmp_path / "before")
    unite(sources[0], sources[1])
    check_union(sources[0], before, sources[1])
    with BloomFilter.open(sources[0]) as seen:
        counted = seen.info().positions_set
        assert seen.recount() == counted


def test_union_that_brings_nothing(two: list[str]) -> None:
    """A union with itself, or with what is in it already, changes no byte, counters included."""
    unite(two[0], two[1])
    raw = Path(two[0]).read_bytes()
    with BloomFilter.open(two[0]) as seen:
        for other in (seen, two[0], two[1]):
            seen.union_update(other)
    assert Path(two[0]).read_bytes() == raw


def test_pages_with_nothing_new_are_not_written(tmp_path: Path, seed: int) -> None:
    one = make_random(tmp_path / "one", 200_000, "blocked", seed)
    two = shutil.copy(one, tmp_path / "two")
    new = 3  # the only page of the file with anything new
    with open(two, "r+b") as file:
        os.pwrite(file.fileno(), b"\xff" * PAGE, new * PAGE)

    def unite_without(start: int, stop: int) -> None:
        with BloomFilter.open(one) as seen:
            begin = seen._storage.views.words.ctypes.data - HEADER_BYTES
            die_when_written(begin + start * PAGE, (stop - start) * PAGE)
            seen.union_update(two)

    with pytest.raises(ChildDiedError):
        in_child(partial(unite_without, new, new + 1))
    pages = -(-os.path.getsize(one) // PAGE)
    with BloomFilter.open(one) as seen:
        seen.recount()
    raw = Path(one).read_bytes()
    for part in ((1, new), (new + 1, pages)):  # the header is in the first one
        in_child(partial(unite_without, *part))
        assert bits_of(one) == bits_of(two)
        Path(one).write_bytes(raw)


def replaced(path: str) -> None:
    os.replace(make(path + "-new", range(9), path), path)


def resized(path: str) -> None:
    os.truncate(path, 0)  # without a header: its counters are not to be touched either


@pytest.mark.parametrize("change", [os.unlink, replaced, resized])
@pytest.mark.parametrize("which", [0, 1], ids=["self", "other"])
def test_changed_files(two: list[str], which: int, change: Callable[[str], object]) -> None:
    """Law 16: a filter of which the file changed, self or other, is an error and no signal."""
    array = array_of(two[0])

    def change_and_unite() -> str:
        with BloomFilter.open(two[0]) as seen, BloomFilter.open(two[1]) as other:
            change(two[which])
            with pytest.raises(FileChangedError) as caught:
                seen.union_update(other)
        return caught.value.path

    assert in_child(change_and_unite) == two[which]
    assert which == 0 or array_of(two[0]) == array


def test_other_replaced_after_the_first_look(
    tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open filter is united and no other: not even one put in its place at the last moment."""
    array = array_of(two[0])

    def replace_and_open(path: str, uuid: bytes | None) -> UnmappedFilter:
        replaced(path)
        return UnmappedFilter(path, uuid)

    monkeypatch.setattr("mmbloom.filters.bloom.UnmappedFilter", replace_and_open)
    with BloomFilter.open(two[1]) as other, pytest.raises(FileChangedError) as caught:
        unite(two[0], other)
    assert caught.value.found == "replaced by another filter"
    assert array_of(two[0]) == array


def test_other_truncated_while_it_is_read(tmp_path: Path) -> None:
    """Law 16: a truncation amid the union is a FileChangedError; what was united stays valid."""
    one = make(tmp_path / "one", range(100), capacity=3_000_000)
    two = make(tmp_path / "two", range(10_000), one)

    def unite_and_truncate() -> tuple[str, str]:
        pread, reads = os.pread, itertools.count()

        def truncate_and_read(*args: Any) -> bytes:
            if next(reads) == 8:  # two headers, counters, where it lies, and two pieces are read
                os.truncate(two, 1 << 20)
            return pread(*args)

        with BloomFilter.open(one) as seen:
            os.pread = truncate_and_read
            with pytest.raises(FileChangedError) as caught:
                seen.union_update(two)
        return caught.value.path, caught.value.found

    assert in_child(unite_and_truncate) == (two, "truncated")
    assert counters_of(one)["batches_done"] >= 2
    check_settled(one)
    with BloomFilter.open(one) as seen:
        assert seen.contains_many(range(100)).all()


def test_refusals(tmp_path: Path, two: list[str]) -> None:
    """What cannot be united is its own error, and changes no byte."""
    raw = Path(two[0]).read_bytes()
    other = make(tmp_path / "other", seed=6, error_rate=0.5)
    with pytest.raises(IncompatibleFiltersError) as caught:
        unite(two[0], other)
    assert (caught.value.path, caught.value.other) == (two[0], other)
    assert {"seed", "error_rate"} <= {name for name, _, _ in caught.value.differences}
    with pytest.raises(TypeError):
        unite(two[0], 7)
    with BloomFilter.open(two[1]) as closed:
        pass
    with pytest.raises(ClosedFilterError) as ended:
        unite(two[0], closed)
    assert ended.value.path == two[1]
    assert Path(two[0]).read_bytes() == raw


@pytest.mark.parametrize("place", [0, 1 << 20, -5])
def test_damaged_seal(tmp_path: Path, seed: int, place: int) -> None:
    """Of a sealed other no piece that is damaged is united."""
    one = make(tmp_path / "one", capacity=1_500_000, seed=1)
    other = make_random(tmp_path / "other", 1_500_000, "blocked", seed)
    seal(other)
    place += 4096 if place >= 0 else os.path.getsize(other)
    flip(other, place, 2)
    with pytest.raises(FormatError, match="checksum"):
        unite(one, other)
    assert any(array_of(one)) == (place == 4096 + (1 << 20))  # the piece before is sound
    naive = NaiveFilter(Path(one).read_bytes())
    assert naive.counters[1] == naive.popcount()
    assert naive.counters[2] == naive.counters[3]


def unite_all(seen: BloomFilter, others: Iterable[str]) -> None:
    for other in others:
        seen.union_update(other)


@pytest.mark.filterwarnings("always::mmbloom.CapacityWarning")
def test_capacity_warning_once(tmp_path: Path) -> None:
    """A union past the planned number of keys warns its caller, once; as an error too."""
    one = make(tmp_path / "one", range(900))
    others = [make(tmp_path / f"{i}", range(900 * i, 900 * i + 900), one) for i in (1, 2)]
    copied = str(shutil.copy(one, tmp_path / "copied"))
    with BloomFilter.open(one) as seen:
        with pytest.warns(CapacityWarning, match="has a capacity of 1000") as caught:
            unite_all(seen, others)
        assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CapacityWarning):
            unite(copied, others[0])
    with BloomFilter.open(copied) as seen:
        assert seen.contains_many(range(1800)).all()
    check_settled(copied)
    assert flock_is_free(copied)


def test_damaged_counters(two: list[str]) -> None:
    """Counters of any value, of self or other, crash nothing; a recount mends what it can."""
    for number, damage in itertools.product((0, 1), (2**64 - 1, 2**63, 0)):
        for path in two:
            set_counters(path, keys_added=300)
        set_counters(two[number], **dict.fromkeys(counters_of(two[number]), damage))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MmbloomWarning)  # full, or bits lost: so it seems
            unite(two[0], two[1])
        with BloomFilter.open(two[0]) as seen:
            assert seen.contains_many(range(500)).all()
            assert seen.recount() == NaiveFilter(Path(two[0]).read_bytes()).popcount()


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Law 17: a union of 18 MiB takes a few of them at a time."""
    one = make(tmp_path / "one", capacity=16_000_000)
    two = make(tmp_path / "two", range(100_000), one)
    assert peak_memory(lambda: unite(one, two)) < 10 << 20
    assert bits_of(one) == bits_of(two)
