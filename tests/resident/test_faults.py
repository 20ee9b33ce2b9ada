"""What a copy in shared memory may meet: kills, a start anew, strangers, no room, no sense."""

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from copies import (
    ALL,
    NEW,
    OLD,
    bits_in,
    check_saved,
    copies,
    fill,
    left_behind,
    missing,
    name_in,
)
from steps import calls_of, killed_at
from tally import Count
from workers import PATIENCE, Child, ChildDiedError, in_child

from mmbloom import BloomFilter, verify
from mmbloom._engine import count_set
from mmbloom._storage import moving, working_copy
from mmbloom._storage.moving import Place
from mmbloom._system import disk, memory
from mmbloom._system.typing import Words
from mmbloom.errors import DurabilityError, MmbloomWarning, ReservationWarning


def test_copy_outlives_its_process(file: str) -> None:
    before = bits_in(file)
    left_behind(file)
    assert bits_in(file) == before
    with BloomFilter.open(file, "r") as seen:
        assert missing(seen, ALL) == 0
        assert seen.info().resident
    assert len(copies()) == 1  # a reader cannot write the file
    BloomFilter.open(file).close()
    check_saved(file, ALL)


Copy = working_copy.WorkingCopy
KILLS: dict[str, tuple[object, str, int]] = {
    "amid making": (working_copy, "count_set", 1),
    "before it is named": (Place, "name", 1),
    "before the file is written": (Copy, "write_to", 1),
    "amid writing the file": (working_copy, "_pieces", 2),
    "after it was written": (Copy, "set_written", 2),
    "before it is not named any more": (Place, "name", 2),
    "before it is removed": (Copy, "remove", 1),
}


@pytest.mark.laws("T1")
@pytest.mark.parametrize("when", KILLS)
def test_kill(file: str, monkeypatch: pytest.MonkeyPatch, when: str, tally: Count) -> None:
    """Whoever is killed while a copy is made, written or removed costs no key that was added."""
    monkeypatch.setattr(working_copy, "PIECE", 4096)
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        in_child(partial(killed_at, *KILLS[when], partial(fill, file)))
    tally(kills=1)
    added = OLD if when in ("amid making", "before it is named") else ALL
    for resident in (False, True):
        with BloomFilter.open(file, resident=resident) as seen:
            assert missing(seen, added) == 0
            seen.add("x")
            assert verify(file, keys=added).ok
    check_saved(file, added, ["x"])  # nor is what was half made left for ever


@pytest.mark.laws("T1")
def test_killed_at_any_time(
    file: str, seed: int, monkeypatch: pytest.MonkeyPatch, tally: Count
) -> None:
    """Processes that open, add, flush and close are killed at random: no key is lost."""
    monkeypatch.setattr(working_copy, "PIECE", 4096)
    chance, added = random.Random(seed), list[int]()

    def work(first: int, write: int) -> None:
        for key in range(first, first + 1000):
            with BloomFilter.open(file, resident=True) as seen:
                seen.add_many([key])
                os.write(write, key.to_bytes(8, "little"))
                if key % 3 == 0:
                    seen.flush()

    for turn in range(8):
        read, write = os.pipe()
        told = b""
        children = [Child(partial(work, 10_000 * (2 * turn + each), write)) for each in (0, 1)]
        os.close(write)
        if turn % 2:  # however slow the machine is, some are killed when keys were added
            told = os.read(read, 8)
        time.sleep(chance.uniform(0.02, 0.1))
        for child in children:
            child.kill()
            child.wait()
        with os.fdopen(read, "rb") as pipe:
            told += pipe.read()
        added += np.frombuffer(told, "<u8").tolist()
        with BloomFilter.open(file, "r") as seen:
            assert missing(seen, np.array(added, np.int64)) == 0
    tally(kills=16, keys=len(added))
    assert len(added) >= 4
    with BloomFilter.open(file, resident=True) as seen:
        seen.add("x")  # who makes a copy removes what nobody names
    check_saved(file, np.array(added, np.int64))


