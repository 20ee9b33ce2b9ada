"""Keys one or a few at a time in folders: from the call to the bits, and the files that there are.

With the compiled engine a look at the files is trusted for a moment, but for which there are: a
key may have been added to one that is newer. Everything that may change meanwhile changes here amid
a run of keys. With numpy's engine each key looks.
"""

import os
import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from checks import in_thread, run_threads
from workers import Child, end, in_child, together

import mmbloom
from mmbloom import (
    BloomFilter,
    ClosedFilterError,
    FileChangedError,
    GrowingFilter,
    KeyTypeError,
    LockTimeoutError,
    ReadOnlyError,
    RotatingFilter,
)
from mmbloom._storage.folder import ManifestFile
from mmbloom.folders.chain import Chain, ChainState
from mmbloom.folders.folder import Lasting
from mmbloom.folders.rotating import RotatingWriter

Folder = GrowingFilter | RotatingFilter
Make = Callable[..., Folder]
compiled = pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine looks for each key")


def growing(path: Path, **options: Any) -> GrowingFilter:
    return GrowingFilter.create(path, 100_000, 1e-6, seed=1, lock_timeout=0.2, **options)


def rotating(path: Path, **options: Any) -> RotatingFilter:
    options = {"keep": "7d", "every": "1d", "lock_timeout": 0.2, **options}
    return RotatingFilter.create(
        path, capacity_per_period=500_000, error_rate=1e-6, seed=1, **options
    )


both = pytest.mark.parametrize("make", [growing, rotating])


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the calls that look which files there are in Python."""
    found, real = list[int](), Chain.refresh

    def refresh(chain: Chain) -> Any:
        found.append(1)
        return real(chain)

    monkeypatch.setattr(Chain, "refresh", refresh)
    return found


@compiled
@both
@pytest.mark.parametrize("what", ["in", "absent", "add", "there", "locked", "few", "add few"])
def test_few_go_the_long_way(make: Make, tmp_path: Path, what: str, long_ways: list[int]) -> None:
    """Of thousands of keys in a row some dozens do, as the clock goes on."""
    keys = [b"%d" % number for number in range(5000)]
    with make(tmp_path / "seen") as seen:
        if what in ("in", "there", "few"):
            seen.add_many(keys)
        long_ways.clear()
        begun = time.monotonic()
        if what in ("in", "absent"):
            assert all((key in seen) == (what == "in") for key in keys)
        elif what == "locked":
            with seen.locked():
                assert all(seen.add(key) for key in keys)
        elif what in ("add", "there"):
            assert all(seen.add(key) == (what == "add") for key in keys)
        elif what == "few":
            assert all(seen.contains_many(keys[at : at + 10]).all() for at in range(0, 5000, 10))
        else:
            assert all(seen.add_many(keys[at : at + 10]).all() for at in range(0, 5000, 10))
        moments = (time.monotonic() - begun) * 1000
        assert len(long_ways) <= 20 + 5 * (moments + 5000 / 500)
        assert len(long_ways) < 2500


@pytest.mark.parametrize("how", ["in", "few", "add", "add few"])
def test_a_newer_file_is_asked_at_once(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that another adds to a file that it makes is found by the next question.

    The other's manifest is named right after this one has looked, and no disk is waited for, so
    that the look is still good by the clock.
    """
    install, changes = ManifestFile.install, 0
    looking = list[GrowingFilter]()

    def name(draft: ManifestFile) -> None:
        nonlocal changes
        for seen in looking:
            changes += 1
            assert "none" not in seen
            assert "none" not in seen
        install(draft)

    monkeypatch.setattr(ManifestFile, "install", name)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for turn in range(5):
        path = tmp_path / str(turn)
        with GrowingFilter.create(path, 5, 1e-6) as seen, GrowingFilter.open(path) as other:
            looking = [seen]
            for number in range(150):
                key = f"key {number}"
                assert other.add(key)
                if how == "in":
                    assert key in seen
                elif how == "few":
                    assert seen.contains_many([key, "none"]).tolist() == [True, False]
                elif how == "add":
                    assert not seen.add(key)
                else:
                    assert seen.add_many([key, key]).tolist() == [False, False]
            looking = []
    assert changes == 5 * 4


