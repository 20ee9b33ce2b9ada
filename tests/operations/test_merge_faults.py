"""merge where little is left: memory, descriptors, or the folder of its output."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import check_folder
from descriptors import open_files
from faults import allow_descriptors
from unions import check_union, make, make_growing, make_two
from workers import in_child, peak_memory

from mmbloom import BloomFilter, merge

BIG = 4_000_000  # keys; arrays of 4.7 MiB


def peak_of(folder: Path, sources: list[str]) -> int:
    """The most memory that a merge has at a time, in bytes."""
    try:
        return peak_memory(lambda: merge(folder / "out", sources))
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
        descriptors, outcomes = open_files(), ""
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
            assert open_files() == descriptors
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
