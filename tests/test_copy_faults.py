"""Copying and mending when calls fail, disks are full, processes die and sources change."""

import errno
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import check_folder, check_settled
from damages import KEYS, MIB, at_pread, copy_over, filter_of, sealed_of
from faults import Hook, at_call, fail_with, ignore, kill_self, mount_tmpfs, os_calls
from workers import ChildDied, ChildFailed, in_child

from mmbloom import FileChangedError, copy, repair, verify

WAYS: dict[str, Callable[[str, str], object]] = {
    "copy": copy,
    "seal": partial(copy, seal=True),
    "repair": repair,
}
every_way = pytest.mark.parametrize("way", WAYS)


def make(folder: Path, way: str, before: Hook = ignore, after: Hook = ignore) -> int:
    """Do it with a hook at every os call; how many descriptors it left open."""
    source, target = str(folder.parent / "source"), str(folder / "b")
    there = len(os.listdir("/proc/self/fd"))
    try:
        with os_calls(before, after):
            WAYS[way](source, target)
    finally:
        left = len(os.listdir("/proc/self/fd")) - there
        assert left == 0, f"{left} descriptors left open"
    return left


def calls_of(folder: Path, way: str) -> list[str]:
    """List the os calls of one run, in order."""
    filter_of(folder / "source", MIB + 64)
    (folder / "counted").mkdir()
    made: list[str] = []

    def run() -> list[str]:
        make(folder / "counted", way, made.append)
        return made

    calls = in_child(run)
    assert {"open", "pread", "posix_fallocate", "pwrite", "fsync", "link", "unlink"} <= set(calls)
    return calls


@every_way
def test_on_the_disk_before_it_has_its_path(tmp_path: Path, way: str) -> None:
    """Law 8: array and header are written and forced to the disk, then linked, then the folder."""
    steps = [name for name in calls_of(tmp_path, way) if name in {"pwrite", "fsync", "link"}]
    assert steps == ["pwrite", "pwrite", "fsync", "link", "fsync"]


def absent_or_sound(path: Path) -> bool:
    """Check that what is at the path is a whole, sound filter, or nothing; True if there."""
    if not os.path.lexists(path):
        return False
    assert verify(path, keys=list(KEYS)).problems == ()
    return True


@pytest.mark.parametrize(
    ("way", "when"), [("copy", "before"), ("copy", "after"), ("seal", "after"), ("repair", "after")]
)
def test_killed_at_any_call(tmp_path: Path, way: str, when: str) -> None:
    """Law 8: kill -9 before or after each os call: destination absent or sound, source as ever."""
    calls = calls_of(tmp_path, way)
    before, outcomes = (tmp_path / "source").read_bytes(), []
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        folder.mkdir()
        with pytest.raises(ChildDied) as caught:
            in_child(partial(make, folder, way, **{when: at_call(number, kill_self)}))
        assert caught.value.signal == signal.SIGKILL
        outcomes.append(absent_or_sound(folder / "b"))
    assert outcomes == sorted(outcomes)  # absent up to some call, there from then on
    assert set(outcomes) == {False, True}
    assert (tmp_path / "source").read_bytes() == before


@pytest.mark.parametrize(
    ("way", "code"), [("copy", errno.EIO), ("seal", errno.ENOSPC), ("repair", errno.EIO)]
)
def test_any_failing_call(tmp_path: Path, way: str, code: int) -> None:
    """Law 8: each os call fails in turn: OSError, no half file, no temp file, no descriptor."""
    calls = calls_of(tmp_path, way)
    before = (tmp_path / "source").read_bytes()
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        folder.mkdir()
        failure = ""
        try:
            in_child(partial(make, folder, way, at_call(number, fail_with(code))))
        except ChildFailed as failed:
            failure = str(failed)
        assert failure == "" or f"OSError: [Errno {code}]" in failure
        assert "descriptors left open" not in failure
        assert absent_or_sound(folder / "b") or failure
        left = sorted(set(os.listdir(folder)) - {"b"})
        # A failing unlink is the one that has to leave the temporary file.
        assert left == [] or (name == "unlink" and left[0].startswith(".mmbloom-")), name
    assert (tmp_path / "source").read_bytes() == before


