"""mmbloom.verify: what is wrong with a filter file is found, and what is right is not."""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import has
import numpy as np
import pytest
from checks import counters_of, set_counters
from damages import KEYS, MIB, clear_a_bit, filter_of, flip, sealed_of, set_a_bit, untouched
from golden import EXPECTED, golden_bytes, golden_fields, golden_keys
from reference import NaiveFilter

from mmbloom import BloomFilter, FormatError, KeyTypeError, verify
from mmbloom._system import memory
from mmbloom.sizing import Layout

FILTERS = [name for name in EXPECTED["files"] if golden_fields(name).kind == 1]


@pytest.mark.parametrize("name", FILTERS)
def test_golden_files(tmp_path: Path, name: str) -> None:
    """Every golden filter is sound, and every figure is what the specification gives."""
    file, naive = str(tmp_path / name), NaiveFilter(golden_bytes(name))
    Path(file).write_bytes(naive.data)
    with untouched(file):
        (problem,) = verify(file, keys=golden_keys(name)).problems
    assert "0 were counted" in problem  # who made these files left the counters alone
    set_counters(file, positions_set=naive.popcount(), keys_added=len(golden_keys(name)) // 2)
    found = verify(file, keys=golden_keys(name))
    assert (found.problems, found.ok) == ((), True)
    assert found.past_plan == (found.approx_count > found.capacity + found.capacity**0.5)
    assert len(found.notes) == found.past_plan
    assert found.path == file
    assert found.positions_set == naive.popcount()
    assert found.fill_ratio == naive.popcount() / naive.fields.num_positions
    assert found.file_bytes == len(naive.data)
    assert found.capacity == naive.fields.capacity
    assert found.error_rate == naive.fields.error_rate
    assert (found.keys_checked, found.keys_missing) == (len(golden_keys(name)), 0)
    assert found.sealed_segments == (1 if naive.fields.read_only_compatible & 1 else 0)
    assert json.loads(json.dumps(found.as_dict()))["ok"] is True


@pytest.mark.parametrize("array_bytes", [8, 64, 8192, MIB, MIB + 64])
@pytest.mark.parametrize("layout", ["standard", "blocked"])
@pytest.mark.parametrize("num_hashes", [1, 7, 64])
def test_sound(tmp_path: Path, array_bytes: int, layout: Layout, num_hashes: int) -> None:
    """A filter that nothing happened to has no problem and no note, empty, filled or full."""
    if layout == "blocked" and array_bytes < 64:
        array_bytes = 64
    for keys in (range(0), range(3), range(2000)):
        path = filter_of(
            tmp_path / str(len(keys)), array_bytes, layout=layout, num_hashes=num_hashes, keys=keys
        )
        found = verify(path, keys=list(keys))
        assert (found.problems, found.notes) == ((), ())
        assert found.positions_set == counters_of(path)["positions_set"]
        assert found.bytes_not_reserved == found.unfinished_batches == found.keys_missing == 0
        with BloomFilter.open(path, "r") as seen:
            assert found.approx_count == seen.approx_count
            assert found.current_error_rate == seen.current_error_rate


PROBLEMS: dict[str, tuple[Callable[[str], object], str]] = {
    "bit cleared": (clear_a_bit, "bits are lost"),
    "bit set": (set_a_bit, "something else set bits"),
    "keys added": (lambda p: set_counters(p, keys_added=10**6), "keys added is impossible"),
    "keys added, most": (
        lambda p: set_counters(p, keys_added=2**64 - 1),
        "keys added is impossible",
    ),
    "done before begun": (
        lambda p: set_counters(p, batches_done=99),
        "98 more batches are done than were begun",
    ),
    "too many counted": (lambda p: set_counters(p, positions_set=2**64 - 1), "bits are lost"),
    "too few counted": (lambda p: set_counters(p, positions_set=500), "something else set bits"),
    "zero after the block": (lambda p: flip(p, 512), "must be zero"),
    "zero before the counters": (lambda p: flip(p, 2047, 7), "must be zero"),
    "zero after the counters": (lambda p: flip(p, 2120), "must be zero"),
    "last zero": (lambda p: flip(p, 2559, 7), "must be zero"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem(tmp_path: Path, name: str) -> None:
    """Each kind of damage that can be seen is one problem that says so; and nothing is mended."""
    path = filter_of(tmp_path / "a", 8192)
    damage, said = PROBLEMS[name]
    damage(path)
    with untouched(path):
        found = verify(path)
    assert len(found.problems) == 1, found.problems
    assert said in found.problems[0]
    assert not found.ok
    assert found.as_dict()["ok"] is False


def test_interrupted_batch_is_a_note(tmp_path: Path) -> None:
    """Law 5: a batch begun and not done, and bits not counted, are no problem."""
    path = filter_of(tmp_path / "a", 8192)
    right = counters_of(path)
    set_counters(path, batches_begun=3, batches_done=1, positions_set=right["positions_set"] - 9)
    found = verify(path)
    assert (found.problems, found.unfinished_batches) == ((), 2)
    assert len(found.notes) == 1
    assert "2 batches begun and not done" in found.notes[0]
    clear_a_bit(path)
    set_counters(path, positions_set=right["positions_set"])
    assert "bits are lost" in verify(path).problems[0]  # whatever batches were interrupted


def test_every_bit_of_the_header(tmp_path: Path, seed: int) -> None:
    """Law 13: a flipped bit of the immutable block is FormatError, of the zeros a problem.

    Of the key rule, of which a kill can leave a part, it is a note.
    """
    path = filter_of(tmp_path / "a", 64, keys=range(0))
    chance = np.random.default_rng(seed)
    for at in (
        *range(0, 512, 9),
        *chance.integers(512, 2048, 20),
        *chance.integers(2120, 2560, 20),
        *chance.integers(2560, 4096, 20),
    ):
        bit = int(chance.integers(8))
        flip(path, int(at), bit)
        if at < 512:
            with pytest.raises(FormatError):
                verify(path)
        elif at < 2560:
            assert not verify(path).ok
        else:
            assert "the key rule is incomplete" in verify(path).notes[0]
        flip(path, int(at), bit)
    assert verify(path).ok


def make_holes(path: str) -> None:
    """Copy a file so that its zeros are holes, as cp --sparse does."""
    raw = Path(path).read_bytes()
    os.unlink(path)
    with open(path, "wb") as file:
        os.truncate(file.fileno(), len(raw))
        for start in range(0, len(raw), 4096):
            if any(raw[start : start + 4096]):
                os.pwrite(file.fileno(), raw[start : start + 4096], start)


FOLDERS = ["tmp", "memory"]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder on the disk, or on a file system in memory."""
    if request.param == "tmp":
        return tmp_path
    if not has.IN_MEMORY:
        pytest.skip("this system has no file system in memory")
    return request.getfixturevalue("in_memory")  # type: ignore[no-any-return]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in memory that is gone after the test."""
    with tempfile.TemporaryDirectory(dir=memory.SHARED) as name:
        yield Path(name)


@pytest.mark.parametrize("folder", FOLDERS, indirect=True)
def test_holes(folder: Path) -> None:
    """Law 9: holes are a problem of a filter that is written to, and a note of a sealed one."""
    live, sealed = filter_of(folder / "a", MIB), sealed_of(folder / "b", MIB, keys=range(3))
    with BloomFilter.open(live) as seen:
        seen.recount()
    filled = filter_of(folder / "c", MIB, keys=range(3))
    for path in (live, sealed, filled):
        assert verify(path).bytes_not_reserved == 0
    make_holes(filled)
    make_holes(sealed)
    found = verify(filled)
    assert found.bytes_not_reserved > MIB // 2
    assert len(found.problems) == 1
    assert f"{found.bytes_not_reserved} bytes of the file are holes" in found.problems[0]
    found = verify(sealed)
    assert (found.problems, len(found.notes)) == ((), 1)
    assert f"{found.bytes_not_reserved} bytes of the file are holes" in found.notes[0]


@pytest.mark.parametrize("folder", FOLDERS, indirect=True)
@pytest.mark.parametrize("reserve", ["zeros", "fallocate"])
def test_reserved_space_is_no_hole(folder: Path, reserve: str) -> None:
    """Law 9: space that is reserved and not written yet has its place on the disk."""
    with BloomFilter.create(folder / "a", 3_000_000, reserve=reserve) as seen:  # type: ignore[arg-type]
        assert verify(folder / "a") == verify(folder / "a")
        assert (verify(folder / "a").problems, verify(folder / "a").notes) == ((), ())
        seen.add_many(list(KEYS))
    assert verify(folder / "a", keys=list(KEYS)).problems == ()


def test_copy_on_write_has_holes_as_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that never promised the space is not reported for each of its files."""
    path = filter_of(tmp_path / "a", MIB, keys=range(3))
    make_holes(path)
    monkeypatch.setattr("mmbloom._system.disk.file_system_type", lambda _: "btrfs")
    assert (verify(path).problems, len(verify(path).notes)) == ((), 1)


@pytest.mark.parametrize("keys", ["abc", b"abc", 7, [1.5], ["a", None]])
def test_what_is_no_batch_of_keys(tmp_path: Path, keys: object) -> None:
    path = filter_of(tmp_path / "a", 64)
    with pytest.raises((KeyTypeError, TypeError)):
        verify(path, keys=keys)  # type: ignore[arg-type]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        verify(tmp_path / "a")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "a"))
