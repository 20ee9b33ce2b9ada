"""A new filter is there complete, private and reserved, or not at all."""

import os
import stat
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checks import array_of, check_folder, counters_of, lasting

from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter, verify
from mmbloom._storage.atomic import Target
from mmbloom._storage.build import create_file
from mmbloom.sizing import plan

PARAMS = plan(1000, 0.01, seed=3)
SIZE = 4096 + PARAMS.num_bytes


def make(path: str, permissions: int = 0o600) -> None:
    create_file(Target(path, permissions, False), PARAMS)


def test_file_is_header_and_zeros(path: str) -> None:
    """The file is a valid header, then m/8 zero bytes, then nothing; counters are zero."""
    make(path)
    raw = Path(path).read_bytes()
    assert len(raw) == SIZE
    assert raw[:8] == b"\x89MMBLM\r\n"
    assert struct.unpack_from("<I", raw, 508)[0] == zlib.crc32(raw[:508])
    assert not any(array_of(path))
    assert not any(counters_of(path).values())
    check_folder(os.path.dirname(path), "seen.bloom")


def test_space_is_reserved(path: str) -> None:
    """All of the file is on the disk from the start: no hole can meet a full disk later."""
    BloomFilter.create(path, 1_000_000).close()
    assert os.stat(path).st_blocks * 512 >= os.stat(path).st_size > 10**6


def test_files_differ_in_uuid_and_seed(tmp_path: Path) -> None:
    """Two filters made alike have their own uuid and their own random seed."""
    infos = []
    for name in "abc":
        with BloomFilter.create(tmp_path / name, 100) as seen:
            infos.append(seen.info())
    assert len({info.uuid for info in infos}) == 3
    assert len({info.seed for info in infos}) > 1


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o644, 0o666])
def test_permissions_whatever_the_umask(path: str, umask: int, permissions: int) -> None:
    """The file has exactly the mode asked for."""
    before = os.umask(umask)
    try:
        make(path, permissions)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == permissions


@pytest.mark.parametrize("permissions", [600, 640, 644, 660, 0, -1, 0o200, 0o10600])
def test_permissions_that_are_none(tmp_path: Path, permissions: int) -> None:
    """A mode without its 0o would make a file that nobody may read: nothing is made."""
    said = rf"permissions are {permissions}, which is .*, such as 0o640, with 0o in front"
    with pytest.raises(ValueError, match=said):
        BloomFilter.create(tmp_path / "file", 10, permissions=permissions)
    with pytest.raises(ValueError, match=said):
        GrowingFilter.create(tmp_path / "folder", 10, permissions=permissions)
    wrong: Any = "640"
    with pytest.raises(TypeError, match="permissions are '640', expected an int such as 0o640"):
        BloomFilter.create(tmp_path / "file", 10, permissions=wrong)
    assert os.listdir(tmp_path) == []


def test_private_unless_asked_otherwise(path: str) -> None:
    """By default nobody else can read a filter, even with an open umask."""
    before = os.umask(0)
    try:
        BloomFilter.create(path, 10).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def occupy(kind: str, path: str) -> None:
    """Put something at the path."""
    if kind == "file":
        Path(path).write_bytes(b"precious")
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        os.symlink({"dangling link": "nowhere", "link": __file__}[kind], path)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "dangling link", "link"])
@pytest.mark.parametrize("late", [False, True], ids=["there before", "made meanwhile"])
def test_nothing_is_overwritten(
    path: str, monkeypatch: pytest.MonkeyPatch, kind: str, *, late: bool
) -> None:
    """Whatever is at the path stays as it is: FileExistsError, no link followed, no litter.

    Also when it appears after the first look: then the link of the finished file fails.
    """
    occupy(kind, path)
    before = lasting(path)
    if late:
        monkeypatch.setattr("mmbloom._storage.atomic.os.path.lexists", lambda _: False)
    with pytest.raises(FileExistsError, match="choose another path") as caught:
        make(path)
    assert caught.value.filename == path
    assert lasting(path) == before
    check_folder(os.path.dirname(path), "seen.bloom")


def test_how_to_open_what_is_there(tmp_path: Path) -> None:
    """A second run is told of exist_ok; the message, which commands show, is not of Python."""
    for cls in (BloomFilter, GrowingFilter):
        path = tmp_path / cls.__name__
        cls.create(path, 10).close()
        with pytest.raises(FileExistsError) as caught:
            cls.create(path, 10)
        (note,) = caught.value.__notes__
        assert note.startswith("with exist_ok=True")
        assert "exist_ok" not in str(caught.value)
        cls.create(path, 10, exist_ok=True).close()


def test_missing_folder(tmp_path: Path) -> None:
    """A folder that is not there is a FileNotFoundError, and is not made."""
    with pytest.raises(FileNotFoundError):
        make(str(tmp_path / "no" / "seen.bloom"))
    check_folder(tmp_path)


def test_create_opens_what_it_made(create: Callable[..., BloomFilter], path: str) -> None:
    """Create returns the filter open for writing, with the plan's parameters."""
    seen = create(1000, 0.01, seed=3)
    assert seen.params == PARAMS
    assert (seen.path, seen.closed, seen.info().read_only) == (path, False, "")
    assert seen.add("a")


@pytest.mark.parametrize("kind", [BloomFilter, CountingBloomFilter])
def test_path_of_bytes(path: str, kind: type[BloomFilter | CountingBloomFilter]) -> None:
    """A name that no encoding holds is one as any, and is told as `str`."""
    raw = os.fsencode(path) + b"\xff"
    with kind.create(raw, 100) as made:
        made.add("a")
        assert made.path == os.fsdecode(raw)
    with kind.open(raw) as seen:
        assert "a" in seen
    assert verify(raw).ok
