"""Making files where a stranger can put a link in the place of any name: none is followed.

The stranger acts at the worst moment: right before, or right after, a call of the system.
"""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import has
import pytest

from mmbloom import BloomFilter, GrowingFilter, verify

PRIVATE = 0o600


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_bytes(b"mine")
    file.chmod(PRIVATE)
    return file


def untouched(file: Path) -> bool:
    return stat.S_IMODE(file.stat().st_mode) == PRIVATE and file.read_bytes() == b"mine"


def put_link(path: str, target: Path) -> None:
    """Move what is there out of the way, and put a link in its place."""
    os.rename(path, path + ".moved")
    os.symlink(target, path)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o700)
    (folder / "kept").touch()
    return folder


Act = Callable[[Any], object]
Hooked = Callable[..., None]


@pytest.fixture
def at_call(monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """Make a stranger act once, before or after a call of the system whose arguments fit."""

    def hook(name: str, act: Act, fits: Callable[..., bool], *, before: bool = False) -> None:
        original, left = getattr(os, name), [act]

        def call(*args: Any, **options: Any) -> Any:
            now = left.pop() if left and fits(*args) else None
            if now and before:
                now(args)
            result = original(*args, **options)
            if now and not before:
                now(args)
            return result

        monkeypatch.setattr(os, name, call)

    return hook


def temporary(path: Any, *_rest: Any) -> bool:
    return isinstance(path, str) and os.path.basename(path).startswith(".m")


def test_the_mode_is_the_files_own(path: str, victim: Path, at_call: Hooked) -> None:
    """A link in place of the new file gets no mode, and what it leads to neither."""
    at_call("open", lambda args: put_link(args[0], victim), temporary)
    with pytest.raises(OSError, match=r"others can write to this folder.*seen\.bloom") as caught:
        BloomFilter.create(path, 1000, permissions=0o666)
    assert (caught.value.errno, caught.value.filename) == (errno.ESTALE, path)
    assert untouched(victim)


@pytest.mark.parametrize("exist_ok", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_what_is_linked_is_what_was_made(
    path: str, victim: Path, at_call: Hooked, *, before: bool, exist_ok: bool
) -> None:
    """Another file at the path, or a link to one, is an error, and is not opened."""
    BloomFilter.create(victim.with_name("other"), 1000).close()

    def swap(args: Any) -> None:
        put_link(args[0 if before else 1], victim.with_name("other"))

    at_call("link", swap, temporary, before=before)
    with pytest.raises(OSError, match="others can write to this folder") as caught:
        BloomFilter.create(path, 1000, exist_ok=exist_ok)
    assert caught.value.errno == errno.ESTALE
    assert verify(victim.with_name("other")).ok


@pytest.mark.parametrize(
    ("name", "before"), [("mkdir", False), ("rename", True), ("rename", False)]
)
def test_a_folder(path: str, mine: Path, at_call: Hooked, *, name: str, before: bool) -> None:
    """A link in place of a new folder: nothing is made in, or removed from, another folder."""

    def swap(args: Any) -> None:
        put_link(args[0 if before or name == "mkdir" else 1], mine)

    at_call(name, swap, temporary, before=before)
    with pytest.raises(OSError, match=r"seen\.bloom"):
        GrowingFilter.create(path, 1000, permissions=0o666)
    assert os.listdir(mine) == ["kept"]
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700


def test_another_folder_of_the_user(path: str, mine: Path, at_call: Hooked) -> None:
    """A folder that is moved into the place of the new one keeps its files."""
    around = mine.parent

    def swap(args: Any) -> None:
        os.rmdir(args[0])
        os.rename(mine, args[0])

    at_call("mkdir", swap, temporary)
    with pytest.raises(OSError, match="others can write to this folder"):
        GrowingFilter.create(path, 1000)
    assert [file.name for file in around.rglob("kept")] == ["kept"]


def test_a_manifest(path: str, victim: Path, at_call: Hooked) -> None:
    GrowingFilter.create(path, 2, 1e-9).close()
    with GrowingFilter.open(path) as seen:
        at_call("replace", lambda args: put_link(args[1], victim), temporary)
        with pytest.raises(OSError, match=r"others can write to this folder.*manifest\.json"):
            seen.add_many(range(100))
    assert untouched(victim)


def test_exclusions(path: str, victim: Path, at_call: Hooked) -> None:
    with BloomFilter.create(path, 1000) as seen:
        fits = lambda name, *_: str(name).endswith(".exclusions.tmp")  # noqa: E731
        at_call("replace", lambda args: put_link(args[1], victim), fits)
        with pytest.raises(OSError, match=r"others can write to this folder.*\.exclusions"):
            seen.exclusions.add("a")
    assert untouched(victim)


@pytest.mark.parametrize("make", [BloomFilter.create, GrowingFilter.create], ids=["file", "folder"])
@pytest.mark.parametrize("most", [1, 100, 4095])
def test_a_write_that_comes_back_short(
    path: str, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], most: int
) -> None:
    """The rest is written as well: the file is whole, header and all."""
    original, short = os.pwrite, []

    def pwrite(fd: int, octets: memoryview, start: int) -> int:
        if start < 4096:
            short.append(start)
            octets = memoryview(octets)[:most]
        return original(fd, octets, start)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with make(path, 1000, 1e-9) as seen:
        seen.add("a")
        assert "a" in seen
    assert len(short) > 1
    assert verify(path).ok


def test_a_write_of_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error, not a loop without end; and nothing is left."""
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    first = 4096 if has.FALLOCATE else 5376  # bytes: the header, or zeros for the whole file
    with pytest.raises(OSError, match=f"none of {first} bytes was written") as caught:
        BloomFilter.create(path, 1000)
    assert caught.value.errno == errno.EIO
    assert os.listdir(os.path.dirname(path)) == []
