"""A full file becomes the first of a growing folder, in one step, with all that it knows."""

import ctypes
import errno
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import has
import pytest
import sweeps
from checks import flock_is_free, let_others_in, soon
from faults import Hook, at_call, fail_with, ignore, kill_self, os_calls
from unions import live_writer
from workers import ChildDiedError, as_user, in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    FormatError,
    GrowingFilter,
    LockTimeoutError,
    ReadOnlyError,
    RotatingFilter,
    copy,
    grow,
    verify,
)
from mmbloom._system import disk, memory
from mmbloom.filters import grow as grow_module

OLD, NEW = range(100), range(1000, 1400)


def full(path: Path, excluded: str = "aunt") -> Path:
    """Make a filter with the hundred keys that it was planned for, and an exclusion."""
    with BloomFilter.create(path, 100, 1e-9, permissions=0o640) as seen:
        seen.add_many(OLD)
        if excluded:
            seen.add(excluded)
            seen.exclusions.add(excluded)
    return path


def check_grown(path: Path) -> None:
    """The folder has all that the file had, is sound, and goes on growing."""
    assert verify(path, keys=OLD).problems == ()
    with GrowingFilter.open(path, lock_timeout=5) as seen:
        assert not seen.add_many(OLD).any()
        assert list(seen.exclusions) == [b"aunt"]
        assert "aunt" not in seen
        assert seen.add_many(NEW).all()
        assert [one.capacity for one in seen.info().files] == [100, 200, 400]
    assert verify(path, keys=[*OLD, *NEW]).problems == ()


@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("hash_name", ["siphash", "murmur3"])
def test_grows_with_all_that_it_knows(tmp_path: Path, layout: str, hash_name: str) -> None:
    """The file itself is the first; the rate of the whole is twice its own, and is kept."""
    path = tmp_path / "seen"
    rate = 0.01
    with BloomFilter.create(path, 1000, rate, layout=layout, seed=1, hash=hash_name) as seen:  # type: ignore[arg-type]
        seen.add_many(range(1000))
        inode, first = path.stat().st_ino, seen.info()
    assert 2 * rate <= grow(path) <= 2.2 * rate
    with GrowingFilter.open(path) as grown:
        (file,) = grown.info().files
        assert (file.uuid, file.seed) == (first.uuid, first.seed)
        assert os.stat(file.path).st_ino == inode
        assert os.stat(file.path).st_nlink == 1
        assert grown.add_many(range(1000, 8000)).mean() > 1 - 2.5 * rate
        wrong = grown.contains_many(range(10**6, 10**6 + 20_000)).mean()
        assert wrong < 2.2 * rate
    assert os.listdir(tmp_path) == ["seen"]


def test_exclusions_owner_and_mode_go_along(tmp_path: Path) -> None:
    """Who could use the file can use the folder; nothing is left beside it."""
    path = full(tmp_path / "seen")
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
        os.chown(f"{path}.exclusions", 1234, 2345)
    before = path.stat()
    grow(path)
    assert os.listdir(tmp_path) == ["seen"]
    for name in (".", "0000000000.bloom", "manifest.json", "exclusions"):
        now = (path / name).stat()
        assert (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid)
        assert stat.S_IMODE(now.st_mode) == (0o750 if name == "." else 0o640)
    check_grown(path)


def test_a_file_past_all_use(tmp_path: Path) -> None:
    """A folder with it would drop as much for good: it is refused, and stays what it is."""
    path = tmp_path / "seen"
    with BloomFilter.create(path, 100, 1e-6, seed=1) as seen:
        with pytest.warns(mmbloom.CapacityWarning):
            seen.add_many(range(1000))
        assert 0.5 < seen.current_error_rate < 0.7
    with pytest.raises(
        ValueError, match=r"cannot grow: about .* reported as seen, .* make a new filter"
    ):
        grow(path)
    assert os.listdir(tmp_path) == ["seen"]
    assert path.is_file()


def test_a_file_far_past_its_plan(tmp_path: Path) -> None:
    """What the file drops by now is said, and not what was planned."""
    path = tmp_path / "seen"
    with BloomFilter.create(path, 100, 1e-6, seed=1) as seen:
        with pytest.warns(mmbloom.CapacityWarning):
            seen.add_many(range(800))
        rate = seen.current_error_rate
    assert grow(path) == pytest.approx(rate, rel=0.01)
    assert 0.2 < rate < 0.5


def test_waits_for_who_is_adding(tmp_path: Path) -> None:
    """It takes the write lock: within another's block the file stays what it is."""
    path = full(tmp_path / "seen")
    with BloomFilter.open(path) as seen:
        with seen.claim(["mine"]) as new:
            with pytest.raises(LockTimeoutError):
                grow(path, lock_timeout=0.02)
            assert new[0]
            assert path.is_file()
        assert "mine" in seen
    grow(path)
    with mmbloom.open(path) as seen:
        assert "mine" in seen


