"""An open file: mapped only when it is right, never changed by opening, watched while mapped."""

import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import array_of, counters_of
from workers import in_child

from mmbloom import BloomFilter, ClosedFilterError, FileChangedError, FormatError, ReadOnlyError
from mmbloom._storage import mapped as storage_module
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import Counters, read_header
from mmbloom.filters.file import count
from mmbloom.format.header import KEYS_ADDED, MUTABLE_FIELDS, POSITIONS_SET, Header, encode
from mmbloom.sizing import FilterParams


@pytest.fixture
def made(path: str) -> str:
    """A filter file of three blocks with one key in it."""
    with BloomFilter.create(path, 100, seed=1) as seen:
        seen.add("a")
    return path


def open_storage(path: str, *, writable: bool = True) -> MappedFilter:
    return MappedFilter(path, writable=writable, allow_network=False)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_opening_changes_nothing(made: str, mode: Any) -> None:
    """Opening, asking and closing leaves every byte, the size and the times as they were."""
    before, raw = os.stat(made), Path(made).read_bytes()
    with BloomFilter.open(made, mode) as seen:
        assert "a" in seen
        seen.contains_many(["a", "b"])
        seen.info()
    after = os.stat(made)
    assert Path(made).read_bytes() == raw
    assert (after.st_size, after.st_mtime_ns, after.st_mode) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_mode,
    )
    assert os.listdir(os.path.dirname(made)) == ["seen.bloom"]


def test_views_are_the_file(made: str) -> None:
    """Words, counters and the scalar path are the map: what is written through them is in it."""
    storage = open_storage(made)
    base: Any = storage.views.words
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap.mmap)
    del base
    assert storage.views.words.dtype == np.dtype("<u8")
    assert storage.views.words.tobytes() == array_of(made)
    storage.views.words[1] = 0x0123456789ABCDEF
    assert array_of(made)[8:16] == bytes.fromhex("EFCDAB8967452301")
    before = array_of(made)
    assert storage.views.one.add("b")
    assert array_of(made) != before
    assert array_of(made) == storage.views.words.tobytes()
    assert counters_of(made)["keys_added"] == storage.counters["keys_added"] == 2
    storage.close()


def test_two_storages_share_one_file(made: str) -> None:
    """What one writes the other sees at once, without any flush; in another process too."""
    one, other = open_storage(made), open_storage(made, writable=False)
    one.views.words[2] = 77
    one.counters["batches_begun"] = 5
    assert other.views.words[2] == 77
    assert other.counters["batches_begun"] == 5

    def write_in_child() -> None:
        one.views.words[2] = 78

    in_child(write_in_child)
    assert other.views.words[2] == 78
    one.close()
    other.close()


def test_counters_wrap(made: str) -> None:
    """A counter holds 64 bits; more wraps round instead of failing or spilling over."""
    storage = open_storage(made)
    storage.counters["positions_set"] = 7
    storage.counters["keys_added"] = 2**64 + 5
    assert storage.counters["keys_added"] == 5
    assert storage.counters["positions_set"] == 7, "its neighbour"
    storage.close()


def test_read_only_map_cannot_be_written(made: str) -> None:
    """In mode "r" even the views refuse, so that no mistake can reach the file."""
    storage = open_storage(made, writable=False)
    with pytest.raises(ValueError, match="read-only"):
        storage.views.words[0] = 1
    with pytest.raises((TypeError, ValueError), match="read-only"):
        storage.views.one.add("b")
    with pytest.raises(ValueError, match="read-only"):
        storage.counters["keys_added"] = 1
    with pytest.raises(ReadOnlyError, match="opened with mode='r'"):
        storage.check_writable()
    storage.close()


def test_closed(made: str) -> None:
    """After close every use is ClosedFilterError, and a second close is fine."""
    storage = open_storage(made)
    for _ in range(2):
        storage.close()
        for use in (
            storage.check_writable,
            storage.check_unchanged,
            lambda: storage.views,
            lambda: storage.counters["keys_added"],
        ):
            with pytest.raises(ClosedFilterError, match=made):
                use()


