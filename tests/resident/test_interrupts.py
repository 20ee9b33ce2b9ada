"""Ctrl-C at each line of the locks of a copy: none of them stays taken, and nothing is skipped."""

import gc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import CodeType

import pytest
from copies import NEW, OLD, bits_in, copies, missing
from steps import at_line
from workers import in_child

from mmbloom import BloomFilter
from mmbloom._storage import moving, share

pytestmark = pytest.mark.slow

MOST_LINES = 200
SOON = 0.2  # seconds

ACTS: dict[str, Callable[[BloomFilter], object]] = {
    "close": BloomFilter.close,
    "flush": BloomFilter.flush,
    "add": lambda seen: seen.add("more"),  # after an idle time, in which a piece is written
}


def of_share(code: CodeType) -> bool:
    return code.co_filename == share.__file__


def interrupt() -> None:
    raise KeyboardInterrupt


def opens_and_adds(file: str) -> None:
    """Make sure that another process can take a share in the copy, if there is one still."""
    with BloomFilter.open(file, lock_timeout=SOON) as other:
        assert other.add("of another")


@pytest.mark.parametrize("what", ACTS)
def test_at_each_line(path: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
            with BloomFilter.open(file, "r", resident=False) as there:
                assert missing(there, OLD) == missing(there, NEW) == 0
        assert copies() == []
        if came:
            break
    assert 5 < number < MOST_LINES - 1
