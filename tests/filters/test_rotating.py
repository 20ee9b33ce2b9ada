"""RotatingFilter: periods and their files, clocks that go wrong, and files dropped in use."""

import os
import pickle
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import files_of, manifest_of
from checks import check_folder
from folders import DAY, Clock
from folders import Rotate as Create
from naive import split

from mmbloom import GrowingFilter, RotatingFilter, Sieve, verify
from mmbloom._engine.key_batch import HashedKeys
from mmbloom.errors import (
    CapacityWarning,
    FileChangedError,
    FilterFullError,
    MmbloomError,
    ParameterMismatchError,
)
from mmbloom.filters.file import File
from mmbloom.filters.shelf import contains_any
from mmbloom.format.folder import seconds_of


def numbers(folder: Path) -> list[int]:
    return [member["number"] - 20_000 for member in manifest_of(folder)["members"]]


def test_seen_in_the_last_seven_days(rotate: Create, clock: Clock) -> None:
    """A key is found for 7 days, and no more after 8; to add it again starts its time anew."""
    seen = rotate()
    assert seen.add_many(["once", "again"]).all()
    clock.days(6.9)
    assert "once" in seen
    assert not seen.add("again")
    clock.days(8)
    assert seen.contains_many(["once", "again"]).tolist() == [False, True]
    assert seen.add("once")
    clock.days(13.9)
    assert "again" in seen
    clock.days(15)
    assert "again" not in seen


def test_only_what_was_taken(rotate: Create, clock: Clock) -> None:
    """Once a week, not once ever: who asks with `in` and adds what he takes gets it again."""
    seen = rotate()
    taken = []
    for day in range(17):
        clock.days(day)
        if "line" not in seen:
            taken.append(day)
            seen.add("line")
    assert taken == [0, 8, 16]


def test_files_come_and_go(rotate: Create, clock: Clock, folder: Path) -> None:
    """A file a period in which a key came; those past their time go from the disk as well."""
    seen = rotate(keep="3d", every="1d")
    found = []
    for day in [0, 1, 1.5, 3, 4, 20, 20.5]:
        clock.days(day)
        assert "asked" not in seen  # which makes no file, and drops none
        seen.add(f"{day}")
        found.append(numbers(folder))
        check_folder(folder, "manifest.json", *(file.name for file in files_of(folder)))
        assert all(verify(file).ok for file in files_of(folder))
    assert found == [[0], [0, 1], [0, 1], [0, 1, 3], [1, 3, 4], [20], [20]]


def test_nothing_is_dropped_or_found_late(rotate: Create, clock: Clock, folder: Path) -> None:
    """A period that is over by the clock is asked no more, even if nobody has rotated yet."""
    seen = rotate(keep="1d", every="1d")
    seen.add("a")
    clock.days(1.5)
    assert "a" in seen
    clock.days(2)
    assert "a" not in seen
    assert not seen.contains_many(["a"]).any()
    info = seen.info()
    assert (info.files, info.current_error_rate) == ([], 0.0)
    assert info.past_files == len(files_of(folder)) > 0
    assert info.file_bytes == sum(file.stat().st_size for file in files_of(folder))
    with RotatingFilter.open(folder, "r", clock=clock) as reader:
        assert "mode='r'" in reader.info().read_only
    assert (seen.approx_count, seen.fill_ratio, seen.current_error_rate) == (0, 0.0, 0.0)
    assert numbers(folder) == [0]  # still there
    assert seen.add("a")
    assert numbers(folder) == [2]


def test_no_file_without_a_key(rotate: Create, clock: Clock, folder: Path) -> None:
    seen = rotate()
    seen.add("a")
    clock.days(1)
    assert "a" in seen
    seen.add_many([])
    with seen.claim([]):
        pass
    with seen.locked():
        pass
    seen.flush()
    seen.recount()
    assert numbers(folder) == [0]


def test_clock_that_goes_back(rotate: Create, clock: Clock, folder: Path) -> None:
    """Time stands still at the start of the newest period: nothing is lost, all is kept longer."""
    seen = rotate()
    seen.add("day 0")
    clock.days(5)
    seen.add("day 5")
    clock.days(-30)
    assert seen.contains_many(["day 0", "day 5"]).all()
    assert not seen.add("day 5")
    assert seen.add("back")
    assert numbers(folder) == [0, 5]
    clock.days(12)
    assert seen.contains_many(["back", "day 5"]).all()
    clock.days(14)
    assert "back" not in seen


def test_clock_far_ahead(rotate: Create, clock: Clock, folder: Path) -> None:
    """What it drops is dropped; from then on keys are kept, for it and for right clocks."""
    seen = rotate()
    seen.add("before")
    clock.days(1000)
    seen.add("ahead")
    clock.days(1)
    assert seen.contains_many(["before", "ahead"]).tolist() == [False, True]
    assert seen.add("right again")
    assert not seen.add("right again")
    assert numbers(folder) == [1000]
    clock.days(1001)
    assert "right again" in seen


def test_clock_before_1970(tmp_path: Path) -> None:
    with RotatingFilter.create(
        tmp_path / "seen", capacity_per_period=10, clock=lambda: -5.0 * DAY
    ) as seen:
        assert seen.add("a")
        assert "a" in seen


def test_claim_across_midnight(rotate: Create, clock: Clock) -> None:
    """What is marked after midnight is kept from then on."""
    seen = rotate(keep="1d", every="1d")
    with seen.claim(["a", "b"]) as new:
        assert new.all()
        clock.days(1)
    clock.days(2.9)
    assert seen.contains_many(["a", "b"]).all()


