"""Whose file of exclusions counts: that of the filter's owner, of this process's user, of root.

Whoever could put one beside a filter of somebody else would make it deny keys that it holds.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import soon
from excluding import EXACT, Filter, Kind, Make, OneFile, listed
from workers import as_user, in_child

from mmbloom import BloomFilter, MmbloomWarning, copy, verify

KEY, OWNER, STRANGER = "a", 12345, 54321

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of two users")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as /tmp: all users make files in it, and remove none of each other's."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def link(path: Path) -> None:
    """A stranger's link to a file of the filter's owner: who made it has chosen what it says."""
    kept = path.with_name("kept")
    kept.write_bytes(b"a\n")
    path.symlink_to(kept)


def private(path: Path) -> None:
    path.write_bytes(b"a\n")
    path.chmod(0o600)


STRANGE: dict[str, Callable[[Path], object]] = {
    "file": lambda path: path.write_bytes(b"a\n"),
    "private file": private,
    "damaged file": lambda path: path.write_bytes(b"\\"),
    "empty file": Path.touch,
    "link": link,
    "link in a ring": lambda path: path.symlink_to(path),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "fifo": os.mkfifo,
    "folder": Path.mkdir,
}


@pytest.mark.parametrize("put", STRANGE.values(), ids=STRANGE)
def test_a_strangers_file_is_passed_over(
    seen: Filter, kind: Kind, put: Callable[[Path], object]
) -> None:
    """It excludes nothing, and stops nothing; one warning says so, and whose it is."""
    put(listed(seen))
    os.chown(listed(seen), STRANGER, STRANGER, follow_symlinks=False)
    soon()
    expected = rf"seen\.bloom[./]exclusions: ignored.*user {STRANGER}, the filter to user 0"
    with pytest.warns(MmbloomWarning, match=expected) as warned:
        assert KEY in seen
    assert len(warned) == 1
    for _ in range(3):
        soon()
        assert seen.contains_many([KEY, "z"]).tolist() == [True, False]
        assert not seen.add_many([KEY]).any()
        assert not seen.add(KEY)
        assert list(seen.exclusions) == []
        assert seen.info().exclusions == 0
    assert any("ignored, so" in note for note in verify(seen.path).notes)
    assert verify(seen.path).ok
    with pytest.raises(PermissionError, match="ignored, so"):
        seen.exclusions.add("b")
    with pytest.warns(MmbloomWarning, match="ignored, so"):
        copy(seen.path, seen.path + "2")
    with kind.open(seen.path + "2") as copied:
        assert KEY in copied


def test_a_file_of_the_owner_again(seen: Filter) -> None:
    """What is chowned, or removed and made anew, counts from then on; and no more, vice versa."""
    listed(seen).write_bytes(b"a\n")
    soon()
    assert KEY not in seen
    os.chown(listed(seen), STRANGER, STRANGER)
    soon()
    with pytest.warns(MmbloomWarning, match="ignored, so"):
        assert KEY in seen
    os.chown(listed(seen), 0, 0)
    soon()
    assert KEY not in seen


def test_two_users_in_a_sticky_folder(shared: Path) -> None:
    """A stranger makes the file; the owner's keys are found, and the owner's own file counts."""
    path, listed_at = shared / "seen.bloom", shared / "seen.bloom.exclusions"

    def make() -> None:
        with BloomFilter.create(path, **EXACT) as seen:
            seen.add_many(["a", "b"])

    def ask() -> None:
        with BloomFilter.open(path) as seen:
            with pytest.warns(MmbloomWarning, match="ignored, so"):
                assert seen.contains_many(["a", "b"]).all()
            assert not seen.add("a")

    def exclude() -> None:
        with BloomFilter.open(path) as seen:
            assert seen.exclusions.add("b")
            assert seen.contains_many(["a", "b"]).tolist() == [True, False]

    as_user(OWNER, make)
    as_user(STRANGER, lambda: listed_at.write_bytes(b"a\n"))
    as_user(OWNER, ask)
    listed_at.unlink()
    as_user(OWNER, exclude)


@pytest.mark.parametrize(
    ("filters", "files", "asking"), [(OWNER, 0, OWNER), (0, OWNER, OWNER), (OWNER, OWNER, STRANGER)]
)
def test_whose_files_count(shared: Path, filters: int, files: int, asking: int) -> None:
    """That of root, that of whoever asks, and that of the filter's owner, whoever asks."""
    path = shared / "seen.bloom"
    with BloomFilter.create(path, permissions=0o644, **EXACT) as seen:
        seen.add(KEY)
    Path(f"{path}.exclusions").write_bytes(b"a\n")
    os.chown(path, filters, filters)
    os.chown(f"{path}.exclusions", files, files)

    def ask() -> None:
        with BloomFilter.open(path, "r") as seen:
            assert KEY not in seen

    as_user(asking, ask)


