"""Questions: exact answers for what was added, no lock, no change, whatever the mode."""

import gc
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import (
    READS,
    WRITES,
    array_of,
    change_header,
    check_folder,
    check_holds,
    check_raises,
    seal,
)

from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    FormatError,
    KeyEncodingError,
    KeyTypeError,
    ReadOnlyError,
)
from mmbloom.format.header import Header, encode
from mmbloom.sizing import plan

Create = Callable[..., BloomFilter]


@pytest.mark.parametrize("number", [0, 1, 16_383, 16_384, 16_385, 50_000])
def test_contains_many_over_chunks(create: Create, number: int) -> None:
    """The answers of a long batch are those of its keys one by one, in the order given."""
    seen = create(100_000, 1e-9)
    seen.update(range(0, 50_000, 3))
    keys = np.arange(number)
    found = seen.contains_many(keys)
    assert (found.dtype, found.shape) == (np.dtype(bool), (number,))
    assert found.tolist() == (keys % 3 == 0).tolist()
    for key in range(max(0, number - 3), number):
        assert (key in seen) == found[key]


def test_contains_all_forms(create: Create) -> None:
    """A key added in one form is found in every other form of it."""
    seen = create(1000, 1e-9)
    seen.add_many(["é", b"raw", 5, -1])
    forms: list[list[Any]] = [
        ["é".encode(), "raw", np.uint8(5), 2**64 - 1],
        [bytearray("é".encode()), memoryview(b"raw"), (5).to_bytes(8, "little"), b"\xff" * 8],
    ]
    for keys in forms:
        check_holds(seen, keys)
    assert seen.contains_many(np.array([5, -1], dtype=np.int16)).all()
    assert seen.contains_many(np.array(["é", "raw"])).all()
    assert seen.contains_many(np.array([b"raw"])).all()
    assert not seen.contains_many(["e", b"RAW", 6, -2]).any()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(1.5, KeyTypeError), (True, KeyTypeError), (None, KeyTypeError), ("\ud800", KeyEncodingError)],
)
def test_what_is_no_key(create: Create, wrong: Any, error: type[Exception]) -> None:
    """What cannot be a key is an error, not "absent": `in` and batches alike."""
    seen = create(1000)
    with pytest.raises(error):
        _ = wrong in seen
    with pytest.raises(error, match="position 1"):
        seen.contains_many(["a", wrong])


def test_read_mode(path: str, create: Create) -> None:
    """Mode "r" answers everything, refuses every write naming the mode, and changes nothing."""
    create(1000).add("a")
    raw = Path(path).read_bytes()
    with BloomFilter.open(path, "r") as seen:
        assert "a" in seen
        for read in READS.values():
            read(seen)
        check_raises(WRITES, seen, ReadOnlyError, "opened with mode='r'")
        assert seen.info().read_only == "it was opened with mode='r'"
        seen.flush()  # nothing to flush is no error
    assert Path(path).read_bytes() == raw
    check_folder(Path(path).parent, "seen.bloom")


def test_reader_sees_the_writer(create: Create, path: str) -> None:
    """A reader that is open sees each key as soon as its add has returned."""
    seen = create(1000)
    with BloomFilter.open(path, "r") as reader:
        for key in ("a", 5, b"\0"):
            assert key not in reader
            seen.add(key)
            assert key in reader
        assert reader.approx_count == seen.approx_count == 3


@pytest.mark.parametrize("capacity", [100, 1_500_000])
def test_sealed_file(path: str, capacity: int) -> None:
    """A sealed file opens read-only, in mode "r+" too, and says how to go on."""
    with BloomFilter.create(path, capacity) as made:
        made.add_many(["a", "b"])
    seal(path)
    raw = Path(path).read_bytes()
    with BloomFilter.open(path) as seen:
        check_holds(seen, "ab")
        assert "c" not in seen
        check_raises(WRITES, seen, ReadOnlyError, "it is sealed: make a copy")
        assert seen.info().read_only == "it is sealed: make a copy to add to"
        assert seen.info().file_bytes == len(raw)
        seen.flush()
    assert Path(path).read_bytes() == raw


