"""Keys one or a few at a time in folders: which files there are, and what time it is.

With the compiled engine a look at the files is trusted for a moment, but for which there are: a
key may have been added to one that is newer. Everything that may change meanwhile changes here amid
a run of keys. With numpy's engine each key looks.

The files of a rotating filter hold for a window of the system's clock. A key that comes as a period
ends goes to the next one; what is past its time is gone with the next question. Times are compared
in nanoseconds, as a float of seconds rounds them by 100.
"""

import gc
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import has
import numpy as np
import pytest
from descriptors import open_files
from single_folders import Make, both, compiled, growing, long_ways, rotating
from workers import Child, end, together

import mmbloom
from mmbloom import BloomFilter, GrowingFilter, LockTimeoutError, ReentryError, RotatingFilter
from mmbloom._engine import Grounds
from mmbloom._storage.folder import ManifestFile
from mmbloom._system import disk, memory
from mmbloom.filters.chain import Chain, ChainState
from mmbloom.filters.file import File
from mmbloom.filters.rotating import RotatingChain
from mmbloom.filters.shelf import Lasting
from mmbloom.format.folder import MANIFEST


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Have filters of a list look right before a manifest is named, and no disk waited for.

    Their look is still good by the clock when the file of another is there.
    """
    install, filters = ManifestFile.install, list[Any]()

    def name(draft: ManifestFile) -> None:
        for seen in filters:
            assert "none" not in seen
            assert "none" not in seen
        install(draft)

    monkeypatch.setattr(ManifestFile, "install", name)
    monkeypatch.setattr(disk, "sync", lambda _: None)
    return filters


@pytest.mark.parametrize("how", ["in", "few", "add", "add few"])
def test_a_newer_file_is_asked_at_once(tmp_path: Path, how: str, looking: list[Any]) -> None:
    """A key that another adds to a file that it makes is found by the next question."""
    for turn in range(5):
        path = tmp_path / str(turn)
        with GrowingFilter.create(path, 5, 1e-6) as seen, GrowingFilter.open(path) as other:
            looking.append(seen)
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
            looking.clear()
            assert len(seen.info().files) == 5


def test_files_and_manifest_are_of_one_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may load newer files between any two steps of a check.

    Here it does so whenever the check has read which files there are.
    """
    manifest, old, new = tmp_path / "seen" / MANIFEST, tmp_path / "old", tmp_path / "new"
    with GrowingFilter.create(tmp_path / "seen", 10, 1e-9, seed=1) as seen:
        seen.add_many(range(9))
        chain = seen._shelf
        before = chain.current
        old.hardlink_to(manifest)
        with GrowingFilter.open(tmp_path / "seen") as other:
            assert other.add_many(["a", "b", "c"]).all()
        after = chain.refresh()
        chain._snapshot = before
        manifest.rename(new)
        old.rename(manifest)
        checking = False

        def current(
            chain: Chain, real: Callable[[Chain], ChainState] = Chain.__dict__["current"].fget
        ) -> ChainState:
            found = real(chain)
            if checking and new.exists():
                new.rename(manifest)
                chain._snapshot = after
            return found

        def grounds(*arguments: Any, real: Callable[..., Any] = Chain.grounds) -> Any:
            nonlocal checking
            checking = True
            try:
                return real(*arguments)
            finally:
                checking = False

        monkeypatch.setattr(Chain, "current", property(current))
        monkeypatch.setattr(Chain, "grounds", grounds)
        assert "none" not in seen
        assert new.exists() == (mmbloom.engine == "numpy")  # which makes no such check
        if new.exists():
            new.rename(manifest)
        assert "b" in seen
        assert not seen.add("c")
        assert [file.keys_added for file in seen.info().files] == [10, 2]


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


@pytest.mark.parametrize("make", [growing, rotating])
def test_a_handler_amid_a_wait_for_a_block(make: Make, tmp_path: Path) -> None:
    """What a signal handler adds while its thread waits to enter a block waits for the lock."""
    path = tmp_path / "seen"
    refused = list[bool]()
    with make(path) as seen, type(seen).open(path, lock_timeout=0.1) as other:
        other.add("there")

        def handle(*_: object) -> None:
            assert "there" in other  # trusted from here on
            try:
                other.add("new")
            except (LockTimeoutError, ReentryError):
                refused.append(True)

        before = signal.signal(signal.SIGALRM, handle)
        try:
            with seen.locked():
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(LockTimeoutError):
                    other.locked().__enter__()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert refused == [True]
        assert "new" not in seen
        assert other.add("new")


