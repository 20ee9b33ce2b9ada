"""RotatingFilter: periods and their files, and clocks that go wrong."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chains import files_of, manifest_of
from checks import check_folder
from folders import DAY, Clock
from folders import Rotate as Create

from mmbloom import GrowingFilter, RotatingFilter, verify
from mmbloom.errors import (
    CapacityWarning,
    FilterFullError,
    MmbloomError,
)
from mmbloom.filters.file import File


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
    """What was claimed goes to the next file if what the block added has filled the newest."""
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
    """With every period full, all of them together keep to the error rate of the whole."""
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
    with pytest.warns(CapacityWarning, match="planned for 100"):
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
