"""Keys one at a time in a rotating filter: from the call to the bits, and the time that it is.

The files hold for a window of the system's clock. A key that comes as a period ends goes to the
next one; what is past its time is gone with the next question. Times are compared in nanoseconds,
as a float of seconds rounds them by 100.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from single_folders import compiled, long_ways, rotating
from workers import together

from mmbloom import (
    BloomFilter,
    RotatingFilter,
)
from mmbloom._storage.folder import ManifestFile
from mmbloom.filters.file import File
from mmbloom.filters.rotating import RotatingChain
from mmbloom.filters.shelf import Lasting

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
