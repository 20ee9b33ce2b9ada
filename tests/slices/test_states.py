"""A state is made once, where its store can refuse to make it twice, and opened by all."""

import os
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pytest
from drivers import SIZES, committed, cut, day, names, tasks

from mmbloom import FileChangedError, ParameterMismatchError
from mmbloom.cluster import Generations, Slice, SlicePlan, places


def test_create_and_open(where: str) -> None:
    """A state is made once; opening takes its plan, with the seed that was drawn."""
    with pytest.raises(FileNotFoundError, match="no state exists at this path"):
        Generations.open(where)
    said = "no state exists at this path; pass a capacity"
    with pytest.raises(FileNotFoundError, match=said):
        Generations.create(where, slices=4, exist_ok=True)
    with pytest.raises(TypeError, match="capacity is required"):
        Generations.create(where)
    assert names(where) == []
    state = Generations.create(where, **SIZES)
    assert Generations.open(where) == state
    assert pickle.loads(pickle.dumps(state)) == state
    with pytest.raises(FileExistsError, match="a state already exists at this path"):
        Generations.create(where, **SIZES)
    for given in ({}, SIZES, *({name: value} for name, value in SIZES.items())):
        assert Generations.create(where, **given, exist_ok=True) == state
    changed: dict[str, Any] = {"capacity": 40_000, "slices": 5, "seed": 7, "error_rate": 1e-3}
    for name, value in changed.items():
        for given in ({}, SIZES):
            with pytest.raises(ParameterMismatchError, match=name):
                Generations.create(where, **{**given, name: value}, exist_ok=True)
    assert str(state.plan.params.seed) not in repr(state) + repr(state.begin())


def test_what_a_new_state_has(where: str) -> None:
    """The defaults are few false positives, and as many slices as the caller chooses."""
    plan = Generations.create(f"{where}/1", 1_000_000).plan
    assert (plan.params.error_rate, plan.slices) == (1e-9, 64)
    assert Generations.create(f"{where}/2", 100).plan.slices == 1  # it has one page
    tenths = Generations.create(
        f"{where}/3", 1_000_000, choose_slices=lambda params: params.capacity // 100_000
    )
    assert tenths.plan.slices == 10
    assert Generations.create(f"{where}/3", choose_slices=lambda _: 3, exist_ok=True) == tenths


def test_another_state_in_its_place(where: str, state: Generations, seed: int) -> None:
    run = state.begin()
    tasks(run, cut(day(seed)))
    system, root = fsspec.core.url_to_fs(where)
    system.rm(f"{root}/generation-00000000.json")
    Generations.create(where, **SIZES)
    for call in (run.commit, state.begin, lambda: state.generation):
        with pytest.raises(FileChangedError, match="replaced by another state"):
            call()


@pytest.mark.parametrize("where", ["memory", "moving"], indirect=True)
def test_a_store_that_makes_twice(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that ignores the condition of a put is found out and refused."""
    system = type(fsspec.filesystem("memory"))
    put = system.pipe_file

    def careless(self: Any, path: str, value: bytes, **_: Any) -> None:
        put(self, path, value)

    monkeypatch.setattr(system, "pipe_file", careless)
    said = "this store overwrites a file that it was asked to create only if"
    with pytest.raises(OSError, match=said):
        Generations.create(where, **SIZES)
    assert names(where) == []
    fsspec.filesystem("memory").pipe_file(f"{where}/x", b"")  # for the fixture to remove


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A URL says what to install; paths need nothing."""
    monkeypatch.setattr(places, "fsspec", None)
    part = Slice.empty(SlicePlan.draw(100, slices=1), 0)
    said = r"memory://seen.*: .*needs fsspec: pip install 'mmbloom\[cluster\]'"
    for call in (
        lambda: Generations.create("memory://seen", 100, slices=1),
        lambda: Generations.open("memory://seen"),
        lambda: part.write("memory://seen/0"),
        lambda: Slice.read("memory://seen/0"),
    ):
        with pytest.raises(ImportError, match=said):
            call()
    part.write(tmp_path / "0")
    assert Slice.read(f"file://{tmp_path}/0").number == 0
    assert Generations.create(f"file://{tmp_path}/seen", 100, slices=1).path == f"{tmp_path}/seen"


def test_files_are_private(tmp_path: Path, seed: int) -> None:
    """Files that contain the secret seed can be read only by their owner."""
    committed(Generations.create(tmp_path / "seen", **SIZES), day(seed))
    for folder, _, files in os.walk(tmp_path / "seen"):
        assert Path(folder).stat().st_mode & 0o077 == 0
        for name in files:
            assert (Path(folder) / name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("path", "said"),
    [("", "is empty, expected a folder"), (Path("s3://b/seen"), "lost a slash in a pathlib")],
)
def test_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any, said: str) -> None:
    """A path that would make an unintended folder is refused."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        Generations.create(path, 1000, slices=1)
    assert not [*tmp_path.iterdir()]
