"""A filter that is full: what goes past its plan is told before anything of it is marked."""

import gc
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from checks import array_of, claim, counters_of, flock_is_free, set_counters
from kinds import KINDS

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    CountingBloomFilter,
    Filter,
    FilterFullError,
    GrowingFilter,
    RotatingFilter,
    Sieve,
)

WAYS: dict[str, Callable[[Filter, range], object]] = {
    "add_many": lambda seen, keys: seen.add_many(keys),
    "update": lambda seen, keys: seen.update([*keys]),
    "claim": claim,
    "push_many": lambda seen, keys: Sieve[int](seen).push_many(keys),
    "add": lambda seen, keys: [seen.add(key) for key in keys],
}
ONE_FILE = ["plain", "counting"]


@contextmanager
def full(path: str, kind: str = "plain", on_full: str = "raise") -> Iterator[Filter]:
    """Give a filter that has the thousand keys it was planned for."""
    with KINDS[kind].create(path, error_rate=1e-6, seed=1, on_full=on_full) as seen:
        assert seen.add_many(range(1000)).all()
        yield seen


@pytest.mark.parametrize("kind", ONE_FILE)
@pytest.mark.parametrize("way", WAYS)
def test_what_goes_past_the_plan_is_refused_whole(tmp_path: Path, way: str, kind: str) -> None:
    """Not a bit and not a counter changes, the lock is free, and what is there is answered."""
    path = str(tmp_path / "seen")
    with full(path, kind) as seen:
        before = array_of(path), counters_of(path)
        with pytest.raises(FilterFullError, match="and has a capacity of 1000") as caught:
            WAYS[way](seen, range(5000, 5100))
        if kind == "plain":
            assert (array_of(path), counters_of(path)) == before
            assert (caught.value.keys, caught.value.fits) == (1000, 0)
        assert flock_is_free(path)
        if kind == "plain":
            assert not seen.add_many(range(1000)).any(), "what is not new needs no room"
            assert not seen.add(7)


def test_a_batch_that_fits_in_part(tmp_path: Path) -> None:
    """The error counts the keys that fit, from the first on, each new one once."""
    with BloomFilter.create(tmp_path / "seen", 1000, 1e-6, seed=1, on_full="raise") as seen:
        seen.add_many(range(990))
        keys = [5, 2000, 2000, *range(2001, 2009), 6, 2009, 2010, 7]
        for way in (WAYS["add_many"], WAYS["claim"]):
            with pytest.raises(
                FilterFullError, match="the first 13 keys of this batch still fit"
            ) as caught:
                way(seen, keys)  # type: ignore[arg-type]
            assert caught.value.fits == 13
        assert seen.add_many(keys[:13]).sum() == 10
        assert seen.info().keys_added == 1000


@pytest.mark.parametrize("kind", [*ONE_FILE, "rotating"])
def test_a_claim_has_its_room(tmp_path: Path, kind: str) -> None:
    """What a claim will mark counts for what its block adds, and no longer than the claim."""
    with KINDS[kind].create(tmp_path / "seen", 100, seed=1, on_full="raise") as seen:
        assert seen.add_many(range(60)).all()
        with seen.claim(range(100, 130)):
            with pytest.raises(FilterFullError) as caught:
                seen.add_many(range(200, 220))
            fits = caught.value.fits or 0
            # One that counts goes by an estimate, which has its own spread of sqrt(100).
            assert fits == 10 or (kind == "counting" and 10 < fits < 20)
            assert seen.add_many(range(200, 200 + fits)).all()
            with pytest.raises(FilterFullError):
                seen.add_many(range(300, 302))
        assert seen.info().keys_added == 90 + fits
    with KINDS[kind].create(tmp_path / "other", 100, seed=1, on_full="raise") as seen:
        with pytest.raises(KeyError), seen.claim(range(90)):
            raise KeyError
        assert seen.add_many(range(100, 200)).all(), "a claim that failed keeps no room"


@pytest.mark.parametrize("kind", [*ONE_FILE, "rotating"])
def test_a_claim_in_a_block_gives_its_room_back(tmp_path: Path, kind: str) -> None:
    """Also where the lock is kept; and a claim of no keys within takes nothing of it away."""
    with KINDS[kind].create(tmp_path / "seen", 100, seed=1, on_full="raise") as seen:
        with seen.locked():
            with pytest.raises(KeyError), seen.claim(range(90)):
                raise KeyError
            assert seen.add_many(range(100, 150)).all()
        with seen.claim(range(30)):
            with seen.claim([]):
                pass
            with pytest.raises(FilterFullError):
                seen.add_many(range(200, 240))
            with seen.claim([]), pytest.raises(FilterFullError):
                seen.add_many(range(200, 240))
        assert seen.info().keys_added == 80


