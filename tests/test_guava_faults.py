"""Interchange when calls fail, disks are full and processes die: all of the file, or none."""

import errno
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import array_of, check_folder, check_settled
from damages import KEYS, MIB, at_pread, copy_over
from faults import Hook, at_call, fail_with, ignore, kill_self, mount_tmpfs, os_calls
from guava_files import parse
from workers import ChildDied, ChildFailed, in_child

from mmbloom import BloomFilter, FileChangedError, FilterParams, export_guava, import_guava, verify
from mmbloom._create import create_file

WAYS: dict[str, Callable[[str, str], None]] = {"export": export_guava, "import": import_guava}
every_way = pytest.mark.parametrize("way", WAYS)


def make_source(folder: Path, way: str, size: int = MIB + 64) -> str:
    """Make what is to go out, or to come in; gives its path."""
    ours, theirs = str(folder / "ours"), str(folder / "theirs")
    params = FilterParams(10**6, 0.01, "standard", 8 * size, 7)
    create_file(ours, params, permissions=0o600, allow_network=False)
    with BloomFilter.open(ours) as seen:
        seen.add_many(list(KEYS))
    export_guava(ours, theirs)
    return ours if way == "export" else theirs


def make(source: str, folder: Path, way: str, before: Hook = ignore, after: Hook = ignore) -> None:
    """Do it with a hook at every os call, and check that no descriptor is left open."""
    there = len(os.listdir("/proc/self/fd"))
    try:
        with os_calls(before, after):
            WAYS[way](source, str(folder / "b"))
    finally:
        left = len(os.listdir("/proc/self/fd")) - there
        assert left == 0, f"{left} descriptors left open"


def calls_of(source: str, folder: Path, way: str) -> list[str]:
    """List the os calls of one run, in order."""
    (folder / "counted").mkdir()
    made: list[str] = []

    def run() -> list[str]:
        make(source, folder / "counted", way, made.append)
        return made

    return in_child(run)


def absent_or_whole(path: Path, way: str) -> bool:
    """Check that what is at the path is all of it, or nothing; True if it is there."""
    if not os.path.lexists(path):
        return False
    ours = array_of(str(path.parent.parent / "ours"))
    if way == "export":
        held = parse(path.read_bytes())
        assert held is not None
        assert held.array == ours
    else:
        assert array_of(str(path)) == ours
        check_settled(str(path))
        assert verify(path, keys=list(KEYS)).problems == ()
    return True


@every_way
def test_on_the_disk_before_it_has_its_path(tmp_path: Path, way: str) -> None:
    """Laws 8, 16: nothing is mapped; all is reserved, written and forced, then linked."""
    calls = calls_of(make_source(tmp_path, way), tmp_path, way)
    assert not {"mmap", "flock"} & set(calls)
    wanted = {"posix_fallocate", "pwrite", "fsync", "link"}
    steps = [name for name in calls if name in wanted]
    header = ["pwrite"] if way == "import" else []
    assert steps == ["posix_fallocate", "pwrite", *header, "fsync", "link", "fsync"]


@every_way
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_call(tmp_path: Path, way: str, when: str) -> None:
    """Law 8: kill -9 before or after each os call: destination absent or whole, source as ever."""
    source = make_source(tmp_path, way)
    calls = calls_of(source, tmp_path, way)
    before, outcomes = Path(source).read_bytes(), []
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        folder.mkdir()
        with pytest.raises(ChildDied) as caught:
            in_child(partial(make, source, folder, way, **{when: at_call(number, kill_self)}))
        assert caught.value.signal == signal.SIGKILL
        outcomes.append(absent_or_whole(folder / "b", way))
    assert outcomes == sorted(outcomes)  # absent up to some call, there from then on
    assert set(outcomes) == {False, True}
    assert Path(source).read_bytes() == before


@every_way
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_any_failing_call(tmp_path: Path, way: str, code: int) -> None:
    """Law 8: each os call fails in turn: OSError, no half file, no temp file, no descriptor."""
    source = make_source(tmp_path, way)
    calls = calls_of(source, tmp_path, way)
    before = Path(source).read_bytes()
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        folder.mkdir()
        failure = ""
        try:
            in_child(partial(make, source, folder, way, at_call(number, fail_with(code))))
        except ChildFailed as failed:
            failure = str(failed)
        assert failure == "" or f"OSError: [Errno {code}]" in failure
        assert "descriptors left open" not in failure
        assert absent_or_whole(folder / "b", way) or failure
        left = sorted(set(os.listdir(folder)) - {"b"})
        # A failing unlink is the one that has to leave the temporary file.
        assert left == [] or (name == "unlink" and left[0].startswith(".mmbloom-")), name
    assert Path(source).read_bytes() == before


def on_small_disk(folder: Path, way: str, source: str) -> str:
    """In a child: make one too many on a disk of 1 MiB."""
    if not mount_tmpfs(folder, MIB):
        return "not allowed"
    WAYS[way](source, str(folder / "first"))
    with pytest.raises(OSError, match=r"cannot reserve \d+ bytes") as caught:
        WAYS[way](source, str(folder / "second"))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(folder / "second"))
    check_folder(folder, "first")
    assert absent_or_whole(folder / "first", way)
    return "done"


@every_way
def test_full_disk(tmp_path: Path, way: str) -> None:
    """Laws 8, 9: a full disk is ENOSPC with the size and the path, and nothing is left."""
    source = make_source(tmp_path, way, MIB * 5 // 8)
    (tmp_path / "disk").mkdir()
    outcome = in_child(partial(on_small_disk, tmp_path / "disk", way, source))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"


@every_way
def test_short_writes_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A system that reads and writes less than asked for makes the same file."""
    source = make_source(tmp_path, way)
    (tmp_path / "out").mkdir()
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 99_999), at))
    monkeypatch.setattr(
        os,
        "pwrite",
        lambda fd, data, at: pwrite(fd, data[: 99_999 if len(data) > 4096 else None], at),
    )
    WAYS[way](source, str(tmp_path / "out" / "b"))
    monkeypatch.undo()
    assert absent_or_whole(tmp_path / "out" / "b", way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("error")
def test_copy_on_write_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Law 9: a filter made there comes with a warning, a file that nobody maps without."""
    source = make_source(tmp_path, way)
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("mmbloom._mounts.file_system_type", lambda _folder: "btrfs")
    if way == "import":
        with pytest.warns(UserWarning, match="btrfs copies on write"):
            WAYS[way](source, str(tmp_path / "out" / "b"))
    else:
        WAYS[way](source, str(tmp_path / "out" / "b"))
    assert absent_or_whole(tmp_path / "out" / "b", way)


CHANGES: dict[str, Callable[[str], object]] = {
    "cut": lambda path: os.truncate(path, 4096 + 5),
    "extended": lambda path: os.truncate(path, 8 * MIB),
    "text over it": lambda path: copy_over(path, b"x" * os.path.getsize(path))(),
}


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_filter_that_changes_while_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, at: int
) -> None:
    """Law 16: a filter truncated or overwritten meanwhile is FileChangedError, and no file."""
    source = make_source(tmp_path, "export", 4 * MIB)
    (tmp_path / "out").mkdir()
    at_pread(monkeypatch, at, partial(CHANGES[change], source))
    with pytest.raises(FileChangedError) as caught:
        export_guava(source, tmp_path / "out" / "b")
    assert caught.value.path == source
    check_folder(tmp_path / "out")
