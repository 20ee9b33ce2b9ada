"""merge where things fail: inputs that change, calls that fail, kills, little memory."""

import errno
import os
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from checks import HEADER_BYTES, check_folder
from faults import allow_descriptors, at_call
from sweeps import Sweep
from unions import check_union, make, make_growing, make_two
from workers import in_child

from mmbloom import BloomFilter, FileChangedError, merge

BIG = 4_000_000  # keys; arrays of 4.7 MiB


def sweep_of(sources: list[str]) -> Sweep:
    """Give the way to make the union of filters."""
    return Sweep(lambda path: merge(path, sources), lambda path: check_union(path, *sources))


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
    folder.mkdir()
    sweep = sweep_of(make_two(folder))
    reads = sweep.calls(tmp_path).count("pread")
    whole = (folder / which).read_bytes()

    def change_and_merge(number: int) -> str:
        hook = at_call(number, lambda _: CHANGES[change](folder / which))
        try:
            sweep.run(folder / "out", lambda name: hook(name) if name == "pread" else None)
        except FileChangedError as error:
            return error.path
        return "made"

    # From the first read after both headers are known, and where the arrays are, to the last, which
    # looks at one header again: then the array has been read, and its size looked at.
    last = reads - (2 if which == "one" else 1)
    for number in range(4, last + 1):
        outcome = in_child(partial(change_and_merge, number))
        (folder / which).write_bytes(whole)
        if outcome == "made":
            assert number == last
            assert sweep.absent_or_whole(folder / "out")
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


def two_growing(folder: Path) -> list[str]:
    """Make two growing filters that can be united, of two files and of one."""
    one = make_growing(folder / "one", range(18), initial_capacity=12)
    return [str(one), str(make_growing(folder / "two", range(10, 15), initial_capacity=12))]


@pytest.mark.parametrize("free", [0, 1, 2, 3, 5, 6, 20])
@pytest.mark.parametrize("make_sources", [make_two, two_growing])
def test_too_many_inputs(
    tmp_path: Path, free: int, make_sources: Callable[[Path], list[str]]
) -> None:
    """More inputs than files may be open: EMFILE that says what to do, and nothing is made."""
    sources = make_sources(tmp_path)

    def run() -> str:
        allow_descriptors(free)
        with pytest.raises(OSError, match="do it in steps") as caught:
            merge(tmp_path / "out", 20 * sources)
        assert caught.value.errno == errno.EMFILE
        assert "ulimit -n" in str(caught.value)
        filename: str = caught.value.filename
        return filename

    assert in_child(run).startswith((*sources, str(tmp_path / "out")))
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


def test_missing_folder(tmp_path: Path) -> None:
    """What is not there is the system's own error, which names it."""
    sources = make_two(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        merge(tmp_path / "nowhere" / "out", sources)
    assert caught.value.filename == str(tmp_path / "nowhere")
    check_folder(tmp_path, "one", "two")