def test_a_warning_counts_what_is_claimed(tmp_path: Path) -> None:
    """With on_full="warn" it comes before what is added within a claim goes past the plan."""
    with BloomFilter.create(tmp_path / "seen", 100_000, 1e-6, seed=1) as seen:
        told = pytest.warns(CapacityWarning, match="of new keys are now reported as seen")
        with seen.claim(range(80_000)), told:
            seen.add_many(range(100_000, 130_000))
        assert seen.info().keys_added == 110_000


def test_of_many_chunks_none_is_marked(tmp_path: Path) -> None:
    """A batch of many chunks, of which the last does not fit, is refused as a whole."""
    path = str(tmp_path / "seen")
    with BloomFilter.create(path, 70_000, 1e-6, seed=1, on_full="raise") as seen:
        before = array_of(path)
        with pytest.raises(FilterFullError) as caught:
            seen.add_many(np.arange(72_000))
        assert array_of(path) == before
        assert seen.add_many(np.arange(72_000)[: caught.value.fits]).all()
        assert seen.add_many(np.tile(np.arange(70_000), 2)).sum() == 0


def test_filled_by_another_process_meanwhile(tmp_path: Path) -> None:
    """What others have added since counts: an object goes by the file, not by what it did."""
    path = str(tmp_path / "seen")
    with full(path), BloomFilter.open(path, on_full="raise") as other:
        for way in WAYS.values():
            with pytest.raises(FilterFullError):
                way(other, range(5000, 5100))


def test_batches_that_fit_hold_no_one_up(tmp_path: Path) -> None:
    """With on_full="raise" a filter takes exactly what it was planned for, one by one too."""
    with BloomFilter.create(tmp_path / "seen", 300, 1e-6, seed=1, on_full="raise") as seen:
        assert seen.add_many(range(100)).all()
        assert all(seen.add(key) for key in range(100, 200))
        with seen.claim(range(200, 300)) as new:
            assert new.all()
        with pytest.raises(FilterFullError):
            seen.add(300)


@pytest.mark.parametrize("way", WAYS)
def test_warning_comes_before_the_marks(tmp_path: Path, way: str) -> None:
    """Where warnings are errors nothing is marked; said once, the same call goes on."""
    path = str(tmp_path / "seen")
    with full(path, on_full="warn") as seen, warnings.catch_warnings():
        WAYS[way](seen, range(5000, 5015))  # within the estimate's own spread
        before = array_of(path)
        warnings.simplefilter("error")
        with pytest.raises(CapacityWarning, match="of new keys are now reported as seen"):
            WAYS[way](seen, range(6000, 6100))
        if way != "add":
            assert array_of(path) == before
        assert flock_is_free(path)
        WAYS[way](seen, range(6000, 6100))
        assert seen.contains_many(range(6000, 6100)).all()


def test_keys_that_repeat_in_a_batch_are_counted_once(tmp_path: Path) -> None:
    """A batch as long as ten plans, of keys that fit, is neither refused nor warned of."""
    keys = np.tile(np.arange(1000), 40)
    for on_full in ("warn", "raise"):
        with BloomFilter.create(tmp_path / on_full, 1000, 1e-6, seed=1, on_full=on_full) as seen:
            assert seen.add_many(keys).sum() == 1000


def test_removal_makes_room(tmp_path: Path) -> None:
    """A counting filter has room again where keys were taken out."""
    with full(str(tmp_path / "seen"), "counting") as seen:
        with pytest.raises(FilterFullError):
            seen.add_many(range(5000, 5100))
        assert isinstance(seen, CountingBloomFilter)
        seen.remove_many(range(200))
        assert seen.add_many(range(5000, 5100)).all()


def test_a_union_that_goes_past_the_plan(tmp_path: Path) -> None:
    """It is refused before a bit is set, with the lock free; one that fits is made."""
    path = str(tmp_path / "seen")
    with full(path) as seen:
        assert isinstance(seen, BloomFilter)
        other = BloomFilter.create(tmp_path / "other", like=seen)
        other.add_many(range(500, 1000))
        seen.union_update(other)
        other.add_many(range(5000, 5500))
        before = array_of(path)
        with pytest.raises(FilterFullError):
            seen.union_update(other)
        assert array_of(path) == before
        assert flock_is_free(path)
        other.close()


