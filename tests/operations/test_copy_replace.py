"""A copy in the place of another: the old filter or the new one, whole, and nothing else lost."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import has
import pytest
import sweeps
from checks import check_folder, contents, in_turn
from descriptors import open_files
from faults import Hook, at_call, fail_with, ignore, kill_self, mount_tmpfs, os_calls
from kinds import KINDS
from workers import ChildDiedError, in_child

import mmbloom
from mmbloom import BloomFilter, GrowingFilter, copy, verify
from mmbloom._system import disk

OLD, NEW = range(18), range(30)


def two_of(folder: Path, kind: str) -> tuple[Path, Path]:
    """A filter, and a copy of it that was made before the last keys came."""
    folder.mkdir(exist_ok=True)
    with KINDS[kind].create(folder / "live", 12 if kind == "growing" else 100, seed=5) as seen:
        seen.update(OLD)
        copy(folder / "live", folder / "kept")
        seen.update(NEW)
    return folder / "live", folder / "kept"


def keys_in(path: Path) -> int:
    """How many of the keys are in a filter that is sound: those of the old one or of the new."""
    assert verify(path).problems == ()
    with mmbloom.open(path, "r") as there:
        return int(there.contains_many(NEW).sum())


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_replaced(tmp_path: Path, kind: str, *, seal: bool) -> None:
    """The new copy has all keys, a uuid of its own and the permissions asked for."""
    live, kept = two_of(tmp_path, kind)
    with mmbloom.open(kept, "r") as seen:
        before = seen.info().uuid
    copy(live, kept, replace=True, seal=seal, permissions=0o640)
    assert keys_in(kept) == len(NEW)
    with mmbloom.open(kept, "r") as seen:
        assert seen.info().uuid != before
    files = [kept] if kept.is_file() else [*kept.iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o640}
    copy(live, kept, replace=True)  # also in the place of a sealed one
    assert keys_in(kept) == len(NEW)
    check_folder(tmp_path, "live", "kept")


@pytest.mark.parametrize("kind", ["plain", "growing"])
def test_nothing_there(tmp_path: Path, kind: str) -> None:
    live, _ = two_of(tmp_path, kind)
    copy(live, tmp_path / "first", replace=True)
    assert keys_in(tmp_path / "first") == len(NEW)


def a_file(path: Path) -> None:
    BloomFilter.create(path, 100).close()


def link_to(path: Path, aim: Path) -> None:
    a_file(aim)
    path.symlink_to(aim)


def a_folder(path: Path) -> None:
    GrowingFilter.create(path, 10).close()


# What is at the destination, "there".
PUT: dict[str, Callable[[Path], object]] = {
    "text": lambda there: there.write_text("no filter\n"),
    "damaged": in_turn(a_file, lambda there: os.truncate(there, 5000)),
    "link": lambda there: link_to(there, there.with_name("aim")),
    "empty folder": Path.mkdir,
    "folder": a_folder,
    "folder with more": in_turn(a_folder, lambda there: (there / "notes").touch()),
    "file": a_file,
}


@pytest.mark.parametrize(
    ("kind", "put", "where", "said"),
    [
        ("plain", "text", "there", "is not a sound filter"),
        ("plain", "damaged", "there", "is not a sound filter: file size is 5000"),
        ("plain", "link", "there", "symbolic link to .*aim"),
        ("plain", "empty folder", "there", "is a folder, but the source is not"),
        ("plain", "folder", "there", "is a folder, but the source is not"),
        ("plain", "folder", "there/0000000000.bloom", "is a file of the folder"),
        ("growing", "file", "there", "is not a folder, but the source is"),
        ("growing", "empty folder", "there", "is not a sound filter: manifest.json is missing"),
        ("growing", "folder with more", "there", "contains notes, which"),
        ("plain", "file", "live", "is the source itself"),
        ("growing", "file", "live", "is the source itself"),
    ],
)
def test_what_stays(tmp_path: Path, kind: str, put: str, where: str, said: str) -> None:
    """What is no filter of that kind, or is needed, is named and stays as it is."""
    live, _ = two_of(tmp_path, kind)
    PUT[put](tmp_path / "there")
    before = contents(tmp_path)
    with pytest.raises(
        FileExistsError, match=f"{said}.*only another filter can be replaced"
    ) as caught:
        copy(live, tmp_path / where, replace=True)
    assert caught.value.filename == str(tmp_path / where)
    assert contents(tmp_path) == before


@pytest.mark.skipif(not has.WORKING_COPIES, reason="this system has no working copies")
def test_a_filter_in_shared_memory_stays(tmp_path: Path) -> None:
    """It is in use: those who write to it would find another in its place."""
    live, kept = two_of(tmp_path, "plain")
    with BloomFilter.open(kept, resident=True) as seen:
        seen.add("x")
        if not seen.info().resident:
            pytest.skip("no shared memory here")
        with pytest.raises(FileExistsError, match="in use, in shared memory"):
            copy(live, kept, replace=True)
    copy(live, kept, replace=True)
    assert keys_in(kept) == len(NEW)


def test_another_file_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came to the path after the look is not replaced."""
    live, kept = two_of(tmp_path, "plain")

    def other(_fd: int) -> None:
        kept.unlink(missing_ok=True)
        kept.write_text("precious\n")

    monkeypatch.setattr(disk, "sync", other)
    with pytest.raises(OSError, match="something else took the place"):
        copy(live, kept, replace=True)
    assert kept.read_text() == "precious\n"


def copied_with(live: Path, kept: Path, before: Hook = ignore, after: Hook = ignore) -> None:
    """In a child: replace with a hook at every os call; no descriptor may be left open."""
    there = len(open_files())
    try:
        with os_calls(before, after):
            copy(live, kept, replace=True)
    finally:
        assert len(open_files()) == there, "descriptors left open"


