"""RotatingFilter: what is refused, pickles, and files that are dropped while they are in use."""

import os
import pickle
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from chains import files_of, manifest_of
from checks import check_folder
from folders import DAY, Clock
from folders import Rotate as Create
from naive import split

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter, Sieve
from mmbloom.errors import FileChangedError, FormatError, ParameterMismatchError
from mmbloom.filters.file import File
from mmbloom.filters.shelf import contains_any
from mmbloom.format.folder import seconds_of


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        *[("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800), ("2w", 1209600)],
        *[(5, 5), (60.0, 60), (timedelta(hours=1, seconds=1), 3601)],
    ],
)
def test_durations(duration: Any, seconds: int) -> None:
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize(
    "duration",
    [
        *["", "7", "d", "7 d", "7D", "1.5h", "-1d", "0s", "٣d", "7d\n", "9" * 12 + "w"],
        *[0, -5, 1.5, float("nan"), 1e300, float("inf")],
        *[timedelta(0), timedelta(milliseconds=1)],
    ],
)
def test_no_durations(rotate: Create, folder: Path, duration: Any) -> None:
    with pytest.raises(ValueError, match="duration is"):
        rotate(keep=duration)
    with pytest.raises(ValueError, match="duration is"):
        rotate(every=duration)
    check_folder(folder.parent)


def test_no_durations_at_all(rotate: Create) -> None:
    for nothing in (None, True, b"7d", [7]):
        with pytest.raises(TypeError, match="duration is"):
            rotate(keep=nothing)


def test_wrong_parameters_make_nothing(rotate: Create, folder: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"capacity_per_period": 0},
        {"error_rate": 1.0},
        {"keep": "1000s", "every": "1s"},  # 1,001 files
        {"layout": "round"},
        {"reserve": "maybe"},
    ]
    for options in wrong:
        with pytest.raises((ValueError, TypeError)):
            rotate(**options)
    check_folder(folder.parent)


def test_create_or_open(rotate: Create) -> None:
    rotate(seed=3).add("a")
    assert "a" in rotate(exist_ok=True, keep=timedelta(days=7), every=DAY)
    with pytest.raises(FileExistsError):
        rotate()
    for field, value in {"keep": "6d", "every": "2d", "capacity_per_period": 5, "seed": 4}.items():
        with pytest.raises(ParameterMismatchError, match=field):
            rotate(exist_ok=True, **{field: value})


def test_kinds_are_told_apart(rotate: Create, folder: Path, tmp_path: Path) -> None:
    """Each class names the one that is for what it found."""
    rotate()
    with pytest.raises(FormatError, match="open it with RotatingFilter") as caught:
        GrowingFilter.open(folder)
    assert caught.value.found == "rotating"
    GrowingFilter.create(tmp_path / "growing", 10).close()
    with pytest.raises(FormatError, match="GrowingFilter"):
        RotatingFilter.open(tmp_path / "growing")
    BloomFilter.create(tmp_path / "file", 10).close()
    with pytest.raises(FormatError, match="no folder"):
        RotatingFilter.open(tmp_path / "file")


def test_pickle_has_the_clock(rotate: Create, folder: Path, clock: Clock) -> None:
    """A filter with another clock would give other answers: it goes along, or it is an error."""
    seen = rotate()
    seen.add("a")
    clock.days(100)
    with pickle.loads(pickle.dumps(seen)) as again:
        assert again._clock.now == clock.now
        assert "a" not in again
    with RotatingFilter.open(folder, "r") as real:
        assert len(pickle.dumps(real)) < 1000
        with pickle.loads(pickle.dumps(real)) as again:
            assert again._clock is time.time
    with (
        RotatingFilter.open(folder, clock=lambda: 0.0) as odd,
        pytest.raises(Exception, match="pickle"),
    ):
        pickle.dumps(odd)
    raw = pickle.dumps(seen)
    os.rename(folder, folder.parent / "moved")
    with (
        RotatingFilter.create(folder, capacity_per_period=10),
        pytest.raises(FileChangedError),
    ):
        pickle.loads(raw)


def test_reader_of_a_dropped_file(rotate: Create, folder: Path, clock: Clock) -> None:
    """Who has old files mapped goes on: nothing he asks fails, and nothing old is found."""
    seen = rotate(keep="2d", every="1d")
    with RotatingFilter.open(folder, "r", clock=clock) as reader:
        for day in range(12):
            clock.days(day)
            key = f"day {day}"
            assert seen.add(key)
            assert key in reader
            assert reader.contains_many([f"day {day - 1}", f"day {day - 4}"]).tolist() == [
                day >= 1,
                False,
            ]
        assert len(reader.info().files) == 3


def test_lock_of_a_dropped_file(rotate: Create, folder: Path, clock: Clock) -> None:
    """A writer whose newest file was dropped by another goes on with the new one."""
    seen = rotate(keep="2d", every="1d")
    with RotatingFilter.open(folder, clock=clock) as other:
        for turn, writer in enumerate([seen, other] * 4):
            clock.days(30 * turn)
            assert writer.add("key")
            assert not seen.add("key")
            assert len(files_of(folder)) == 1


def test_lock_of_a_file_that_is_gone(rotate: Create, folder: Path, clock: Clock) -> None:
    """A writer that has never written, and whose newest file was dropped, finds the new one."""
    seen = rotate(keep="2d", every="1d")
    with RotatingFilter.open(folder, clock=clock) as other:
        clock.days(30)
        seen.add("key")
        assert len(files_of(folder)) == 1
        assert not other.add("key")


def test_file_dropped_while_it_is_asked(rotate: Create, folder: Path, clock: Clock) -> None:
    """A question that meets a file that has gone since the look is put again."""
    seen = rotate(keep="2d", every="1d")
    counts = []
    with RotatingFilter.open(folder, "r", clock=clock) as reader:

        def question(members: Sequence[File]) -> bool:
            counts.append(len(members))
            if len(counts) == 1:
                clock.days(30)
                seen.add("key")
            return bool(contains_any(members, split([(1, 2)])).any())

        assert not reader._shelf.ask(question)
    assert counts == [1, 1]


def test_link_to_the_newest_is_no_file_of_its_own(
    rotate: Create, folder: Path, clock: Clock
) -> None:
    """An empty filter under the next name that is in the folder already is not taken for left."""
    seen = rotate()
    os.link(files_of(folder)[0], folder / f"{20_001:010}.bloom")
    clock.days(1)
    assert seen.add("key")
    assert files_of(folder)[1].name.startswith(f"{20_001:010}-")
    assert len({member["uuid"] for member in manifest_of(folder)["members"]}) == 2


def test_files_that_a_killed_process_did_not_remove(
    rotate: Create, folder: Path, clock: Clock
) -> None:
    """They go with the next change-over; other people's files stay."""
    seen = rotate(keep="1d", every="1d")
    os.link(files_of(folder)[0], folder / f"{19_000:010}-{'ab' * 4}.bloom")
    (folder / "0000000001.txt").write_text("mine")
    (folder / "mine.bloom").write_text("mine")
    clock.days(9)
    seen.add("a")
    check_folder(folder, "manifest.json", "0000000001.txt", "mine.bloom", files_of(folder)[0].name)


def test_sieve(rotate: Create, clock: Clock) -> None:
    """A crawler that comes again after a week."""
    urls: Sieve[str] = Sieve(rotate())
    assert urls.push("/")
    clock.days(5)
    assert not urls.push("/")
    clock.days(13)
    assert urls.push_many(["/", "/"]).tolist() == [True, False]
    assert len(urls) == 2
