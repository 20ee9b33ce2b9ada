"""A program that may only read the file locks what it can of it: writers say so, or go on."""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from copies import NEW, OLD, bits_in, check_saved, copies, missing

from mmbloom import BloomFilter, LockTimeoutError
from mmbloom._storage import moving, share
from mmbloom.errors import MmbloomWarning

SOON = 0.05  # seconds


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "_PATIENCE", SOON)
    monkeypatch.setattr(moving, "_LEAVE_SECONDS", SOON)


@contextmanager
def locked_for_reading(file: str, start: int = 0, number: int = 0) -> Iterator[None]:
    """Lock bytes, by default all that there are, by a descriptor that can only read."""
    fd = os.open(file, os.O_RDONLY)
    try:
        asked = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, start, number, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, asked)
        yield
    finally:
        os.close(fd)


def test_flush_names_the_program_that_reads(file: str) -> None:
    """It waits, and then blames neither the write lock nor another writer."""
    with BloomFilter.open(file, resident=True, lock_timeout=SOON) as seen:
        seen.add_many(NEW)
        with (
            locked_for_reading(file, *share._WRITING),
            pytest.raises(LockTimeoutError, match="by a program that may only read") as caught,
        ):
            seen.flush()
        assert str(caught.value).startswith(f"{file}: the lock for writing the array")
        assert "write lock" not in str(caught.value)
        seen.flush()
        assert bits_in(file) == seen.info().positions_set


def test_flush_names_another_writer(file: str) -> None:
    with BloomFilter.open(file, resident=True, lock_timeout=SOON) as seen:
        seen.add_many(NEW)
        with BloomFilter.open(file) as other:
            assert missing(other, NEW) == 0
            turn = other._storage.array.place.share
            assert turn is not None
            with turn.writing(0.0), pytest.raises(LockTimeoutError) as caught:
                seen.flush()
        assert "the lock for writing the array in shared memory to the file was" in str(
            caught.value
        )


def test_close_writes_all_the_same(file: str, seen: BloomFilter) -> None:
    """The last writer closes while all is locked that can be: the file has every key."""
    with locked_for_reading(file, *share._WRITING):
        seen.close()
    check_saved(file, OLD, NEW)


def test_close_saves_what_it_cannot_move(file: str, seen: BloomFilter) -> None:
    """Where it cannot keep others from coming, the file is written and the copy stays in use."""
    there = seen._storage.array.place.share
    assert there is not None
    byte = share._SHARES[0] if there._byte != share._SHARES[0] else share._SHARES[0] + 1
    with locked_for_reading(file, byte, 1):
        seen.close()
    (copy,) = copies()
    flushed = bits_in(file)
    with BloomFilter.open(file) as other:  # takes it up, and gives it back
        assert missing(other, NEW) == 0
        assert other.info().positions_set == flushed
    assert not copy.exists()
    check_saved(file, OLD, NEW)


def test_a_reader_is_no_writer(file: str) -> None:
    """What it has locked before a writer comes is not taken for a share in the copy."""
    with locked_for_reading(file, *share._SHARES):
        fd = os.open(file, os.O_RDONLY)
        try:
            assert not share.in_use(fd)
        finally:
            os.close(fd)
        with BloomFilter.open(file, resident=True) as seen:
            with pytest.warns(MmbloomWarning, match="not kept in shared memory"):
                seen.add_many(NEW)  # mapped: no key waits for that program
            assert not seen.info().resident
    check_saved(file, OLD, NEW)


def test_close_that_cannot_save_warns(file: str, seen: BloomFilter) -> None:
    """Where even the write lock is kept by a program that reads, the close says what is so."""
    fd = os.open(file, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        with pytest.warns(MmbloomWarning, match="not brought up to date.*write lock.*and close it"):
            seen.close()
    finally:
        os.close(fd)
    assert len(copies()) == 1
    BloomFilter.open(file).close()
    check_saved(file, OLD, NEW)
