"""A file that is dropped, or lost, between the look at the manifest and the opening of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chains import files_of
from cli_runner import inside
from folders import Clock, Rotate

from mmbloom import FormatError, RotatingFilter

Before = Callable[[Path, Callable[[], object]], None]


@pytest.fixture
def before_opening(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Have something happen once, at the very moment when a file is to be opened."""
    look, pending = os.stat, dict[str, Callable[[], object]]()

    def stat(path: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str) and path in pending:
            pending.pop(path)()
        return look(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    return lambda path, event: pending.update({str(path): event})


@contextmanager
def two_days(rotate: Rotate, clock: Clock) -> Iterator[RotatingFilter]:
    """A filter of two files, the first of which is dropped by the next key after some days."""
    with rotate() as seen:
        assert seen.add("first")
        clock.days(5)
        assert seen.add("second")
        clock.days(9)
        yield seen


def test_open(rotate: Rotate, clock: Clock, folder: Path, before_opening: Before) -> None:
    """Whoever opens the folder reads the newer manifest, and misses nothing."""
    with two_days(rotate, clock) as seen:
        dropped, kept = files_of(folder)
        before_opening(dropped, lambda: seen.add("third"))
        with RotatingFilter.open(folder, "r", clock=clock) as opened:
            assert not dropped.exists()
            assert opened.contains_many(["second", "third"]).all()
            assert "first" not in opened
        assert files_of(folder)[0] == kept


def test_open_what_is_lost(
    rotate: Rotate, clock: Clock, folder: Path, before_opening: Before
) -> None:
    """A file that the manifest goes on to name is missing, and not waited for."""
    with two_days(rotate, clock):
        lost, _ = files_of(folder)
        before_opening(lost, lost.unlink)
        with pytest.raises(FormatError, match="missing") as caught:
            RotatingFilter.open(folder, clock=clock)
        assert caught.value.path == str(lost)


@pytest.mark.parametrize("when", ["before it is opened", "once it is open"])
def test_verify(
    rotate: Rotate,
    clock: Clock,
    folder: Path,
    before_opening: Before,
    when: str,
) -> None:
    """A file that was dropped in time is a note and no problem; one that is open is checked."""
    with two_days(rotate, clock) as seen:
        dropped, kept = files_of(folder)  # opened in this order
        before_opening(kept if when == "once it is open" else dropped, lambda: seen.add("third"))
        done = inside("verify", folder)
    assert not dropped.exists()
    assert kept.exists()
    assert (done.code, done.err) == (0, "")
    said = done.out.decode()
    assert (f"{dropped.name}: was dropped during the check" in said) == (
        when == "before it is opened"
    )
    assert "is missing" not in said
    assert "not a file of this folder" not in said  # the newest, which that manifest did not name


def test_verify_what_is_lost(
    rotate: Rotate, clock: Clock, folder: Path, before_opening: Before
) -> None:
    """A file that a newer manifest names as well is missing, whatever else has changed."""
    with two_days(rotate, clock) as seen:
        _, lost = files_of(folder)

        def go_on() -> None:
            seen.add("third")
            lost.unlink()

        before_opening(lost, go_on)
        done = inside("verify", folder)
        assert lost in files_of(folder)
    assert (done.code, done.err) == (1, "")
    assert f"{lost.name}: is missing, and so are its keys" in done.out.decode()
    assert "dropped during" not in done.out.decode()
