"""Disks that can be cut off: what a power cut leaves is looked at as a start after it would.

The disk is an image mounted as a loop device: what is in the image's file has reached the disk,
all else is in memory. So a copy of that file is what a power cut would leave, and mounting the
copy is the start after it.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from workers import PATIENCE

from mmbloom._system import memory

MEBIBYTES = 24
Mount = Callable[[Path], Path]


@contextmanager
def mounts() -> Iterator[Mount]:
    """Mount images, each in a folder of its own, until the block ends.

    The folders are not in pytest's: a killed run leaves its disks mounted, which the next runs
    would fail to remove.
    """
    with ExitStack() as stack:

        def mounted(image: Path) -> Path:
            folder = Path(tempfile.mkdtemp(prefix="mmbloom-disk-"))
            stack.callback(folder.rmdir)
            run_tool("mount", "-o", "loop", image, folder)
            stack.callback(subprocess.check_call, ["umount", folder])
            return folder

        yield mounted


@pytest.fixture
def mount() -> Iterator[Mount]:
    with mounts() as mounted:
        yield mounted


def run_tool(*argv: str | Path) -> None:
    """Run a program that may not be there, or may not be allowed: then there is no such test."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {argv[0]}")
    if done.returncode:
        pytest.skip(f"no disk that can be cut off: {done.stderr.strip()}")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return make_image(tmp_path / "disk")


def make_image(image: Path) -> Path:
    with image.open("wb") as file:
        file.truncate(MEBIBYTES << 20)
    run_tool("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
    return image


def cut(image: Path, number: int = 0) -> Path:
    """Copy what is on the disk, as of one moment: twice the same."""
    copies = [image.with_name(f"cut{number}.{which}") for which in "ab"]
    deadline = time.monotonic() + PATIENCE
    shutil.copyfile(image, copies[0])
    while True:
        shutil.copyfile(image, copies[1])
        if copies[0].read_bytes() == copies[1].read_bytes():
            copies[1].unlink()
            return copies[0]
        assert time.monotonic() < deadline
        copies.reverse()


@contextmanager
def after_reboot() -> Iterator[None]:
    """Do what a start after a power cut does: nothing that was in memory is of this boot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "boot_id", lambda: bytes(range(16)))
        yield
