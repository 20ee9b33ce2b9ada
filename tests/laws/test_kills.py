"""Writers are killed among writers and readers: no acknowledged key is ever missed (law 5, T1)."""

import mmap
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from checks import flock_is_free
from reference import NaiveFilter
from tally import Count
from workers import Child, end

from mmbloom import BloomFilter, verify

SECONDS = 5  # of a round; --stress says how many rounds, each with a filter of its own
SHORT = 2.5  # of the one round without --stress
BETWEEN_KILLS = 0.05
MOST_WRITERS = 3 + round(SECONDS / BETWEEN_KILLS)
BATCH = 120
CAPACITY = 16_000_000
ENOUGH = 1000  # keys that a round adds, and each reader asks for, at least
Keys = npt.NDArray[np.int64]


class Board:
    """How many batches each writer has acknowledged, in memory that outlives who wrote it."""

    def __init__(self) -> None:
        self._cells = np.frombuffer(mmap.mmap(-1, 8 * (1 + MOST_WRITERS)), np.int64)

    def stop(self) -> None:
        """Tell the readers to end."""
        self._cells[0] = 1

    @property
    def stopped(self) -> bool:
        return bool(self._cells[0])

    def keys(self) -> int:
        """Count the keys of all writers whose add has returned."""
        return BATCH * int(self._cells[1:].sum())

    def acknowledge(self, writer: int, batches: int) -> None:
        self._cells[1 + writer] = batches

    def acknowledged(self, writer: int) -> Keys:
        """List all keys of one writer whose add has returned."""
        return keys_of(writer, np.arange(self._cells[1 + writer]))

    def some(self, chance: np.random.Generator) -> Keys:
        """Draw acknowledged keys, the last batch of each writer among them."""
        done = self._cells[1:].copy()
        writers = np.flatnonzero(done)
        if not len(writers):
            return np.zeros(0, np.int64)
        drawn = chance.choice(writers, 40)
        batches = (chance.random(40) * done[drawn]).astype(np.int64)
        latest = [keys_of(writer, done[writer : writer + 1] - 1) for writer in writers]
        return np.concatenate([*latest, *map(keys_of, drawn, batches[:, None])])


def keys_of(writer: int | np.signedinteger, batches: Keys) -> Keys:
    """The keys of batches of one writer: no other has them."""
    starts = (np.int64(writer) << np.int64(32)) + batches * BATCH
    return (starts[:, None] + np.arange(BATCH)).ravel()


def write_for_ever(path: Path, board: Board, writer: int) -> None:
    """Add batch after batch in every way, and acknowledge each once its call has returned."""
    with BloomFilter.open(path) as seen:
        for batch in count():
            keys = keys_of(writer, np.array([batch]))
            if batch % 8 == 0:
                for key in keys.tolist():
                    seen.add(key)
            elif batch % 8 == 1:
                with seen.claim(keys):
                    pass
            elif batch % 8 == 2:
                seen.update(keys.tolist())
            elif batch % 8 == 3:
                with seen.locked():
                    for key in keys.tolist():
                        seen.add(key)
            else:
                seen.add_many(keys)
            board.acknowledge(writer, batch + 1)


def read_until_stopped(path: Path, mode: Literal["r", "r+"], board: Board, seed: int) -> int:
    """Ask for acknowledged keys again and again; returns for how many."""
    chance, asked = np.random.default_rng(seed), 0
    with BloomFilter.open(path, mode) as seen:
        while not board.stopped or asked <= ENOUGH:
            keys = board.some(chance)
            found = seen.contains_many(keys)
            assert found.all(), f"acknowledged and not found: {keys[~found].tolist()}"
            assert all(key in seen for key in keys[-5:].tolist())
            asked += len(keys)
    return asked


def kill(writer: "Child[None]") -> None:
    writer.kill()
    assert writer.wait() == -signal.SIGKILL, "the writer failed before it was killed"


@contextmanager
def ended(children: "list[Child[None]] | list[Child[int]]") -> Iterator[None]:
    try:
        yield
    finally:
        for child in children:
            end(child)