@pytest.mark.parametrize("gone", [True, False])
def test_start_anew(file: str, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    """After a start of the machine the file counts, as last flushed, and its counters follow."""

    def add_some() -> None:
        seen = BloomFilter.open(file, resident=True)
        seen.add_many(NEW)
        seen.flush()
        seen.add_many(range(5000, 5100))
        os._exit(0)

    Child(add_some).wait()
    flushed = bits_in(file)
    monkeypatch.setattr(memory, "boot_id", lambda: b"of another start")
    if gone:
        copies()[0].unlink()
    with BloomFilter.open(file, "r") as reader:
        assert missing(reader, ALL) == 0
        assert not reader.info().resident
    with BloomFilter.open(file, resident=True) as writer:
        writer.add("x")
        assert writer.info().resident
        assert missing(writer, ALL) == 0
        assert flushed < writer.info().positions_set <= flushed + 40
    assert verify(file).ok


def test_copy_that_is_gone(file: str, seen: BloomFilter) -> None:
    """While others have it, who cannot open it is refused; else the file counts, and it is said."""
    copies()[0].unlink()
    for mode in ("r", "r+"):
        with pytest.raises(
            OSError, match="other processes use it, perhaps in another container"
        ) as caught:
            BloomFilter.open(file, mode)
        assert caught.value.errno == errno.EBUSY
        assert caught.value.filename == file
    with pytest.raises(OSError, match="other processes use it"):
        verify(file)
    assert missing(seen, ALL) == 0
    seen.close()  # and so nothing is lost
    with BloomFilter.open(file, resident=False) as again:
        assert missing(again, ALL) == 0
    copy = left_behind(file)
    copy.unlink()
    with pytest.warns(MmbloomWarning, match="in a copy that is gone.*as of its last flush"):
        reader = BloomFilter.open(file, "r")
    with pytest.warns(MmbloomWarning, match="in a copy that is gone"):
        writer = BloomFilter.open(file)
    with reader, writer:
        writer.add("x")
        assert "x" in reader
    assert name_in(file) == bytes(32)


NO_ROOM: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "too little": lambda patch: patch.setattr(memory, "shared_bytes", lambda: 10_000),
    "full": lambda patch: patch.setattr(disk, "allocate", refuse),
    "no such folder": lambda patch: patch.setattr(memory, "SHARED", "/nonexistent"),
    "no locks of open files": lambda patch: patch.setattr(moving, "Share", refuse),
    "no boot": lambda patch: patch.setattr(memory, "boot_id", lambda: b""),
}


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.laws("T8")
@pytest.mark.parametrize("what", NO_ROOM)
def test_no_room(file: str, what: str, monkeypatch: pytest.MonkeyPatch, tally: Count) -> None:
    """Where there is no shared memory it is said in one line, once, and the mapped file serves."""
    with BloomFilter.open(file, resident=True) as seen:
        with monkeypatch.context() as patch:
            NO_ROOM[what](patch)
            with pytest.warns(ReservationWarning, match="not kept in shared memory") as caught:
                seen.add_many(NEW)
            assert len(caught) == 1
        assert str(caught[0].message).startswith(f"{file}: ")
        tally(refusals=1)
        seen.add("x")
        assert not seen.info().resident
        assert copies() == []
    with BloomFilter.open(file, "r") as seen:
        assert missing(seen, ALL) == 0


