"""merge of folders: file by file exactly the bits of all sources, which stay as they are."""

import itertools
import os
import random
import shutil
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chains import Growing, Rotating, by_number, files_of, manifest_of, naive_files
from checks import check_folder, check_pickles
from faults import at_call, os_calls
from naive import LAYOUTS
from unions import check_merged, live_writer, make_growing, make_rotating
from workers import in_child, peak_memory

from mmbloom import (
    CapacityWarning,
    FileChangedError,
    FormatError,
    GrowingFilter,
    IncompatibleFiltersError,
    RotatingFilter,
    copy,
    merge,
    verify,
)
from mmbloom.sizing import FilterParams, Layout, plan, share_of
from mmbloom.sizing.params import KeyHash

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
        assert said.startswith(f"{tmp_path / 'out'}: 1 of 1 files are past their capacity, ")
        assert f": {share_of(rate)} of new keys are now reported as seen" in said
        count = seen.info().files[0].approx_count
        assert f"0000000000.bloom holds about {count} keys and has a capacity of 1000" in said
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
    two, many = (
        peak_memory(partial(merge, tmp_path / f"out {number}", [large] * number))
        for number in (2, 30)
    )
    assert many < two + (3 << 20)


OTHERS: dict[str, Any] = {
    "initial_capacity": 21,
    "error_rate": 0.02,
    "layout": "standard",
    "seed": 6,
    "hash": "murmur3",
}
ANY_LAYOUTS: dict[str, Any] = {"error_rate": 1e-6}  # that of the helper is too low for "standard"
OTHER_TIMES: dict[str, Any] = {
    "keep_seconds": 8 * DAY,
    "every_seconds": DAY // 2,
    "capacity_per_period": 1001,
    **{name: OTHERS[name] for name in ("error_rate", "layout", "seed", "hash")},
}


def spelled(settings: dict[str, Any], name: str) -> str:
    """A setting of a manifest as errors have it: the key of SipHash as its fingerprint only."""
    if name == "seed" and settings.get("hash") == "siphash":
        seed = int.from_bytes(bytes.fromhex(settings["seed"]), "little")
        return KeyHash("siphash", seed).spelled_seed
    return str(settings.get("hash", "murmur3") if name == "hash" else settings[name])


def check_refused(
    folder: Path, sources: list[Path], *differences: tuple[str, object, object]
) -> None:
    """Check that the last of the sources is refused for what differs, and nothing made."""
    before = os.listdir(folder)
    with pytest.raises(IncompatibleFiltersError) as caught:
        merge(folder / "out", sources)
    assert (caught.value.path, caught.value.other) == (str(sources[0]), str(sources[-1]))
    assert caught.value.differences == tuple((n, str(a), str(b)) for n, a, b in differences)
    check_pickles(caught.value)
    check_folder(folder, *before)


@pytest.mark.parametrize("names", [*([name] for name in OTHERS), [*OTHERS]], ids="-".join)
def test_growing_of_other_settings(tmp_path: Path, names: list[str]) -> None:
    """Every setting that differs is named with both values, and nothing is made."""
    one, two = (make_growing(tmp_path / name, range(30), **ANY_LAYOUTS) for name in ("one", "two"))
    options = ANY_LAYOUTS | {name: OTHERS[name] for name in names}
    other = make_growing(tmp_path / "other", **options)
    here, there = (manifest_of(folder)["settings"] for folder in (one, other))
    said = [(name, spelled(here, name), spelled(there, name)) for name in names]
    check_refused(tmp_path, [one, two, other], *said)


@pytest.mark.parametrize("name", OTHER_TIMES)
def test_rotating_of_other_settings(tmp_path: Path, name: str) -> None:
    """The same of the settings of a rotating filter."""
    one = make_rotating(tmp_path / "one", {0: ["a"]}, **ANY_LAYOUTS)
    options = ANY_LAYOUTS | {name.removesuffix("_seconds"): OTHER_TIMES[name]}
    other = make_rotating(tmp_path / "other", {0: ["b"]}, **options)
    here, there = (manifest_of(folder)["settings"] for folder in (one, other))
    check_refused(tmp_path, [one, other], (name, spelled(here, name), spelled(there, name)))


def test_other_kinds(tmp_path: Path) -> None:
    """A growing and a rotating filter differ in their kind; a file is no folder."""
    one, two = make_growing(tmp_path / "one"), make_rotating(tmp_path / "two", {0: ["a"]})
    check_refused(tmp_path, [one, one, two], ("kind", "growing", "rotating"))
    check_refused(tmp_path, [two, one], ("kind", "rotating", "growing"))
    file = files_of(one)[0]
    for sources in ([file, one], [one, file]):
        with pytest.raises(IncompatibleFiltersError) as caught:
            merge(tmp_path / "out", sources)
        assert (caught.value.path, caught.value.other) == (str(one), str(file))
        assert caught.value.differences == (("kind", "a folder", "a file"),)
    check_folder(tmp_path, "one", "two")


def test_how_the_disk_was_reserved_is_no_matter(tmp_path: Path) -> None:
    """It says nothing of the bits: the result goes on as the first source would."""
    one = make_growing(tmp_path / "one", range(5), reserve="fallocate")
    two = make_growing(tmp_path / "two", range(9))
    merge(tmp_path / "out", [one, two])
    check_merged(tmp_path / "out", one, two)
    assert manifest_of(tmp_path / "out")["settings"]["reserve"] == "fallocate"


def test_bits_that_another_version_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal settings, and yet other bits: the files that cannot be united are named."""
    one = make_growing(tmp_path / "one", range(30))
    with monkeypatch.context() as patch:
        patch.setattr("mmbloom.format.folder.plan", wider)
        two = make_growing(tmp_path / "two", range(30))
    with pytest.raises(IncompatibleFiltersError, match="num_bits") as caught:
        merge(tmp_path / "out", [one, two])
    assert (caught.value.path, caught.value.other) == (str(files_of(one)[0]), str(files_of(two)[0]))
    check_folder(tmp_path, "one", "two")
    merge(tmp_path / "out", [two])
    check_merged(tmp_path / "out", two)


def wider(capacity: int, error_rate: float, **options: Any) -> FilterParams:
    """A plan of a block more than need be."""
    params = plan(capacity, error_rate, **options)
    return replace(params, num_bits=params.num_bits + 512)
