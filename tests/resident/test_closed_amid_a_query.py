"""A thread closes a filter while another one asks it: an answer, or ClosedFilterError."""

import os
import threading
from pathlib import Path
from types import CodeType

import pytest
from copies import NEW, OLD, left_behind
from steps import at_line

from mmbloom import BloomFilter, ClosedFilterError
from mmbloom._storage import moving, share, working_copy
from mmbloom._storage import moving as place
from mmbloom._system.typing import Mode

pytestmark = pytest.mark.slow

MOST_LINES = 400
ROOM = {module.__file__ for module in (place, moving, share, working_copy)}


def in_the_room(code: CodeType) -> bool:
    return code.co_filename in ROOM


@pytest.mark.parametrize(
    ("mode", "taken_by"), [("r", "nothing"), ("r+", "a short file"), ("r", "another filter")]
)
def test_at_each_line(path: str, tmp_path: Path, mode: Mode, taken_by: str) -> None:
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
        with BloomFilter.create(file, 1000, 1e-9, resident=False) as seen:
            seen.add_many(OLD)
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
