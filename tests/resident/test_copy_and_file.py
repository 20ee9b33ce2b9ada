"""A filter in shared memory and its file: who sees what, and when the file has it."""

import gc
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from checks import array_of, lasting, soon
from copies import NEW, OLD, bits_in, bits_of, check_saved, copies, left_behind, missing, name_in
from workers import Child, end, in_child

import mmbloom
from mmbloom import BloomFilter, CountingBloomFilter, GrowingFilter, RotatingFilter
from mmbloom._storage import working_copy
from mmbloom._system import memory
from mmbloom.errors import FileChangedError, MmbloomWarning
from mmbloom.filters.file import BitFile

NEXT = np.arange(2000, 2500)


def test_all_share_one_copy(path: str) -> None:
    """Writers and readers see each other's keys at once; the file sees them at a flush."""
    with BloomFilter.create(path, 10_000, 1e-6, resident=True) as seen:
        assert len(copies()) == 1
        seen.add_many(NEW)
        with BloomFilter.open(path) as other, BloomFilter.open(path, "r") as reader:
            assert missing(other, NEW) == missing(reader, NEW) == 0
            assert other.info().resident
            assert reader.info().resident
            other.add_many(NEXT)
            assert missing(seen, NEXT) == missing(reader, NEXT) == 0
            assert bits_in(path) == 0
            seen.flush()
            assert bits_in(path) == seen.info().positions_set
            assert len(copies()) == 1
    assert copies() == []


def test_last_writer_brings_the_file_up_to_date(file: str, seen: BloomFilter) -> None:
    """Not the first to close: the file has all keys, and the copy is gone, after the last."""
    with BloomFilter.open(file) as other:
        other.add_many(NEXT)
    assert len(copies()) == 1
    before = bits_in(file)
    seen.close()
    assert name_in(file) == bytes(32)
    assert bits_in(file) > before
    check_saved(file, OLD, NEW, NEXT)
    with BloomFilter.open(file, resident=False) as plain:
        assert plain.info().positions_set == bits_in(file)
        assert not plain.info().resident


def test_who_had_mapped_the_file_goes_on_with_the_copy(file: str) -> None:
    """Openers that were there before the copy follow it, and back to the file after it."""
    with (
        BloomFilter.open(file, resident=False) as writer,
        BloomFilter.open(file, "r") as reader,
    ):
        assert missing(reader, OLD) == 0
        with BloomFilter.open(file, resident=True) as seen:
            assert copies() == []  # to look makes none
            assert seen.add("first")
            assert len(copies()) == 1
            assert "first" in reader
            assert "first" in writer
            assert writer.add("second")
            assert "second" in seen
            assert (writer.info().resident, reader.info().resident) == (True, True)
        assert len(copies()) == 1  # the writer has it still
        writer.add_many(NEW)
        assert missing(reader, NEW) == 0
    assert copies() == []
    with BloomFilter.open(file, "r") as reader, BloomFilter.open(file, resident=True) as seen:
        seen.add_many(NEXT)
        assert missing(reader, NEXT) == 0
        seen.close()
        assert missing(reader, NEXT) == 0
        assert not reader.info().resident
        with BloomFilter.open(file, resident=False) as writer:
            writer.add("third")
        assert "third" in reader


@pytest.mark.parametrize("make", [GrowingFilter, RotatingFilter])
def test_folders(tmp_path: Path, make: type[GrowingFilter] | type[RotatingFilter]) -> None:
    """The files of a folder are kept so too; who asks one key at a time sees the others' keys."""
    path, count = tmp_path / "seen", 300
    first = "initial_capacity" if make is GrowingFilter else "capacity_per_period"
    made = make.create(path, resident=True, error_rate=1e-9, **{first: count})  # type: ignore[arg-type]
    with made as seen, make.open(path, "r") as reader:
        for key in range(count):
            assert key not in reader
            seen.add(key)
            assert key in reader
        assert len(copies()) == 1
        if make is GrowingFilter:
            seen.add_many(range(count, 3 * count))  # a second file
            assert len(copies()) == 2
            assert reader.contains_many(range(3 * count)).all()
    assert copies() == []
    with make.open(path, "r") as reader:
        assert reader.contains_many(range(count)).all()


