"""Whether a file is at its path, as it was: what each section asks before it touches the map."""

import os
from pathlib import Path

import pytest
from kernels import COMPILED, Engine, each_engine, needs_compiled


@each_engine
def test_is_there(engine: Engine, tmp_path: Path) -> None:
    """The same path, device, inode and size; other bytes are no other file."""
    path = tmp_path / "a file"
    path.write_bytes(b"abc")
    status = os.stat(path)
    device, inode, size = status.st_dev, status.st_ino, status.st_size
    file = (os.fsencode(path), device, inode, size)
    assert engine.is_there(file)
    path.write_bytes(b"xyz")
    assert engine.is_there(file)
    for other in ((device + 1, inode, size), (device, inode + 1, size), (device, inode, size + 1)):
        assert not engine.is_there((os.fsencode(path), *other))
    path.write_bytes(b"ab")
    assert not engine.is_there(file)
    path.write_bytes(b"abc")
    os.replace(path, tmp_path / "renamed")
    assert not engine.is_there(file)
    path.symlink_to("renamed")  # it leads to the file
    assert engine.is_there(file)


@each_engine
def test_what_cannot_be_looked_at(engine: Engine, tmp_path: Path) -> None:
    """What is behind a file, a loop of links or too long a name is not there."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file/below", "loop", "n" * 5000):
        assert not engine.is_there((os.fsencode(tmp_path / name), 0, 0, 0))


@needs_compiled
def test_bad_input() -> None:
    """What is no such tuple is refused."""
    for file in (None, [b"/", 0, 0, 0], ("/", 0, 0, 0), (b"/", -1, 0, 0), (b"/", 0, 0, "0")):
        with pytest.raises((TypeError, OverflowError)):
            COMPILED.is_there(file)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="values to unpack"):
        COMPILED.is_there((b"/", 0, 0))  # type: ignore[arg-type]
