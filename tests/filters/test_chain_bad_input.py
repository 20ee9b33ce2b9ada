"""Folders that are not what they should be: an error that names the file, and nothing changed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from chains import files_of
from checks import change_header, contents, in_turn, seal

from mmbloom import BloomFilter, GrowingFilter
from mmbloom.errors import FileChangedError, FormatError, ReadOnlyError

KEYS = range(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three files."""
    with GrowingFilter.create(tmp_path / "seen", 10, 1e-9) as seen:
        seen.update(KEYS)
    return tmp_path / "seen"


def other(file: Path) -> None:
    """Put another filter of the same sizes and seed in the place of one."""
    with BloomFilter.open(file, "r") as seen:
        file.unlink()
        BloomFilter.create(file, like=seen).close()


def other_hash(file: Path) -> None:
    """Give it the hash of before there was another, and a seed of 0."""
    change_header(str(file), 24, "<I", 1)
    change_header(str(file), 112, "<Q", 0)
    change_header(str(file), 120, "<Q", 0)


# What is done to a file, and what the error names if it is a field of the file.
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, ""),
    "text": (lambda file: file.write_text("hello"), ""),
    "cut": (lambda file: os.truncate(file, file.stat().st_size - 8), ""),
    "another": (other, "uuid"),
    "other sizes": (lambda file: change_header(str(file), 48, "<Q", 12345), "planned capacity"),
    "other rate": (lambda file: change_header(str(file), 56, "<d", 0.25), "planned error rate"),
    "other seed": (lambda file: change_header(str(file), 112, "<Q", 99), "seed"),
    "other hash": (other_hash, "hash"),
    "counters": (lambda file: change_header(str(file), 16, "<I", 2), ""),
    "fifo": (in_turn(Path.unlink, os.mkfifo), ""),
    "folder": (in_turn(Path.unlink, Path.mkdir), ""),
}


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_member(folder: Path, damage: str, number: int, mode: str) -> None:
    """FormatError that names the file; the others and the manifest are as they were."""
    file = files_of(folder)[number]
    change, field = DAMAGES[damage]
    change(file)
    before = contents(folder)
    with pytest.raises(FormatError) as caught:
        GrowingFilter.open(folder, mode)  # type: ignore[arg-type]
    assert caught.value.path == str(file)
    assert caught.value.field == (field or caught.value.field)
    assert contents(folder) == before


@pytest.mark.parametrize("damage", ["missing", "another", "fifo", "folder"])
@pytest.mark.parametrize("number", [0, 2])
def test_member_damaged_while_open(folder: Path, damage: str, number: int) -> None:
    """Law 16: who has the file open is told, and nothing is touched that is not there."""
    file = files_of(folder)[number]
    with GrowingFilter.open(folder) as seen:
        DAMAGES[damage][0](file)
        for action in (
            lambda: seen.contains_many(["x"]),
            lambda: "x" in seen,
            lambda: seen.add_many(["x"]),
            lambda: seen.add("x"),
            seen.info,
        ):
            with pytest.raises(FileChangedError) as caught:
                action()
            assert caught.value.path == str(file)


def name_one_twice(manifest: Path) -> None:
    record = json.loads(manifest.read_text())
    record["members"][1]["uuid"] = record["members"][0]["uuid"]
    manifest.write_text(json.dumps(record))


MANIFESTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda manifest: manifest.write_bytes(b""), "expected"),
    "no fields": (lambda manifest: manifest.write_bytes(b"{}"), "expected"),
    "null": (lambda manifest: manifest.write_bytes(b"null"), "expected"),
    "zeros": (lambda manifest: manifest.write_bytes(bytes(5000)), "expected"),
    "missing": (Path.unlink, "missing"),
    "fifo": (in_turn(Path.unlink, os.mkfifo), "regular file"),
    "one twice": (name_one_twice, "different"),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_damaged_manifest(folder: Path, damage: str) -> None:
    change, said = MANIFESTS[damage]
    change(folder / "manifest.json")
    with pytest.raises(FormatError, match=said) as caught:
        GrowingFilter.open(folder)
    assert caught.value.path == str(folder if damage == "missing" else folder / "manifest.json")


def test_manifest_damaged_while_open(folder: Path) -> None:
    """It is told of by whoever looks next; put right, all goes on."""
    good = (folder / "manifest.json").read_bytes()
    with GrowingFilter.open(folder) as seen:
        (folder / "manifest.json").write_bytes(b"{}")
        with pytest.raises(FormatError):
            seen.add("x")
        with pytest.raises(FormatError):
            seen.contains_many(["x"])
        (folder / "manifest.json").write_bytes(good)
        assert seen.add("x")
        assert seen.contains_many(KEYS).all()


def test_extra_files_are_nobodys(folder: Path) -> None:
    """What the manifest does not name is neither read nor touched."""
    (folder / "notes.txt").write_text("mine")
    BloomFilter.create(folder / "9999.bloom", 10).close()
    (folder / "more").mkdir()
    with GrowingFilter.open(folder) as seen:
        assert len(seen.info().files) == 3
        seen.update(range(1000))
    assert (folder / "notes.txt").read_text() == "mine"
    assert {"notes.txt", "9999.bloom", "more"} <= {*os.listdir(folder)}


def test_sealed_newest_is_read_only(folder: Path) -> None:
    """It answers; adding says why not."""
    seal(str(files_of(folder)[-1]))
    with GrowingFilter.open(folder) as seen:
        assert seen.contains_many(KEYS).all()
        with pytest.raises(ReadOnlyError, match="sealed"):
            seen.add("x")


def test_copied_folder_is_one_of_its_own(folder: Path) -> None:
    """A copy works, wherever it is: nothing in it names a place."""
    shutil.copytree(folder, folder.parent / "copy")
    with GrowingFilter.open(folder.parent / "copy") as copy, GrowingFilter.open(folder) as seen:
        assert copy.update(range(1000)) == 1000 - len(KEYS)
        assert copy.contains_many(KEYS).all()
        assert 999 not in seen
