"""A rotating folder that changes over, and drops a file: faults and kills at every call."""

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from chains import Rotating, failing_in_a_section, files_of, manifest_of, naive_files
from faults import Hook, at_call, fail_with, ignore, kill_self, os_calls
from sweeps import calls_of
from tally import Count
from workers import ChildDiedError, in_child

from mmbloom import verify

KIND = Rotating(keep=50)  # periods of 10 seconds
OVER, OLD, NEW = (["over"], [f"old {i}" for i in range(5)], [f"new {i}" for i in range(15)])
NOW = 85.0  # when the first period is past its time


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file that is past its time, and one that is not, to be copied."""
    folder = tmp_path_factory.mktemp("two") / "seen"
    KIND.pass_time(-KIND.now())
    with KIND.create(folder) as seen:
        seen.add_many(OVER)
        KIND.pass_time(50)
        seen.add_many(OLD)
    KIND.pass_time(NOW - KIND.now())
    return folder


def rotate(folder: Path, before: Hook = ignore) -> None:
    with KIND.open(folder) as seen, os_calls(before):
        seen.add_many(NEW)


def check_usable(folder: Path) -> None:
    """Nothing is lost and what is over is not found; the next change-over leaves no file behind."""
    with KIND.open(folder, lock_timeout=5) as seen:
        assert seen.contains_many(OLD).all()
        assert not seen.contains_many(OVER).any()
        seen.add_many(NEW)
        assert seen.contains_many([*OLD, *NEW]).all()
    assert [member["number"] for member in manifest_of(folder)["members"]] == [5, 8]
    naive = naive_files(folder)
    assert all(key in naive[0] for key in OLD)
    assert all(key in naive[1] for key in NEW)
    assert all(verify(file).ok for file in files_of(folder))


@pytest.mark.laws("F1")
def test_killed_at_any_call(tmp_path: Path, two: Path, tally: Count) -> None:
    """Law 5: whichever call comes next, all is there, and the lock is free."""
    shutil.copytree(two, tmp_path / "counted")
    calls = calls_of(partial(rotate, tmp_path / "counted"))
    assert {"link", "replace", "unlink"} <= {*calls}
    named = set()
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        shutil.copytree(two, folder)
        with pytest.raises(ChildDiedError):
            in_child(partial(rotate, folder, at_call(number, kill_self)))
        tally(kills=1)
        named.add(tuple(member["number"] for member in manifest_of(folder)["members"]))
        check_usable(folder)
    assert named == {(0, 5), (5, 8)}


@pytest.mark.laws("F7")
def test_any_call_failing(tmp_path: Path, two: Path, tally: Count) -> None:
    """OSError, and the same object goes on within its section."""
    names = failing_in_a_section(
        KIND, two, tmp_path, lambda seen: seen.add_many(NEW), fail_with(errno.ENOSPC), check_usable
    )
    tally(faults=len(names))
    assert {"link", "replace", "fsync", "unlink"} <= {*names}


def test_what_was_not_removed_is_so_later(tmp_path: Path, two: Path) -> None:
    """A file whose removal failed, or did not come to pass, goes at the next change-over."""
    folder = tmp_path / "seen"
    shutil.copytree(two, folder)

    def no_unlink(name: str) -> None:
        if name == "unlink":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    rotate(folder, no_unlink)
    assert (folder / f"{0:010}.bloom").exists()
    KIND.pass_time(10)
    try:
        rotate(folder)
    finally:
        KIND.pass_time(-10)
    left = {name for name in os.listdir(folder) if name.endswith(".bloom")}
    assert left == {file.name for file in files_of(folder)}


def disk_for(folder: Path, files: int) -> Hook:
    """Be a disk that has space for so many files of the folder, as long as nobody maps others."""

    def reserve(name: str) -> None:
        if name == "posix_fallocate" and len([*folder.glob("*.bloom")]) >= files:
            fail_with(errno.ENOSPC)(name)

    return reserve


def test_full_disk_gets_room_from_what_is_over(tmp_path: Path, two: Path) -> None:
    """Where the next file has no space, those that are past their time go first."""
    folder = tmp_path / "seen"
    shutil.copytree(two, folder)
    rotate(folder, disk_for(folder, 2))
    check_usable(folder)


def test_full_disk_of_what_is_not_over(tmp_path: Path, two: Path) -> None:
    """Nothing is dropped before its time, and never the newest; a disk with space again will do."""
    folder = tmp_path / "seen"
    shutil.copytree(two, folder)
    rotate(folder)
    try:
        KIND.pass_time(10)
        with pytest.raises(OSError, match="cannot reserve"):
            rotate(folder, disk_for(folder, 2))
        assert [member["number"] for member in manifest_of(folder)["members"]] == [5, 8]
        KIND.pass_time(90)
        with pytest.raises(OSError, match="cannot reserve"):
            rotate(folder, disk_for(folder, 1))
        assert [member["number"] for member in manifest_of(folder)["members"]] == [8]
        rotate(folder)
    finally:
        KIND.pass_time(NOW - KIND.now())
    assert [member["number"] for member in manifest_of(folder)["members"]] == [18]


@pytest.mark.laws("F1")
def test_killed_at_any_call_with_a_full_disk(tmp_path: Path, two: Path, tally: Count) -> None:
    """Law 5, also where files are dropped before the next one is made."""
    number = 0
    while True:
        folder = tmp_path / f"{number:03}"
        shutil.copytree(two, folder)
        full, kill = disk_for(folder, 2), at_call(number, kill_self)

        def hook(name: str, full: Hook = full, kill: Hook = kill) -> None:
            kill(name)
            full(name)

        try:
            in_child(partial(rotate, folder, hook))
        except ChildDiedError:
            tally(kills=1)
        else:
            break
        check_usable(folder)
        number += 1
    check_usable(folder)
    assert number > 0