def test_close_beside_a_reader(made: str) -> None:
    """Views that a thread still holds stay readable after close: no crash, no leak after them."""
    storage = open_storage(made)
    words = storage.views.words
    expected = words.tolist()
    storage.close()
    assert words.tolist() == expected
    del words
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    assert made not in [os.readlink(link) for link in links if os.path.lexists(link)]


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is FileNotFoundError, and is not made."""
    with pytest.raises(FileNotFoundError):
        open_storage(str(tmp_path / "none"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("writable", [True, False])
def test_special_files(tmp_path: Path, *, writable: bool) -> None:
    """A folder, a FIFO (without hanging) and a device are a FormatError, through links too."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    for special in (tmp_path, tmp_path / "fifo", tmp_path / "link", Path("/dev/zero")):
        with pytest.raises(FormatError, match="expected a regular file") as caught:
            open_storage(str(special), writable=writable)
        assert (caught.value.path, caught.value.field) == (str(special), "file")


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 4096, b"text\n" * 2000])
def test_other_files(tmp_path: Path, content: bytes) -> None:
    """Any other file is a FormatError and stays as it is."""
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(FormatError):
        open_storage(str(file))
    assert file.read_bytes() == content


@pytest.mark.parametrize("change", [-4096, -1, 1, 4096])
def test_wrong_size_is_refused_before_mapping(
    made: str, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    """A file too short or too long is a FormatError; nothing is mapped, the size stays."""
    size = os.path.getsize(made) + change
    os.truncate(made, size)
    monkeypatch.setattr(mmap, "mmap", lambda *_, **__: pytest.fail("mapped"))
    with pytest.raises(FormatError):
        open_storage(made)
    assert os.path.getsize(made) == size


def test_forged_size_is_refused(path: str) -> None:
    """A header that claims 2^43 bits for a small file is refused, and the file does not grow."""
    params = FilterParams(1, 0.1, "standard", 2**43, 1)
    Path(path).write_bytes(encode(Header(params, 0, bytes(16))) + bytes(64))
    with pytest.raises(FormatError, match="file size is 4160 bytes, expected"):
        open_storage(path)
    assert os.path.getsize(path) == 4160


def test_truncated_between_header_and_map(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file cut after its header was read is FileChangedError, not a map that kills."""
    real = read_header

    def read_and_cut(fd: int, path: str, kinds: Any) -> tuple[Header, int]:
        found = real(fd, path, kinds)
        os.truncate(path, 4096)
        return found

    monkeypatch.setattr(storage_module, "read_header", read_and_cut)
    with pytest.raises(FileChangedError, match="truncated"):
        open_storage(made, writable=False)


def test_replaced_between_reading_and_writing(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file replaced between the two opens of mode r+ is FileChangedError."""
    real = read_header

    def read_and_replace(fd: int, path: str, kinds: Any) -> tuple[Header, int]:
        found = real(fd, path, kinds)
        shutil.copy(path, path + ".new")
        os.replace(path + ".new", path)
        return found

    monkeypatch.setattr(storage_module, "read_header", read_and_replace)
    with pytest.raises(FileChangedError, match="replaced by another file"):
        open_storage(made)


def test_counters_in_the_other_byte_order() -> None:
    """They are counted modulo 2**64, as on a machine whose order is not the file's."""
    swapped = np.zeros(len(MUTABLE_FIELDS), dtype=np.dtype(np.uint64).newbyteorder("S"))
    counters = Counters(swapped)
    assert (count(counters, KEYS_ADDED, 3), count(counters, KEYS_ADDED, -1)) == (3, 2)
    assert [count(counters, POSITIONS_SET, by) for by in (2**63 + 5, 2**63)] == [2**63 + 5, 5]
    counted = dict(zip(MUTABLE_FIELDS, swapped.tolist(), strict=True))
    assert counted == {**dict.fromkeys(MUTABLE_FIELDS, 0), "keys_added": 2, "positions_set": 5}