def test_whole_filters_are_read_where_they_are(
    file: str, seen: BloomFilter, tmp_path: Path
) -> None:
    """copy, merge, verify, compare and union read the copy; cp reads the file as last flushed."""
    mmbloom.copy(file, tmp_path / "copy")
    mmbloom.merge(tmp_path / "merged", [file, file])
    assert mmbloom.verify(file, keys=NEW).ok
    with BloomFilter.create(tmp_path / "more", like=seen) as more:
        more.union_update(file)
        assert missing(more, NEW) == 0
    shutil.copy(file, tmp_path / "stale")
    for name in ("copy", "merged"):
        with BloomFilter.open(tmp_path / name, "r") as made:
            assert missing(made, NEW) == 0
    said = "the file this one was copied from; the file is used as of its last flush"
    with pytest.warns(MmbloomWarning, match=said):
        stale = BloomFilter.open(tmp_path / "stale")
    with stale:
        assert missing(stale, OLD) == 0
        assert missing(stale, NEW) > 0
        stale.add("x")
        assert "x" not in seen
    BloomFilter.open(tmp_path / "stale").close()  # it is said once


def test_repair_reads_the_copy(file: str, tmp_path: Path) -> None:
    """What a process that was killed left in shared memory is saved with the rest of the file."""
    left_behind(file)
    mmbloom.repair(file, tmp_path / "mended")
    with BloomFilter.open(tmp_path / "mended", "r") as mended:
        assert missing(mended, NEW) == missing(mended, OLD) == 0


def test_grow_takes_the_copy_along(file: str, seen: BloomFilter) -> None:
    """A file that becomes a folder's has its keys; who had it open brings it up to date there."""
    mmbloom.grow(file)
    with mmbloom.open(file, resident=False) as grown:
        assert grown.contains_many(NEW).all()
        assert seen.add("x")
        assert "x" in grown
    seen.close()
    assert copies() == []
    with mmbloom.open(file, "r", resident=False) as grown:
        assert grown.contains_many(NEW).all()
        assert "x" in grown


def test_rotation_removes_what_was_left(tmp_path: Path) -> None:
    """The copy of a file that a rotating filter drops goes with it, if nobody uses it."""
    folder, now = tmp_path / "seen", 1000.0

    def add() -> None:
        seen = RotatingFilter.create(
            folder,
            keep="10s",
            every="10s",
            capacity_per_period=1000,
            resident=True,
            clock=lambda: now,
        )
        seen.add("x")
        os._exit(0)

    Child(add).wait()
    assert len(copies()) == 1
    now = 1100.0
    with RotatingFilter.open(folder, resident=False, clock=lambda: now) as seen:
        seen.add("y")
    assert copies() == []


def test_moved_away(file: str, seen: BloomFilter, tmp_path: Path) -> None:
    """A file that is moved while it is in memory is brought up to date where it is now."""
    os.rename(file, tmp_path / "moved")
    with pytest.raises(FileChangedError):
        seen.add("x")
    with BloomFilter.open(tmp_path / "moved") as moved:
        assert missing(moved, NEW) == 0
        moved.add_many(NEXT)
    seen.close()
    check_saved(tmp_path / "moved", NEW, NEXT)


def test_removed(file: str, seen: BloomFilter) -> None:
    os.unlink(file)
    seen.close()
    assert copies() == []


PROGRAM = """
import sys, mmbloom
from mmbloom._system import memory
memory.SHARED = sys.argv[2]
seen = mmbloom.open(sys.argv[1], resident=True)
seen.add("key")
"""


def test_program_that_does_not_close(file: str, shared: Path) -> None:
    """At its end the file is up to date all the same; so it is of a filter that is dropped."""
    subprocess.run([sys.executable, "-c", PROGRAM, file, shared], check=True)
    check_saved(file, ["key"])
    dropped = BloomFilter.open(file, resident=True)
    dropped.add("another")
    del dropped
    gc.collect()
    check_saved(file, ["another"])


def test_claim_of_who_had_mapped_the_file(file: str, tmp_path: Path) -> None:
    """A key that was added in memory is not new to a process that has not looked since."""
    folder = tmp_path / "folder"
    GrowingFilter.create(folder, 1000, resident=False).close()
    for path in (str(folder), file):
        mapped_one = mmbloom.open(path, resident=False)
        with mapped_one, mmbloom.open(path, resident=True) as seen:
            assert "key" not in mapped_one
            seen.add("key")
            with mapped_one.claim(["key"]) as new:
                assert new.tolist() == [False]
            assert not mapped_one.add("key")
            with mapped_one.locked():
                assert not mapped_one.add("key")


