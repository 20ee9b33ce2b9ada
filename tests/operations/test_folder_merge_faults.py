"""merge where things fail: sources that change, little memory, too many files."""

import errno
import itertools
import os
import shutil
import stat
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from chains import files_of
from checks import check_folder
from faults import allow_descriptors, at_call, os_calls
from unions import check_merged, make_growing, make_rotating
from workers import in_child

from mmbloom import FileChangedError, FormatError, NetworkFileSystemError, merge
from mmbloom._system import proc


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """Two growing filters that can be united, of two files and of one."""
    (tmp_path / "from").mkdir()
    one = make_growing(tmp_path / "from" / "one", range(18), initial_capacity=12)
    return [one, make_growing(tmp_path / "from" / "two", range(10, 15), initial_capacity=12)]


@pytest.mark.parametrize("number", [0, 1])
def test_source_that_changes_meanwhile(tmp_path: Path, two: list[Path], number: int) -> None:
    """Law 16: a file that is truncated while it is read is an error that names it."""
    changed, outcomes = files_of(two[0])[number], set()
    whole, out = changed.read_bytes(), tmp_path / "out"

    def change_and_merge(read: int) -> tuple[str, str]:
        hook = at_call(read, lambda _: os.truncate(changed, 4100))
        try:
            with os_calls(lambda name: hook(name) if name == "pread" else None):
                merge(out, two)
        except (FileChangedError, FormatError) as error:
            return type(error).__name__, error.path
        return "made", str(changed)

    for read in itertools.count():
        outcome, path = in_child(partial(change_and_merge, read))
        assert path == str(changed)
        assert os.path.lexists(out) == (outcome == "made")
        outcomes.add(outcome)
        unchanged = changed.stat().st_size == len(whole)
        changed.write_bytes(whole)
        if out.exists():
            check_merged(out, *two)
            shutil.rmtree(out)
        check_folder(tmp_path, "from")
        if unchanged:  # there were not so many reads
            break
    assert outcomes == {"FormatError", "FileChangedError", "made"}


@pytest.mark.parametrize("free", [0, 1, 3, 6, 20])
def test_too_many_files(tmp_path: Path, two: list[Path], free: int) -> None:
    """More files in all than may be open: EMFILE that says what to do, and nothing is made."""

    def run() -> None:
        allow_descriptors(free)
        with pytest.raises(OSError, match="do it in steps") as caught:
            merge(tmp_path / "out", 20 * two)
        assert caught.value.errno == errno.EMFILE
        assert "ulimit -n" in str(caught.value)

    in_child(run)
    check_folder(tmp_path, "from")


def test_in_steps(tmp_path: Path) -> None:
    """A union of unions is that of all."""
    days = [{100.0 + i: [i], 101.0 + i: [-i]} for i in range(5)]
    one, *others = [make_rotating(tmp_path / f"{i}", each) for i, each in enumerate(days)]
    merge(tmp_path / "some", [one, *others[:2]])
    merge(tmp_path / "rest", others[2:])
    merge(tmp_path / "all", [tmp_path / "some", tmp_path / "rest"])
    check_merged(tmp_path / "all", one, *others)


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Law 17: many large folders take no more memory than two."""
    large = make_growing(tmp_path / "large", range(100), initial_capacity=1_000_000)
    assert files_of(large)[0].stat().st_size > 6 << 20

    def peak(number: int) -> int:
        tracemalloc.start()
        merge(tmp_path / f"out {number}", [large] * number)
        return tracemalloc.get_traced_memory()[1]

    two, many = (in_child(partial(peak, number)) for number in (2, 30))
    assert many < two + (3 << 20)


def test_network_and_permissions(
    tmp_path: Path, two: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laws 15, 18: the files are private unless asked otherwise, and not on a network."""
    merge(tmp_path / "out", two)
    merge(tmp_path / "out2", two, permissions=0o640)
    for folder, mode in ((tmp_path / "out", 0o600), (tmp_path / "out2", 0o640)):
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {mode}
        assert stat.S_IMODE(folder.stat().st_mode) == {0o600: 0o700, 0o640: 0o750}[mode]
    monkeypatch.setattr(proc, "file_system_type", lambda _: "nfs4")
    with pytest.raises(NetworkFileSystemError) as caught:
        merge(tmp_path / "out3", two)
    assert caught.value.path == str(tmp_path / "out3")
    merge(tmp_path / "out3", two, allow_network=True)
    check_folder(tmp_path, "from", "out", "out2", "out3")
