"""The file of the exclusions, damaged or something else: an error for whoever would go by it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from chains import files_of
from checks import lasting, soon
from excluding import EXACT, Filter, SoonFull, Ticking, listed, tree
from steps import refuse_to_open

from mmbloom import BloomFilter, FolderInfo, FormatError, copy, verify

KEY = "a"


def asks_that_hit(seen: Filter) -> list[Callable[[], object]]:
    """All ways to ask about, and to add, keys of which one is found."""

    def locked() -> None:
        with seen.locked():
            soon()
            seen.add("fresh")

    return [
        *(lambda: KEY in seen, lambda: seen.contains_many(["z", KEY]), lambda: seen.add(KEY)),
        *(lambda: seen.add("fresh"), lambda: seen.add_many(["fresh"])),
        *(lambda: seen.update(iter(["fresh"])), lambda: seen.claim(["fresh"]).__enter__()),
        *(locked, seen.info),
        lambda: len(seen.exclusions),
        lambda: seen.exclusions.add("x"),
        lambda: seen.exclusions.discard("x"),
        lambda: copy(seen.path, seen.path + "2"),
    ]


def contents(folder: Path) -> dict[str, bytes]:
    names = [name for name in tree(folder) if not name.endswith("exclusions")]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "undecodable": (lambda path: path.write_bytes(b"a\n\\q\n"), "line 2 is not a key"),
    "binary": (lambda path: path.write_bytes(bytes(range(256))), "line 1 is not text"),
    "not UTF-8": (lambda path: path.write_bytes(b"\n\nc\xe9\n"), "line 3 is not UTF-8"),
    "folder": (Path.mkdir, "file is a folder, expected a regular file"),
    "fifo": (os.mkfifo, "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "large": (lambda path: path.write_bytes(b"k\n" * 2**20), "more than 1048576 bytes"),
}


@pytest.mark.parametrize(("put", "reason"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(
    seen: Filter, put: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    """Whatever else is in its place: one error that names it, no hang, nothing added or made."""
    path = listed(seen)
    put(path)
    status = lasting(path)
    before = contents(tmp_path)
    soon()
    for ask in asks_that_hit(seen):
        with pytest.raises(FormatError, match=reason) as caught:
            ask()
        assert caught.value.path == str(path)
    assert contents(tmp_path) == before
    assert "fresh" not in seen  # a miss, which asks nobody
    assert not seen.contains_many(["y", "z"]).any()
    assert lasting(path) == status


def test_links_in_a_ring(seen: Filter) -> None:
    """A link that cannot be followed is the system's own error, not a filter without them."""
    listed(seen).symlink_to(listed(seen))
    soon()
    said = rf"{os.strerror(errno.ELOOP)}: .*seen\.bloom[./]exclusions"
    for ask in asks_that_hit(seen):
        with pytest.raises(OSError, match=said):
            ask()


def test_a_long_name(tmp_path: Path) -> None:
    """Of a name to which nothing can be added a filter has no exclusions, and is sound."""
    with BloomFilter.create(tmp_path / ("n" * 255), **EXACT) as made:
        assert (made.add(KEY), KEY in made, len(made.exclusions)) == (True, True, 0)
        copy(made.path, tmp_path / "copy")
        assert verify(made.path).ok


def test_mended(seen: Filter) -> None:
    """A file that was damaged is gone by as soon as it is right; one removed is no exclusions."""
    listed(seen).write_bytes(b"\\")
    soon()
    with pytest.raises(FormatError):
        seen.contains_many([KEY])
    listed(seen).write_bytes(b"a\n")
    assert not seen.contains_many([KEY]).any()
    soon()
    listed(seen).write_bytes(b"b\n")  # in place, of the same size, within one tick of the clock
    soon()
    assert seen.contains_many(["a", "b"]).tolist() == [True, False]
    listed(seen).unlink()
    soon()
    assert seen.contains_many(["a", "b"]).all()
    listed(seen).write_bytes(b"\n\n")
    soon()
    assert KEY in seen


def test_no_permission_to_read(seen: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that others keep to themselves is the system's own error, with the file's name."""
    listed(seen).write_bytes(b"a\n")
    soon()
    refuse_to_open(monkeypatch, errno.EACCES, lambda path, _: path.endswith("exclusions"))
    with pytest.raises(PermissionError, match=r"seen\.bloom[./]exclusions"):
        seen.contains_many([KEY])


@pytest.mark.parametrize("kind", [SoonFull(), Ticking()], ids=type)
def test_files_of_a_folder_have_none_of_their_own(kind: SoonFull | Ticking, path: str) -> None:
    """What lies beside a file of a folder is nobody's business, whatever it says."""
    kind.create(path).close()
    for file in files_of(path):
        Path(f"{file}.exclusions").write_bytes(b"a\n\\wrong\n")
    with kind.open(path) as seen:
        assert seen.add_many(range(100)).all()
        with seen.claim(["a"]) as new:
            assert new.all()
        soon()
        assert not seen.add("a")
        assert "a" in seen
        assert seen.exclusions.add(5)
        assert not seen.contains_many(range(100))[5]
        info: FolderInfo = seen.info()
        assert {one.exclusions for one in info.files} == {info.exclusions} == {1}
        found = verify(path)
        notes = found.notes
        assert found.ok, found.problems
        assert "1 keys are excluded: never reported as seen" in notes
        assert not any(note.startswith("exclusions:") for note in notes)
