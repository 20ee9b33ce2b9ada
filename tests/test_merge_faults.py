"""merge where things fail: inputs that change, calls that fail, kills, little memory."""

import errno
import itertools
import os
import resource
import shutil
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import faults
import pytest
from checks import HEADER_BYTES, check_folder
from faults import Hook, at_call, fail_with, ignore, kill_self, os_calls
from unions import check_union, make
from workers import ChildDied, ChildFailed, in_child

from mmbloom import BloomFilter, FileChangedError, merge

BIG = 4_000_000  # keys; arrays of 4.7 MiB


@pytest.fixture(autouse=True)
def with_pread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that inputs are read with is hooked as well."""
    monkeypatch.setattr(faults, "OS_CALLS", sorted({*faults.OS_CALLS, "pread"}))


def make_two(folder: Path, **options: Any) -> list[str]:
    one = make(folder / "one", range(300), **options)
    return [one, make(folder / "two", range(200, 500), one)]


def merge_in(folder: Path, before: Hook = ignore, after: Hook = ignore) -> None:
    with os_calls(before, after):
        merge(folder / "out", [folder / "one", folder / "two"])


def calls_of_merge(folder: Path) -> list[str]:
    """List the os calls of one merge, in order."""
    folder.mkdir()
    make_two(folder)
    made: list[str] = []

    def run() -> list[str]:
        merge_in(folder, made.append)
        return made

    return in_child(run)


def folders(tmp_path: Path) -> Iterator[tuple[int, str, Path]]:
    """Give each call of a merge its number and name, and a folder with two filters."""
    calls = calls_of_merge(tmp_path / "counted")
    assert {"open", "pread", "posix_fallocate", "pwrite", "fsync", "link", "unlink"} <= {*calls}
    for number, name in enumerate(calls):
        folder = tmp_path / f"{number:03}-{name}"
        shutil.copytree(tmp_path / "counted", folder)
        (folder / "out").unlink()
        yield number, name, folder


def absent_or_valid(folder: Path) -> bool:
    """Check that the result is a whole union, or not there; True if it is there."""
    if not os.path.lexists(folder / "out"):
        return False
    check_union(*(str(folder / name) for name in ("out", "one", "two")))
    return True


@pytest.mark.parametrize("when", ["before", "after"])
def test_merge_killed_at_any_call_leaves_all_or_nothing(tmp_path: Path, when: str) -> None:
    """Law 8: kill -9 before or after each os call of merge: the result is absent or valid."""
    outcomes = []
    for number, _, folder in folders(tmp_path):
        with pytest.raises(ChildDied) as caught:
            in_child(partial(merge_in, folder, **{when: at_call(number, kill_self)}))
        assert caught.value.signal == signal.SIGKILL
        outcomes.append(absent_or_valid(folder))
        if not outcomes[-1]:  # what a killed merge left behind is in nobody's way
            merge_in(folder)
    assert outcomes == sorted(outcomes)  # absent up to some call, there from then on
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_merge_leaves_no_half_file_whatever_fails(tmp_path: Path, code: int) -> None:
    """Law 8: each os call of merge fails in turn: OSError, no half file, no temporary file."""
    for number, name, folder in folders(tmp_path):
        failure = ""
        try:
            in_child(partial(merge_in, folder, at_call(number, fail_with(code))))
        except ChildFailed as failed:
            failure = str(failed)
        assert failure == "" or f"OSError: [Errno {code}]" in failure
        assert absent_or_valid(folder) or failure
        left = sorted({*os.listdir(folder)} - {"one", "two", "out"})
        # A failing unlink is the one that has to leave the temporary file.
        assert left == [] or (name == "unlink" and left[0].startswith(".mmbloom-")), name


def overwrite(path: Path) -> None:
    """Do what cp does: another filter of the same size in the same file."""
    other = make(path.with_name("other"), range(9), path)
    path.write_bytes(Path(other).read_bytes())
    os.unlink(other)


CHANGES: dict[str, Callable[[Path], object]] = {
    "truncated to nothing": lambda path: os.truncate(path, 0),
    "truncated to its header": lambda path: os.truncate(path, HEADER_BYTES),
    "a byte less": lambda path: os.truncate(path, os.path.getsize(path) - 1),
    "a byte more": lambda path: os.truncate(path, os.path.getsize(path) + 1),
    "overwritten by text": lambda path: path.write_bytes(b"\n" * path.stat().st_size),
    "overwritten by a filter": overwrite,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["one", "two"])
def test_input_that_changes_meanwhile(tmp_path: Path, which: str, change: str) -> None:
    """Law 16: an input that changes while it is read is a FileChangedError, and no signal."""
    folder = tmp_path / "filters"
    reads = calls_of_merge(folder).count("pread")
    (folder / "out").unlink()
    whole = (folder / which).read_bytes()

    def change_and_merge(number: int) -> str:
        hook = at_call(number, lambda _: CHANGES[change](folder / which))
        try:
            merge_in(folder, lambda name: hook(name) if name == "pread" else None)
        except FileChangedError as error:
            return error.path
        return "made"

    # From the first read after both headers are known to the last, which looks at one again:
    # when that is made the array has been read, and its size looked at.
    last = reads - (2 if which == "one" else 1)
    for number in range(2, last + 1):
        outcome = in_child(partial(change_and_merge, number))
        (folder / which).write_bytes(whole)
        if outcome == "made":
            assert number == last
            assert absent_or_valid(folder)
        else:
            assert outcome == str(folder / which)
            check_folder(folder, "one", "two")


def peak_of(folder: Path, sources: list[str]) -> int:
    """The most memory that a merge has at a time, in bytes."""

    def run() -> int:
        tracemalloc.start()
        merge(folder / "out", sources)
        return tracemalloc.get_traced_memory()[1]

    try:
        return in_child(run)
    finally:
        (folder / "out").unlink()


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Law 17: many inputs, or a large one, take no more memory than two small ones."""
    MiB = 1 << 20  # noqa: N806
    small = make_two(tmp_path, capacity=BIG)
    large = make(tmp_path / "large", range(100), capacity=12 * BIG)
    assert os.path.getsize(large) > 50 * MiB
    two, many, much = (peak_of(tmp_path, sources) for sources in (small, 30 * small, [large]))
    assert two < 40 * MiB
    assert many < two + 3 * MiB
    assert much < 40 * MiB


