"""Descriptors stay above those of the standard streams, which a daemon closes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import has
import pytest
from workers import in_child

from mmbloom import (
    BloomFilter,
    CountingBloomFilter,
    GrowingFilter,
    RotatingFilter,
    copy,
    dedup_files,
    merge,
    verify,
)
from mmbloom._system import descriptors

KEYS = [f"key {number}" for number in range(300)]
Steps = Callable[[Path], Iterator[Any]]


def use(seen: Any) -> Iterator[Any]:
    with seen:
        yield
        yield seen.add(KEYS[0])
        yield seen.add_many(KEYS[:150])
        yield seen.exclusions.add("never")
        with seen.locked():
            yield seen.add_many(KEYS[150:])
        yield seen.flush()


def plain(path: Path) -> Iterator[Any]:
    yield from use(BloomFilter.create(path, 1000))
    with BloomFilter.open(path, "r") as seen:
        yield seen.contains_many(KEYS)
    copy(path, f"{path}.copy")
    merge(f"{path}.merged", [path, f"{path}.copy"])
    yield


def counting(path: Path) -> Iterator[Any]:
    yield from use(CountingBloomFilter.create(path, 1000))
    with CountingBloomFilter.open(path) as seen:
        yield seen.add("twice")
        yield seen.remove("twice")


def growing(path: Path) -> Iterator[Any]:
    yield from use(GrowingFilter.create(path, 100))


def rotating(path: Path) -> Iterator[Any]:
    yield from use(RotatingFilter.create(path, keep="7d", every="1d", capacity_per_period=1000))


def resident(path: Path) -> Iterator[Any]:
    yield from use(BloomFilter.create(path, 1000, resident=True))
    with BloomFilter.open(path, "r") as reader:
        with BloomFilter.open(path, resident=True) as seen:
            yield seen.add("more")
            yield "more" in reader
        yield "more" in reader  # maps the file again, and opens nothing


def files(path: Path) -> Iterator[Any]:
    given, repeated, packed = (path.with_name(name) for name in ("given", "again", "new.gz"))
    given.write_text("".join(f"{key}\n" for key in KEYS * 2))

    with BloomFilter.create(path, 1000, 1e-9) as seen:  # a false positive would be one repeat more
        yield
        yield dedup_files(seen, given, packed, repeats_to=repeated, durable=True)
        yield dedup_files(seen, packed, packed.with_suffix(".xz"))
    assert repeated.read_text().splitlines() == KEYS


def closed_again_and_again(steps: Iterator[Any]) -> None:
    """Go through the steps in a process that closes its streams before each, and still prints."""
    os.closerange(0, 3)
    for _ in steps:
        for stream in range(3):
            with suppress(OSError):
                assert os.path.samestat(os.fstat(stream), os.stat(os.devnull))
            with suppress(OSError):
                os.write(stream, b"printed")
        with suppress(OSError):
            assert os.read(0, 1) == b"not even the end of a file"
        os.closerange(0, 3)


NO_COPIES = pytest.mark.skipif(not has.WORKING_COPIES, reason="this system has no working copies")


@pytest.mark.parametrize(
    "steps",
    [plain, counting, growing, rotating, pytest.param(resident, marks=NO_COPIES), files],
)
def test_streams_that_are_closed(tmp_path: Path, steps: Steps) -> None:
    """Whatever is opened meanwhile, what the program prints is in none of it."""
    path = tmp_path / "seen"
    in_child(lambda: closed_again_and_again(steps(path)))
    assert verify(path, keys=KEYS).ok
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"printed" not in file.read_bytes(), file


@pytest.mark.skipif(
    not (has.PROC or has.MACOS), reason="this system leads to no file by its descriptor"
)
def test_an_open_file_is_found_again(tmp_path: Path) -> None:
    """By its descriptor, under the name that it has by now."""
    (tmp_path / "one").write_bytes(b"1")
    with (tmp_path / "one").open("ab") as file:
        (tmp_path / "one").rename(tmp_path / "other")
        again = descriptors.reopen(file.fileno(), os.O_RDONLY)
        assert os.read(again, 2) == b"1"
        os.close(again)


def test_another_file_at_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path can lead elsewhere by now: then the file is not found, and nothing stays open."""
    (tmp_path / "one").touch()
    (tmp_path / "other").touch()
    monkeypatch.setattr(descriptors, "path_of", lambda _: str(tmp_path / "other"))
    with (tmp_path / "one").open("ab") as file, pytest.raises(FileNotFoundError):
        descriptors.reopen(file.fileno(), os.O_RDONLY)


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0"])
def test_a_file_at_stdin_is_opened_again(tmp_path: Path, name: str) -> None:
    """Its position is its own: what reads the beginning first takes nothing from the next."""
    (tmp_path / "lines").write_bytes(b"abc")
    code = (
        "import os; from mmbloom._system.descriptors import open_file;"
        f"one = open_file({name!r}, os.O_RDONLY); other = open_file({name!r}, os.O_RDONLY);"
        "assert os.read(one, 3) == os.read(other, 3) == os.read(0, 3) == b'abc'"
    )
    with (tmp_path / "lines").open("rb") as stdin:
        subprocess.run([sys.executable, "-c", code], stdin=stdin, check=True)
