"""A folder is made whole or not at all, and changes over so: faults and kills at every call."""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from chains import (
    Growing,
    Way,
    add_many,
    add_one_by_one,
    failing_in_a_section,
    files_of,
    manifest_of,
    naive_files,
)
from checks import claim
from faults import Hook, at_call, fail_with, kill_self, os_calls
from sweeps import Sweep, calls_of
from tally import Count
from workers import ChildDiedError, in_child

from mmbloom import BloomFilter, GrowingFilter, verify
from mmbloom._system import disk
from mmbloom._system.descriptors import path_of

OLD = [f"old {i}" for i in range(10)]
NEW = [f"new {i}" for i in range(15)]  # for a further file


def check_durable(calls: list[str]) -> None:
    """The manifest is on the disk before it is named, and its folder is after."""
    place = calls.index("replace")
    written = place - calls[:place][::-1].index("write")
    assert "fsync" in calls[written:place]
    assert "fsync" in calls[place : place + 4]


def check_empty(folder: Path) -> None:
    with GrowingFilter.open(folder, lock_timeout=5) as seen:
        assert seen.add_many(OLD).all()


CREATE = Sweep(
    lambda folder: GrowingFilter.create(folder, 10, 1e-9).close(), check_empty, at_once=False
)


@pytest.mark.laws("F7")
def test_create_killed_at_any_call(tmp_path: Path, tally: Count) -> None:
    """Law 8: whichever call comes next, the folder is whole or absent."""
    (tmp_path / "listed").mkdir()
    calls = CREATE.calls(tmp_path / "listed")
    assert {"mkdir", "replace", "rename"} <= {*calls}
    check_durable(calls)
    tally(kills=CREATE.killed_at_each_call(tmp_path, "before"))


@pytest.mark.laws("F7")
def test_create_with_any_call_failing(tmp_path: Path, tally: Count) -> None:
    """Law 8: OSError that names the folder asked for, and nothing is left but a whole one."""
    tally(faults=CREATE.failing_at_each_call(tmp_path, errno.EIO))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose only file is just full, to be copied."""
    folder = tmp_path_factory.mktemp("full") / "seen"
    with GrowingFilter.create(folder, 10, 1e-9) as seen:
        assert seen.add_many(OLD).all()
    return folder


def grow(folder: Path, way: Way, before: Hook) -> None:
    with GrowingFilter.open(folder) as seen, os_calls(before):
        way(seen, NEW)


def check_usable(folder: Path) -> None:
    """Nothing is lost, the lock is free, all files are sound, and it goes on growing."""
    with GrowingFilter.open(folder, lock_timeout=5) as seen:
        assert seen.contains_many(OLD).all()
        seen.add_many(NEW)
        assert seen.contains_many([*OLD, *NEW]).all()
    naive = naive_files(folder)
    assert len(naive) == 2
    assert all(any(key in file for file in naive) for key in [*OLD, *NEW])
    assert all(verify(file).ok for file in files_of(folder))


@pytest.mark.laws("F1")
@pytest.mark.parametrize(("way", "step"), [(add_one_by_one, 5), (add_many, 1), (claim, 3)])
def test_change_over_killed_at_any_call(
    tmp_path: Path, full: Path, way: Way, step: int, tally: Count
) -> None:
    """Law 5: whichever call comes next, what was acknowledged is there, and the lock is free."""
    shutil.copytree(full, tmp_path / "counted")
    calls = calls_of(partial(grow, tmp_path / "counted", way))
    assert {"link", "replace"} <= {*calls}
    check_durable(calls)
    named = set()
    # One by one there is a look and a lock for each key, after the change-over of the first.
    last = min(len(calls), calls.index("replace") + 20)
    for number in range(0, last, step):
        folder = tmp_path / f"{number:03}-{calls[number]}"
        shutil.copytree(full, folder)
        with pytest.raises(ChildDiedError):
            in_child(partial(grow, folder, way, at_call(number, kill_self)))
        tally(kills=1)
        named.add(len(files_of(folder)))
        check_usable(folder)
    assert named == {1, 2}


@pytest.mark.laws("F7")
@pytest.mark.parametrize(("way", "code"), [(add_many, errno.EIO), (claim, errno.ENOSPC)])
def test_change_over_with_any_call_failing(
    tmp_path: Path, full: Path, way: Way, code: int, tally: Count
) -> None:
    """The call raises OSError; the same object goes on, in the same section too."""
    names = failing_in_a_section(
        Growing(), full, tmp_path, lambda seen: way(seen, NEW), fail_with(code), check_usable
    )
    tally(faults=len(names))
    assert {"link", "replace", "fsync", "flock", "mmap"} <= {*names}


def test_left_file_is_used_if_it_is_what_would_be_made(tmp_path: Path, full: Path) -> None:
    """A killed maker's file becomes the next one; anything else of its name is left alone."""
    folder = tmp_path / "seen"
    shutil.copytree(full, folder)
    with GrowingFilter.open(folder) as seen, suppress(KeyError), seen.claim(NEW):
        raise KeyError
    left = folder / f"{1:010}.bloom"
    inode = left.stat().st_ino
    check_usable(folder)
    assert files_of(folder)[1] == left
    assert left.stat().st_ino == inode


