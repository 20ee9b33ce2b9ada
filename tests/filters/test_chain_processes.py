"""A folder among processes: each key new once, none lost, through change-overs and kills."""

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from chains import RATE, Growing, InUse, Rotating, files_of, naive_files
from checks import flock_is_free, run_threads
from tally import Count
from workers import PATIENCE, Child, end, in_child, together

from mmbloom import FileChangedError, Filter, GrowingFilter, verify

Kind = Growing | Rotating
Keys = npt.NDArray[np.int64]

KEYS = 6000
ACKNOWLEDGED = np.dtype([("began", "<f8"), ("first", "<i8")])  # in a pipe, for 16 keys
FOR_EVER = 900  # longer than a test lasts, by its clock


def add_shuffled(kind: Kind, folder: Path, me: int, seed: int) -> list[int]:
    """Add all keys in an order of one's own, in every way; which of them were new."""
    chance = random.Random(seed + me)
    keys = chance.sample(range(KEYS), KEYS)
    new: list[int] = []
    with kind.open(folder) as seen:
        while keys:
            kind.pass_time(0.8)
            batch, keys = keys[: (size := chance.choice([1, 1, 1, 3, 40, 500]))], keys[size:]
            batch += chance.choices(batch, k=len(batch) // 4)  # some twice in one batch
            if size == 1:
                answers = [seen.add(key) for key in batch]
            elif size == 3:
                with seen.locked():
                    answers = [seen.add(key) for key in batch]
            elif size == 40:
                with seen.claim(batch) as claimed:
                    answers = claimed.tolist()
            else:
                answers = seen.add_many(batch).tolist()
            new += [key for key, first in zip(batch, answers, strict=True) if first]
            assert batch[0] in seen
            assert seen.contains_many(batch).all()
    return new


@pytest.mark.stress
@pytest.mark.laws("F11")
@pytest.mark.parametrize("kind", [Growing(), InUse(), Rotating(FOR_EVER)], ids=type)
def test_each_key_is_new_to_one_worker(
    tmp_path: Path, kind: Kind, seed: int, stress: int, tally: Count
) -> None:
    """Law 7: 4 workers, the same keys, a change-over now and then: each key is new once."""
    for turn in range(stress):
        folder = tmp_path / str(turn)
        kind.create(folder).close()
        work = [partial(add_shuffled, kind, folder, me, seed + turn) for me in range(4)]
        told = [*chain.from_iterable(together(work))]
        assert sorted(told) == list(range(KEYS))
        check_whole(kind, folder, range(KEYS))
        if isinstance(kind, Growing):
            assert counts_of(folder)[:-1] == [20, 40, 80, 160, 320, 640, 1280, 2560]
        tally(keys=KEYS, change_overs=len(files_of(folder)) - 1)


@pytest.mark.parametrize("kind", [Growing(), InUse(), Rotating(FOR_EVER)], ids=type)
def test_each_key_is_new_to_one_thread(tmp_path: Path, kind: Kind, seed: int) -> None:
    """The same of threads that share one object; readers miss none whose add has returned."""
    told: list[int] = []
    stop = threading.Event()
    with kind.create(tmp_path / "seen") as seen, kind.open(tmp_path / "seen", "r") as reader:

        def add(me: int) -> None:
            keys = random.Random(seed + me).sample(range(2000), 2000)
            for start in range(0, 2000, 10):
                batch = keys[start : start + 10]
                kind.pass_time(0.3)
                told.extend(np.array(batch)[seen.add_many(batch)].tolist())
                assert seen.contains_many(batch).all()
                assert batch[0] in seen
                assert batch[0] in reader
            stop.set()

        def ask(asked: Filter) -> None:
            while not stop.is_set():
                assert asked.contains_many(told[:]).all()

        writers = (partial(add, me) for me in range(3))
        run_threads(*writers, partial(ask, seen), partial(ask, reader))
    assert sorted(told) == list(range(2000))


def counts_of(folder: Path) -> list[int]:
    """Return the number of keys of each file."""
    return [int(file.counters[0]) for file in naive_files(folder)]


def check_whole(kind: Kind, folder: Path, keys: range) -> None:
    """No key is lost, each file is sound, and no file is free of the manifest."""
    naive = naive_files(folder)
    assert all(any(key in file for file in naive) for key in random.sample(keys, 300))
    with kind.open(folder, lock_timeout=PATIENCE) as seen:
        assert seen.contains_many(keys).all()
    for file in files_of(folder):
        assert verify(file).ok
        assert flock_is_free(file)


def add_for_ever(kind: Kind, folder: Path, me: int, pipe: int) -> None:
    """Add batches of keys of one's own, and acknowledge each one when its call has returned.

    With the time before the call: however long a writer waits, its keys are kept from then on.
    """
    with kind.open(folder) as seen:
        for batch in range(1_000_000):
            first = (me << 32) + batch * 16
            keys = range(first, first + 16)
            began = kind.now()
            if batch % 3 == 0:
                with seen.claim(keys):
                    pass
            elif batch % 3 == 1:
                seen.add_many(keys)
            else:
                for key in keys:
                    seen.add(key)
            os.write(pipe, np.array([(began, first)], ACKNOWLEDGED).tobytes())


@pytest.mark.stress
@pytest.mark.laws("F1")
@pytest.mark.parametrize("kind", [Growing(), InUse(), Rotating(keep=30)], ids=type)
def test_writers_are_killed(
    tmp_path: Path, kind: Kind, seed: int, stress: int, tally: Count
) -> None:
    """Law 5: kill -9 again and again, and a change-over now and then: no key is missing.

    No acknowledged one, that is, until its time is over.
    """
    chance = random.Random(seed)
    folder, kills = tmp_path / "seen", 25 * stress
    kind.create(folder).close()
    output, pipe = os.pipe()
    os.set_blocking(output, False)
    acknowledged: list[tuple[float, int]] = []  # not before when, and the first of a batch
    writers: list[Child[None]] = []
    reader = kind.open(folder, "r")

    def kept() -> Keys:
        first = [key for when, key in acknowledged if when + kind.keep > kind.now()]
        return (np.array(first, np.int64)[:, None] + np.arange(16)).ravel()

    try:
        for me in range(kills + 2):
            writers.append(Child(partial(add_for_ever, kind, folder, me, pipe)))
            if len(writers) > 2:
                time.sleep(chance.uniform(0.005, 0.06))
                end(writers.pop(chance.randrange(3)))
                acknowledged += read_all(output)
                kind.pass_time(3)
                assert reader.contains_many(kept()).all()
        for writer in writers:
            end(writer)
        acknowledged += read_all(output)
    finally:
        for writer in writers:
            end(writer)
        reader.close()
        os.close(output)
        os.close(pipe)
    assert len(acknowledged) > kills
    with kind.open(folder, lock_timeout=0) as seen:
        assert seen.contains_many(kept()).all()
        assert seen.add("after all")
    assert all(verify(file).ok for file in files_of(folder))
    left = {*os.listdir(folder)} - {"manifest.json"} - {path.name for path in files_of(folder)}
    # Whatever was made and not named when its maker died; at most one each.
    assert len(left) <= kills
    tally(kills=kills, keys=16 * len(acknowledged), change_overs=len(files_of(folder)) - 1)


def read_all(output: int) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    while True:
        try:
            raw = os.read(output, 1 << 16)  # whole items: small writes are atomic
        except BlockingIOError:
            return found
        items = np.frombuffer(raw, ACKNOWLEDGED)
        found += zip(items["began"].tolist(), items["first"].tolist(), strict=True)


def race(folder: Path, barrier: threading.Barrier, me: int, rounds: int, exist_ok: bool) -> str:
    outcomes = ""
    for number in range(rounds):
        where = folder / str(number)
        barrier.wait(PATIENCE)
        try:
            seen = GrowingFilter.create(where, 10, RATE, exist_ok=exist_ok)
            outcomes += "w"
        except FileExistsError:
            seen = GrowingFilter.open(where)
            outcomes += "l"
        with seen:
            seen.add_many([f"{me}-{i}" for i in range(8)])
    return outcomes


@pytest.mark.stress
@pytest.mark.laws("F6")
@pytest.mark.parametrize("exist_ok", [False, True])
def test_create_race_has_one_winner(
    tmp_path: Path, exist_ok: bool, stress: int, tally: Count
) -> None:
    """Law 8: 3 processes create one folder: one winner, no key lost, nothing left over."""
    rounds = 12 * stress

    def run_race() -> list[str]:
        barrier: Any = multiprocessing.get_context("fork").Barrier(3)
        racers: list[Callable[[], str]] = [
            partial(race, tmp_path, barrier, me, rounds, exist_ok) for me in range(3)
        ]
        return together(racers, timeout=PATIENCE * stress)

    outcomes = in_child(run_race, timeout=PATIENCE * stress)
    for number in range(rounds):
        assert sum(outcome[number] == "w" for outcome in outcomes) == (3 if exist_ok else 1)
        with GrowingFilter.open(tmp_path / str(number), "r") as seen:
            assert all(f"{me}-{i}" in seen for me in range(3) for i in range(8))
        tally(rounds=1, keys=24)
    assert sorted(os.listdir(tmp_path)) == sorted(map(str, range(rounds)))


def test_killed_holder_frees_the_lock_of_the_newest(tmp_path: Path) -> None:
    """Killed within a section that has changed over: the next writer has the lock at once."""
    folder = tmp_path / "seen"
    GrowingFilter.create(folder, 10, RATE).close()

    def hold() -> None:
        with GrowingFilter.open(folder) as seen, seen.locked():
            seen.update(range(100))
            os.kill(os.getpid(), signal.SIGKILL)

    child: Child[None] = Child(hold)
    assert child.wait() == -signal.SIGKILL
    with GrowingFilter.open(folder, lock_timeout=0) as seen:
        assert not seen.add_many(range(100)).any()
        assert seen.add("more")


def test_key_rule_of_a_file_that_was_cut(tmp_path: Path) -> None:
    """How lines became keys is read of no file that was cut: that would be a signal that kills."""

    def ask() -> str | None:
        with GrowingFilter.create(tmp_path / "seen", 100) as seen:
            (file,) = files_of(tmp_path / "seen")
            os.truncate(file, 0)
            return seen.key_rule

    with pytest.raises(FileChangedError, match="resized"):
        in_child(ask)