def test_nothing_is_lost_while_others_add(tmp_path: Path) -> None:
    """Keys whose add returned, before or after, are all in the folder."""
    path = tmp_path / "seen"
    BloomFilter.create(path, 1_000_000, 1e-9).close()
    with live_writer(path, distinct=1_000_000) as acknowledged:
        acknowledged(20)
        grow(path)
        acknowledged(acknowledged(0) // 100 + 1)
    with GrowingFilter.open(path) as seen:
        assert seen.contains_many(range(acknowledged(0))).all()


def refuse(path: Path, kind: type[Exception], why: str) -> None:
    listing = sorted(os.listdir(path.parent))
    with pytest.raises(kind, match=why) as caught:
        grow(path)
    assert str(path) in str(caught.value)
    assert sorted(os.listdir(path.parent)) == listing


def test_what_cannot_grow_says_why(tmp_path: Path) -> None:
    file = full(tmp_path / "seen")
    copy(file, tmp_path / "sealed", seal=True)
    refuse(tmp_path / "sealed", ReadOnlyError, "it is sealed; make a copy")
    CountingBloomFilter.create(tmp_path / "counting", 10).close()
    refuse(tmp_path / "counting", FormatError, "kind is counters, .*to_bloom")
    RotatingFilter.create(tmp_path / "rotating", capacity_per_period=10).close()
    refuse(tmp_path / "rotating", FormatError, "kind is rotating, .* a new file")
    (tmp_path / "link").symlink_to(file)
    refuse(tmp_path / "link", FormatError, f"a symbolic link, expected the file .* grow {file}")
    BloomFilter.create(tmp_path / "half", 10, 0.5).close()
    refuse(tmp_path / "half", ValueError, "that of the whole would be 1")
    (tmp_path / "text").write_text("no filter")
    refuse(tmp_path / "text", FormatError, "expected")
    refuse(tmp_path / "absent", FileNotFoundError, "No such file")
    before, bad = file.read_bytes(), [("reserve", "zero"), ("lock_timeout", -1.0)]
    for name, value in (*bad, ("lock_timeout", float("nan"))):
        with pytest.raises(ValueError, match=f"{name} is"):
            grow(file, **{name: value})  # type: ignore[arg-type]
    assert file.read_bytes() == before
    grow(file)
    check_grown(file)


def test_a_file_of_a_folder(tmp_path: Path) -> None:
    """It belongs to the folder, which would be damaged; a file beside does not, and grows."""
    for made in (
        GrowingFilter.create(tmp_path / "growing", 10, 1e-9),
        RotatingFilter.create(tmp_path / "rotating", capacity_per_period=10, keep=60, every=60),
    ):
        with made:
            made.add_many(range(10))
        (member,) = Path(made.path).glob("*.bloom")
        refuse(member, FormatError, f"a file of the folder {made.path}, expected a separate filter")
        beside = full(member.with_name("other.bloom"), excluded="")
        assert grow(beside) < 1e-8  # by the bits that are set, which a random key decides
        assert beside.is_dir()
        assert verify(made.path, keys=range(10)).ok


def test_damaged_exclusions(tmp_path: Path) -> None:
    """Exclusions that cannot be read are an error, and all stays as it is."""
    file = full(tmp_path / "seen", "")
    Path(f"{file}.exclusions").write_bytes(b"\\q\n")
    refuse(tmp_path / "seen", FormatError, "line 1")
    assert flock_is_free(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_of_another_user(tmp_path: Path) -> None:
    """A user who cannot make the folder the owner's is refused, although the group may write."""
    path = full(tmp_path / "seen", "")
    os.chmod(path, 0o666)
    theirs = full(tmp_path / "theirs", "")  # of a group that its owner is not in
    os.chown(theirs, 65534, 2345)
    let_others_in(tmp_path)
    tmp_path.chmod(0o777)
    nobody = 65534
    as_user(nobody, lambda: refuse(path, PermissionError, "belongs to user 0|not permitted"))
    as_user(nobody, lambda: refuse(theirs, PermissionError, "it belongs to group 2345"))
    assert path.is_file()


LIBRARY = ctypes.CDLL(None, use_errno=True)


class WithoutName:
    """A C library that has no function to swap names, as musl has none: the call has a number."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("rename"):
            raise AttributeError(name)
        return getattr(LIBRARY, name)


def test_a_system_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the call, or where it is refused, the file stays, and the error says why."""
    path = full(tmp_path / "seen")

    def cannot(*_: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(disk, "exchange_names", cannot)
    refuse(path, OSError, "this file system cannot replace what is there with a folder in")
    monkeypatch.undo()
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: WithoutName())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "RENAMEAT2", {})
        refuse(path, OSError, "this system cannot replace what is there with a folder in")
    if has.MACOS:
        return
    grow(path)
    check_grown(path)


def test_another_file_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a stranger moves to the path meanwhile is put back, and told of."""
    path, other = full(tmp_path / "seen"), full(tmp_path / "other", "")
    theirs = other.stat().st_ino
    swap = disk.exchange_names
    seen: list[str] = []

    def late(one: str, two: str) -> None:
        if not seen:
            os.rename(other, path)
        seen.append(one)
        swap(one, two)

    monkeypatch.setattr(disk, "exchange_names", late)
    with pytest.raises(OSError, match="something else took the place"):
        grow(path)
    assert path.stat().st_ino == theirs
    assert sorted(os.listdir(tmp_path)) == ["seen", "seen.exclusions"]


def run(path: Path, before: Hook = ignore, after: Hook = ignore) -> None:
    """In a child: grow with a hook at every call of the system."""
    with os_calls(before, after):
        grow(path)


def calls_of(folder: Path) -> list[str]:
    """List the calls of one run, in order."""
    folder.mkdir()
    return sweeps.calls_of(partial(run, full(folder / "seen")))


def is_grown(path: Path) -> bool:
    """Check that the path has the file as it was or the folder; True if it is the folder."""
    assert path.exists(), "no moment without anything at the path"
    with mmbloom.open(path, lock_timeout=5) as seen:
        assert list(seen.exclusions) == [b"aunt"]
        assert not seen.add_many(OLD).any()
    return path.is_dir()


@pytest.mark.laws("F7")
def test_killed_at_any_call(tmp_path: Path) -> None:
    """The path has the file or the folder, whole; and what a killed run left harms no later one."""
    outcomes = []
    for number, name in enumerate(calls_of(tmp_path / "counted")):
        own = tmp_path / f"{number:03}-{name}"
        own.mkdir()
        path = full(own / "seen")
        with pytest.raises(ChildDiedError):
            in_child(partial(run, path, after=at_call(number, kill_self)))
        outcomes.append(is_grown(path))
        if not outcomes[-1]:
            grow(path)
            assert is_grown(path)
    check_grown(path)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


@pytest.mark.laws("F7")
def test_any_failing_call(tmp_path: Path) -> None:
    """Whichever call fails, the file is as it was and nothing is left, or the folder is there."""
    calls = calls_of(tmp_path / "counted")
    assert {"mkdir", "link", "exchange", "replace", "fsync", "flock", "unlink"} <= {*calls}
    place = calls.index("exchange")
    assert "fsync" in calls[calls.index("replace") : place], "on the disk before it is in place"
    assert calls[place:].index("fsync") < calls[place:].index("unlink"), "and before that goes"
    paths = []
    for number, name in enumerate(calls):
        own = tmp_path / f"{number:03}-{name}"
        own.mkdir()
        paths.append(full(own / "seen"))

    def fail_each() -> None:
        for number, path in enumerate(paths):
            with suppress(OSError, mmbloom.MmbloomError):
                run(path, at_call(number, fail_with(errno.EIO)))

    in_child(fail_each)
    for number, path in enumerate(paths):
        grown = is_grown(path)
        left = {*os.listdir(path.parent)} - {"seen", "seen.exclusions"}
        # A call that fails in the cleaning up leaves the file's other, temporary name.
        cleaning = calls[number] == "unlink" or (
            number > place and calls[number] in {"fstat", "lstat"}
        )
        assert not left or cleaning, (number, calls[number], left)
        assert number <= place or grown


def test_interrupted_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a signal handler, as the folder has just got its path, removes no file."""
    path, swap = full(tmp_path / "seen"), disk.exchange_names

    def interrupted(one: str, two: str) -> None:
        swap(one, two)
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "exchange_names", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grow(path)
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["seen", "seen.exclusions"]
    check_grown(path)


TRUSTED_ROUNDS = 40


@pytest.mark.parametrize("how", ["add", "ask"])
def test_no_look_of_before_outlasts_it(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as keys can be added to the folder, what has the file open sees them."""
    # In memory no disk is waited for, so that a look may still be good by the clock.
    folder = tempfile.mkdtemp(dir=memory.SHARED if has.IN_MEMORY else tmp_path)
    missed, real = 0, grow_module._swap
    try:
        for number in range(TRUSTED_ROUNDS):
            path = os.path.join(folder, f"seen{number}")
            with BloomFilter.create(path, 100, 1e-9) as seen:
                seen.add_many(OLD)

                def swap(*arguments: Any, seen: BloomFilter = seen) -> None:
                    soon()  # a step of the kernel's clock begins: the look is good until its end
                    assert "absent" not in seen
                    real(*arguments)

                monkeypatch.setattr(grow_module, "_swap", swap)
                grow(path)
                monkeypatch.undo()
                with GrowingFilter.open(path) as grown:
                    assert grown.add("x")
                missed += seen.add("x") if how == "add" else "x" not in seen
    finally:
        shutil.rmtree(folder)
    assert missed == 0, f"{missed} of {TRUSTED_ROUNDS} calls went by a look of before"