@pytest.mark.parametrize("how", ["update", "claim", "add_many", "contains_many"])
def test_a_dropped_file_is_let_go_of(tmp_path: Path, how: str) -> None:
    """A file that another has dropped is unmapped by the next batch: its disk is free."""
    path = tmp_path / "seen"
    batch = [f"key {number}" for number in range(1000)]
    with rotating(path, keep="1d", every="1d") as seen:
        for key in ("a", "b"):
            seen.add(key)
            assert key in seen
        (old,) = path.glob("*.bloom")
        ahead = time.time() + 5 * 86400
        with RotatingFilter.open(path, clock=lambda: ahead) as other:
            other.add("c")
        assert not old.exists()
        if how == "claim":
            with seen.claim(batch):
                pass
        else:
            getattr(seen, how)(batch)
        gc.collect()
        real = os.path.realpath(old)
        assert not [file for file in open_files().values() if file.startswith(real)]


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

    writer, asked, alive = Child(write), 0, True
    try:
        with GrowingFilter.open(path, "r") as seen:
            while alive:
                alive = writer.alive()  # once more when it has ended: it may have before this began
                asked = told.stat().st_size
                assert asked == 0 or asked - 1 in seen
        writer.result()
    finally:
        end(writer)
    assert asked == 1500


@both
@pytest.mark.parametrize("year", [1969, 1901, 2300, 2600])
def test_manifest_of_any_time(
    make: Make, tmp_path: Path, year: int, request: pytest.FixtureRequest
) -> None:
    """Whatever the time of the list of files: each key is answered, and new once."""
    folder = tmp_path / "folder"
    if has.IN_MEMORY:  # where every time can be
        folder = Path(tempfile.mkdtemp(dir=memory.SHARED))
        request.addfinalizer(lambda: shutil.rmtree(folder))
    with make(folder / "seen") as seen:
        day = int((year - 1970) * 365.2425 * 86400)
        os.utime(folder / "seen" / "manifest.json", (day, day))
        if int(os.stat(folder / "seen" / "manifest.json").st_mtime) != day:
            pytest.skip("this file system has no such time")
        for turn in range(3):
            assert [seen.add(number) for number in range(50)] == [not turn] * 50
            assert list(seen.add_many([-1, -2])) == [not turn] * 2
            assert all(number in seen for number in range(50))
            assert seen.contains_many([1, 2, -1]).all()


@compiled
def test_grounds_that_cannot_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no grounds costs no answer that is known: the next key looks for itself."""
    with growing(tmp_path / "seen") as seen:
        for strange in (("of", "another"), 1, Grounds):

            def grounds(*_: Any, strange: Any = strange) -> Any:
                return strange

            monkeypatch.setattr(type(seen), "_grounds", grounds)
            for key in range(30):
                assert seen.add(f"{strange} {key}")
                assert f"{strange} {key}" in seen
                assert not seen.add_many([f"{strange} {key}"]).any()


@compiled
@pytest.mark.parametrize(
    "wrong",
    [
        {"arrays": []},
        {"arrays": [1]},
        {"arrays": [None]},
        {"words": [1]},
        {"words": [(memoryview(b"12345678"), 0)]},
        {"lock": None},
        {"section": 1},
        {"file": (b"", 0, 0, -1, 0)},
        {"file": (b"", 0, 0, 0, None)},
        {"ends": "never"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_grounds_of_another_type(
    tmp_path: Path, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused as they are made: nothing is read where it may not be."""
    made = list[dict[str, Any]]()

    def note(**fields: Any) -> Grounds:
        made.append(fields)
        return Grounds(**fields)

    monkeypatch.setattr("mmbloom.filters.shelf.Grounds", note)
    with growing(tmp_path / "seen") as seen:
        assert seen.add("x")
        for form in (made[-1], made[-1] | {"ends": 1e300}):
            assert Grounds(**form)
        with pytest.raises((TypeError, ValueError, OverflowError)):
            Grounds(**made[-1] | wrong)


SECOND = 10**9  # nanoseconds


def _pause() -> None:
    """Let time pass amid a period; around its end, where it matters, none."""
    if 0.05 < time.time() % 1 < 0.95:
        time.sleep(0.0005)


@pytest.fixture(name="long_ways")
def _long_ways() -> Iterator[list[int]]:
    """Count the calls that look which files there are in Python."""
    with long_ways() as found:
        yield found


FOUND, GONE = 1000, 100