def one_round(path: Path, chance: random.Random, seconds: float) -> dict[str, int]:
    """Let 3 write and 2 read, kill -9 a writer every 50 ms, ask all along; gives the counts."""
    board, readers, started = Board(), list[Child[int]](), count()
    writers: list[Child[None]] = []
    owned: list[int] = []  # the number of each writer that lives

    def start() -> None:
        owned.append(next(started))
        writers.append(Child(partial(write_for_ever, path, board, owned[-1])))

    with (
        BloomFilter.create(path, CAPACITY, 1e-4, seed=chance.getrandbits(32)) as seen,
        ended(writers),
        ended(readers),
    ):
        for mode in ("r", "r+"):
            seed = chance.getrandbits(32)
            readers.append(Child(partial(read_until_stopped, path, mode, board, seed)))
        for _ in range(3):
            start()
        kills, deadline = 0, time.monotonic() + seconds
        while time.monotonic() < deadline and owned[-1] < MOST_WRITERS - 1:
            time.sleep(BETWEEN_KILLS)
            victim = chance.randrange(3)
            kill(writers.pop(victim))
            kills += 1
            missing = ~seen.contains_many(board.acknowledged(owned.pop(victim)))
            assert not missing.any(), f"{missing.sum()} false negatives right after a kill"
            start()
        while board.keys() <= ENOUGH:  # on a busy machine each was killed before its first batch
            time.sleep(BETWEEN_KILLS)
        for writer in writers:
            kill(writer)
            kills += 1
        with seen.locked(timeout=1):
            pass
        assert flock_is_free(path)
        board.stop()
        asked = sum(reader.result() for reader in readers)
        keys = np.concatenate([board.acknowledged(writer) for writer in range(owned[-1] + 1)])
        unfinished = seen.info().unfinished_batches
        # In a filter that is much too full nothing could be missed.
        assert seen.fill_ratio < 0.6
    assert asked > 2 * ENOUGH
    assert len(keys) > ENOUGH
    return {
        "kills": kills,
        "within_a_batch": unfinished,
        "keys": len(keys),
        "live_queries": asked,
        "false_negatives": check_after_kills(path, keys, kills, chance),
    }


def check_after_kills(path: Path, keys: Keys, kills: int, chance: random.Random) -> int:
    """Open the file anew; compare all that it says with an independent count of its bits."""
    naive = NaiveFilter(path.read_bytes())
    popcount = naive.popcount()
    verified = verify(path, keys=keys)
    assert verified.ok, verified.problems
    assert (verified.keys_checked, verified.positions_set) == (len(keys), popcount)
    with BloomFilter.open(path) as seen:
        missing = int((~seen.contains_many(keys)).sum())
        missing += sum(key not in naive for key in chance.choices(keys.tolist(), k=2000))
        before = seen.info()
        assert 0 <= before.unfinished_batches <= kills
        assert before.positions_set <= popcount
        assert before.unfinished_batches or before.positions_set == popcount
        assert seen.recount() == popcount
        after = seen.info()
        assert (after.positions_set, after.unfinished_batches) == (popcount, 0)
        assert not seen.add_many(keys).any()
    assert verify(path).ok
    return missing


@pytest.mark.stress
@pytest.mark.laws("T1")
def test_no_acknowledged_key_is_lost_when_writers_are_killed(
    tmp_path: Path, seed: int, stress: int, tally: Count
) -> None:
    """Law 5: kill -9 of a writer every 50 ms costs no acknowledged key, nor the lock, nor the file.

    Readers ask meanwhile, all is asked again at the end, the file verifies, and the lock is
    free within 1 s.
    """
    chance = random.Random(seed)
    for number in range(stress):
        path = tmp_path / f"{number}.bloom"
        counts = one_round(path, chance, SECONDS if stress > 1 else SHORT)
        tally(rounds=1, **counts)
        assert counts["false_negatives"] == 0
        path.unlink()