def calls_of(folder: Path, kind: str) -> list[str]:
    """The os calls of one replacement, in order."""
    return sweeps.calls_of(partial(copied_with, *two_of(folder, kind)))


def test_on_the_disk_before_it_has_its_path(tmp_path: Path) -> None:
    """Array and header are written and forced to the disk, then the name, then the folder."""
    steps = {"pwrite", "fsync", "link", "rename", "replace"}
    made = [name for name in calls_of(tmp_path / "0", "plain") if name in steps]
    zeros = [] if has.FALLOCATE else ["pwrite"]
    assert made == [*zeros, "pwrite", "pwrite", "fsync", "replace", "fsync"]
    steps.add("exchange")
    made = [name for name in calls_of(tmp_path / "1", "growing") if name in steps]
    assert made[-3:] == ["fsync", "exchange", "fsync"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "when"), [("plain", "after"), ("growing", "before")])
def test_killed_at_any_call(tmp_path: Path, kind: str, when: str) -> None:
    """Kill -9 at each os call: the old filter or the new one is there, sound; then it goes on.

    What a process wrote is there after a kill: one after a call and one before the next are alike.
    """
    found = []
    for number in range(len(calls_of(tmp_path / "calls", kind))):
        live, kept = two_of(tmp_path / f"{number}", kind)
        with pytest.raises(ChildDiedError):
            in_child(partial(copied_with, live, kept, **{when: at_call(number, kill_self)}))
        found.append(keys_in(kept))
        copy(live, kept, replace=True)
        assert keys_in(kept) == keys_in(live) == len(NEW)
    assert found == sorted(found)  # the old one up to some call, the new one from then on
    assert {*found} == {len(OLD), len(NEW)}


@pytest.mark.parametrize("kind", ["plain", "growing"])
def test_any_failing_call(tmp_path: Path, kind: str) -> None:
    """Each os call fails in turn: the old filter or the new one, and no temporary file."""
    calls = calls_of(tmp_path / "calls", kind)
    pairs = [two_of(tmp_path / f"{number}", kind) for number in range(len(calls))]

    def fail_each() -> None:
        for number, pair in enumerate(pairs):
            try:
                copied_with(*pair, at_call(number, fail_with(errno.EIO)))
            except OSError:
                continue
            except mmbloom.FormatError as error:  # a file that cannot be opened is missing to it
                assert "manifest" in str(error), error  # noqa: PT017

    in_child(fail_each)
    for name, (_, kept) in zip(calls, pairs, strict=True):
        assert keys_in(kept) in {len(OLD), len(NEW)}
        left = {*os.listdir(kept.parent)} - {"live", "kept"}
        # What cannot be removed has to stay: the temporary file, or the old folder.
        assert not left or name in {"unlink", "rmdir", "open", "fstat", "lstat"}, name


def replaced_on_a_small_disk(folder: Path) -> str:
    """In a child: where there is no space for a second copy, the first one stays."""
    if not mount_tmpfs(folder, 1 << 20):
        return "not allowed"
    with BloomFilter.create(folder.parent / "live", 300_000) as seen:
        copy(seen.path, folder / "kept")
        seen.update(range(1000))
        (folder / "ballast").write_bytes(bytes(500_000))
        before = (folder / "kept").read_bytes()
        with pytest.raises(OSError, match="cannot reserve") as caught:
            copy(seen.path, folder / "kept", replace=True)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(folder / "kept"))
    assert (folder / "kept").read_bytes() == before
    check_folder(folder, "kept", "ballast")
    return "done"


def test_full_disk(tmp_path: Path) -> None:
    """ENOSPC with the size and the path, and the old copy is as it was."""
    (tmp_path / "disk").mkdir()
    if in_child(partial(replaced_on_a_small_disk, tmp_path / "disk")) == "not allowed":
        pytest.skip("this system allows no user namespaces")


def exclusions_of(path: Path) -> set[Any]:
    with mmbloom.open(path, "r") as seen:
        return {*seen.exclusions}


@pytest.mark.parametrize("kind", ["plain", "growing"])
def test_exclusions(tmp_path: Path, kind: str) -> None:
    """They are those of the source, also where the old ones were others, or it has none."""
    live, kept = two_of(tmp_path, kind)
    for excluded in (["a", "b"], ["b", "c"], []):
        with mmbloom.open(live) as seen:
            seen.exclusions.difference_update([*seen.exclusions])
            seen.exclusions.update(excluded)
        copy(live, kept, replace=True)
        assert exclusions_of(kept) == exclusions_of(live)
        assert len(exclusions_of(kept)) == len(excluded)


def test_killed_amid_exclusions(tmp_path: Path) -> None:
    """At no moment is a key denied that the filter there does not exclude: no false negative."""

    def prepare(folder: Path) -> tuple[Path, Path]:
        live, kept = two_of(folder, "plain")
        for path, excluded in ((kept, [1, 2]), (live, [2, 3])):
            with mmbloom.open(path) as seen:
                seen.exclusions.update(excluded)
        return live, kept

    calls = sweeps.calls_of(partial(copied_with, *prepare(tmp_path / "calls")))
    for number in range(len(calls)):
        live, kept = prepare(tmp_path / f"{number}")
        with pytest.raises(ChildDiedError):
            in_child(partial(copied_with, live, kept, after=at_call(number, kill_self)))
        with mmbloom.open(kept, "r") as seen:
            denied = {key for key in OLD if key not in seen}
            is_new = 25 in seen
        assert denied <= ({2, 3} if is_new else {1, 2}), (number, denied)
    assert is_new
