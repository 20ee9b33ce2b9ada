"""What is at a path, as each section asks before it touches the map: what os.stat says."""

import os
from pathlib import Path

import pytest
from kernels import COMPILED, Engine, each_engine, needs_compiled


@each_engine
def test_what_is_there(engine: Engine, tmp_path: Path) -> None:
    """Files, folders and what links lead to: device, inode, size and mode."""
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "ärger\udcff").write_bytes(b"\0" * 5000)
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "ärger\udcff", "link", ".", "/dev/null"):
        path = os.path.join(tmp_path, name)
        status, expected = engine.status_at(path), os.stat(path)
        assert status.st_dev == expected.st_dev
        assert status.st_ino == expected.st_ino
        assert status.st_size == expected.st_size
        assert status.st_mode == expected.st_mode


@each_engine
def test_large_file(engine: Engine, tmp_path: Path) -> None:
    """A size does not fit into 32 bits."""
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 5 << 32)
    assert engine.status_at(str(path)).st_size == 5 << 32


@each_engine
def test_what_cannot_be_looked_at(engine: Engine, tmp_path: Path) -> None:
    """The error is that of os.stat."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("nothing", "file/below", "loop", "n" * 5000):
        path = os.path.join(tmp_path, name)
        with pytest.raises(OSError, match="Errno") as found:
            engine.status_at(path)
        with pytest.raises(OSError, match="Errno") as expected:
            os.stat(path)
        assert type(found.value) is type(expected.value)
        assert str(found.value) == str(expected.value)
        assert found.value.filename == path


@needs_compiled
def test_bad_input() -> None:
    """What is no path as filters keep it is refused."""
    for path in (None, b"/", 0, Path("/")):
        with pytest.raises(TypeError):
            COMPILED.status_at(path)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        COMPILED.status_at("\ud800")
