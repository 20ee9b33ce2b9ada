"""mmbloom export and import: a file or nothing, and an exit code that says which."""

import os
import stat
from pathlib import Path

import pytest
from checks import array_of, check_folder
from cli_runner import inside, mmbloom, refused
from damages import flip, untouched
from guava_files import GOLDEN, keys_of, parse

from mmbloom import BloomFilter, copy

GUAVA = GOLDEN / "utf8.guava"


def make(path: str, *options: str) -> str:
    """Make a filter that can be exported, with a line in it; gives its path."""
    sizes = ("-n", "1000", "--layout", "standard", "--hash", "murmur3", "--seed", "0", *options)
    assert mmbloom("create", path, *sizes).code == 0
    assert mmbloom("add", path, stdin=b"line\n").code == 0
    return path


def test_export(path: str, tmp_path: Path) -> None:
    make(path)
    with untouched(path):
        assert mmbloom("export", "--guava", path, tmp_path / "b") == (0, b"", "")
    held = parse((tmp_path / "b").read_bytes())
    assert held is not None
    assert held.has("line")
    assert not held.has("another line")
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o600


def test_import(tmp_path: Path) -> None:
    options = ("-n", "1e3", "-p", "0.2", "--permissions", "640")
    with untouched(GUAVA):
        assert mmbloom("import", "--guava", GUAVA, tmp_path / "b", *options) == (0, b"", "")
    lines = b"".join(f"{key!s}\n".encode() for key in keys_of("utf8", 0, 300))
    assert mmbloom("check", "-c", tmp_path / "b", stdin=lines) == (0, b"300\n", "")
    with BloomFilter.open(tmp_path / "b") as seen:
        assert (seen.params.capacity, seen.params.error_rate) == (1000, 0.2)
    assert stat.S_IMODE(os.stat(tmp_path / "b").st_mode) == 0o640


def test_there_and_back(path: str, tmp_path: Path) -> None:
    """import undoes export, and plans by itself if not told otherwise."""
    make(path)
    for argv in (("export", path, "b"), ("import", "b", "c")):
        names = [argv[1] if argv[1] == path else tmp_path / argv[1], tmp_path / argv[2]]
        assert inside(argv[0], *names, "--guava") == (0, b"", "")
    assert array_of(path) == array_of(str(tmp_path / "c"))
    with BloomFilter.open(tmp_path / "c") as seen:
        assert seen.params.error_rate == 1e-6
        assert 990 < seen.params.capacity < 1010


@pytest.mark.parametrize(
    "options", [("--seed", "7"), ("--layout", "blocked"), ("--hash", "siphash")]
)
def test_export_of_another_kind(path: str, tmp_path: Path, options: tuple[str, str]) -> None:
    make(path, *options)
    done = inside("export", "--guava", path, tmp_path / "b")
    assert refused(
        done, 3, path, options[0].strip("-"), "--layout standard --hash murmur3 --seed 0"
    )
    check_folder(tmp_path, "seen.bloom")


def test_damaged_sources(tmp_path: Path) -> None:
    live, sealed = make(str(tmp_path / "live")), str(tmp_path / "sealed")
    copy(live, sealed, seal=True)
    flip(sealed, 5000)
    (tmp_path / "text").write_text("hello, world")
    for argv in (("export", sealed), ("export", str(tmp_path / "text")), ("import", live)):
        assert refused(inside(*argv, tmp_path / "b", "--guava"), 3, argv[1])
    check_folder(tmp_path, "live", "sealed", "text")


def test_a_missing_source(tmp_path: Path) -> None:
    done = inside("import", "--guava", tmp_path / "no", tmp_path / "b")
    assert refused(done, 5, str(tmp_path / "no"))
    check_folder(tmp_path)
