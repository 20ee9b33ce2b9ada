"""What gives keys grounds to go without a look at the file, and what ends them."""

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from checks import soon
from workers import in_child

import mmbloom
from mmbloom import (
    BloomFilter,
    CapacityWarning,
    ClosedFilterError,
    FileChangedError,
    ReentryError,
)
from mmbloom._storage.working_copy import WorkingCopy
from mmbloom.filters.file import BitFile


@pytest.fixture
def seen(path: str) -> Iterator[BloomFilter]:
    """Make a filter that was just looked at."""
    with BloomFilter.create(path, 100_000, lock_timeout=0.2) as seen:
        seen.add("looked")
        assert "looked" in seen
        yield seen


def test_asyncio_forbidden(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where asyncio may not be imported there are no tasks, and blocks are as ever."""
    monkeypatch.setitem(sys.modules, "asyncio", None)
    with seen.locked():
        assert seen.add("in a block")
    assert "in a block" in seen


def test_a_large_batch_after_single_keys_is_told(path: str) -> None:
    """Keys that went past the writer count: who goes past the plan is told before the batch."""
    few = [[f"{start} {number}" for number in range(240)] for start in range(4)]
    many = [f"many {number}" for number in range(2265)]
    with BloomFilter.create(path, 3000, 0.01, seed=1) as seen, warnings.catch_warnings():
        warnings.simplefilter("error", CapacityWarning)
        soon()
        seen.add("looked")
        for keys in few:
            seen.add_many(keys)
        with pytest.raises(CapacityWarning):
            seen.add_many(many)
        assert seen.info().keys_added < 1000


@pytest.mark.parametrize("how", ["cut", "replaced"])
def test_changed_amid_a_long_call(path: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that takes long after its look gives no grounds that are as old as that."""

    def work() -> None:
        with BloomFilter.create(path, 1000) as seen, BloomFilter.create(path + "2", 1000):
            seen.add("x")
            refresh = seen._exclusions.refresh

            def change() -> None:
                refresh()
                if how == "cut":
                    os.truncate(path, 0)
                else:
                    os.replace(path + "2", path)
                monkeypatch.undo()
                soon()

            monkeypatch.setattr(seen._exclusions, "refresh", change)
            soon()
            assert "x" in seen
            with pytest.raises(FileChangedError):
                seen.add("y")

    in_child(work)  # touching the map of a cut file would kill


@pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine has no grounds to renew")
def test_what_is_raised_amid_a_renewal(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a signal handler raises after the key is added is raised, whatever it is."""

    class StopError(ValueError):
        """As a handler raises it that has closed the filter."""

    def stop(*_: int) -> None:
        seen.close()
        raise StopError

    soon()
    monkeypatch.setattr(seen, "_grounds", stop)
    with pytest.raises(StopError):
        seen.add("x")
    monkeypatch.undo()
    with BloomFilter.open(seen.path) as again:
        assert "x" in again


@pytest.mark.skipif(mmbloom.engine == "numpy", reason="numpy's engine has no grounds to renew")
def test_closed_amid_a_renewal(seen: BloomFilter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is in, and whose filter another thread closes then, is no error of its add."""

    def close(*_: object) -> None:
        monkeypatch.undo()
        seen.close()
        raise ClosedFilterError(seen.path)

    soon()
    monkeypatch.setattr(BitFile, "leave_room", close)
    assert seen.add("x")
    with BloomFilter.open(seen.path) as again:
        assert "x" in again


def test_a_handler_amid_a_move(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a signal handler adds while the array is read into memory is refused, and not lost."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr("mmbloom._system.memory.SHARED", str(shared))
    BloomFilter.create(path, 10_000, 1e-6, resident=False).close()
    refused = list[bool]()
    with BloomFilter.open(path, resident=True) as seen:
        load = WorkingCopy._load

        def handle(*_: Any) -> None:
            with suppress(ReentryError):
                seen.add("of a handler")
                return
            refused.append(True)

        def loaded(*arguments: Any) -> int:
            found = load(*arguments)
            signal.raise_signal(signal.SIGALRM)
            return found

        monkeypatch.setattr(WorkingCopy, "_load", loaded)
        before = signal.signal(signal.SIGALRM, handle)
        soon()
        try:
            assert "old" not in seen  # a look that is good for the handler, too
            with seen.locked():
                seen.add("in a block")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert ("of a handler" in seen) != bool(refused)
    with BloomFilter.open(path) as again:
        assert ("of a handler" in again) != bool(refused)
        assert "in a block" in again