def test_others_are_faster_than_the_maker(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    move = BitFile.move_to_memory

    def add_before(self: BitFile) -> None:
        with BloomFilter.open(path, resident=False) as other:
            other.add_many(OLD)
        move(self)

    monkeypatch.setattr(BitFile, "move_to_memory", add_before)
    with BloomFilter.create(path, 10_000, 1e-6, resident=True) as seen:
        assert seen.info().resident
        assert missing(seen, OLD) == 0
    check_saved(path, OLD)


@pytest.mark.parametrize("used", [False, True])
def test_forked_child(file: str, seen: BloomFilter, used: bool) -> None:
    """A child adds to the same copy; it keeps that only where it used it, and its parent closed."""

    def add() -> None:
        assert seen.add("child")
        seen.close()

    in_child(add)
    assert len(copies()) == 1
    assert "child" in seen
    (here, say_here), (go_on, say_go_on) = pipes = os.pipe(), os.pipe()

    def add_later() -> None:
        assert not used or seen.add("used")
        os.write(say_here, b"x")
        os.read(go_on, 1)  # until the parent has closed
        assert not seen.add("child")
        assert seen.add("later")
        seen.close()

    child = Child(add_later)
    try:
        os.read(here, 1)
        seen.close()
        assert len(copies()) == used
        os.write(say_go_on, b"x")
        child.result()
    finally:
        end(child)
        for fd in (*pipes[0], *pipes[1]):
            os.close(fd)
    check_saved(file, NEW, ["child", "later", *["used"] * used])


def test_pieces_are_written_by_themselves(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a flush each piece is written at its turn, once a round; the header stays."""
    monkeypatch.setattr(working_copy, "PIECE", 4096)
    now, before = 0.001, 0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    header, size = Path(file).read_bytes()[:512], os.path.getsize(file)
    number = -(-size // 4096)
    with BloomFilter.open(file, resident=True) as seen, BloomFilter.open(file) as other:
        seen.add_many(NEW)
        assert missing(other, NEW) == 0
        for writer, turn in ((seen, 3), (seen, 3.5), (other, number - 1), (other, number + 2)):
            now = turn * working_copy.ROUND_SECONDS / number * 1.0001
            expected = bytearray(Path(file).read_bytes())
            for due in range(before, int(turn)):
                piece = slice(due % number * 4096, (due % number + 1) * 4096)
                expected[piece] = copies()[0].read_bytes()[:size][piece]
            before = int(turn)
            soon()
            writer.add(str(turn))
            # Exactly what is due, whoever writes it: the rest is as it was.
            assert array_of(file) == expected[4096:]
        now += 10 * working_copy.ROUND_SECONDS  # nobody has added for long
        whole = copies()[0].read_bytes()[4096:]
        for _ in range(-(-number // working_copy._PIECES_AT_ONCE)):
            assert not bits_in(file) >= bits_of(whole)
            soon()
            seen.add("late")
        assert bits_in(file) >= bits_of(whole)
        seen.flush()
        monkeypatch.setattr(working_copy, "write_at", None)
        now += working_copy.ROUND_SECONDS  # nothing was added: nothing is due
        soon()
        with seen.locked():
            pass
        assert Path(file).read_bytes()[:512] == header


def test_what_is_never_kept_so(path: str, tmp_path: Path) -> None:
    """Filters that count, readers, and small files by themselves; opening changes nothing."""
    with CountingBloomFilter.create(path, 100, resident=True) as seen:
        seen.add("a")
        assert not seen.info().resident
    small = tmp_path / "small"
    with BloomFilter.create(small, 100, 1e-9) as plain:
        plain.add_many(range(100))
        assert not plain.info().resident
    status = lasting(small)
    with BloomFilter.open(small, "r", resident=True) as reader:
        assert "a" not in reader
    BloomFilter.open(small, resident=True).close()
    assert lasting(small) == status
    assert copies() == []
    with pytest.raises(ValueError, match="resident is 'yes', expected True, False or 'auto'"):
        BloomFilter.open(small, resident="yes")  # type: ignore[arg-type]


def test_choice_by_size(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file above two thirds of what may be dirty is kept in memory: a new one at once, one
    that is there after 50,000 new keys; one in memory already, or on a network, is not."""
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "dirty_bytes", lambda: 150_000)
    # Whatever the folder for temporary files is on: in many systems that is memory.
    monkeypatch.setattr("mmbloom._system.disk.file_system_type", lambda _: "ext4")
    with BloomFilter.create(path, 60_000, 0.01) as seen:  # 72 KiB
        assert not seen.info().resident
    large = tmp_path / "large"
    with BloomFilter.create(large, 100_000, 0.01) as seen:  # 120 KiB
        assert seen.info().resident
        assert not seen._storage.array.wants_memory
    with BloomFilter.open(large) as seen:
        seen.add_many(range(49_000))
        assert not seen.info().resident
        with BloomFilter.open(large) as other:
            other.add_many(range(49_000, 51_500))
        seen.add("one more")
        assert seen.info().resident
    assert copies() == []
    for kind in ("tmpfs", "nfs4"):
        with monkeypatch.context() as patch:
            patch.setattr("mmbloom._system.disk.file_system_type", lambda _, kind=kind: kind)
            with BloomFilter.create(tmp_path / kind, 100_000, 0.01, allow_network=True) as seen:
                seen.add_many(range(60_000))
                assert not seen.info().resident