def _age(path: Path, seed: int) -> tuple[int, int]:
    """Add keys to periods of a second, and ask for them: how many were found, and were gone.

    For 3.4 s, and until both are many: a busy machine takes longer.
    """
    chance, added, found, gone = random.Random(seed), list[tuple[float, float, str]](), 0, 0
    begun = time.monotonic()
    with rotating(path, keep="1s", every="1s", exist_ok=True, lock_timeout=None) as seen:
        while time.monotonic() < begun + 3.4 or found <= FOUND or gone <= GONE:
            key, before = f"{seed} {len(added)}", time.monotonic()
            assert seen.add(key)
            added.append((before, time.monotonic(), key))
            before, after, key = chance.choice(added)
            asked = time.monotonic()
            if key in seen:
                found += 1
                assert asked - after < 2.1, "found for longer than keep and every"
            else:
                gone += 1
                assert time.monotonic() - before > 1, "lost before its time"
            _pause()
    return found, gone


def test_periods_of_the_system(tmp_path: Path, seed: int) -> None:
    """Keys are found until their time, through ends of periods amid trust, and then no more."""
    for found, gone in together([partial(_age, tmp_path / "seen", seed + me) for me in range(2)]):
        assert found > FOUND
        assert gone > GONE


def test_what_comes_again_starts_anew_at_once(tmp_path: Path) -> None:
    """From the end of a period on a key goes to the next file, whether older ones have it."""
    path = tmp_path / "seen"
    keys = [f"key {number}" for number in range(300_000)]
    with rotating(path, keep="9m", every="1s") as seen:
        for _ in range(3):
            end = (time.time_ns() // SECOND + 1) * SECOND
            seen.update(keys)  # to the file before
            while time.time_ns() < end - SECOND // 50:
                time.sleep(0.002)
            begun, left = list[int](), iter(keys)
            while not begun or begun[-1] < end + SECOND // 50:
                begun.append(time.time_ns())
                assert not seen.add(next(left))
            after = [key for key, when in zip(keys, begun, strict=False) if when >= end]
            found = np.zeros(len(after), np.bool_)
            for file in path.glob("*.bloom"):
                if int(file.stem) >= end // SECOND:  # more than one, where time has flown
                    with BloomFilter.open(file, "r") as newer:
                        found |= newer.contains_many(after)
            assert found.all()


def test_what_is_past_its_time_is_gone_at_once(tmp_path: Path) -> None:
    """A key is found until its period is asked no more, and not by the next question."""
    with rotating(tmp_path / "seen", keep="1s", every="1s") as seen:
        for number in range(2):
            key, before = f"key {number}", time.time_ns()
            assert seen.add(key)
            after = time.time_ns()
            while (asked := time.time_ns()) < after + 2.1 * SECOND:
                found = key in seen
                assert not (found and asked // SECOND >= after // SECOND + 2)
                assert found or time.time_ns() // SECOND >= before // SECOND + 2
                seen.add("of each period")  # so that there is a file of each
                _pause()


def test_a_clock_that_is_ahead(tmp_path: Path, looking: list[Any]) -> None:
    """A key goes to the file that a process whose clock is ahead has begun meanwhile."""
    path = tmp_path / "seen"
    with rotating(path) as seen:
        assert seen.add("a")
        looking.append(seen)
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
    tmp_path: Path, window: tuple[int, int], long_ways: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the clock is not within the time that the grounds are for, each key looks."""
    with rotating(tmp_path / "seen") as seen:
        real = RotatingChain.lasting

        def lasting(chain: RotatingChain, members: Sequence[File]) -> Lasting | None:
            found = real(chain, members)
            assert found is not None
            since, ends = (time.time() + seconds for seconds in window)
            return found._replace(since=since, ends=ends)

        monkeypatch.setattr(RotatingChain, "lasting", lasting)
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


@compiled
def test_hundreds_of_files_are_not_trusted(tmp_path: Path, long_ways: list[int]) -> None:
    """To look at so many takes longer than a look is good for: each key goes the long way."""
    path, now = tmp_path / "seen", [time.time() // 3600 * 3600 - 129 * 3600]
    options: dict[str, Any] = {"capacity_per_period": 10, "error_rate": 0.1}
    with RotatingFilter.create(
        path, keep="200h", every="1h", clock=lambda: now[0], **options
    ) as old:
        for _ in range(130):
            old.add("a")
            now[0] += 3600
    with RotatingFilter.open(path) as seen:
        assert len(seen.info().files) == 130
        long_ways.clear()
        for _ in range(50):
            assert "a" in seen
        assert len(long_ways) >= 50
