"""The kernel's mount table is read right, and network file systems are refused for writing."""

import os
from collections.abc import Callable
from pathlib import Path

import has
import pytest
from checks import check_folder

from mmbloom import BloomFilter, NetworkFileSystemError, ReservationWarning
from mmbloom._system import disk as _mounts
from mmbloom._system.disk import COPY_ON_WRITE, NETWORK, file_system_type, find_type

TABLE = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /dev rw - devtmpfs devtmpfs rw
30 21 0:40 / /mnt rw shared:2 master:1 - tmpfs tmpfs rw
31 30 0:41 / /mnt/share rw - nfs4 server:/share rw
32 31 0:42 / /mnt/share/deep rw - xfs /dev/sdb rw
33 21 0:43 / /mnt/with\040blank rw - cifs //host/a\040b rw
34 21 0:44 / /mnt/back\134slash rw - 9p host rw
35 21 0:45 / /mnt/tab\011and\012line rw - fuse.sshfs host: rw
36 21 0:46 / /mnt/日本 rw - btrfs /dev/sdc rw
37 21 0:47 / /over rw - ext4 /dev/sdd rw
38 37 0:48 / /over rw - zfs pool rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/x", "ext4"),
        ("/mnt", "tmpfs"),
        ("/mnt/other", "tmpfs"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/x", "nfs4"),
        ("/mnt/shared", "tmpfs"),  # a longer name, not below the mount
        ("/mnt/share/deep/x", "xfs"),
        ("/mnt/with blank/x", "cifs"),
        ("/mnt/back\\slash/x", "9p"),
        ("/mnt/tab\tand\nline/x", "fuse.sshfs"),
        ("/over/x", "zfs"),  # the last mounted is on top
        ("/mnt/日本/x", "btrfs"),  # only the escapes are decoded
    ],
)
def test_longest_mount_point(path: str, kind: str) -> None:
    """A path is on the longest mount point that holds it; escapes stand for their characters."""
    assert find_type(TABLE, path, os.makedev(99, 99)) == kind


@pytest.mark.parametrize(("minor", "kind"), [(41, "nfs4"), (42, "xfs"), (46, "btrfs")])
def test_device_decides(minor: int, kind: str) -> None:
    assert find_type(TABLE, "/home/x", os.makedev(0, minor)) == kind


@pytest.mark.parametrize(
    "table", ["", "\n\n", "nonsense\n", "1 2 3 - ext4 x rw", "21 1 8:1 / / rw"]
)
def test_unreadable_table(table: str) -> None:
    """Lines that are no mounts are skipped; without a mount there is no type."""
    assert find_type(table, "/home", 0) == ""


def test_this_machine(tmp_path: Path) -> None:
    """The type of a real folder is found, through symbolic links too."""
    kind = file_system_type(str(tmp_path))
    (tmp_path / "link").symlink_to("/proc" if has.PROC else tmp_path)
    assert kind or not (has.PROC or has.MACOS)
    assert not has.PROC or f" {kind} " in Path("/proc/self/mountinfo").read_text()
    assert file_system_type(str(tmp_path / "link")) == ("proc" if has.PROC else kind)


def test_no_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no table, the type is known by a call, or unknown and nothing is refused."""
    kind = file_system_type(str(tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("mmbloom._system.disk.open", refuse, raising=False)
    assert file_system_type(str(tmp_path)) in ("", kind)
    BloomFilter.create(tmp_path / "f", 10).close()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        file_system_type(str(tmp_path / "nowhere"))


Pretend = Callable[[str], None]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Make every path seem to be on a type of file system."""
    return lambda kind: monkeypatch.setattr(_mounts, "file_system_type", lambda _: kind)


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_create_on_network_is_refused(pretend: Pretend, path: str, kind: str) -> None:
    """Creating on a network file system is refused and leaves nothing, unless it is allowed."""
    pretend(kind)
    with pytest.raises(NetworkFileSystemError, match="allow_network=True") as caught:
        BloomFilter.create(path, 10)
    assert (caught.value.path, caught.value.file_system) == (path, kind)
    check_folder(os.path.dirname(path))
    with BloomFilter.create(path, 10, allow_network=True) as seen:
        assert seen.add("a")


def test_open_on_network(pretend: Pretend, path: str) -> None:
    """On a network file system r+ is refused, r works, and allow_network=True allows it."""
    with BloomFilter.create(path, 10) as seen:
        seen.add("a")
    pretend("nfs")
    with pytest.raises(NetworkFileSystemError) as caught:
        BloomFilter.open(path)
    assert (caught.value.path, caught.value.file_system) == (path, "nfs")
    with BloomFilter.open(path, "r") as seen:
        assert "a" in seen
    with BloomFilter.open(path, allow_network=True) as seen:
        assert seen.add("b")


@pytest.mark.parametrize("kind", sorted(COPY_ON_WRITE))
def test_copy_on_write_warns(pretend: Pretend, path: str, kind: str) -> None:
    """If reserved space is not certain, create warns once, and makes the filter."""
    pretend(kind)
    with pytest.warns(ReservationWarning, match=f"{path}: {kind} copies on write") as caught:
        BloomFilter.create(path, 10).close()
    assert [warning.filename for warning in caught] == [__file__], "the line that called create"
    BloomFilter.open(path).close()  # opening does not warn


def test_other_file_systems_do_not_warn(pretend: Pretend, path: str) -> None:
    for kind in ("ext4", "xfs", "tmpfs", "overlay", ""):
        pretend(kind)
        BloomFilter.create(path, 10).close()
        os.unlink(path)
