"""Each line of the code of copies, one after the other: a close, Ctrl-C or a kill comes there."""

import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType

import numpy as np
import pytest
from copies import (
    COPY_OFFSET,
    NEW,
    OLD,
    bits_in,
    check_saved,
    copies,
    fill,
    left_behind,
    make_file,
    missing,
    name_in,
)
from steps import at_line, calls_of, interrupt, kill
from tally import Count
from workers import ChildDiedError, in_child

from mmbloom import BloomFilter, ClosedFilterError
from mmbloom._storage import moving, share, working_copy
from mmbloom._system import memory
from mmbloom._system.typing import Mode

MORE = np.arange(7000, 7100)
MOST_LINES = 400
SOON = 0.2  # seconds
ROOM = {module.__file__ for module in (moving, share, working_copy)}


def in_the_room(code: CodeType) -> bool:
    return code.co_filename in ROOM


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "taken_by"), [("r", "nothing"), ("r+", "a short file"), ("r", "another filter")]
)
def test_closed_at_each_line_of_a_query(
    path: str, tmp_path: Path, mode: Mode, taken_by: str
) -> None:
    """Never another file's bytes or lock, nor an error of a descriptor that is gone.

    The array has moved to shared memory, so that the query maps it anew; at each line of that the
    filter is closed, and the numbers of its descriptors are another file's.
    """
    other = tmp_path / "other"
    if taken_by == "another filter":
        BloomFilter.create(other, 1000, 1e-9, resident=False).close()
    else:
        other.write_text("short")
    answers = refusals = 0
    for number in range(MOST_LINES):
        file, taken, closers = f"{path}{number}", list[int](), list[threading.Thread]()
        make_file(file)
        seen = BloomFilter.open(file, mode)
        left_behind(file)

        def close(
            seen: BloomFilter = seen,
            taken: list[int] = taken,
            closers: list[threading.Thread] = closers,
        ) -> None:
            closers.append(threading.Thread(target=seen.close))
            closers[-1].start()
            closers[-1].join(0.5)  # where the query has what forks wait for, close waits as well
            if taken_by != "nothing":
                taken.extend(os.open(other, os.O_RDWR) for _ in range(8))

        def ask(seen: BloomFilter = seen) -> None:
            nonlocal answers, refusals
            try:
                assert seen.contains_many(OLD).all()
                assert not seen.contains_many(NEW + 10_000).any()
                answers += 1
            except ClosedFilterError:
                refusals += 1

        came = at_line(number, in_the_room, close, ask)
        for closer in closers:
            closer.join()
        for fd in taken:
            os.close(fd)
        seen.close()
        BloomFilter.open(file).close()
        if not came:
            break
    print(f"{number} lines: {answers} answered, {refusals} refused")
    assert 10 < number < MOST_LINES - 1
    assert refusals > 10
    assert answers > 0


ACTS: dict[str, Callable[[BloomFilter], object]] = {
    "close": BloomFilter.close,
    "flush": BloomFilter.flush,
    "add": lambda seen: seen.add("more"),  # after an idle time, in which a piece is written
}


def of_share(code: CodeType) -> bool:
    return code.co_filename == share.__file__


def opens_and_adds(file: str) -> None:
    """Make sure that another process can take a share in the copy, if there is one still."""
    with BloomFilter.open(file, lock_timeout=SOON) as other:
        assert other.add("of another")


@pytest.mark.slow
@pytest.mark.parametrize("what", ACTS)
def test_ctrl_c_at_each_line(path: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others come and go after it, the filter is flushed, and in the end the file has all."""
    monkeypatch.setattr(share, "_PATIENCE", SOON)
    monkeypatch.setattr(moving, "_LEAVE_SECONDS", SOON)
    for number in range(MOST_LINES):
        file = f"{path}{number}"
        BloomFilter.create(file, 10_000, 1e-6, resident=False).close()
        seen = BloomFilter.open(file, resident=True, lock_timeout=SOON)
        seen.add_many(NEW)
        seen._storage.array._attend_at = 0.0
        came = False
        with suppress(KeyboardInterrupt):
            at_line(number, of_share, interrupt, partial(ACTS[what], seen))
            came = True
        gc.collect()
        if not seen.closed:
            in_child(partial(opens_and_adds, file))
            seen.add_many(OLD)
            seen.flush()
            assert bits_in(file) == seen.info().positions_set
            seen.close()
            check_saved(file, OLD, NEW)
        assert copies() == []
        if came:
            break
    assert 5 < number < MOST_LINES - 1


def of_naming(code: CodeType) -> bool:
    return code is moving.Place.name.__code__


def killed_there(number: int, file: str) -> bool:
    try:
        in_child(lambda: at_line(number, of_naming, kill, partial(fill, file)))
    except ChildDiedError:
        return True
    return False


def maps_of(asked: Callable[[], object]) -> int:
    """Count how often the array is mapped while something is asked twenty times."""
    with pytest.MonkeyPatch.context() as patch:
        maps = calls_of(patch, moving.MovingArray, "_map")
        for _ in range(20):
            asked()
    return len(maps)


@pytest.mark.laws("T1")
@pytest.mark.parametrize("begins", ["in the file", "in a copy"])
def test_kill_at_each_line_of_naming(path: str, begins: str, tally: Count) -> None:
    """Readers that were there find what is added later, and map the array once at most."""
    for number in range(MOST_LINES):
        file = f"{path}{number}"
        make_file(file)
        if begins == "in a copy":
            left_behind(file)
        with BloomFilter.open(file, "r") as reader:
            assert missing(reader, OLD) == 0
            killed = killed_there(number, file)
            assert maps_of(partial(reader.contains_many, OLD)) <= 1
            with BloomFilter.open(file, resident=False) as writer:
                assert writer.add_many(MORE).all()
                assert missing(reader, MORE) == 0
                assert maps_of(partial(writer.add, "x")) <= 1
            assert missing(reader, MORE) == 0
            tally(kills=killed)
        assert copies() == []
        assert name_in(file)[16:24] == bytes(8)
        if not killed:
            break
    assert 0 < number < MOST_LINES - 1


@pytest.mark.parametrize("boot", [bytes(16), b"of another start"])
def test_name_without_its_boot(file: str, boot: bytes) -> None:
    """What names no copy of this boot is mended by the next writer, and never followed."""
    word = memory.boot_id()[:8]  # any
    with open(file, "r+b") as raw:
        raw.seek(COPY_OFFSET)
        raw.write(boot + word + word)
    with BloomFilter.open(file, "r") as reader, BloomFilter.open(file, resident=False) as writer:
        assert writer.add_many(MORE).all()
        assert missing(reader, MORE) == 0
    assert name_in(file) == bytes(32)
