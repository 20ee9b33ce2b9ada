"""What is no regular filter file is refused at once: nothing hangs, nothing is opened (law 13)."""

import errno
import os
import random
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from faults import Hook, at_call, os_calls
from tally import Count
from workers import in_child

from mmbloom import BloomFilter, FormatError

TIMEOUT = 20.0  # a hang, not a speed: each takes a millisecond


def make_socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:
        os.chdir(path.parent)  # the address of a socket is short
        listener.bind(path.name)
    finally:
        os.chdir(here)
        listener.close()


def make_pyramid(path: Path) -> None:
    """Link to a link to a FIFO."""
    os.mkfifo(path.with_name("fifo"))
    path.with_name("link").symlink_to("fifo")
    path.symlink_to("link")


SPECIAL: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link-to-fifo": make_pyramid,
    "folder": Path.mkdir,
    "socket": make_socket,
    "null": lambda path: path.symlink_to("/dev/null"),
    "zero": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "empty": Path.touch,
    "text": lambda path: path.write_text("once upon a time\n" * 1000),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "random": lambda path: path.write_bytes(random.Random(8192).randbytes(8192)),
    "numpy": lambda path: path.write_bytes(b"\x93NUMPY\x01\0v\0" + bytes(8192)),
}
MISSING: dict[str, Callable[[Path], object]] = {
    "missing": Path.exists,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
}
both_modes = pytest.mark.parametrize("mode", ["r", "r+"])


@pytest.fixture
def special(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "seen.bloom"
    {**SPECIAL, **MISSING}[kind](path)
    return path


def snapshot(folder: Path) -> list[tuple[str, int, int]]:
    """Names, types and sizes of what is in a folder."""
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        status = entry.stat(follow_symlinks=False)
        found.append((entry.name, stat.S_IFMT(status.st_mode), status.st_size))
    return found


def check_refused(
    path: Path, action: Callable[[], object], error: type[Exception], said: str | None = None
) -> None:
    """Check that an action fails at once, in a child, and that nothing is made or touched."""
    before = snapshot(path.parent)

    def act() -> None:
        with pytest.raises(error, match=said):
            action()

    in_child(act, TIMEOUT)
    assert snapshot(path.parent) == before


@pytest.mark.laws("T4")
@both_modes
@pytest.mark.parametrize("kind", SPECIAL)
def test_special_file_is_refused_at_once(
    special: Path, mode: Literal["r", "r+"], tally: Count
) -> None:
    """Law 13: whatever is at the path and is no filter is a FormatError, without a hang."""
    check_refused(special, lambda: BloomFilter.open(special, mode), FormatError, f"^{special}[ :]")
    tally(special_files=1)


@pytest.mark.laws("T4")
@both_modes
def test_file_that_becomes_a_fifo_is_refused_at_once(
    tmp_path: Path, mode: Literal["r", "r+"], tally: Count
) -> None:
    """Law 13: a FIFO that takes the place of a filter while it is being opened: no hang."""
    path = tmp_path / "seen.bloom"

    def swap(name: str) -> None:
        path.unlink()
        os.mkfifo(path)

    def open_it() -> None:
        BloomFilter.create(path, 1000).close()
        seen_regular = at_call(0, swap)
        hook: Hook = lambda name: seen_regular(name) if name == "stat" else None  # noqa: E731
        with os_calls(after=hook), pytest.raises(FormatError, match="not a regular file"):
            BloomFilter.open(path, mode)

    in_child(open_it, TIMEOUT)
    tally(special_files=1)


@both_modes
@pytest.mark.parametrize("kind", MISSING)
def test_missing_file_is_the_systems_error(special: Path, mode: Literal["r", "r+"]) -> None:
    """Laws 10, 13: a missing file, a dangling or a looping link: OSError, and nothing is made."""
    said = "|".join(map(os.strerror, (errno.ENOENT, errno.ELOOP)))
    check_refused(special, lambda: BloomFilter.open(special, mode), OSError, said)


@pytest.mark.parametrize("kind", [*SPECIAL, "dangling", "loop"])
def test_create_never_touches_what_is_there(special: Path) -> None:
    """Laws 8, 10, 15: create refuses any existing path, follows no link, leaves no file."""
    check_refused(special, lambda: BloomFilter.create(special, 1000), FileExistsError)


@pytest.mark.parametrize("kind", SPECIAL)
def test_exist_ok_accepts_filters_only(special: Path) -> None:
    """Laws 10, 13: exist_ok=True opens what exists, so that what is no filter is refused."""
    check_refused(special, lambda: BloomFilter.create(special, 1000, exist_ok=True), FormatError)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_new_files_are_private(tmp_path: Path, mask: int) -> None:
    """Law 15: a new file is 0600 whatever the umask, and what was asked for if asked."""

    def create() -> list[int]:
        os.umask(mask)
        BloomFilter.create(tmp_path / "plain", 100).close()
        BloomFilter.create(tmp_path / "shared", 100, permissions=0o664).close()
        return [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "shared")]

    assert in_child(create) == [0o600, 0o664]
    assert sorted(os.listdir(tmp_path)) == ["plain", "shared"]
