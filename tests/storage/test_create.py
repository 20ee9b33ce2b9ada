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


def make(path: str) -> None:
    create_file(Target(path, 0o600, False), PARAMS)


def test_file_is_header_and_zeros(path: str) -> None:
    make(path)
    raw = Path(path).read_bytes()
    assert len(raw) == SIZE
    assert raw[:8] == b"\x89MMBLM\r\n"
    assert struct.unpack_from("<I", raw, 508)[0] == zlib.crc32(raw[:508])
    assert not any(array_of(path))
    assert not any(counters_of(path).values())
    check_folder(os.path.dirname(path), "seen.bloom")


def test_files_differ_in_uuid_and_seed(tmp_path: Path) -> None:
    """Two filters made alike have their own uuid and their own random seed."""
    infos = []
    for name in "abc":
        with BloomFilter.create(tmp_path / name, 100) as seen:
            infos.append(seen.info())
    assert len({info.uuid for info in infos}) == 3
    assert len({info.seed for info in infos}) > 1


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
@pytest.mark.parametrize("permissions", [None, 0o600, 0o640, 0o644, 0o666])
def test_permissions_whatever_the_umask(path: str, umask: int, permissions: int | None) -> None:
    """The file has exactly the mode asked for; by default nobody else can read it."""
    before = os.umask(umask)
    try:
        options: dict[str, Any] = {} if permissions is None else {"permissions": permissions}
        BloomFilter.create(path, 10, **options).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == (permissions or 0o600)


@pytest.mark.parametrize("permissions", [600, 640, 644, 660, 0, -1, 0o200, 0o10600])
def test_permissions_that_are_none(tmp_path: Path, permissions: int) -> None:
    """A mode without its 0o would make a file that nobody may read: nothing is made."""
    said = rf"permissions are {permissions}, which is .*, such as 0o640 \(note the leading 0o\)"
    with pytest.raises(ValueError, match=said):
        BloomFilter.create(tmp_path / "file", 10, permissions=permissions)
    with pytest.raises(ValueError, match=said):
        GrowingFilter.create(tmp_path / "folder", 10, permissions=permissions)
    wrong: Any = "640"
    with pytest.raises(TypeError, match="permissions are '640', expected an int such as 0o640"):
        BloomFilter.create(tmp_path / "file", 10, permissions=wrong)
    assert os.listdir(tmp_path) == []


OCCUPIED: dict[str, Callable[[str], object]] = {
    "file": lambda path: Path(path).write_bytes(b"precious"),
    "folder": os.mkdir,
    "fifo": os.mkfifo,
    "dangling link": lambda path: os.symlink("nowhere", path),
    "link": lambda path: os.symlink(__file__, path),
}


@pytest.mark.parametrize("kind", OCCUPIED)
@pytest.mark.parametrize("late", [False, True], ids=["there before", "made meanwhile"])
def test_nothing_is_overwritten(
    path: str, monkeypatch: pytest.MonkeyPatch, kind: str, *, late: bool
) -> None:
    """Whatever is at the path stays as it is: FileExistsError, no link followed, no litter.

    Also when it appears after the first look: then the link of the finished file fails.
    """
    OCCUPIED[kind](path)
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
        assert note.startswith("pass exist_ok=True")
        assert "exist_ok" not in str(caught.value)
        cls.create(path, 10, exist_ok=True).close()


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make(str(tmp_path / "no" / "seen.bloom"))
    check_folder(tmp_path)


def test_create_opens_what_it_made(create: Callable[..., BloomFilter], path: str) -> None:
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
