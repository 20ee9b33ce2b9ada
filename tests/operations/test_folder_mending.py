"""Folders verified, copied, repaired and merged: sound ones, and of every damage to one."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from damages import clear_a_bit, flip

from mmbloom import FormatError, GrowingFilter, ReadOnlyError, copy, merge, repair, verify

KEYS = range(700)  # four files: 100, 200, 400 and 800 keys
NAMES = [f"{number:010d}.bloom" for number in range(3)]
PER_FILE = [range(100), range(100, 300), range(300, 700)]


def merge_alone(source: Path, destination: Path) -> None:
    """Make a union of one."""
    merge(destination, [source])


MAKE = [copy, repair, merge_alone]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A growing filter of three full files, without a false positive among its keys."""
    with GrowingFilter.create(tmp_path / "seen", 100, 1e-9, seed=1) as seen:
        assert seen.update(KEYS) == len(KEYS)
    return tmp_path / "seen"


def contents(folder: Path) -> dict[str, bytes]:
    """All that is in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def keys_of(folder: Path) -> list[int]:
    """Those of the keys that are found."""
    with GrowingFilter.open(folder, "r") as seen:
        return [key for key in KEYS if key in seen]


def replace(folder: Path, number: int) -> None:
    """Put another filter of the same sizes in the place of one."""
    other = folder.parent / "other"
    with GrowingFilter.create(other, 100, 1e-9, seed=1) as made:
        made.update(range(10_000, 10_700))
    (other / NAMES[number]).rename(folder / NAMES[number])


def become_a_folder(path: Path) -> None:
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], object], str, bool]] = {
    # what is done to the middle file: the problem that verify names, whether its keys are kept
    "missing": (lambda path: path.unlink(), "0000000001.bloom: is missing", False),
    "empty": (lambda path: path.write_bytes(b""), "length is 0 bytes", False),
    "a folder": (become_a_folder, "file is a folder", False),
    "header": (lambda path: flip(str(path), 20), "header checksum", True),
    "magic": (lambda path: flip(str(path), 0), "is not a filter", True),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "file size is", True),
    "a bit": (lambda path: clear_a_bit(str(path)), "bits are lost", False),
    "another": (lambda path: replace(path.parent, 1), "uuid is", False),
}


def test_sound(folder: Path) -> None:
    """A sound folder is said to be, its keys are found, and nothing is changed."""
    before = contents(folder)
    found = verify(folder, keys=[*KEYS, 10**6])
    assert (found.keys_checked, found.keys_missing) == (701, 1)
    assert found.problems == ("1 of 701 keys are not found",)
    assert verify(folder, keys=KEYS).ok
    assert [os.path.basename(file.path) for file in found.files] == NAMES
    assert [file.positions_set for file in found.files] == [
        verify(folder / name).positions_set for name in NAMES
    ]
    assert json.loads(json.dumps(found.as_dict()))["files"][2]["ok"] is True
    assert contents(folder) == before


@pytest.mark.parametrize(("damage", "problem", "kept"), DAMAGES.values(), ids=list(DAMAGES))
def test_damage_is_found_and_mended(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], problem: str, *, kept: bool
) -> None:
    """Each damage of one file is named; a repair keeps all that is there, and says what is not."""
    damage(folder / NAMES[1])
    found = verify(folder, keys=KEYS)
    assert any(problem in each for each in found.problems), found.problems
    done = repair(folder, tmp_path / "mended")
    assert (done.losses == ()) is kept
    assert all(loss.startswith(NAMES[1]) for loss in done.losses)
    there = keys_of(tmp_path / "mended")
    assert {*PER_FILE[0], *PER_FILE[2]} <= {*there}
    assert ({*there} == {*KEYS}) is kept
    assert verify(tmp_path / "mended", keys=there).ok
    with GrowingFilter.open(tmp_path / "mended") as seen:  # and goes on
        seen.update(KEYS)
        assert seen.contains_many(KEYS).all()


def test_another_filter_in_the_place_of_one(folder: Path, tmp_path: Path) -> None:
    """A repair tells whose keys are lost, and keeps those that are there."""
    replace(folder, 1)
    done = repair(folder, tmp_path / "mended")
    loss = f"{NAMES[1]}: is another filter: the keys of the original file are lost"
    assert done.losses == (loss,)
    with GrowingFilter.open(tmp_path / "mended", "r") as seen:
        assert seen.contains_many(range(10_100, 10_300)).all()


def test_files_that_are_not_named(folder: Path) -> None:
    """What the manifest does not name is told of, and is no problem."""
    (folder / "notes.txt").write_text("mine")
    found = verify(folder)
    assert found.ok
    assert found.notes == (
        "notes.txt: is not a file of this folder: left by a killed process, or by someone else",
    )


@pytest.mark.parametrize("use", [verify, *MAKE])
@pytest.mark.parametrize("raw", [None, b"", b"{}", b"\x89MMBLM\r\n"])
def test_no_manifest(
    folder: Path, tmp_path: Path, use: Callable[..., object], raw: bytes | None
) -> None:
    """Law 13: a folder without a sound manifest is a FormatError, and nothing is made."""
    (folder / "manifest.json").unlink()
    if raw is not None:
        (folder / "manifest.json").write_bytes(raw)
    targets = () if use is verify else (tmp_path / "made",)
    with pytest.raises(FormatError) as caught:
        use(folder, *targets)
    assert caught.value.path.startswith(str(folder))
    assert os.listdir(tmp_path) == ["seen"]


def test_copy_is_a_filter_of_its_own(folder: Path, tmp_path: Path) -> None:
    """All keys are in the copy; what is added to either is not in the other."""
    before = contents(folder)
    copy(folder, tmp_path / "kept", permissions=0o640)
    assert contents(folder) == before
    assert verify(tmp_path / "kept", keys=KEYS).ok
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kept").iterdir()} == {0o640}
    with GrowingFilter.open(folder) as seen, GrowingFilter.open(tmp_path / "kept") as kept:
        assert seen.info().uuid != kept.info().uuid
        assert seen.add("a")
        assert kept.add("b")
        assert "a" not in kept
        assert "b" not in seen


def test_sealed_copy(folder: Path, tmp_path: Path) -> None:
    """A sealed copy answers, takes no key, and every flipped bit in it is found."""
    copy(folder, tmp_path / "kept", seal=True)
    assert keys_of(tmp_path / "kept") == [*KEYS]
    with GrowingFilter.open(tmp_path / "kept") as kept, pytest.raises(ReadOnlyError):
        kept.add("a")
    for name in NAMES:
        flip(str(tmp_path / "kept" / name), 5000)
    problems = verify(tmp_path / "kept").problems
    assert [problem.partition(":")[0] for problem in problems if "checksum" in problem] == NAMES
    with pytest.raises(FormatError, match="checksum of MiB 0"):
        copy(tmp_path / "kept", tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("make", [copy, merge_alone])
@pytest.mark.parametrize("damage", ["missing", "empty", "a folder", "header", "another"])
def test_copy_of_a_damaged_folder(
    folder: Path, tmp_path: Path, make: Callable[..., object], damage: str
) -> None:
    """A folder of which a file is not the one named is not copied: the error names that file."""
    DAMAGES[damage][0](folder / NAMES[1])
    with pytest.raises(FormatError) as caught:
        make(folder, tmp_path / "kept")
    assert caught.value.path == str(folder / NAMES[1])
    assert not (tmp_path / "kept").exists()