@pytest.mark.parametrize("size", [1, 7])
def test_each_file_has_its_keys_and_no_more(tmp_path: Path, size: int) -> None:
    """One after the other, or a few at a time: a file gives way when it is full, not later."""
    keys = [f"key {number}" for number in range(1400)]
    with GrowingFilter.create(tmp_path / "seen", 100, 1e-9, seed=1) as seen:
        for at in range(0, 1400, size):
            if size == 1:
                assert seen.add(keys[at])
            else:
                assert seen.add_many(keys[at : at + size]).all()
            assert keys[at // 2] in seen
        for at in range(0, 1400, size):
            assert seen.contains_many([*keys[at : at + size], "none"]).tolist() == [
                *[True] * size,
                False,
            ]
        added = [one.keys_added for one in seen.info().files]
    assert added == [100, 200, 400, 700]


@both
def test_exclusions(make: Make, tmp_path: Path) -> None:
    """A key that is excluded is not found from then on, one that is no more is again."""
    with make(tmp_path / "seen") as seen:
        for key in ("a", "b", "c"):
            seen.add(key)
            assert key in seen
            seen.exclusions.add(key)
            assert key not in seen
            assert not seen.contains_many([key]).any()
            seen.exclusions.discard(key)
            assert key in seen


@both
def test_what_is_raised(make: Make, tmp_path: Path) -> None:
    """Amid trust, a key of the wrong type, a reader, a lock that is taken, a close."""
    path = tmp_path / "seen"
    with make(path) as seen:
        assert seen.add("a")
        assert "a" in seen
        bad: Any = 1.5
        with pytest.raises(KeyTypeError):
            seen.add(bad)
        with pytest.raises(KeyTypeError):
            bad in seen  # noqa: B015
        with type(seen).open(path, "r") as reader:
            assert "a" in reader
            with pytest.raises(ReadOnlyError):
                reader.add("b")
        with type(seen).open(path, lock_timeout=0.01) as other:
            assert not other.add("a")
            assert not other.add("a")
            with seen.locked(), pytest.raises(LockTimeoutError):
                other.add("b")
            with seen.locked():  # by this thread
                assert in_thread(lambda: _is_kept_out(seen))
        assert not seen.add("a")
        assert "a" in seen
    with pytest.raises(ClosedFilterError):
        "a" in seen  # noqa: B015
    with pytest.raises(ClosedFilterError):
        seen.add("a")


def _is_kept_out(seen: Folder) -> bool:
    try:
        assert "a" in seen  # trusted from here on
        seen.add("b")
    except LockTimeoutError:
        return True
    return False


@both
@pytest.mark.parametrize("how", ["removed", "moved", "another"])
def test_the_folder_is_another_at_once(make: Make, tmp_path: Path, how: str) -> None:
    """A folder that is gone, or in whose place there is another, is noticed by the next key."""
    path = tmp_path / "seen"
    with make(path) as seen:
        for _ in range(3):
            seen.add("a")
            assert "a" in seen
        if how == "removed":
            shutil.rmtree(path)
        else:
            path.rename(tmp_path / "elsewhere")
        if how == "another":
            make(path).close()
        for ask in (seen.__contains__, seen.add):
            with pytest.raises(FileChangedError):
                ask("a")


@both
def test_a_file_that_is_cut(make: Make, tmp_path: Path) -> None:
    """It is noticed within a moment, and is no fatal signal then."""
    path = tmp_path / "seen"

    def work() -> None:
        with make(path) as seen:
            seen.add("a")
            (file,) = path.glob("*.bloom")
            os.truncate(file, 0)
            time.sleep(0.05)
            with pytest.raises(FileChangedError):
                "a" in seen  # noqa: B015

    in_child(work)


@both
def test_within_a_block_and_in_a_child(make: Make, tmp_path: Path) -> None:
    """Keys added in a block, and by a child forked amid trust, are there; no lock is left."""
    with make(tmp_path / "seen") as seen:
        with seen.locked():
            assert [seen.add(key) for key in ("a", "b", "a")] == [True, True, False]
            assert seen.add_many(["b", "c"]).tolist() == [False, True]
        assert in_child(lambda: seen.add("d") and "a" in seen and not seen.add("d"))
        assert "d" in seen
        assert [seen.add(key) for key in ("c", "d", "e")] == [False, False, True]


@pytest.mark.parametrize("writers", ["threads", "processes"])
def test_each_key_is_new_once(tmp_path: Path, writers: str, seed: int) -> None:
    """Four that add the same keys one by one, through change-overs, while all of them ask."""
    path = tmp_path / "seen"
    shared = GrowingFilter.create(path, 50, 1e-9, seed=1)

    def add(me: int) -> list[int]:
        keys = random.Random(seed + me).sample(range(2000), 2000)
        seen = shared if writers == "threads" else GrowingFilter.open(path)
        new = list[int]()
        for key in keys:
            if seen.add(key):
                new.append(key)
            assert key in seen
        if seen is not shared:
            seen.close()
        return new

    told = list[list[int]]()
    if writers == "threads":
        run_threads(*(lambda me=me: told.append(add(me)) for me in range(4)))
    else:
        told = together([partial(add, me) for me in range(4)])
    with shared:
        assert sorted(key for one in told for key in one) == list(range(2000))
        assert [one.keys_added for one in shared.info().files[:-1]] == [50, 100, 200, 400, 800]


def _age(path: Path, seed: int) -> tuple[int, int]:
    """Add keys to periods of a second, and ask for them: how many were found, and were gone."""
    chance, added, found, gone = random.Random(seed), list[tuple[float, str]](), 0, 0
    begun = time.monotonic()
    with rotating(path, keep="1s", every="1s", exist_ok=True) as seen:
        while time.monotonic() < begun + 3.4:
            key = f"{seed} {len(added)}"
            assert seen.add(key)
            added.append((time.monotonic(), key))
            when, key = chance.choice(added)
            asked = time.monotonic()
            if key in seen:
                found += 1
                assert asked - when < 2.1, "found for longer than keep and every"
            else:
                gone += 1
                assert time.monotonic() - when > 1, "lost before its time"
    return found, gone


def test_periods_of_the_system(tmp_path: Path, seed: int) -> None:
    """Keys are found until their time, through ends of periods amid trust, and then no more."""
    for found, gone in together([partial(_age, tmp_path / "seen", seed + me) for me in range(2)]):
        assert found > 1000
        assert gone > 100


def test_what_comes_again_starts_anew_at_once(tmp_path: Path) -> None:
    """From the end of a period on a key goes to the next file, whether older ones have it."""
    path = tmp_path / "seen"
    keys = [f"key {number}" for number in range(300_000)]
    with rotating(path, keep="9m", every="1s") as seen:
        for _ in range(3):
            end = time.time() // 1 + 1
            seen.update(keys)  # to the file before
            while time.time() < end - 0.02:
                time.sleep(0.002)
            begun, left = list[float](), iter(keys)
            while not begun or begun[-1] < end + 0.02:
                begun.append(time.time())
                assert not seen.add(next(left))
            after = [key for key, when in zip(keys, begun, strict=False) if when >= end]
            with BloomFilter.open(max(path.glob("*.bloom")), "r") as newest:
                assert newest.contains_many(after).all()


def test_what_is_past_its_time_is_gone_at_once(tmp_path: Path) -> None:
    """A key is found until its period is asked no more, and not by the next question."""
    with rotating(tmp_path / "seen", keep="1s", every="1s") as seen:
        for number in range(2):
            key, before = f"key {number}", time.time()
            assert seen.add(key)
            after = time.time()
            while (asked := time.time()) < after + 2.1:
                found = key in seen
                assert not (found and asked >= after // 1 + 2)
                assert found or time.time() >= before // 1 + 2
                seen.add("of each period")  # so that there is a file of each


def test_a_clock_that_is_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key goes to the file that a process whose clock is ahead has begun meanwhile."""
    path = tmp_path / "seen"
    install = ManifestFile.install
    looking = list[RotatingFilter]()

    def name(draft: ManifestFile) -> None:
        for seen in looking:
            assert "none" not in seen
            assert "none" not in seen
        install(draft)

    monkeypatch.setattr(ManifestFile, "install", name)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with rotating(path) as seen:
        assert seen.add("a")
        looking = [seen]
        for days in range(1, 6):
            ahead = time.time() + days * 86400
            with RotatingFilter.open(path, clock=lambda: ahead) as other:  # noqa: B023
                other.add(f"of day {days}")
                assert seen.add(f"late {days}")
                with BloomFilter.open(max(path.glob("*.bloom")), "r") as newest:
                    assert f"late {days}" in newest


@compiled
@pytest.mark.parametrize("window", [(3600, 7200), (-7200, -3600)], ids=["set back", "over"])
def test_out_of_its_time(
    tmp_path: Path,
    window: tuple[int, int],
    long_ways: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the clock is not within the time that the grounds are for, each key looks."""
    with rotating(tmp_path / "seen") as seen:
        real = RotatingWriter.lasting

        def lasting(writer: RotatingWriter, now: ChainState) -> Lasting | None:
            found = real(writer, now)
            assert found is not None
            since, ends = (time.time() + seconds for seconds in window)
            return found._replace(since=since, ends=ends)

        monkeypatch.setattr(RotatingWriter, "lasting", lasting)
        seen.add("a")
        long_ways.clear()
        for _ in range(20):
            assert "a" in seen
        assert len(long_ways) >= 20


@compiled
def test_another_clock(tmp_path: Path, long_ways: list[int]) -> None:
    """By another clock than the system's each key looks, as nobody knows when it goes on."""
    now = [0.0]
    with rotating(tmp_path / "seen", clock=lambda: now[0]) as seen:
        assert seen.add("a")
        long_ways.clear()
        for days in range(9):
            now[0] = days * 86400.0
            assert ("a" in seen) == (days < 8)
        assert len(long_ways) >= 9


def test_a_reader_amid_writers(tmp_path: Path) -> None:
    """One process asks while another makes file after file: what it was told of is found."""
    path = tmp_path / "seen"
    GrowingFilter.create(path, 20, 1e-6).close()
    told = tmp_path / "told"
    told.write_bytes(b"")

    def write() -> None:
        with GrowingFilter.open(path) as seen, told.open("ab", buffering=0) as log:
            for number in range(1500):
                assert seen.add(number)
                log.write(b".")

    writer, asked = Child(write), 0
    try:
        with GrowingFilter.open(path, "r") as seen:
            while asked < 1500 and writer.alive():
                asked = told.stat().st_size
                assert asked == 0 or asked - 1 in seen
        writer.result()
    finally:
        end(writer)
    assert asked
