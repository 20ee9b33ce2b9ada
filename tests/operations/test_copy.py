"""mmbloom.copy: a consistent copy of a live filter, sealed or not, that is a filter of its own."""

import errno
import os
import struct
import time
import zlib
from functools import partial
from pathlib import Path

import pytest
from checks import array_of, check_folder, check_settled, counters_of
from checks import set_counters as damage_counters
from damages import KEYS, MIB, at_pread, filter_of, sealed_of, untouched
from faults import fail_with
from reference import IMMUTABLE, NaiveFilter
from unions import live_writer

from mmbloom import BloomFilter, copy, verify
from mmbloom._system import disk
from mmbloom.sizing import Layout

SIZES = [8, 64, 4096, MIB - 64, MIB, MIB + 64, 2 * MIB, 8 * MIB - 4096]
LAYOUTS: list[Layout] = ["standard", "blocked"]


def sizes_and_layouts() -> list[tuple[int, Layout]]:
    """All sizes in both layouts, but those that a layout does not have."""
    return [(s, layout) for layout in LAYOUTS for s in SIZES if layout == "standard" or s >= 64]


def parts_of(path: str) -> tuple[tuple[object, ...], bytes, bytes]:
    """The fields of the header, the array and what follows it, read by the specification."""
    raw = Path(path).read_bytes()
    fields = IMMUTABLE.unpack_from(raw)
    end_of_array = 4096 + fields[7] // 8
    return fields, raw[4096:end_of_array], raw[end_of_array:]


@pytest.mark.parametrize(("array_bytes", "layout"), sizes_and_layouts())
def test_plain_copy(tmp_path: Path, array_bytes: int, layout: Layout) -> None:
    """A copy has the same bits and parameters, exact counters, a uuid of its own and no holes."""
    source, target = filter_of(tmp_path / "a", array_bytes, layout=layout), str(tmp_path / "b")
    with untouched(source):
        copy(source, target)
    here, there = parts_of(source), parts_of(target)
    assert here[1:] == there[1:]
    assert here[0][:12] == there[0][:12]  # magic to planned error rate
    assert here[0][13] != there[0][13], "the uuid"
    key = (5).to_bytes(16, "little")
    assert here[0][14:20] == there[0][14:20] == (0, 0, 0, key, 0, bytes(376))
    check_settled(target)
    for name in ("keys_added", "positions_set", "batches_begun", "batches_done"):
        assert counters_of(source)[name] == counters_of(target)[name]
    assert abs(counters_of(target)["flushed_ns"] - time.time_ns()) < 600 * 10**9
    assert os.stat(target).st_blocks * 512 >= os.path.getsize(target)
    assert verify(target, keys=list(KEYS)).problems == ()
    with BloomFilter.open(target) as seen:
        assert not seen.add_many(list(KEYS)).any()
        seen.add("more")
    check_folder(tmp_path, "a", "b")


