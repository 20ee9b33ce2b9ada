"""verify_after_add: a key is acknowledged when it is found again, and a lost bit is an error."""

import io
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import check_pickles, check_settled, claim, counters_of, flock_is_free
from naive import LAYOUTS
from reference import NaiveFilter
from unions import make
from workers import running

from mmbloom import BloomFilter, LostBitsError, _engine
from mmbloom._engine.key_batch import HashedKeys
from mmbloom._system.typing import Words
from mmbloom.logs.dedup import dedup
from mmbloom.logs.lines import LineWriter, read_chunks
from mmbloom.sizing import Layout

KEYS = range(500)


@pytest.fixture
def other(path: str) -> str:
    """A filter to unite with: like the one at `path`, which is made as well."""
    make(path, range(-20, 0), capacity=2000)
    return make(Path(path).with_name("other"), KEYS, path)


def add_each(seen: BloomFilter, _: str) -> int:
    return sum(seen.add(key) for key in KEYS)


def add_each_locked(seen: BloomFilter, other: str) -> int:
    with seen.locked():
        return add_each(seen, other)


def unite(seen: BloomFilter, other: str) -> int:
    seen.union_update(other)
    return 500


WAYS: dict[str, Callable[[BloomFilter, str], int]] = {
    "add": add_each,
    "add, locked": add_each_locked,
    "add_many": lambda seen, _: int(seen.add_many(KEYS).sum()),
    "update": lambda seen, _: seen.update(iter(KEYS)),
    "claim": lambda seen, _: sum(claim(seen, KEYS)),
    "union_update": unite,
}
each_way = pytest.mark.parametrize("way", WAYS)


