"""merge: file by file exactly the bits of all sources, which stay as they are."""

import os
import random
import warnings
from pathlib import Path

import pytest
from chains import Growing, Rotating, by_number, files_of, naive_files
from naive import LAYOUTS
from unions import check_merged, live_writer, make_growing, make_rotating

from mmbloom import (
    CapacityWarning,
    GrowingFilter,
    RotatingFilter,
    copy,
    merge,
    verify,
)
from mmbloom.sizing import Layout, share_of

DAY = 86_400


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_growing(tmp_path: Path, seed: int, layout: Layout, number: int) -> None:
    """However the keys are split, and however many files each has, none is lost."""
    chance = random.Random(seed)
    sizes = [chance.choice([0, 15, 21, 100, 400]) for _ in range(number)]
    parts = [chance.sample(range(500), size) for size in sizes]
    options = {"layout": layout, "seed": seed}
    sources = [make_growing(tmp_path / f"{i}", part, **options) for i, part in enumerate(parts)]
    out = tmp_path / "out"
    merge(out, sources)
    check_merged(out, *sources)
    naive, keys = naive_files(out), range(700)
    with GrowingFilter.open(out) as seen:
        found = seen.contains_many(keys)
        assert [*found] == [any(key in file for file in naive) for key in keys]
        assert all(found[part].all() for part in parts)
        # It goes on: what is new is so once, whether or not the newest file is over-full.
        new = seen.add_many(keys)
        assert not (new & found).any()
        assert (new | found).mean() > 0.99  # false positives of small files aside
        assert not seen.add_many(keys).any()
    assert verify(out, keys=keys).ok


def test_one_that_is_too_full_is_told_of(tmp_path: Path) -> None:
    """Two full files in one: a warning, the rate in info, and the next key begins another file."""
    rates = {"error_rate": 0.01, "initial_capacity": 1000}
    one = make_growing(tmp_path / "one", range(900), **rates)
    two = make_growing(tmp_path / "two", range(900, 1800), **rates)
    with pytest.warns(CapacityWarning) as caught:
        merge(tmp_path / "out", [one, two])
    assert [warning.filename for warning in caught] == [__file__]
    said = str(caught[0].message)
    with GrowingFilter.open(tmp_path / "out") as seen:
        rate = seen.current_error_rate
        assert rate > 0.04
        assert said.startswith(f"{tmp_path / 'out'}: 1 of 1 files hold more keys than planned, ")
        assert f": {share_of(rate)} of new keys are now taken for seen" in said
        count = seen.info().files[0].approx_count
        assert f"0000000000.bloom holds about {count} keys and was planned for 1000" in said
        assert count == pytest.approx(1800, rel=0.05)
        while not seen.add(os.urandom(8)):
            pass
        assert [each.capacity for each in seen.info().files] == [1000, 2000]
        assert seen.info().files[1].keys_added == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CapacityWarning):
            merge(tmp_path / "again", [one, two])
    check_merged(tmp_path / "again", one, two)


def test_the_fullest_file_is_named(tmp_path: Path) -> None:
    """Of several that hold too much, the one that does so most; those that do not are counted."""
    one = make_growing(tmp_path / "one", range(150), error_rate=0.01)  # 20, 40, 80 and 10 keys
    two = make_growing(tmp_path / "two", range(150, 190), error_rate=0.01)  # 20, 20
    with pytest.warns(
        CapacityWarning, match=r"2 of 4 files .* 0000000000.bloom holds about [34]\d"
    ) as caught:
        merge(tmp_path / "out", [one, two])
    with GrowingFilter.open(tmp_path / "out", "r") as seen:
        assert seen.contains_many(range(190)).all()
        assert f": {share_of(seen.current_error_rate)} of new keys" in str(caught[0].message)


def test_what_fits_is_not_warned_of(tmp_path: Path) -> None:
    """Files with room for the others' keys, and the same keys twice, are no matter."""
    one = make_growing(tmp_path / "one", range(500), initial_capacity=1000)
    two = make_growing(tmp_path / "two", range(400, 1000), initial_capacity=1000)
    merge(tmp_path / "out", [one, two])
    merge(tmp_path / "same", [tmp_path / "out"] * 3)
    check_merged(tmp_path / "same", tmp_path / "out")
    with GrowingFilter.open(tmp_path / "same", "r") as seen:
        assert seen.info().keys_added == pytest.approx(1000, rel=0.02)


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("number", [1, 2, 4])
def test_rotating(tmp_path: Path, seed: int, number: int) -> None:
    """Each key is found for as long as in the source that had it last, whoever was idle when."""
    chance, sources, last = random.Random(seed), [], dict[int, float]()
    for i in range(number):
        days: dict[float, list[int]] = {}
        for _ in range(chance.choice([1, 3, 12])):
            day = 100 + chance.random() * chance.choice([3, 14])
            days[day] = chance.sample(range(5000), 300)
            last |= {key: max(day, last.get(key, 0.0)) for key in days[day]}
        sources.append(make_rotating(tmp_path / f"{i}", days))
    out = tmp_path / "out"
    merge(out, sources)
    newest = max(max(by_number(source)) for source in sources)
    check_merged(out, *sources, without=range(newest - 7))
    for now in (newest, newest + 0.99, newest + 3.5, newest + 7.99, newest + 8):
        with RotatingFilter.open(out, "r", clock=lambda: now * DAY) as seen:  # noqa: B023
            for key, day in last.items():
                if day + 7 > now:
                    assert key in seen, (key, day, now)
                elif int(day) + 8 <= now:
                    assert key not in seen, (key, day, now)