@pytest.mark.parametrize(
    ("filters", "files", "counts"),
    [
        *((0o600, 0o644, True), (0o660, 0o660, True), (0o666, 0o666, True)),
        *((0o600, 0o620, False), (0o600, 0o602, False)),
        *((0o660, 0o662, False), (0o602, 0o622, False)),
    ],
)
def test_written_by_others(make: Make, filters: int, files: int, *, counts: bool) -> None:
    """Of the right owner, and open to others than the filter: an error that says what to do."""
    seen = make()
    seen.add(KEY)
    listed(seen).write_bytes(b"a\n")
    listed(seen).chmod(files)
    os.chmod(seen.path, filters | 0o100 * os.path.isdir(seen.path))
    soon()
    if counts:
        assert KEY not in seen
        return
    with pytest.raises(PermissionError, match=rf"{files:o}.*chmod go-w.*exclusions"):
        seen.contains_many([KEY])
    with pytest.raises(PermissionError, match="chmod go-w"):
        seen.exclusions.add("b")
    assert "exclusions cannot be read" in "".join(verify(seen.path).problems)


def test_a_group_that_is_not_the_filters(make: Make) -> None:
    """The same bits for another group are for others."""
    seen = make(permissions=0o660)
    seen.add(KEY)
    seen.exclusions.add(KEY)
    assert stat.S_IMODE(listed(seen).stat().st_mode) == 0o660
    assert KEY not in seen
    os.chown(listed(seen), 0, STRANGER)
    soon()
    with pytest.raises(PermissionError, match="chmod go-w"):
        seen.contains_many([KEY])


def test_only_the_owner_changes_them(shared: Path) -> None:
    """Another user's file would be a stranger's for all others: it is not made."""
    path = shared / "seen.bloom"
    with BloomFilter.create(path, permissions=0o666, **EXACT) as seen:
        seen.add(KEY)
    os.chown(path, OWNER, OWNER)

    def change() -> None:
        with BloomFilter.open(path) as seen:
            with pytest.raises(PermissionError, match=f"belongs to user {OWNER}: only that user"):
                seen.exclusions.add(KEY)
            assert KEY in seen

    as_user(STRANGER, change)
    assert sorted(os.listdir(shared)) == ["seen.bloom"]


def test_a_group_that_cannot_be_given(shared: Path) -> None:
    """The owner is not in the filter's group: the file's own group may not write it; it counts."""
    path = shared / "seen.bloom"
    with BloomFilter.create(path, permissions=0o660, **EXACT) as seen:
        seen.add(KEY)
    os.chown(path, OWNER, STRANGER)

    def change() -> None:
        with BloomFilter.open(path) as seen:
            seen.exclusions.add(KEY)
            assert KEY not in seen

    as_user(OWNER, change)
    assert stat.S_IMODE((shared / "seen.bloom.exclusions").stat().st_mode) == 0o640


def test_the_effective_user_looks(tmp_path: Path) -> None:
    """A process whose real user may not enter the folder finds the file all the same."""
    path = tmp_path / "seen.bloom"
    with OneFile().create(path) as seen:
        seen.add(KEY)
        seen.exclusions.add(KEY)

    def ask() -> None:
        os.setreuid(STRANGER, 0)
        with BloomFilter.open(path) as seen:
            assert not os.access(path, os.F_OK)
            assert KEY not in seen

    tmp_path.chmod(0o700)
    in_child(ask)
