"""mmbloom copy: a copy or nothing, and an exit code that says which."""

import os
import stat
from pathlib import Path

import pytest
from checks import array_of, check_folder
from cli_runner import inside, is_one_line, mmbloom, refused
from damages import KEYS, MIB, filter_of, flip, sealed_of, untouched

from mmbloom import BloomFilter, verify


@pytest.mark.parametrize("seal", [False, True])
def test_copy(path: str, tmp_path: Path, seal: bool) -> None:
    filter_of(path, MIB + 64)
    with untouched(path):
        done = mmbloom("copy", path, tmp_path / "b", *(["--seal"] if seal else []))
    assert done == (0, b"", "")
    found = verify(tmp_path / "b", keys=list(KEYS))
    assert (found.problems, found.sealed_segments) == ((), 2 if seal else 0)
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o600


def test_copy_of_a_filter_in_use(path: str, tmp_path: Path) -> None:
    filter_of(path, 4096)
    with BloomFilter.open(path) as seen, seen.locked():
        seen.add("a")
        assert inside("copy", path, tmp_path / "b").code == 0
    with BloomFilter.open(tmp_path / "b", "r") as copied:
        assert "a" in copied


def test_permissions(path: str, tmp_path: Path) -> None:
    filter_of(path, 64)
    assert inside("copy", path, tmp_path / "b", "--permissions", "640").code == 0
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o640
    check_folder(tmp_path, "b", "seen.bloom")


def test_source_that_is_sealed_and_damaged(tmp_path: Path) -> None:
    flip(sealed_of(tmp_path / "a", MIB), 5000)
    assert refused(inside("copy", tmp_path / "a", tmp_path / "b"), 3, str(tmp_path / "a"))
    assert os.listdir(tmp_path) == ["a"]


def test_unsealed_again(tmp_path: Path) -> None:
    path = sealed_of(tmp_path / "a", 4096)
    (tmp_path / "in").write_bytes(b"x\n")
    assert inside("add", path, tmp_path / "in").code == 3
    assert inside("copy", path, tmp_path / "b").code == 0
    assert array_of(str(tmp_path / "b")) == array_of(path)[:4096]
    assert inside("add", tmp_path / "b", tmp_path / "in").code == 0


def test_replace(path: str, tmp_path: Path) -> None:
    filter_of(path, 4096)
    assert inside("copy", path, tmp_path / "copy").code == 0
    with BloomFilter.open(path) as seen:
        seen.add("since then")
    refused = inside("copy", path, tmp_path / "copy")
    assert refused.code == 5
    assert is_one_line(refused.err, str(tmp_path / "copy"), "--replace takes the place")
    assert inside("copy", path, tmp_path / "copy", "--replace") == (0, b"", "")
    with BloomFilter.open(tmp_path / "copy", "r") as seen:
        assert "since then" in seen


def test_replace_what_is_none(path: str, tmp_path: Path) -> None:
    """What is no filter stays: exit 5, and one line; a plain copy takes no place at all."""
    filter_of(path, 4096)
    (tmp_path / "text").write_text("precious")
    done = inside("copy", "--replace", path, tmp_path / "text")
    assert refused(done, 5, str(tmp_path / "text"), "is no sound filter", "choose another")
    assert (tmp_path / "text").read_text() == "precious"
