"""Files on a disk, as far as systems differ.

To force a file to the disk, to reserve its blocks, to swap two names, to know a file system: each
is one function, which does what Linux and macOS do.

Two things depend on the file system: hosts cannot share a mapping over a network, and a
copy-on-write file system cannot promise that reserved space will be there. A type that the system
does not say is "", and nothing is refused.
"""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal

NETWORK = frozenset(
    (
        *("9p", "acfs", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs"),
        *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs"),
        *("virtiofs", "webdav", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone"),
        *("fuse.s3fs", "fuse.sshfs"),
        # What a virtual machine shares with its host: Docker Desktop, Parallels, VirtualBox.
        *("fakeowner", "fuse.grpcfuse", "prl_fs", "vboxsf"),
    )
)

# APFS overwrites in place until a snapshot, which Time Machine makes each hour, holds the block.
COPY_ON_WRITE = frozenset(("apfs", "bcachefs", "btrfs", "zfs"))
IN_MEMORY = frozenset(("tmpfs", "ramfs", "hugetlbfs"))

# What Python has no names for. Asserted against the headers of each system by .ci/cross.
AT_FDCWD = {"darwin": -2, "linux": -100}
RENAME_SWAP = 2  # RENAME_EXCHANGE on Linux
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}  # the number of Linux's call
STATFS_TYPE = (72, 16)  # offset and size of the name of the type in macOS's struct statfs
# Linux's struct statfs begins with a number. These are the types that it identifies.
MAGIC = {
    0x01021997: "9p",
    0x9123683E: "btrfs",
    0xFF534D42: "cifs",
    0x00C36400: "ceph",
    0x00006969: "nfs",
    0xFE534D42: "smb3",
    0x01021994: "tmpfs",
}

# What file systems answer that cannot force a file beyond the cache of the disk, or a folder.
_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.EOPNOTSUPP}


def sync(fd: int) -> None:
    """Force an open file to the disk, to survive a power cut.

    On macOS fsync only hands the file to the disk, which keeps it in its cache: F_FULLFSYNC empties
    that. A file system without it has fsync alone. Any other error is final: a second call would
    succeed without having written anything.
    """
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        else:
            return
    os.fsync(fd)


def sync_names(fd: int) -> None:
    """Force the names in an open folder to the disk, if its file system does that for folders."""
    try:
        sync(fd)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def allocate(fd: int, size: int) -> None:
    """Allocate the first bytes of a file without writing them; an OSError where that cannot be."""
    if sys.platform == "linux":
        os.posix_fallocate(fd, 0, size)
    else:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


def drop_cached(fd: int, start: int, size: int) -> None:
    """Advise the system to write a part of a file now, and not to keep it in memory."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)


def has_access_list(fd: int) -> bool:
    """Return whether more than owner, group and mode say who may use an open file (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError):
            return bool(os.getxattr(fd, "system.posix_acl_access"))
    return False


Direction = Literal["rchar", "wchar"]  # as /proc/self/io names what is read and written


def transferred(direction: Direction) -> int | None:
    """Return how many bytes this process has read, or written; None where nobody counts them."""
    with suppress(OSError), open("/proc/self/io", encoding="ascii") as counts:
        for line in counts:
            name, _, count = line.partition(":")
            if name == direction:
                return int(count)
    return None


def exchange_names(one: str, other: str) -> None:
    """Swap two names of a folder in one step; OSError from the system."""
    import ctypes  # noqa: PLC0415  most programs need neither this nor `_type_by_statfs`

    call = _renaming(ctypes.CDLL(None, use_errno=True))
    names = os.fsencode(one), os.fsencode(other)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    here = AT_FDCWD["darwin" if sys.platform == "darwin" else "linux"]
    if call(here, names[0], here, names[1], RENAME_SWAP):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _renaming(library: Any) -> Callable[..., int] | None:
    """Return the call that swaps names, if this system has one."""
    for name in ("renameatx_np", "renameat2"):  # of macOS; of Linux 3.15 and glibc 2.28
        if call := getattr(library, name, None):
            return call  # type: ignore[no-any-return]
    number = RENAMEAT2.get(os.uname().machine) if sys.platform == "linux" else None
    # An older glibc, and musl, have no name for it.
    return None if number is None else partial(library.syscall, number)


def file_system_type(path: str) -> str:
    """Return the type of the file system that holds `path`; "" if unknown."""
    device = os.stat(path).st_dev  # an error names the path, whatever the system
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            table = mounts.read()
    except OSError:  # macOS, or a container that has no /proc
        return _type_by_statfs(path)
    return find_type(table, path, device)


def _type_by_statfs(path: str) -> str:
    import ctypes  # noqa: PLC0415  see `exchange_names`

    library, found = ctypes.CDLL(None), ctypes.create_string_buffer(4096)
    # On macOS for Intel the plain name is that of a shorter struct.
    call = getattr(library, "statfs$INODE64", None) or library.statfs
    if call(os.fsencode(path), found):
        return ""
    kind = MAGIC.get(int.from_bytes(found.raw[:8], sys.byteorder), "")
    if sys.platform == "darwin":
        begin, size = STATFS_TYPE
        kind = found.raw[begin : begin + size].split(b"\0", 1)[0].decode("ascii", "replace")
    return kind


def find_type(mountinfo: str, path: str, device: int) -> str:
    """Return the type of a path's mount in mountinfo: by device, else by longest mount point.

    Examples
    --------
    >>> line = "36 35 0:42 / /mnt/share rw shared:1 - nfs4 server:/share rw"
    >>> find_type(line, "/mnt/share/seen.bloom", 0)
    'nfs4'
    """
    if kind := _type_of(mountinfo, device):
        return kind
    # Last, as this takes longer than the rest of opening a filter.
    real_path = os.path.realpath(path)
    best_length, best_type = -1, ""
    for _, escaped, kind in _mounts_in(mountinfo.splitlines()):
        # mountinfo writes blanks and backslashes in octal.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped)
        inside = real_path == point or real_path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best_length:
            best_length, best_type = len(point), kind
    return best_type


def _type_of(mountinfo: str, device: int) -> str:
    """Return the type of the first mount of a device; "" if there is none."""
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = (line for line in mountinfo.splitlines() if f" {number} " in line)
    return next((kind for there, _, kind in _mounts_in(lines) if there == number), "")


def _mounts_in(lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the device, mount point and type of each line of mountinfo."""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) >= 5 and right:
            yield fields[2], fields[4], right.split(" ")[0]