def test_a_period_that_is_full(tmp_path: Path) -> None:
    """A rotating filter refuses what its period was not planned for, and goes on in the next."""
    now = [0.0]
    folder = tmp_path / "seen"
    rotating = KINDS["rotating"]
    with rotating.create(folder, seed=1, on_full="raise", clock=lambda: now[0]) as seen:
        seen.add_many(range(900))
        for way in (WAYS["add_many"], WAYS["claim"]):
            with pytest.raises(FilterFullError, match="make a larger one") as caught:
                way(seen, range(900, 1100))
            assert (caught.value.path, caught.value.fits) == (str(folder), 100)
        assert not seen.contains_many(range(900, 1100)).any()
        now[0] += 86_400
        assert seen.add_many(range(900, 1100)).all()
        now[0] += 86_400
    with RotatingFilter.open(folder, clock=lambda: now[0]) as seen:
        seen.add_many(range(2000, 3000))  # as many as planned, and none of the day before
        now[0] += 86_400
        seen.add_many(range(3000, 4000))


def test_a_growing_filter_is_never_full(tmp_path: Path) -> None:
    with GrowingFilter.create(tmp_path / "seen", 100, 1e-6, seed=1, on_full="raise") as seen:
        assert seen.add_many(range(1000)).all()
        with seen.claim(range(1000, 9000)) as new:
            assert new.all()


def test_on_full_is_an_option_of_every_class(tmp_path: Path) -> None:
    """`mmbloom.open` hands it on, and it pickles with the filter."""
    path = str(tmp_path / "seen")
    with full(path):
        pass
    with (
        mmbloom.open(path, on_full="raise") as seen,
        pickle.loads(pickle.dumps(seen)) as again,
        pytest.raises(FilterFullError),
    ):
        again.add(-1)


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")
@pytest.mark.parametrize(("keys", "grows"), [(100, True), (600, False)])
def test_grow_is_advised_where_it_can_help(tmp_path: Path, keys: int, grows: bool) -> None:
    """Not at a file that takes most new keys for seen: `grow` refuses it."""
    path = tmp_path / "seen"
    with BloomFilter.create(path, 100, seed=1) as seen:
        seen.add_many(range(keys))
        assert (seen.current_error_rate < 0.5) is grows
    with BloomFilter.open(path, on_full="raise") as seen:
        with pytest.raises(FilterFullError) as caught:
            seen.add_many(range(10_000, 30_000))
        assert ("mmbloom.grow" in caught.value.advice) is grows


def test_damaged_counters_do_not_refuse_for_ever(tmp_path: Path) -> None:
    """A number of keys that the bits cannot be of is not gone by."""

    path = str(tmp_path / "seen")
    with BloomFilter.create(path, 1000, on_full="raise") as seen:
        seen.add_many(range(100))
        set_counters(path, keys_added=2**64 - 1)
        assert seen.add_many(range(100, 200)).sum() > 95


def test_a_claim_that_was_never_ended_reserves_no_room(tmp_path: Path) -> None:
    with BloomFilter.create(tmp_path / "seen", 100, 1e-9, on_full="raise") as seen:
        claim = seen.claim(range(90))
        claim.__enter__()
        with pytest.raises(FilterFullError):
            seen.add_many(range(100, 190))
        del claim  # as a generator that is not resumed drops it
        gc.collect()
        assert seen.add_many(range(100, 190)).all()


@pytest.mark.parametrize("few", [1, 7])
def test_few_keys_stop_exactly_at_the_plan(tmp_path: Path, few: int) -> None:
    """Calls whose keys surely fit need no look at the plan; those near it are counted."""
    with BloomFilter.create(tmp_path / "seen", 100, 1e-9, on_full="raise") as seen:
        fitting = 100 // few * few
        calls = [[b"%d" % key for key in range(at, at + few)] for at in range(0, 110, few)]
        for keys in calls[: fitting // few]:
            assert seen.add(keys[0]) if few == 1 else seen.add_many(keys).all()
        assert seen.keys_added == fitting
        with pytest.raises(FilterFullError) as caught:
            seen.add_many(calls[fitting // few])
        assert caught.value.fits == 100 - fitting
        assert not seen.add_many([b"0", b"1"]).any()  # known ones need no room


def test_few_keys_leave_the_room_that_a_claim_has_reserved(tmp_path: Path) -> None:
    """Also where the check before the claim would still be good for a moment."""
    with BloomFilter.create(tmp_path / "seen", 100, 1e-9, on_full="raise") as seen:
        for key in (b"a", b"b", b"c"):
            seen.add(key)
        with seen.claim(range(90)):
            assert seen.add_many([b"d", b"e"]).all()
            assert all(seen.add(b"mine %d" % key) for key in range(5))
            with pytest.raises(FilterFullError):
                seen.add(b"one more")
        assert seen.keys_added == 100