@pytest.mark.parametrize("flag", [2, 2**63])
def test_unknown_read_only_compatible_flag(path: str, flag: int) -> None:
    """A flag of a later version that allows reading makes the filter read-only."""
    with BloomFilter.create(path, 100) as made:
        made.add("a")
    change_header(path, 96, "<Q", flag)
    with BloomFilter.open(path) as seen:
        assert "a" in seen
        check_raises(WRITES, seen, ReadOnlyError, "newer mmbloom")


def test_unknown_compatible_flag(path: str) -> None:
    """A compatible flag of a later version is ignored: the filter is read and written."""
    BloomFilter.create(path, 100).close()
    change_header(path, 88, "<Q", 2**63)
    with BloomFilter.open(path) as seen:
        assert seen.add("a")


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_counters_are_not_a_bloom_filter(path: str, mode: Any) -> None:
    """A counting filter is refused by its kind, not read as bits."""
    header = Header(plan(100), 0, bytes(16), kind=2)
    Path(path).write_bytes(encode(header) + bytes(header.array_bytes))
    with pytest.raises(FormatError, match="a CountingBloomFilter, expected 1 ") as caught:
        BloomFilter.open(path, mode)
    assert (caught.value.path, caught.value.field) == (path, "kind")


def test_two_names_of_one_file(create: Create, path: str) -> None:
    """Through a hard or a symbolic link it is the same filter."""
    seen = create(1000)
    os.link(path, path + ".hard")
    os.symlink(path, path + ".soft")
    for name in (".hard", ".soft"):
        with BloomFilter.open(path + name) as other:
            assert other.add(name)
        assert name in seen


def test_questions_change_no_bit(create: Create, path: str) -> None:
    """Queries for absent keys leave the array as it is."""
    seen = create(1000)
    seen.update(range(100))
    before = array_of(path)
    seen.contains_many(range(10_000))
    for read in READS.values():
        read(seen)
    assert array_of(path) == before


@pytest.mark.parametrize("mode", ["w", "rb", "", None])
def test_unknown_mode(create: Create, path: str, mode: Any) -> None:
    """A mode other than "r" and "r+" is a ValueError."""
    create(100)
    with pytest.raises(ValueError, match=r"expected 'r' or 'r\+'"):
        BloomFilter.open(path, mode)


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter opened by a relative path goes on working after a change of folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with (
        BloomFilter.create("seen.bloom", 100) as made,
        BloomFilter.open(Path("seen.bloom")) as seen,
    ):
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert made.path == seen.path == str(tmp_path / "seen.bloom")
        assert made.add("a")
        assert "a" in seen
        with pickle.loads(pickle.dumps(seen)) as again:
            assert not again.add("a")
    check_folder(tmp_path, "elsewhere", "seen.bloom")
    check_folder(tmp_path / "elsewhere")


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(
    "call",
    [
        lambda seen: seen.flush(),
        lambda seen: seen.add_many([]),
        lambda seen: seen.update([]),
        lambda seen: seen.contains_many([]),
    ],
    ids=["flush", "add_many", "update", "contains_many"],
)
def test_closed_filter_with_nothing_to_do(
    create: Create, path: str, mode: Any, call: Callable[[BloomFilter], object]
) -> None:
    """A call after close is ClosedFilterError even where it would have had nothing to do."""
    create(1000)
    seen = BloomFilter.open(path, mode)
    seen.close()
    with pytest.raises(ClosedFilterError):
        call(seen)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_dropped_without_close(create: Create, path: str, mode: Any) -> None:
    """A filter that nobody closed lets go of its descriptors with its last reference.

    Each unpickling opens one: a pool whose workers get a filter with every task would run out.
    """
    create(1000)
    with BloomFilter.open(path, mode) as seen:
        raw = pickle.dumps(seen)
        before = len(os.listdir("/proc/self/fd"))
        for number in range(20):
            again = pickle.loads(raw)
            if mode == "r+":
                again.add(number)
            del again
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before
