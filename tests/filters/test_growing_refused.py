"""GrowingFilter: what is refused, by a folder that is in the way, read-only, closed or gone."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from checks import READS, WRITES, check_folder, check_raises
from folders import Grow as Create

from mmbloom import BloomFilter, GrowingFilter, RotatingFilter
from mmbloom.errors import (
    ClosedFilterError,
    FileChangedError,
    FormatError,
    ParameterMismatchError,
    ReadOnlyError,
)
from mmbloom.filters.options import OpenOptions

# Of the calls on a filter of one file, those that a folder has as well.
QUESTIONS: dict[str, Callable[[Any], object]] = {
    name: call
    for name, call in READS.items()
    if name not in ("common_count", "jaccard", "isdisjoint")
}
CHANGES: dict[str, Callable[[Any], object]] = dict(WRITES)


def test_create_refuses_what_exists(grow: Create, folder: Path) -> None:
    """Any path that exists, whatever it is; and nothing of it changes."""
    grow(100).add("a")
    with pytest.raises(FileExistsError) as caught:
        grow(100)
    assert caught.value.filename == str(folder)
    check_folder(folder.parent, "seen")
    with GrowingFilter.open(folder) as seen:
        assert "a" in seen


def test_options_that_are_none(folder: Path) -> None:
    """A wrong keyword is a TypeError that names it, before anything is made; as is a wrong type.

    A type checker refuses both as well: those that it must refuse are marked.
    """
    with pytest.raises(TypeError, match="clok"):
        GrowingFilter.create(folder, 100, clok=7)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="mode"):
        GrowingFilter.create(folder, 100, mode="r")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="lock_timeout is 'soon'"):
        GrowingFilter.create(folder, 100, lock_timeout="soon")  # type: ignore[arg-type]
    assert not folder.exists()
    GrowingFilter.create(folder, 100, lock_timeout=None, threads=2, on_full="raise").close()
    with pytest.raises(TypeError, match="clock"):
        GrowingFilter.open(folder, clock=print)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="on_full is 'fail'"):
        GrowingFilter.open(folder, on_full="fail")  # type: ignore[arg-type]


def test_options_are_those_of_a_file() -> None:
    """A folder takes the keywords of `BloomFilter.open`, with their defaults."""
    options = dict(inspect.signature(BloomFilter.open).parameters)
    del options["path"]
    assert [*options] == [field.name for field in fields(OpenOptions)]
    for function in (GrowingFilter.open, RotatingFilter.open):
        assert options.items() <= inspect.signature(function).parameters.items()
    del options["mode"]
    for maker in (GrowingFilter.create, RotatingFilter.create):
        assert options.items() <= inspect.signature(maker).parameters.items()


@pytest.mark.parametrize("there", ["file", "empty folder", "dangling link"])
def test_create_in_the_place_of_something_else(folder: Path, there: str) -> None:
    """Nothing is replaced, not even an empty folder."""
    if there == "file":
        folder.write_text("mine")
    elif there == "empty folder":
        folder.mkdir()
    else:
        folder.symlink_to(folder.parent / "nowhere")
    for exist_ok in (False, True):
        with pytest.raises((FileExistsError, FormatError, FileNotFoundError)):
            GrowingFilter.create(folder, 100, exist_ok=exist_ok)
    check_folder(folder.parent, "seen")


def test_a_file_of_it_is_read_only_by_itself(grow: Create, folder: Path) -> None:
    """Who opens it, and not the folder, may ask: keys added would come as new a second time."""
    with grow(10) as seen:
        seen.add_many(range(30))
    names = sorted(folder.glob("*.bloom"))
    assert len(names) == 2
    before = [name.read_bytes() for name in names]
    for name in names:
        with BloomFilter.open(name) as file:
            assert file.contains_many(range(30)).any()
            for change in CHANGES.values():
                with pytest.raises(ReadOnlyError) as caught:
                    change(file)
                assert caught.value.reason == f"it is a file of the folder {folder}: open that"
            assert file.info().read_only == caught.value.reason
    assert [name.read_bytes() for name in names] == before
    # What only lies there belongs to nobody's folder, whether the manifest is sound or not.
    BloomFilter.create(folder / "other.bloom", 10).close()
    with BloomFilter.open(folder / "other.bloom") as other:
        assert other.add("a")
    (folder / "manifest.json").write_text("{}")
    with BloomFilter.open(names[0]) as file:
        assert file.add("a new key")


def test_create_or_open(grow: Create) -> None:
    """With exist_ok the folder is opened if its settings are those asked for."""
    first = grow(100, 0.01, seed=3)
    first.add("a")
    assert "a" in grow(100, 0.01, exist_ok=True)
    assert "a" in grow(100, 0.01, exist_ok=True, seed=3, reserve="fallocate")
    others: dict[str, Any] = {
        "initial_capacity": 101,
        "error_rate": 0.02,
        "layout": "standard",
        "seed": 4,
    }
    for field, value in others.items():
        asked = {"initial_capacity": 100, "error_rate": 0.01, "exist_ok": True, field: value}
        with pytest.raises(ParameterMismatchError, match=field):
            grow(**asked)


@pytest.mark.parametrize(
    "options",
    [
        {"initial_capacity": 0},
        {"initial_capacity": 1.5},
        {"initial_capacity": True},
        {"initial_capacity": None},
        {"error_rate": 0.0},
        {"error_rate": 1.0},
        {"layout": "round"},
        {"seed": 2**128},
        {"hash": "murmur3", "seed": 2**32},
        {"hash": "md5"},
        {"reserve": "maybe"},
        {"threads": 0},
    ],
)
def test_wrong_parameters_make_nothing(grow: Create, folder: Path, options: Any) -> None:
    field = next(reversed(options))  # the wrong one comes last
    with pytest.raises((ValueError, TypeError), match=field.removeprefix("initial_")) as caught:
        grow(**options)
    assert not isinstance(caught.value, FormatError)
    check_folder(folder.parent)


def test_read_only(grow: Create, folder: Path) -> None:
    """Mode "r" answers, learns of new files, and refuses every change."""
    writer = grow(10)
    with GrowingFilter.open(folder, "r") as reader:
        writer.update(range(100))
        assert reader.contains_many(list(range(100))).all()
        assert "absent" not in reader
        check_raises(CHANGES, reader, ReadOnlyError)  # type: ignore[arg-type]
        reader.flush()
        assert reader.info().read_only


def test_closed(grow: Create) -> None:
    seen = grow()
    seen.close()
    seen.close()
    assert seen.closed
    assert "closed" in repr(seen)
    check_raises(QUESTIONS | CHANGES, seen, ClosedFilterError)  # type: ignore[arg-type]
    with pytest.raises(ClosedFilterError):
        seen.flush()


def test_removed_and_replaced_folder(grow: Create, folder: Path) -> None:
    """Who has the old folder open is told, and writes nothing to another one."""
    seen = grow()
    os.rename(folder, folder.parent / "moved")
    check_raises(QUESTIONS | CHANGES, seen, FileChangedError)  # type: ignore[arg-type]
    other = GrowingFilter.create(folder, 100, 1e-9)
    with other:
        check_raises(QUESTIONS | CHANGES, seen, FileChangedError)  # type: ignore[arg-type]
        assert other.info().keys_added == 0


def test_import_is_lean() -> None:
    """A folder costs nothing who opens none: no module of the library that is slow to import."""
    code = "import mmbloom, sys; print([m for m in ('shutil', 'tempfile') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rate", [1e-7, 1e-17])
def test_later_files_that_cannot_be(tmp_path: Path, rate: float) -> None:
    """Where a later file cannot be made, what was asked for is named first, and nothing is made."""
    words = "^no growing filter begins with 30 keys at this error rate: for one of its files, "
    with pytest.raises(ValueError, match=rf"{words}\d+ keys .* use the blocked"):
        GrowingFilter.create(tmp_path / "seen", 30, rate, layout="standard")
    assert list(tmp_path.iterdir()) == []
