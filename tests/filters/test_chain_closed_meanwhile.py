"""A folder that one thread closes while another one flushes it, or adds to it."""

import os
import threading
from contextlib import suppress
from typing import Any

import pytest
from descriptors import open_files
from workers import PATIENCE, in_child

from mmbloom import ClosedFilterError, GrowingFilter
from mmbloom._storage import folder
from mmbloom._storage.moving import MovingArray
from mmbloom._system import disk
from mmbloom.filters import chain
from mmbloom.filters.file import File

KEYS = range(100)  # of several files


@pytest.fixture
def seen(path: str) -> GrowingFilter:
    """A folder of several files."""
    GrowingFilter.create(path, 2, 1e-9).close()
    seen = GrowingFilter.open(path)
    seen.add_many(KEYS)
    assert len(seen.info().files) > 3
    return seen


@pytest.mark.parametrize("at", [0, 1, 2])
def test_closed_between_two_files(
    seen: GrowingFilter, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The flush says that the folder is closed, and goes on to no file."""
    original = File.sync
    synced: list[File] = []

    def flush(self: File) -> None:
        if len(synced) == at:
            seen.close()
        original(self)
        synced.append(self)

    monkeypatch.setattr(File, "sync", flush)
    with pytest.raises(ClosedFilterError) as caught:
        seen.flush()
    assert caught.value.path == seen.path
    assert len(synced) == at


@pytest.mark.parametrize("at", [0, 1, 2])
def test_close_amid_a_sync(seen: GrowingFilter, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """It waits for the file that is being forced to the disk.

    Never is a closed descriptor forced to the disk, which may be another file's by then.
    """
    original = MovingArray.flush
    synced: list[MovingArray] = []
    closing = threading.Thread(target=seen.close)

    def flush(self: MovingArray, timeout: float | None = None) -> None:
        synced.append(self)
        if len(synced) == at + 1:
            closing.start()
            closing.join(0.1)
        assert not self.closed
        original(self, timeout)

    monkeypatch.setattr(MovingArray, "flush", flush)
    with suppress(ClosedFilterError):  # or it was ahead of the closing to the end
        seen.flush()
    closing.join(PATIENCE)
    assert len(synced) > at
    assert seen.closed


def test_close_amid_a_new_file(
    seen: GrowingFilter, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the call that makes the file, and no file is open afterwards."""
    closing = threading.Thread(target=seen.close)

    def draft_manifest(*arguments: Any) -> Any:
        monkeypatch.undo()
        closing.start()
        closing.join(0.2)
        return draft(*arguments)

    draft = folder.draft_manifest
    monkeypatch.setattr(chain, "draft_manifest", draft_manifest)
    with suppress(ClosedFilterError):  # each section of its own: a later one comes too late
        seen.add_many(range(1000, 1200))
    closing.join(PATIENCE)
    assert seen.closed
    assert not [file for file in open_files().values() if file.startswith(os.path.realpath(path))]


def test_child_closes_what_another_thread_was_adding_to(seen: GrowingFilter) -> None:
    """A child of a fork amid a section of another thread does not wait for that thread."""
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with seen.locked():
            held.set()
            forked.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(PATIENCE)
    try:
        in_child(seen.close)
    finally:
        forked.set()
        holder.join()
    assert not seen.closed
    seen.close()


def test_close_and_flush_at_random(path: str) -> None:
    """Threads that flush until it is closed are told so, each time, and nothing else."""

    def run() -> list[str]:
        fsync, wrong = disk.sync, []

        def watched(fd: int) -> None:
            try:
                fsync(fd)
            except OSError as error:
                wrong.append(str(error))
                raise

        disk.sync = watched
        GrowingFilter.create(path, 2, 1e-9).close()
        for _ in range(40):
            seen = GrowingFilter.open(path)
            seen.add_many(KEYS)
            threads = [threading.Thread(target=until_closed, args=(seen, wrong)) for _ in range(3)]
            for thread in threads:
                thread.start()
            seen.flush()
            seen.close()
            for thread in threads:
                thread.join(PATIENCE)
        return wrong

    assert in_child(run) == []


def until_closed(seen: GrowingFilter, wrong: list[str]) -> None:
    """Flush again and again, until the filter is closed; note all that is not that."""
    try:
        while True:
            seen.flush()
    except ClosedFilterError as error:
        if error.path != seen.path:
            wrong.append(f"of a file: {error}")
    except BaseException as error:  # noqa: BLE001  whatever it is
        wrong.append(repr(error))
