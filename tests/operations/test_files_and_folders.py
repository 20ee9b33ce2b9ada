"""One function for a file and for a folder: opened, verified, repaired, and refused in words."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damages import flip
from kinds import KINDS

import mmbloom
from mmbloom import BloomFilter, FormatError, GrowingFilter, ParameterMismatchError
from mmbloom._storage import opening
from mmbloom._system import descriptors

FOLDERS = ("growing", "rotating")


def make(name: str, path: Path) -> Any:
    """Make a filter of few keys, which a growing one has two files for."""
    return KINDS[name].create(path, 10 if name == "growing" else 100)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of filter."""
    found: str = request.param
    return found


@pytest.fixture
def there(kind: str, tmp_path: Path) -> Path:
    """A filter of this kind, with a few keys."""
    with make(kind, tmp_path / "seen") as seen:
        seen.update(range(30))
    return tmp_path / "seen"


def test_open(there: Path, kind: str) -> None:
    """The class is the one that made it, the options are its own, and keys are found."""
    with mmbloom.open(there, lock_timeout=7.5) as seen:
        assert type(seen) is KINDS[kind].cls
        assert seen.contains_many(range(30)).all()
        seen.add("more")
    with mmbloom.open(bytes(there), "r") as seen:
        assert "more" in seen


def test_open_of_what_is_none(tmp_path: Path) -> None:
    """What is not there, and what is not a filter, are errors of their own."""
    with pytest.raises(FileNotFoundError):
        mmbloom.open(tmp_path / "nothing")
    with pytest.raises(FormatError, match=r"manifest.json is missing"):
        mmbloom.open(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FormatError, match="is not a filter: it begins with"):
        mmbloom.open(tmp_path / "text")


def test_folder_without_end(tmp_path: Path) -> None:
    """A folder in the place of the manifest is no reason to look further."""
    (tmp_path / "manifest.json" / "manifest.json").mkdir(parents=True)
    with pytest.raises(FormatError, match="file is a folder"):
        BloomFilter.open(tmp_path)


def test_verification(there: Path, kind: str) -> None:
    """Of a folder, sizes and counts are sums over its files; of a file there are none."""
    found = mmbloom.verify(there, keys=range(31))
    assert (found.keys_checked, found.keys_missing) == (31, 1)
    record = json.loads(json.dumps(found.as_dict()))
    assert [one["ok"] for one in record["files"]] == [one.ok for one in found.files]
    if kind not in FOLDERS:
        assert (found.files, record["files"]) == ((), [])
        return
    assert found.kind == kind
    assert len(found.files) == (2 if kind == "growing" else 1)
    for name in ("file_bytes", "positions_set", "approx_count", "capacity", "unfinished_batches"):
        assert getattr(found, name) == sum(getattr(one, name) for one in found.files), name
    with mmbloom.open(there, "r") as seen:
        assert found.fill_ratio == seen.fill_ratio
        assert found.current_error_rate == seen.current_error_rate
        assert found.error_rate == 1e-9


@pytest.mark.parametrize(("kind", "files"), [("plain", 0), ("growing", 2), ("rotating", 1)])
def test_repair(tmp_path: Path, there: Path, files: int) -> None:
    """What is said of a folder is the sum of what is said of its files."""
    done = mmbloom.repair(tmp_path / "seen", tmp_path / "mended")
    assert (done.header_damage, done.losses, done.notes) == ("", (), ())
    assert done.positions_set == mmbloom.verify(tmp_path / "mended").positions_set
    assert done.keys_added == 30
    assert len(done.files) == files


def test_header_of_a_folders_file(tmp_path: Path) -> None:
    """A header that was rebuilt is told of with the file, and in a note of the folder."""
    make("growing", tmp_path / "seen").close()
    flip(str(tmp_path / "seen" / "0000000000.bloom"), 20)
    done = mmbloom.repair(tmp_path / "seen", tmp_path / "mended")
    assert [one.header_damage for one in done.files] == ["header checksum"]
    assert done.header_damage == ""
    assert done.notes[0].startswith("0000000000.bloom: header rebuilt")


def test_params_that_do_not_fit(tmp_path: Path) -> None:
    """Those of another filter, and any of a folder, are refused with advice for a repair."""
    with make("plain", tmp_path / "seen") as seen:
        params = seen.params
    other = dataclasses.replace(params, num_hashes=params.num_hashes + 1)
    with pytest.raises(ParameterMismatchError, match="repair it without params") as caught:
        mmbloom.repair(tmp_path / "seen", tmp_path / "out", params=other)
    assert caught.value.field == "num_hashes"
    assert "open it as it is" not in str(caught.value)
    make("growing", tmp_path / "folder").close()
    with pytest.raises(ValueError, match="whose manifest has its parameters: omit params"):
        mmbloom.repair(tmp_path / "folder", tmp_path / "out", params=params)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize(
    "use",
    [
        lambda folder, out: mmbloom.intersect(out, [folder]),
        lambda folder, _: mmbloom.compare(folder, folder),
        mmbloom.export_guava,
    ],
    ids=["intersect", "compare", "export_guava"],
)
def test_what_takes_files_only(tmp_path: Path, there: Path, use: Callable[..., object]) -> None:
    """The reason is said, and what to do instead."""
    with pytest.raises(FormatError, match=r"file is a folder, expected a single file: .*;"):
        use(there, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_like_takes_a_filter_of_one_file(tmp_path: Path) -> None:
    """Anything else is a TypeError that says what it takes, and nothing is made."""
    with make("growing", tmp_path / "seen") as growing:
        for like in (growing, tmp_path / "seen", 7, growing.info()):
            with pytest.raises(TypeError, match="expected an open BloomFilter or Counting"):
                BloomFilter.create(tmp_path / "out", like=like)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["plain"])
@pytest.mark.parametrize(
    "use",
    [
        lambda path, _: mmbloom.verify(path, keys=range(30)).problems,
        mmbloom.copy,
        mmbloom.repair,
        lambda path, out: mmbloom.merge(out, [path, path]),
    ],
    ids=["verify", "copy", "repair", "merge"],
)
def test_file_that_grows_meanwhile(
    tmp_path: Path,
    there: Path,
    use: Callable[[Path, Path], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is a folder by the time that it is opened is read as a folder."""
    out, real = tmp_path / "out", descriptors.open_file

    def grow_first(*arguments: Any, **options: Any) -> int:
        monkeypatch.undo()
        mmbloom.grow(there)
        return real(*arguments, **options)

    monkeypatch.setattr(opening, "open_file", grow_first)
    assert not use(there, out) or use is mmbloom.repair
    assert there.is_dir()
    if out.exists():
        with mmbloom.open(out) as made:
            assert type(made) is GrowingFilter
            assert made.contains_many(range(30)).all()