@pytest.mark.parametrize(("keep", "every", "kept"), [(7, 1, 7), (7, 2, 4), (1, 7, 1), (14, 7, 2)])
def test_periods_past_their_time_are_left_out(
    tmp_path: Path, keep: int, every: int, kept: int
) -> None:
    """By the newest period's beginning: the last that is asked then is kept, and none before it."""
    times = {"keep": f"{keep}d", "every": f"{every}d"}
    new = make_rotating(tmp_path / "new", {20 * every: ["new"]}, **times)
    numbers = range(20 - kept - 2, 20)
    for number in numbers:
        old = make_rotating(tmp_path / f"old {number}", {number * every: [number]}, **times)
        merge(tmp_path / f"out {number}", [old, new])
        with RotatingFilter.open(old, "r", clock=lambda: 20 * every * DAY) as seen:
            asked = number in seen
        assert asked == (number >= 20 - kept)
        assert [*by_number(tmp_path / f"out {number}")] == [number] * asked + [20]
    everything = [tmp_path / f"old {number}" for number in numbers]
    merge(tmp_path / "all", [new, *everything])  # in any order
    check_merged(tmp_path / "all", new, *everything, without=range(20 - kept))


def test_rotating_goes_on(tmp_path: Path) -> None:
    """The next key goes to the newest period, or begins the next, which drops the oldest."""
    one = make_rotating(tmp_path / "one", {100: ["a"], 103: ["b"]})
    two = make_rotating(tmp_path / "two", {98: ["c"], 101: ["d"]})
    merge(tmp_path / "out", [one, two])
    now = [103.5 * DAY]
    with RotatingFilter.open(tmp_path / "out", clock=lambda: now[0]) as seen:
        assert [*seen.add_many(["a", "b", "c", "d", "e"])] == [False] * 4 + [True]
        assert [*by_number(tmp_path / "out")] == [98, 100, 101, 103]
        now[0] = 106 * DAY
        assert seen.add("f")
        assert [*by_number(tmp_path / "out")] == [100, 101, 103, 106]
        assert seen.contains_many(["a", "b", "c", "d", "e", "f"]).all()
    assert verify(tmp_path / "out").ok


@pytest.mark.stress
@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize("kind", [Growing(), Rotating(50)], ids=type)
def test_sources_that_others_write_to(
    tmp_path: Path, kind: Growing | Rotating, stress: int
) -> None:
    """Law 4: a key whose add had returned is in it, through change-overs and dropped files."""
    kind.create(tmp_path / "live", seed=5).close()
    with kind.create(tmp_path / "other", seed=5) as other:
        other.add_many(range(-100, 0))
    looked_up = 0
    step = 0.25  # seconds that pass from batch to batch, by the clock of the rotating one
    with live_writer(tmp_path / "live", kind.open, lambda: kind.pass_time(step)) as acknowledged:
        for number in range(10 * stress):
            keys, out = range(acknowledged(20 * (number + 1))), tmp_path / f"{number}"
            merge(out, [tmp_path / "other", tmp_path / "live"])
            with kind.open(out, "r") as seen:
                found = seen.contains_many(keys)
            past = 100 * max(0.0, (kind.now() - kind.keep) / step + 1)
            assert found[int(past) :].all()
            looked_up += len(found[int(past) :])
            assert verify(out).ok
    assert len(by_number(out)) > 2
    assert looked_up > 1000


def test_sources_stay_as_they_are(tmp_path: Path) -> None:
    """Laws 10, 14: no source is locked or changed, and those for reading only will do."""
    one = make_growing(tmp_path / "one", range(30))
    copy(make_growing(tmp_path / "live", range(30, 45)), tmp_path / "two", seal=True)
    sources = [one, tmp_path / "two"]
    with GrowingFilter.open(one) as writer:
        os.chmod(files_of(one)[0], 0o400)
        before = [(path.stat(), path.read_bytes()) for each in sources for path in files_of(each)]
        with writer.locked(), pytest.warns(CapacityWarning):
            merge(tmp_path / "out", sources)
        after = [(path.stat(), path.read_bytes()) for each in sources for path in files_of(each)]
    for (was, raw), (now, same) in zip(before, after, strict=True):
        assert (was.st_mtime_ns, was.st_ctime_ns, raw) == (now.st_mtime_ns, now.st_ctime_ns, same)
    check_merged(tmp_path / "out", one, tmp_path / "live")  # and is no sealed one
    with GrowingFilter.open(tmp_path / "out") as seen:
        assert seen.add("usable")