@pytest.mark.parametrize(
    "what", ["text", "folder", "full", "other sizes", "link to a member", "link to nothing"]
)
def test_left_file_of_somebody_else(tmp_path: Path, full: Path, what: str) -> None:
    """It is neither used nor changed, and another name serves."""
    folder = tmp_path / "seen"
    shutil.copytree(full, folder)
    (member,) = files_of(folder)
    left = folder / f"{1:010}.bloom"
    if what == "text":
        left.write_text("mine")
    elif what == "folder":
        left.mkdir()
    elif what == "link to a member":
        os.link(member, left)
    elif what == "link to nothing":
        left.symlink_to("nothing")
    else:
        with GrowingFilter.open(folder) as seen, suppress(KeyError), seen.claim(NEW):
            raise KeyError
        if what == "full":
            with open(left, "r+b") as file:
                file.seek(4100)
                file.write(b"\1")
        else:
            left.unlink()
            BloomFilter.create(left, 21, 2.5e-10).close()
    before = left.read_bytes() if left.is_file() and what != "link to a member" else b""
    check_usable(folder)
    assert files_of(folder)[1] != left
    assert files_of(folder)[1].name.startswith(f"{1:010}-")
    assert not before or left.read_bytes() == before


def check_change_over_refused(folder: Path, action: Callable[[GrowingFilter], object]) -> None:
    """The folder is as it was, without a temporary file, and the same object goes on."""
    before = manifest_of(folder)
    with GrowingFilter.open(folder) as seen:
        action(seen)
        assert manifest_of(folder) == before
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
        assert seen.add_many(NEW).all()
        assert len(files_of(folder)) == 2


def test_manifest_that_is_written_in_part(
    tmp_path: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes a part of the manifest, and then no more, is full: ENOSPC, naming it."""
    shutil.copytree(full, tmp_path / "seen")
    write, written = os.write, list[int]()

    def write_a_part(fd: int, data: bytes) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(write(fd, data[:100]))
        return written[0]

    def refused(seen: GrowingFilter) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_a_part)
            with pytest.raises(OSError, match="No space left") as caught:
                seen.add_many(NEW)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(tmp_path / "seen" / "manifest.json")

    check_change_over_refused(tmp_path / "seen", refused)


def test_manifest_that_is_written_in_parts(
    tmp_path: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system takes a few bytes at a time, the rest follows, and nothing is cut off."""
    shutil.copytree(full, tmp_path / "seen")
    write, written = os.write, list[int]()

    def write_a_part(fd: int, data: bytes) -> int:
        written.append(write(fd, data[:100]))
        return written[-1]

    with monkeypatch.context() as patch, GrowingFilter.open(tmp_path / "seen") as seen:
        patch.setattr(os, "write", write_a_part)
        seen.add_many(NEW)
    assert len(written) > 1
    check_usable(tmp_path / "seen")


def test_manifest_that_is_interrupted(
    tmp_path: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the manifest is written leaves none behind."""
    shutil.copytree(full, tmp_path / "seen")
    fsync = disk.sync

    def interrupt(fd: int) -> None:
        if os.path.realpath(path_of(fd)).endswith(".tmp"):
            manifests = [name for name in os.listdir(tmp_path / "seen") if ".manifest-" in name]
            if manifests:
                raise KeyboardInterrupt
        fsync(fd)

    def refused(seen: GrowingFilter) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                seen.add_many(NEW)

    check_change_over_refused(tmp_path / "seen", refused)
