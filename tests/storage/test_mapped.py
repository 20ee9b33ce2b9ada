"""An open file: mapped only when it is right, never changed by opening, watched while mapped."""

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import READS, WRITES, array_of, check_raises, counters_of, soon
from descriptors import is_file_open
from steps import at_next_call
from workers import in_child

from mmbloom import BloomFilter, ClosedFilterError, FileChangedError, FormatError
from mmbloom._storage import mapped as storage_module
from mmbloom._storage.mapped import MappedFilter
from mmbloom._storage.opening import Counters
from mmbloom.filters.file import count
from mmbloom.format.header import KEYS_ADDED, MUTABLE_FIELDS, POSITIONS_SET

Change = Callable[[str], None]


@pytest.fixture
def made(path: str) -> str:
    with BloomFilter.create(path, 100, seed=1) as seen:
        seen.add("a")
    return path


def open_storage(path: str, *, writable: bool = True) -> MappedFilter:
    return MappedFilter(path, writable=writable, allow_network=False)


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
    assert not is_file_open(made)


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


def cut_off(path: str) -> None:
    os.truncate(path, 4096)


def copied(path: str) -> None:
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)


def moved_folder(path: str) -> None:
    folder = os.path.dirname(path)
    os.rename(folder, folder + ".old")


def file_for_folder(path: str) -> None:
    moved_folder(path)
    Path(os.path.dirname(path)).write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "writable", "said"),
    [(cut_off, False, "truncated"), (copied, True, "replaced by another file")],
)
def test_changed_while_it_is_opened(
    made: str, monkeypatch: pytest.MonkeyPatch, change: Change, writable: bool, said: str
) -> None:
    """After its header was read, or between the two opens of mode r+: no map that kills."""
    at_next_call(monkeypatch, storage_module, "read_header", lambda: change(made), after=True)
    with pytest.raises(FileChangedError, match=said):
        open_storage(made, writable=writable)


@pytest.mark.parametrize("change", [cut_off, copied, moved_folder, file_for_folder])
@pytest.mark.parametrize("written", [True, False], ids=["written before", "never written"])
def test_changed_while_it_is_open(tmp_path: Path, change: Change, *, written: bool) -> None:
    """Each call is FileChangedError, and the map is not touched; more changes are T9's."""
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / "folder" / "seen.bloom")
    calls = WRITES | {name: READS[name] for name in ("in", "contains_many")}

    def work() -> None:
        with BloomFilter.create(path, 100) as seen, BloomFilter.open(path, "r") as reader:
            if written:
                seen.add("x")
            change(path)
            soon()
            check_raises(calls | {"flush": lambda seen: seen.flush()}, seen, FileChangedError)
            check_raises(
                {name: READS[name] for name in ("in", "contains_many")}, reader, FileChangedError
            )

    in_child(work)  # touching the map of a cut file would kill


def test_counters_in_the_other_byte_order() -> None:
    """They are counted modulo 2**64, as on a machine whose order is not the file's."""
    swapped = np.zeros(len(MUTABLE_FIELDS), dtype=np.dtype(np.uint64).newbyteorder("S"))
    counters = Counters(swapped)
    assert (count(counters, KEYS_ADDED, 3), count(counters, KEYS_ADDED, -1)) == (3, 2)
    assert [count(counters, POSITIONS_SET, by) for by in (2**63 + 5, 2**63)] == [2**63 + 5, 5]
    counted = dict(zip(MUTABLE_FIELDS, swapped.tolist(), strict=True))
    assert counted == {**dict.fromkeys(MUTABLE_FIELDS, 0), "keys_added": 2, "positions_set": 5}
