"""What is at a path, as each section asks before it touches the map: what os.stat says.

And whether that is still what the last look has found.
"""

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kernels import needs_compiled

from mmbloom._engine.reference.status import LastLook, Status, status_at

StatusAt = Callable[[str], Status]


def compiled() -> StatusAt:
    found: StatusAt = import_module("mmbloom._engine.compiled.status").status_at
    return found


each = pytest.mark.parametrize(
    "engine",
    [lambda: status_at, pytest.param(compiled, marks=needs_compiled)],
    ids=["numpy", "compiled"],
)


@each
def test_what_is_there(engine: Callable[[], StatusAt], tmp_path: Path) -> None:
    """Files, folders and what links lead to: device, inode, size and mode."""
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "ärger\udcff").write_bytes(b"\0" * 5000)
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "ärger\udcff", "link", ".", "/dev/null"):
        path = os.path.join(tmp_path, name)
        status, expected = engine()(path), os.stat(path)
        assert status.st_dev == expected.st_dev
        assert status.st_ino == expected.st_ino
        assert status.st_size == expected.st_size
        assert status.st_mode == expected.st_mode


@each
def test_large_file(engine: Callable[[], StatusAt], tmp_path: Path) -> None:
    """A size does not fit into 32 bits."""
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 5 << 32)
    assert engine()(str(path)).st_size == 5 << 32


@each
def test_what_cannot_be_looked_at(engine: Callable[[], StatusAt], tmp_path: Path) -> None:
    """The error is that of os.stat."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("nothing", "file/below", "loop", "n" * 5000):
        path = os.path.join(tmp_path, name)
        with pytest.raises(OSError, match="Errno") as found:
            engine()(path)
        with pytest.raises(OSError, match="Errno") as expected:
            os.stat(path)
        assert type(found.value) is type(expected.value)
        assert str(found.value) == str(expected.value)
        assert found.value.filename == path


@needs_compiled
def test_same_interface() -> None:
    """The reference is os.stat itself; the compiled one takes the first of its parameters alone."""
    assert status_at is os.stat
    assert list(inspect.signature(compiled()).parameters) == ["path"]
    assert next(iter(inspect.signature(os.stat).parameters)) == "path"
    assert compiled().__name__ == "status_at"


@needs_compiled
def test_bad_input() -> None:
    """What is no path as filters keep it is refused."""
    for path in (None, b"/", 0, Path("/")):
        with pytest.raises(TypeError):
            compiled()(path)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        compiled()("\ud800")


Look = Callable[..., Any]


def compiled_look() -> Look:
    found: Look = import_module("mmbloom._engine.compiled.status").LastLook
    return found


each_look = pytest.mark.parametrize(
    "look",
    [lambda: LastLook, pytest.param(compiled_look, marks=needs_compiled)],
    ids=["numpy", "compiled"],
)


def look_at(look: Look, path: Path, words: list[memoryview]) -> Any:
    there = path.stat()
    file = (os.fsencode(path), there.st_dev, there.st_ino, there.st_size)
    return look(file, [(word, word[0]) for word in words])


@each_look
def test_last_look_holds(look: Callable[[], Look], tmp_path: Path) -> None:
    """As long as the file is there, of its size, and no word has changed: whatever is written."""
    path, words = tmp_path / "ärger\udcff", [memoryview(bytearray(8)).cast("Q") for _ in "ab"]
    path.write_bytes(b"abc")
    words[1][0] = 2**64 - 1
    found = look_at(look(), path, words)
    assert found.holds()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"xyz")
    assert found.holds()
    for word in words:
        word[0] ^= 1 << 63
        assert not found.holds()
        word[0] ^= 1 << 63
        assert found.holds()
    assert look_at(look(), path, []).holds()


@each_look
def test_last_look_does_not_hold(look: Callable[[], Look], tmp_path: Path) -> None:
    """A file that was cut, extended, removed, or that another file or folder has replaced."""
    path, other = tmp_path / "file", tmp_path / "other"

    def new_look() -> Any:
        path.write_bytes(b"abc")
        found = look_at(look(), path, [])
        assert found.holds()
        return found

    for size in (0, 2, 4, 5 << 32):
        found = new_look()
        os.truncate(path, size)
        assert not found.holds()
    found = new_look()
    path.rename(other)
    assert not found.holds()
    path.write_bytes(b"abc")
    assert not found.holds()
    path.unlink()
    path.mkdir()
    assert not found.holds()
    path.rmdir()
    other.rename(path)
    assert found.holds(), "it is the same again"


@needs_compiled
def test_bad_last_look(tmp_path: Path) -> None:
    """What is no look is refused, and no other memory is read for it."""
    look, file = compiled_look(), (b"file", 1, 2, 3)
    word = memoryview(bytearray(8)).cast("Q")
    for wrong, error in [
        ([(word, 0)] * 3, ValueError),
        ([(word[:0], 0)], ValueError),
        ([(memoryview(bytearray(8)), 0)], ValueError),
        ([(b"12345678", 0)], ValueError),
        ([(None, 0)], ValueError),
        ([(word, -1)], OverflowError),
        ([(word, 2**64)], OverflowError),
    ]:
        with pytest.raises(error):
            look(file, wrong)
    for wrong_file in [("file", 1, 2, 3), (b"file", 1, 2), (None, 1, 2, 3), (b"file", -1, 2, 3)]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            look(wrong_file, [])
