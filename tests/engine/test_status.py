"""What is at a path, as each section asks before it touches the map: what os.stat says."""

import inspect
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from kernels import needs_compiled

from mmbloom._engine.reference.status import Status, status_at

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
