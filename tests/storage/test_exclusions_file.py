"""The file of the exclusions: replaced whole or not at all, whoever changes it, and however."""

import errno
import itertools
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import check_folder, soon
from excluding import EXACT, Filter, Kind, Make, listed, tree
from steps import calls_of, refuse_to_open

from mmbloom import BloomFilter, FormatError, copy, merge, repair
from mmbloom._storage.exclusions import MOST_BYTES

KEY = "a"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604])
def test_permissions(make: Make, mode: int) -> None:
    """Who may read the filter may read its exclusions, whatever the umask."""
    made = make(permissions=mode)
    before = os.umask(0o077)
    try:
        made.exclusions.add("a")
    finally:
        os.umask(before)
    status, of_filter = listed(made).stat(), os.stat(made.path)
    assert stat.S_IMODE(status.st_mode) == mode
    assert (status.st_uid, status.st_gid) == (of_filter.st_uid, of_filter.st_gid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
def test_made_by_root_for_the_owner(seen: Filter) -> None:
    os.chown(seen.path, 12345, 54321)
    seen.exclusions.add("a")
    status = listed(seen).stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_read_only_folder(seen: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be made, changes fail with the name that people know."""
    seen.exclusions.add("a")
    refuse_to_open(monkeypatch, errno.EROFS, lambda _, flags: flags & os.O_CREAT)
    with pytest.raises(OSError, match="Read-only file system") as caught:
        seen.exclusions.add("b")
    assert caught.value.filename == str(listed(seen))
    monkeypatch.undo()
    assert list(seen.exclusions) == [b"a"]


def test_symbolic_links(seen: Filter, kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    link.symlink_to(seen.path)
    before = tree(tmp_path)
    with kind.open(link) as other:
        other.exclusions.add("b")
        assert "b" not in other
        assert os.path.samefile(other.exclusions.path, listed(seen))
    assert list(seen.exclusions) == [b"b"]
    listed(seen).rename(tmp_path / "kept")
    listed(seen).symlink_to(tmp_path / "kept")
    assert list(seen.exclusions) == [b"b"]
    with pytest.raises(FormatError, match=r"symbolic link.*change the file that it points to"):
        seen.exclusions.add("c")
    assert (tmp_path / "kept").read_bytes() == b"b\n"
    there = os.path.relpath(listed(seen), tmp_path)
    assert tree(tmp_path) == sorted([*before, "kept", there])


def test_too_many(seen: Filter) -> None:
    """At most 1 MiB of them: the last that fits is taken, the next refused, and all stay."""
    seen.exclusions.update(f"{n:015}" for n in range(MOST_BYTES // 16))
    assert listed(seen).stat().st_size == MOST_BYTES
    assert len(seen.exclusions) == MOST_BYTES // 16
    with pytest.raises(ValueError, match="1048576 are allowed"):
        seen.exclusions.add("")
    with pytest.raises(ValueError, match=r"exclusions: more keys than"):
        seen.exclusions.update(map(str, itertools.count()))  # which has no end
    with pytest.raises(ValueError, match=r"exclusions: more keys than"):
        seen.exclusions.difference_update(map(str, itertools.count()))
    assert len(seen.exclusions) == MOST_BYTES // 16
    assert not seen.contains_many(["000000000000007"]).any()


def test_order_of_people_is_kept(seen: Filter) -> None:
    """What a person wrote stays in its order; what is the same twice is there once."""
    listed(seen).write_bytes(b"z\n\na\r\nz\n\\x62")
    seen.exclusions.update(["m", "a"])
    assert listed(seen).read_bytes() == b"z\na\nb\nm\n"
    before = listed(seen).stat()
    assert not seen.exclusions.add("m")
    assert listed(seen).stat().st_ino == before.st_ino, "nothing to change is no change"
    assert not seen.exclusions.discard("other")
    assert listed(seen).stat().st_ino == before.st_ino


def test_a_new_filter_is_not_made_beside_them(
    create: Callable[..., BloomFilter], path: str
) -> None:
    """Exclusions of a filter that is gone would make a new one deny its keys (law 1)."""
    with create(**EXACT) as made:
        made.exclusions.add("a")
    os.rename(path, path + ".old")
    for options in ({}, {"exist_ok": True}):
        with pytest.raises(FileExistsError, match="filter that is gone") as caught:
            BloomFilter.create(path, 1000, **options)  # type: ignore[arg-type]
        assert caught.value.filename == path + ".exclusions"
    check_folder(Path(path).parent, "seen.bloom.exclusions", "seen.bloom.old")
    os.rename(path + ".old", path)
    with BloomFilter.create(path, exist_ok=True, **EXACT) as made:
        assert list(made.exclusions) == [b"a"]


def test_what_takes_them_along(seen: Filter, kind: Kind, path: str) -> None:
    """A copy has them; merge and repair make filters without."""
    seen.exclusions.update(["a", "\n"])
    results = {"-copy": [b"a", b"\n"], "-merged": [], "-repaired": []}
    copy(path, path + "-copy")
    merge(path + "-merged", [path, path + "-copy"])
    repair(path, path + "-repaired")
    for name, expected in results.items():
        with kind.open(path + name, "r") as made:
            assert list(made.exclusions) == expected
            assert ("a" in made) == (not expected)


def test_read_once(seen: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has not changed for a while is not read again, however often it is looked at."""
    seen.exclusions.add("b")
    later = time.time_ns() + 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    soon()
    assert KEY in seen
    monkeypatch.setattr("mmbloom.filters.exclusions.read_listed", None)
    for _ in range(10):
        soon()
        assert seen.contains_many([KEY, "b"]).tolist() == [True, False]
    monkeypatch.undo()
    seen.exclusions.add(KEY)
    assert KEY not in seen


def test_none_cost_nothing(seen: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Misses ask for no exclusions, and of hits at most one in a millisecond does."""
    looks = calls_of(monkeypatch, os, "access")
    soon()
    for _ in range(100):
        assert "miss" not in seen
        seen.contains_many(["miss", "other"])
    assert not looks
    assert KEY in seen
    assert [path for path, _ in looks] == [str(listed(seen))]
    monkeypatch.setattr("mmbloom.filters.exclusions.monotonic", lambda: 0.0)  # time stands still
    for _ in range(100):
        assert KEY in seen
        assert seen.contains_many([KEY]).all()
    assert len(looks) == 1