def first_new_dropped(real: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel after which the first word that it changed is as it was before."""

    def drop(words: Words, *rest: Any) -> Any:
        before = words.copy()
        answer = real(words, *rest)
        for place in np.flatnonzero(words != before)[:1]:
            words[place] = before[place]
        return answer

    return drop


class OneKeyWatched:
    """The kernels of one key, which lose a bit of a key that they add; counts what is asked."""

    def __init__(self, one: Any, words: Words, *, drops: bool) -> None:
        self._one, self._words, self._drops, self.asked = one, words, drops, 0

    def add(self, key: Any) -> bool:
        add = partial(self._one.add, key)
        return bool(first_new_dropped(lambda _: add())(self._words) if self._drops else add())

    def contains(self, key: Any) -> bool:
        self.asked += 1
        return bool(self._one.contains(key))

    def positions_set(self) -> int:
        return int(self._one.positions_set())


def watch(seen: BloomFilter, *, drops: bool) -> OneKeyWatched:
    """Put watched kernels of one key in the place of a filter's own."""
    views = seen._storage.views
    one = OneKeyWatched(views.one, views.words, drops=drops)
    watched = views._replace(one=one)
    seen._storage.array.mapped = seen._storage.array.place._replace(views=watched)
    # Each key goes by these.
    seen._grounds = lambda gone, more: None  # type: ignore[method-assign]  # noqa: ARG005
    return one


@pytest.fixture
def lossy(other: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """All kernels of batches lose a bit that they have just set; gives `other`, made before."""
    for name in ("add", "commit", "union"):
        monkeypatch.setattr(_engine, name, first_new_dropped(getattr(_engine, name)))
    return other


@each_way
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sound_filters_notice_nothing(tmp_path: Path, layout: Layout, way: str) -> None:
    """With the option or without, every way to add answers and writes the same."""
    make(tmp_path / "checked", range(-20, 0), capacity=2000, layout=layout)
    other = make(tmp_path / "other", KEYS, tmp_path / "checked")
    shutil.copy(tmp_path / "checked", tmp_path / "plain")
    answers = []
    for name in ("checked", "plain"):
        with BloomFilter.open(tmp_path / name, verify_after_add=name == "checked") as seen:
            answers.append([WAYS[way](seen, other) for _ in range(2)])
            assert seen.contains_many(range(-20, 500)).all()
    assert answers[0] == answers[1]
    assert (tmp_path / "checked").read_bytes() == (tmp_path / "plain").read_bytes()
    check_settled(str(tmp_path / "checked"))


def test_dedup_is_the_same(tmp_path: Path) -> None:
    """Deduplication with a filter that is opened so writes the same lines."""
    lines = b"".join(b"%d\n" % (number % 300) for number in range(1000))
    found = []
    for name in ("checked", "plain"):
        path, out = tmp_path / name, tmp_path / (name + "-out")
        with (
            BloomFilter.create(path, 2000, seed=1, verify_after_add=name == "checked") as seen,
            out.open("wb", buffering=0) as file,
        ):
            tally = dedup(seen, read_chunks(io.BytesIO(lines), b"\n"), LineWriter(file))
        found.append((tally, out.read_bytes(), NaiveFilter(path.read_bytes()).array))
    assert found[0] == found[1]
    assert found[0][0].unique == 300


@each_way
@pytest.mark.parametrize("opened", ["open", "create", "pickle"])
def test_lost_bit_is_an_error(path: str, lossy: str, way: str, opened: str) -> None:
    """A bit that is gone after it was set: no key of the batch is acknowledged, and it is told."""
    if opened == "create":
        seen = BloomFilter.create(path, 2000, seed=5, exist_ok=True, verify_after_add=True)
    else:
        seen = BloomFilter.open(path, verify_after_add=True)
    if opened == "pickle":
        with seen:
            raw = pickle.dumps(seen)
        assert len(raw) < 1024
        seen = pickle.loads(raw)
    before = counters_of(path)
    with seen:
        watch(seen, drops=True)
        with pytest.raises(LostBitsError, match="not found") as caught:
            WAYS[way](seen, lossy)
        assert caught.value.path == path
        assert path in str(caught.value)
        check_pickles(caught.value)
        assert seen.info().unfinished_batches == 1
        assert flock_is_free(path)
        assert counters_of(path)["batches_begun"] > before["batches_begun"]
        assert not seen.contains_many(KEYS).all()
    with BloomFilter.open(path) as seen:  # the bits that are left are mended as after a kill
        assert seen.contains_many(range(-20, 0)).all()
        assert seen.recount() == NaiveFilter(Path(path).read_bytes()).popcount()
        assert seen.info().unfinished_batches == 0


@each_way
def test_off_by_default(path: str, lossy: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless asked for nothing is looked at again: no query is made, and none finds the loss."""
    monkeypatch.setattr(_engine, "contains", None)
    with BloomFilter.open(path) as seen:
        one = watch(seen, drops=True)
        assert WAYS[way](seen, lossy) == 500
        assert one.asked == 0
        assert seen.info().unfinished_batches == 0


def test_each_key_is_looked_for_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The price is one query for each key added, new or not."""
    asked, contains = [], _engine.contains

    def count(words: Words, keys: HashedKeys, *rest: Any) -> Any:
        asked.append(len(keys))
        return contains(words, keys, *rest)

    monkeypatch.setattr(_engine, "contains", count)
    with BloomFilter.create(path, 100_000, verify_after_add=True) as seen:
        one = watch(seen, drops=False)
        for way in (seen.add_many, seen.update):
            way(range(20_000))
            assert sum(asked) == 20_000
            asked.clear()
        with seen.claim(range(100)):
            assert asked == []
        assert asked == [100]
        assert not seen.add(7)
        assert one.asked == 1


def clear_behind_its_back(path: str) -> None:
    """Set the whole array to zero, as someone without the lock may do."""
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(Path(path).stat().st_size - 4096))


def test_bits_lost_during_a_claim(path: str) -> None:
    """Also of keys that were all there when the claim was entered."""
    with BloomFilter.create(path, 1000, verify_after_add=True) as seen:
        seen.add_many(KEYS)
        claimed = seen.claim(KEYS)
        assert not claimed.__enter__().any()
        clear_behind_its_back(path)
        with pytest.raises(LostBitsError):
            claimed.__exit__(None, None, None)
        assert seen.info().unfinished_batches == 1
        assert flock_is_free(path)


def test_within_locked(path: str) -> None:
    """Within `locked` a lost bit is an error of its key, and no more: the block goes on."""
    with BloomFilter.create(path, 1000, verify_after_add=True) as seen:
        with seen.locked():
            assert seen.add("a")
            one = watch(seen, drops=True)
            for number in range(3):
                with pytest.raises(LostBitsError):
                    seen.add("b")
                assert seen.info().unfinished_batches == number + 1
            assert not flock_is_free(path)
            one._drops = False
            assert seen.add("b")
        assert flock_is_free(path)
        assert "a" in seen
        assert "b" in seen


@pytest.mark.filterwarnings("ignore::mmbloom.CapacityWarning")  # the same keys again and again
def test_a_process_that_clears_bits_is_found(path: str) -> None:
    """Someone who zeroes the file again and again is noticed, and the keys can be added after."""

    def clear_for_ever() -> None:
        while True:
            clear_behind_its_back(path)

    def add_for_ever() -> None:
        while True:
            seen.add_many(np.arange(16_384))

    with BloomFilter.create(path, 100_000, verify_after_add=True) as seen:
        with running(clear_for_ever), pytest.raises(LostBitsError):
            add_for_ever()
        assert flock_is_free(path)
        seen.add_many(KEYS)
        assert seen.contains_many(KEYS).all()


@pytest.mark.parametrize("checked", [False, True])
def test_setting_survives(path: str, checked: bool) -> None:
    """Pickles keep the setting, read-only filters take it, and it changes no repr."""
    with BloomFilter.create(path, 100, verify_after_add=checked) as seen:
        with BloomFilter.open(path) as plain:
            assert repr(seen) == repr(plain)
        again = pickle.loads(pickle.dumps(seen))
    with again:
        one = watch(again, drops=False)
        again.add("a")
        assert one.asked == checked
    with BloomFilter.open(path, "r", verify_after_add=checked) as seen:
        assert "a" in seen