@pytest.mark.parametrize("growing", [False, True])
def test_claim_whose_block_adds(
    rotate: Create, clock: Clock, tmp_path: Path, growing: bool
) -> None:
    """What the block adds, in a new file even, and what it claimed are both there after it."""
    seen: Any = GrowingFilter.create(tmp_path / "other", 10, 1e-9) if growing else rotate(keep="1d")
    with seen:
        seen.add("known")
        with seen.claim(["claimed", "known", "both"]) as new:
            clock.days(1)
            assert new.tolist() == [True, False, True]
            assert seen.add("both")
            assert seen.update(range(100)) == 100
        assert seen.contains_many(["claimed", "both", *range(100)]).all()
        members = files_of(seen.path)
        assert all(verify(file).ok for file in members)
        if not growing:
            clock.days(2.5)  # when the period is over in which it was claimed
            assert seen.contains_many(["claimed", "known", "both"]).all()
        else:
            counts = [one.keys_added for one in seen.info().files]
            assert counts == [10, 20, 40, 33]
        assert not seen.add_many(["claimed", "both", *range(100)]).any()


def test_claim_whose_block_takes_the_room(tmp_path: Path) -> None:
    with GrowingFilter.create(tmp_path / "seen", 10, 1e-9) as seen:
        with seen.claim(range(8)) as new:
            assert new.all()
            assert seen.update(range(100, 105)) == 5
        assert [one.keys_added for one in seen.info().files] == [10, 3]
        assert seen.contains_many([*range(8), *range(100, 105)]).all()


def test_claim_entered_late(rotate: Create, clock: Clock) -> None:
    """What was seen when the keys were hashed, and is past its time under the lock, is new."""
    seen = rotate(keep="1d", every="1d")
    seen.add_many(["a", "b"])
    clock.days(1)
    seen.add_many(["b", "c"])
    claim = seen.claim(["a", "b", "c"])
    clock.days(2)
    with claim as new:
        assert new.tolist() == [True, False, False]


def test_error_rate_of_all_periods(rotate: Create, clock: Clock, seed: int) -> None:
    n, p, asked = 2000, 0.05, 100_000
    seen = rotate(keep="3d", every="1d", capacity_per_period=n, error_rate=p, seed=seed)
    chance = np.random.default_rng(seed)
    for day in range(4):
        clock.days(day)
        seen.update(chance.integers(0, 2**62, n))
    assert len(seen.info().files) == 4
    wrong = int(seen.contains_many(chance.integers(2**62, 2**63, asked)).sum())
    print(f"{wrong / asked:.4%} of absent keys were found, planned {p:.2%}")
    assert 0.85 * p <= wrong / asked <= 1.06 * p
    assert seen.current_error_rate == pytest.approx(wrong / asked, rel=0.1)


def test_a_period_that_ends_before_the_caller_is_told(
    rotate: Create, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning of the period that is over is not said of the next one, which has its own."""
    seen = rotate(capacity_per_period=100)
    tell = File.tell

    def late(_: File, full: FilterFullError) -> None:
        monkeypatch.undo()
        clock.days(1)
        assert seen.add("of another thread")
        tell(seen._shelf.newest, full)  # as where all this came before the newest was asked for

    monkeypatch.setattr(File, "tell", late)
    assert seen.add_many(range(90)).all()
    seen.add_many(range(100, 200))  # past the plan of the first day
    with pytest.warns(CapacityWarning, match="capacity of 100"):
        seen.add_many(range(200, 500))


def test_warns_once_a_period_when_it_is_full(rotate: Create, clock: Clock, folder: Path) -> None:
    seen = rotate(capacity_per_period=100)
    for day in (0, 1):
        clock.days(day)
        with pytest.warns(CapacityWarning, match=files_of(folder)[0].parent.name) as caught:
            seen.update([*range(300), *range(300)])
        assert len(caught) == 1


def test_periods_shorter_than_it_takes_to_make_a_file(rotate: Create, clock: Clock) -> None:
    """The clock is ahead again after each file: an error, and not a lock that is kept for ever."""
    seen = rotate(keep="60s", every="10s")
    seen.add("before")

    def hurry() -> float:
        clock.now += 10
        return clock.now

    shelf: Any = seen._shelf
    shelf.clock = hurry
    for add in (partial(seen.add, "a"), partial(seen.add_many, ["b"])):
        with pytest.raises(MmbloomError, match="8 periods of 10 s have ended"):
            add()
    shelf.clock = clock
    assert seen.contains_many(["a", "b"]).tolist() == [False, True], "60 seconds have passed"
    assert seen.add("c")


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


def test_more_files_than_there_can_be(rotate: Create, folder: Path) -> None:
    with pytest.raises(ValueError, match="1001 files, but at most 1000 are possible"):
        rotate(keep="1000s", every="1s")
    check_folder(folder.parent)


def test_create_or_open(rotate: Create) -> None:
    rotate(seed=3).add("a")
    assert "a" in rotate(exist_ok=True, keep=timedelta(days=7), every=DAY)
    with pytest.raises(FileExistsError):
        rotate()
    for field, value in {"keep": "6d", "every": "2d", "capacity_per_period": 5, "seed": 4}.items():
        with pytest.raises(ParameterMismatchError, match=field):
            rotate(exist_ok=True, **{field: value})


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
    with RotatingFilter.create(folder, capacity_per_period=10), pytest.raises(FileChangedError):
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
    """A writer whose newest file was dropped by another, even before its first, finds the new."""
    seen = rotate(keep="2d", every="1d")
    with RotatingFilter.open(folder, clock=clock) as other:
        for turn, (writer, follower) in enumerate([(seen, other), (other, seen)] * 4, 1):
            clock.days(30 * turn)
            assert writer.add("key")
            assert len(files_of(folder)) == 1
            assert not follower.add("key")
            assert not writer.add("key")


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
            return bool(contains_any(members, HashedKeys(*split([(1, 2)]))).any())

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