def on_small_disk(folder: Path, way: str, source: str) -> str:
    """In a child: make one too many on a disk of 1 MiB."""
    if not mount_tmpfs(folder, MIB):
        return "not allowed"
    WAYS[way](source, str(folder / "first"))
    with pytest.raises(OSError, match=r"cannot reserve \d+ bytes") as caught:
        WAYS[way](source, str(folder / "second"))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(folder / "second"))
    check_folder(folder, "first")
    assert verify(folder / "first", keys=list(KEYS)).ok
    return "done"


@every_way
def test_full_disk(tmp_path: Path, way: str) -> None:
    """Laws 8, 9: a full disk is ENOSPC with the size and the path, and nothing is left."""
    source = filter_of(tmp_path / "source", MIB * 5 // 8)
    (tmp_path / "disk").mkdir()
    outcome = in_child(partial(on_small_disk, tmp_path / "disk", way, source))
    if outcome == "not allowed":
        pytest.skip("this system allows no user namespaces")
    assert outcome == "done"


SIZE = 4 * MIB  # read in 4 pieces, after the header (and its counters)
CHANGES: dict[str, Callable[[str, bytes], Callable[[], object]]] = {
    "truncate-to-nothing": lambda path, _: partial(os.truncate, path, 0),
    "truncate-to-header": lambda path, _: partial(os.truncate, path, 4096),
    "truncate-by-a-byte": lambda path, _: partial(os.truncate, path, 4096 + SIZE - 1),
    "truncate-to-an-odd-size": lambda path, _: partial(os.truncate, path, 4096 + MIB + 5),
    "extend": lambda path, _: partial(os.truncate, path, 5 * SIZE),
    "copy-another-over": copy_over,
    "zeros-over": lambda path, other: copy_over(path, bytes(len(other))),
    "text-over": lambda path, other: copy_over(path, b"x" * len(other)),
}


@pytest.mark.parametrize("at", [1, 2, 5])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sealed", [False, True], ids=["live", "sealed"])
def test_source_that_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool, change: str, at: int
) -> None:
    """Law 16: a source truncated or overwritten meanwhile is FileChangedError, and no signal."""
    source = (sealed_of if sealed else filter_of)(tmp_path / "a", SIZE)
    other = Path((sealed_of if sealed else filter_of)(tmp_path / "c", SIZE)).read_bytes()
    os.unlink(tmp_path / "c")
    at_pread(monkeypatch, at, CHANGES[change](source, other))
    with pytest.raises(FileChangedError) as caught:
        copy(source, tmp_path / "b")
    assert caught.value.path == source
    if change == "extend":
        assert caught.value.found.startswith("resized from ")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("change", ["truncate-to-nothing", "truncate-to-an-odd-size"])
def test_source_truncated_while_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Law 16: what is no longer there when it is read is an error, not a loss."""
    source = filter_of(tmp_path / "a", SIZE)
    at_pread(monkeypatch, 2, CHANGES[change](source, b""))
    with pytest.raises(FileChangedError):
        repair(source, tmp_path / "b")
    check_folder(tmp_path, "a")


@pytest.mark.parametrize("how", ["replace", "unlink"])
def test_source_that_loses_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A source that is moved over or removed meanwhile is copied as it was: no mixture."""
    source = filter_of(tmp_path / "a", SIZE)
    other = filter_of(tmp_path / "other", SIZE, keys=range(10**6, 10**6 + 500))
    at_pread(
        monkeypatch,
        3,
        partial(os.replace, other, source) if how == "replace" else partial(os.unlink, source),
    )
    copy(source, tmp_path / "b")
    check_settled(str(tmp_path / "b"))
    assert verify(tmp_path / "b", keys=list(KEYS)).ok
    assert verify(tmp_path / "b", keys=list(range(10**6, 10**6 + 500))).keys_missing == 500


def test_unreadable_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails names the file, not a descriptor, and makes nothing."""
    source = filter_of(tmp_path / "a", SIZE)
    at_pread(monkeypatch, 3, partial(fail_with(errno.EIO), "pread"))
    with pytest.raises(OSError, match="cannot be read: Input/output error") as caught:
        copy(source, tmp_path / "b")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, source)
    check_folder(tmp_path, "a")