def allow_descriptors(number: int) -> None:
    """In a child: let so many more files be open, and no more."""
    free = (fd for fd in itertools.count() if not os.path.exists(f"/proc/self/fd/{fd}"))
    limit = next(itertools.islice(free, number, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


@pytest.mark.parametrize("free", [0, 1, 2, 5, 20])
def test_too_many_inputs(tmp_path: Path, free: int) -> None:
    """More inputs than files may be open: EMFILE that says what to do, and nothing is made."""
    sources = make_two(tmp_path)

    def run() -> str:
        allow_descriptors(free)
        with pytest.raises(OSError, match="do it in steps") as caught:
            merge(tmp_path / "out", 20 * sources)
        assert caught.value.errno == errno.EMFILE
        assert "ulimit -n" in str(caught.value)
        filename: str = caught.value.filename
        return filename

    assert in_child(run) in [*sources, str(tmp_path / "out")]
    check_folder(tmp_path, "one", "two")


def test_as_many_inputs_as_may_be(tmp_path: Path) -> None:
    """Up to the limit of open files a merge is whole or refused, and leaves none open."""
    sources = 10 * make_two(tmp_path)

    def run() -> str:
        allow_descriptors(12)
        descriptors, outcomes = os.listdir("/proc/self/fd"), ""
        for number in range(8, 15):
            some = sources[:number]
            try:
                merge(tmp_path / "out", some)
            except OSError as error:
                assert error.errno == errno.EMFILE  # noqa: PT017  one of two good ends
                assert not os.path.lexists(tmp_path / "out")
                outcomes += "-"
            else:
                check_union(str(tmp_path / "out"), *some)
                os.unlink(tmp_path / "out")
                outcomes += "+"
            assert os.listdir("/proc/self/fd") == descriptors
        with BloomFilter.open(sources[0]) as seen:
            assert seen.add("usable")
        return outcomes

    outcomes = in_child(run)
    assert set(outcomes) == {"+", "-"}
    assert outcomes == "".join(sorted(outcomes))


def test_missing_inputs_and_folders(tmp_path: Path) -> None:
    """What is not there is the system's own error, which names it."""
    sources = make_two(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        merge(tmp_path / "out", [*sources, tmp_path / "missing"])
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError) as caught:
        merge(tmp_path / "nowhere" / "out", sources)
    assert caught.value.filename == str(tmp_path / "nowhere")
    check_folder(tmp_path, "one", "two")
