"""One call opens a filter or creates it, whatever it has become; `grow` may come at any moment."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults import at_call, os_calls
from workers import in_child, together

import mmbloom
from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    FileChangedError,
    FilterFullError,
    FormatError,
    GrowingFilter,
    ParameterMismatchError,
    RotatingFilter,
    grow,
    open_or_create,
)

RATE = 1e-9
KEYS = range(60)  # for three files: of 10, 20 and 40
PROCESSES = 8


@pytest.mark.parametrize("layout", ["blocked", "standard"])
@pytest.mark.parametrize("rate", [0.01, 1e-6])
def test_opens_what_the_filter_has_become(tmp_path: Path, layout: Any, rate: float) -> None:
    """The same call creates the file, opens it, and opens the folder that it has grown to."""
    path = tmp_path / "seen"
    for cls, new in ((BloomFilter, True), (BloomFilter, False), (GrowingFilter, False)):
        with open_or_create(path, 10_000, rate, layout=layout, permissions=0o640) as seen:
            assert type(seen) is cls
            assert seen.add("a") == new
        if not new:
            grow(path)
    assert path.stat().st_mode & 0o777 == 0o750


def test_a_folder_from_the_start(tmp_path: Path) -> None:
    """The rate asked for may be that of the whole folder, as it was created."""
    GrowingFilter.create(tmp_path / "seen", 100, RATE).close()
    open_or_create(tmp_path / "seen", 100, RATE).close()


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity", 200),
        ("error_rate", 1e-8),
        ("layout", "standard"),
        ("hash", "murmur3"),
        ("seed", 6),
    ],
)
def test_other_parameters(tmp_path: Path, grown: bool, field: str, value: object) -> None:
    """A file or a folder that was created with others is refused, and which of them is said."""
    path = tmp_path / "seen"
    made: dict[str, Any] = {"capacity": 100, "error_rate": RATE, "hash": "siphash", "seed": 5}
    open_or_create(path, **made).close()
    if grown:
        grow(path)
    open_or_create(path, **made).close()
    with pytest.raises(ParameterMismatchError, match=f"{path}: exists with {field} ") as caught:
        open_or_create(path, **{**made, field: value})
    assert caught.value.field == field


def test_something_else(tmp_path: Path) -> None:
    """Filters that it does not create, and what is no filter, are refused and stay."""
    CountingBloomFilter.create(tmp_path / "counting", 100).close()
    RotatingFilter.create(tmp_path / "rotating", capacity_per_period=100).close()
    (tmp_path / "text").write_text("no filter")
    (tmp_path / "empty").mkdir()
    for name in os.listdir(tmp_path):
        with pytest.raises(FormatError, match=str(tmp_path / name)):
            open_or_create(tmp_path / name, 100)
    with pytest.raises(FileNotFoundError):
        open_or_create(tmp_path / "nowhere" / "seen", 100)


def full(path: Path) -> Path:
    with BloomFilter.create(path, 10, RATE) as seen:
        seen.add_many(range(10))
    return path


def verify(path: Path) -> None:
    assert mmbloom.verify(path, keys=range(10)).ok


def copy(path: Path) -> None:
    mmbloom.copy(path, f"{path}-copy")
    verify(Path(f"{path}-copy"))


@pytest.mark.parametrize(
    "use",
    [
        lambda path: mmbloom.open(path).close(),
        lambda path: mmbloom.open(path, "r").close(),
        lambda path: open_or_create(path, 10, RATE).close(),
        verify,
        copy,
    ],
    ids=["open", "read", "open_or_create", "verify", "copy"],
)
def test_grown_between_any_two_steps(tmp_path: Path, use: Callable[[Path], None]) -> None:
    """Whatever finds a file, and is at its next step when the path has a folder, begins again."""

    def grow_at_each() -> int:
        number, grown = 0, True
        while grown:
            path = full(tmp_path / str(number))
            with os_calls(at_call(number, lambda _, path=path: grow(path))):  # type: ignore[misc]
                use(path)
            number, grown = number + 1, path.is_dir()
        return number

    assert in_child(grow_at_each) > 5


def test_opened_while_it_grows(tmp_path: Path) -> None:
    """No open fails beside `grow`."""
    paths = [full(tmp_path / str(number)) for number in range(30)]

    def open_until_grown() -> None:
        for path in paths:
            while not path.is_dir():
                mmbloom.open(path).close()

    def grow_all() -> None:
        for path in paths:
            grow(path)

    together([open_until_grown, open_until_grown, grow_all], timeout=60)


def test_one_of_eight_processes_grows_it(tmp_path: Path) -> None:
    """All succeed with the same rate, and the folder has the one file that was there."""
    path = full(tmp_path / "seen")
    inode = path.stat().st_ino
    rates = together([partial(grow, path)] * PROCESSES, timeout=60)
    assert rates == [grow(path)] * PROCESSES
    with GrowingFilter.open(path) as seen:
        (file,) = seen.info().files
        assert os.stat(file.path).st_ino == inode
    assert os.listdir(tmp_path) == ["seen"]
    verify(path)


def take(path: Path) -> int:
    """Add all keys one by one, and make room whenever there is none; how many were new."""
    new, seen = 0, open_or_create(path, 10, RATE, on_full="raise")
    for key in KEYS:
        while True:
            try:
                new += seen.add(key)
                break
            except FilterFullError:
                grow(path)
            except FileChangedError:
                pass
            seen.close()
            seen = open_or_create(path, 10, RATE, on_full="raise")
    seen.close()
    return new


def test_eight_processes_find_it_full(tmp_path: Path) -> None:
    """Each opens or creates it, adds until it is full, and grows it: each key is new once."""
    for number in range(5):
        path = tmp_path / str(number)
        assert sum(together([partial(take, path)] * PROCESSES, timeout=60)) == len(KEYS)
        with mmbloom.open(path) as seen:
            assert isinstance(seen, GrowingFilter)
            assert seen.contains_many(KEYS).all()
            assert [one.capacity for one in seen.info().files] == [10, 20, 40]
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_is_not_there_can_be_created(tmp_path: Path) -> None:
    """The error of `open` names the call that creates a filter."""
    for use in (mmbloom.open, mmbloom.BloomFilter.open, mmbloom.CountingBloomFilter.open):
        with pytest.raises(FileNotFoundError) as caught:
            use(tmp_path / "nothing")
        assert caught.value.filename == str(tmp_path / "nothing")
        assert caught.value.__notes__ == [
            "mmbloom.open_or_create creates a filter where there is none"
        ]