@pytest.mark.parametrize(("array_bytes", "layout"), sizes_and_layouts())
def test_sealed_copy(tmp_path: Path, array_bytes: int, layout: Layout) -> None:
    """Law 19: the trailer of a sealed copy is byte for byte that of the specification."""
    source, target = filter_of(tmp_path / "a", array_bytes, layout=layout), str(tmp_path / "b")
    copy(source, target, seal=True)
    fields, array, trailer = parts_of(target)
    assert array == parts_of(source)[1]
    assert fields[14:17] == (0, 1, 0), "the flag sealed, and no other"
    table = b"".join(
        struct.pack("<I", zlib.crc32(array[start : start + MIB]))
        for start in range(0, len(array), MIB)
    )
    assert trailer == table + struct.pack("<I", zlib.crc32(table))
    assert len(table) == 4 * -(-array_bytes // MIB)
    assert NaiveFilter(Path(target).read_bytes()).popcount() == counters_of(target)["positions_set"]
    found = verify(target)
    assert (found.problems, found.sealed_segments) == ((), -(-array_bytes // MIB))


@pytest.mark.parametrize("seal", [False, True])
def test_copy_of_a_sealed_filter(tmp_path: Path, seal: bool) -> None:
    """A sealed filter is copied to one that takes keys again, or to another sealed one."""
    source = sealed_of(tmp_path / "a", 2 * MIB + 64)
    copy(source, tmp_path / "b", seal=seal)
    assert parts_of(str(tmp_path / "b"))[1] == parts_of(source)[1]
    with BloomFilter.open(tmp_path / "b") as seen:
        assert seen.contains_many(list(KEYS)).all()
        if seal:
            assert array_of(source) == array_of(str(tmp_path / "b"))
            return
        assert seen.add("more")
    check_settled(str(tmp_path / "b"))


def test_copies_of_one_filter_are_filters_of_their_own(tmp_path: Path) -> None:
    """No two copies have a uuid in common, and a pickle of one does not open another."""
    source = filter_of(tmp_path / "a", 64)
    for number in range(5):
        copy(source, tmp_path / f"copy-{number}")
    assert len({parts_of(str(file))[0][13] for file in tmp_path.iterdir()}) == 6


def test_damaged_counters_are_not_copied(tmp_path: Path) -> None:
    """Counters that the bits cannot have had are made anew: the copy is sound."""
    source = filter_of(tmp_path / "a", 4096)
    right = counters_of(source)
    for name, value in (("keys_added", 2**64 - 1), ("keys_added", 0), ("positions_set", 7)):
        damage_counters(source, **{**right, name: value})
        copy(source, tmp_path / "b")
        check_settled(str(tmp_path / "b"))
        assert verify(tmp_path / "b").ok
        assert abs(counters_of(str(tmp_path / "b"))["keys_added"] - len(KEYS)) < 10
        os.unlink(tmp_path / "b")
    damage_counters(source, **{**right, "batches_begun": 2**64 - 1, "batches_done": 2**64 - 3})
    copy(source, tmp_path / "b")
    with BloomFilter.open(tmp_path / "b") as seen:
        seen.add_many(list(range(10**6, 10**6 + 10)))
    check_settled(str(tmp_path / "b"))


def test_written_in_large_aligned_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All writes but the last end at multiples of 8 MiB, so the kernel keeps pieces whole."""
    source, spans = filter_of(tmp_path / "a", 20 * MIB + 64), []
    pwrite = os.pwrite

    def counted(fd: int, data: bytes, start: int) -> int:
        spans.append((start, start + len(data)))
        return pwrite(fd, data, start)

    monkeypatch.setattr(disk, "allocate", os.truncate)  # or some systems write zeros first
    monkeypatch.setattr(os, "pwrite", counted)
    copy(source, tmp_path / "b", seal=True)
    *array, header = spans
    assert header == (0, 4096)
    assert [start for start, _ in array] == [4096, *(stop for _, stop in array[:-1])]
    assert [stop for _, stop in array] == [8 * MIB, 16 * MIB, os.path.getsize(tmp_path / "b")]


def test_keys_added_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 4: what is added meanwhile is there or not; what was there before is, and is counted."""
    source = filter_of(tmp_path / "a", 3 * MIB)
    more = list(range(10_000, 60_000))

    def add() -> None:
        with BloomFilter.open(source) as seen:
            seen.add_many(more)

    at_pread(
        monkeypatch, 7, add
    )  # after header and copy, counters, rule, counters and copy, a piece
    copy(source, tmp_path / "b")
    check_settled(str(tmp_path / "b"))
    found = verify(tmp_path / "b", keys=[*KEYS, *more])
    assert 0 < found.keys_missing < len(more)
    assert found.problems == (f"{found.keys_missing} of {found.keys_checked} keys are not found",)
    assert verify(tmp_path / "b", keys=list(KEYS)).ok


@pytest.mark.parametrize("how", ["replace", "unlink"])
def test_source_that_loses_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A source that is moved over or removed meanwhile is copied as it was: no mixture."""
    source = filter_of(tmp_path / "a", 4 * MIB)
    other = filter_of(tmp_path / "other", 4 * MIB, keys=range(10**6, 10**6 + 500))
    at_pread(
        monkeypatch,
        3,
        partial(os.replace, other, source) if how == "replace" else partial(os.unlink, source),
    )
    copy(source, tmp_path / "b")
    check_settled(str(tmp_path / "b"))
    assert verify(tmp_path / "b", keys=list(KEYS)).ok
    assert verify(tmp_path / "b", keys=list(range(10**6, 10**6 + 500))).keys_missing == 500


def test_unreadable_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails names the file, not a descriptor, and makes nothing."""
    source = filter_of(tmp_path / "a", 4 * MIB)
    at_pread(monkeypatch, 3, partial(fail_with(errno.EIO), "pread"))
    with pytest.raises(OSError, match=f"cannot be read: {os.strerror(errno.EIO)}") as caught:
        copy(source, tmp_path / "b")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, source)
    check_folder(tmp_path, "a")


def test_copies_while_others_write(tmp_path: Path, stress: int) -> None:
    """Law 4: with 2 writers at work every key acknowledged before copy began is in the copy."""
    source, far = filter_of(tmp_path / "a", 4 * MIB), 1 << 40
    pause = partial(time.sleep, 0.001)  # so many keys are enough
    with (
        live_writer(source, between=pause) as near_keys,
        live_writer(source, between=pause, start=far) as far_keys,
    ):
        for number in range(8 * stress):
            least, target = number + 1, str(tmp_path / f"copy-{number}")
            keys = [*range(near_keys(least)), *range(far, far + far_keys(least))]
            copy(source, target, seal=bool(number % 2))
            found = verify(target, keys=keys)
            assert found.problems == (), found
            assert found.unfinished_batches == 0
            naive = NaiveFilter(Path(target).read_bytes())
            assert naive.counters[1] == naive.popcount()
            assert len(KEYS) <= naive.counters[0] <= naive.popcount()
            os.unlink(target)
    assert len(keys) > 1000
    assert verify(source).ok