@pytest.mark.parametrize("call", ["write_to", "fsync"])
def test_disk_that_fails(
    file: str, seen: BloomFilter, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A flush that fails is final; close says that it failed, and the copy keeps the keys."""
    where: tuple[object, str] = (Copy if call == "write_to" else os, call)
    with monkeypatch.context() as patch:
        patch.setattr(*where, refuse)
        with pytest.raises(DurabilityError, match="No space left on device"):
            seen.flush()
    for write in (seen.flush, partial(seen.add, "x")):
        with pytest.raises(DurabilityError):
            write()
    seen.close()
    assert len(copies()) == 1
    with BloomFilter.open(file, resident=True) as again:
        assert missing(again, ALL) == 0
        with monkeypatch.context() as patch:
            patch.setattr(*where, refuse)
            with pytest.raises(DurabilityError):
                again.close()
    assert len(copies()) == 1
    with BloomFilter.open(file) as last:
        written = calls_of(monkeypatch, Copy, "write_to")
        last.flush()
        assert len(written) == 1  # all of it once more: nobody knows what of it is on the disk
    assert len(written) == 1
    check_saved(file, ALL)


def test_two_flushers_take_turns(file: str, seen: BloomFilter) -> None:
    """Who flushes waits for who writes the file: older bits never come over newer ones."""
    with BloomFilter.open(file) as other:
        assert missing(other, NEW) == 0
        share, before = other._storage.array.place.share, bits_in(file)
        assert share is not None
        with share.writing(0.0):
            flusher = threading.Thread(target=seen.flush)
            flusher.start()
            flusher.join(0.2)
            assert flusher.is_alive()
            assert bits_in(file) == before
        flusher.join(PATIENCE)
        assert not flusher.is_alive()
        assert bits_in(file) == seen.info().positions_set


def test_flush_writes_what_is_new(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush with nothing new writes nothing; amid a batch it does not take that for written."""
    written = calls_of(monkeypatch, Copy, "write_to")
    with BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEW)
        seen.flush()
        seen.flush()
        seen.add_many(NEW)  # none is new
        seen.flush()
        assert len(written) == 1
        seen._storage.counters["batches_begun"] += 1
        seen.flush()
        seen._storage.counters["batches_done"] += 1
        seen.flush()
        assert len(written) == 3
    assert len(written) == 3  # the last close as well


def test_readers_have_time_to_follow(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who moves the array waits until all have looked where it is: they look each millisecond."""
    waited = calls_of(monkeypatch, moving, "outlast")
    with BloomFilter.open(file, resident=True) as seen:
        seen.add("x")
        assert len(waited) == 1
    assert len(waited) == 2


@pytest.fixture
def left(file: str) -> Path:
    """Leave a copy of a process that was killed while it loaded the array."""
    with pytest.raises(ChildDiedError, match="SIGKILL"):
        in_child(partial(killed_at, working_copy, "count_set", 1, partial(fill, file)))
    (copy,) = copies()
    return copy


def test_opening_and_closing_removes_what_was_left(file: str, left: Path) -> None:
    """Whether the filter is closed, or dropped; a reader leaves it."""
    BloomFilter.open(file, "r").close()
    assert copies() == [left]
    BloomFilter.open(file, resident=False).close()
    assert copies() == []
    left.touch()
    BloomFilter.open(file, resident=False)  # and dropped
    assert copies() == []


def test_what_was_left_makes_room_for_the_next(
    file: str, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def room() -> int:
        return 0 if left.exists() else 10 * os.path.getsize(file)

    monkeypatch.setattr(memory, "shared_bytes", room)
    with BloomFilter.open(file, resident=True) as seen:
        assert missing(seen, OLD) == 0
        seen.add_many(NEW)  # a warning that it is not in memory would be an error
        assert seen.info().resident
        assert copies() != [left]
    assert copies() == []


def test_what_cannot_be_removed_keeps_nothing_else(file: str, left: Path) -> None:
    """Of several, those go that this process may remove."""
    names = [f"{left.name.rpartition('-')[0]}-{letter * 32}" for letter in "0f"]
    for name in names:
        left.with_name(name).mkdir()  # which is not removed as a file is
    BloomFilter.open(file, resident=False).close()
    assert [copy.name for copy in copies()] == names


def test_a_copy_that_is_being_made_is_left(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that closes while another process makes a copy does not take it away."""
    real = count_set

    def close_another(array: Words) -> int:
        in_child(lambda: BloomFilter.open(file, resident=False).close())
        assert len(copies()) == 1
        return real(array)

    with monkeypatch.context() as patch, BloomFilter.open(file, resident=True) as seen:
        patch.setattr(working_copy, "count_set", close_another)
        seen.add_many(NEW)
        assert seen.info().resident
    check_saved(file, NEW)
