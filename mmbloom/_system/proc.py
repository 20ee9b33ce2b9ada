"""What Linux's /proc says of a file: which file system it is on, and which process has its lock.

Two things depend on the file system: hosts cannot share a mapping over a network, and a
copy-on-write file system cannot promise that reserved space will be there. Where the kernel does
not say (not Linux), the answer is "" and nothing is refused.

The holder of a lock is for messages only: by the time a message is read, another process may have
the lock. A process of another container is unknown.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre"),
        *("ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "virtiofs"),
        *("fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"),
        "fuse.sshfs",
    )
)

COPY_ON_WRITE = frozenset(("btrfs", "zfs", "bcachefs"))
IN_MEMORY = frozenset(("tmpfs", "ramfs", "hugetlbfs"))


def file_system_type(path: str) -> str:
    """Return the type of the file system that holds `path`; "" if unknown."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            table = mounts.read()
    except OSError:
        return ""
    return find_type(table, path, os.stat(path).st_dev)


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


_LONGEST = 80  # characters of a command line that are shown


def holders(path: str) -> list[int]:
    """Return the pids of the processes that flock a file, or a file of a folder, each once.

    The kernel hands out its table in pages: if other locks change meanwhile, a lock may be listed
    twice or not at all.

    Examples
    --------
    >>> import tempfile
    >>> holders(tempfile.mkdtemp())
    []
    """
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            table = [line.split() for line in locks]
        files = {_name_of(path), *(_name_of(entry.path) for entry in _entries(path))}
    except OSError:
        return []
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5309245 0 EOF. One that waits has -> before FLOCK.
    found = (
        int(row[4])
        for row in table
        if len(row) > 5 and row[1] == "FLOCK" and row[5] in files and int(row[4]) > 0
    )
    return list(dict.fromkeys(found))


def _entries(path: str) -> list[os.DirEntry[str]]:
    if not os.path.isdir(path):
        return []
    with os.scandir(path) as entries:
        return [entry for entry in entries if entry.is_file(follow_symlinks=False)]


def _name_of(path: str) -> str:
    """Return the name of a file in the table."""
    status = os.stat(path)
    device = status.st_dev
    return f"{os.major(device):02x}:{os.minor(device):02x}:{status.st_ino}"


def holder(path: str) -> str:
    """Return the process that has the lock of a filter, with its command line; "" if unknown."""
    for pid in holders(path):
        with suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
            command = os.fsdecode(words)
            shown = command if len(command) <= _LONGEST else f"{command[:_LONGEST]} ..."
            return f"process {pid} ({shown})" if shown else f"process {pid}"
    return ""
