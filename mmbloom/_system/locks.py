"""Locks, as the system keeps them: of bytes of an open file, and which process holds a flock.

Locks of bytes belong to an open file (``F_OFD_SETLK``), not to a process. They guard an array that
was moved to shared memory, which is done on Linux alone.

The holder of a flock is for messages only: by the time a message is read, another process may have
the lock. A process of another container is unknown, and so is any where there is no /proc.
"""

import errno
import fcntl
import os
import shlex
import struct
import sys
from contextlib import suppress

LOCK = struct.Struct("hhqqi4x")  # struct flock of Linux on 64-bit machines


def lock_bytes(fd: int, start: int, number: int) -> bool:
    """Lock bytes of an open file for writing, if no other open file has a lock on any of them."""
    return _set(fd, fcntl.F_WRLCK, start, number)


def unlock_bytes(fd: int, start: int, number: int) -> None:
    """Release what an open file has locked of these bytes."""
    _set(fd, fcntl.F_UNLCK, start, number)


def _set(fd: int, kind: int, start: int, number: int) -> bool:
    if sys.platform == "linux":
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, LOCK.pack(kind, os.SEEK_SET, start, number, 0))
        except (BlockingIOError, PermissionError):  # either means that another has it
            return False
        return True
    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))


def are_locked(fd: int, start: int, number: int) -> bool:
    """Return whether another open file has a write lock on any of these bytes."""
    found = fcntl.F_UNLCK
    if sys.platform == "linux":
        asked = LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, start, number, 0)
        found = int(LOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0])
    return found != fcntl.F_UNLCK


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
    """Return the process that has the lock of a filter, with its command line; "" if unknown.

    On macOS, where a program cannot ask, it is one of those that a command shows.
    """
    for pid in holders(path):
        with suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
            command = os.fsdecode(words)
            shown = command if len(command) <= _LONGEST else f"{command[:_LONGEST]} ..."
            return f"process {pid} ({shown})" if shown else f"process {pid}"
    if sys.platform == "darwin":
        folder = "+d " if os.path.isdir(path) else ""
        return f"one of the processes that `lsof {folder}{shlex.quote(path)}` shows"
    return ""
