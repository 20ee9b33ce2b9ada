"""Which process has the lock of a file, from Linux's /proc/locks.

For messages only: by the time that it is read the lock may be another's. Where the kernel does
not say (not Linux; a process of another container), the answer is that it is not known.
"""

import os
from contextlib import suppress

_LONGEST = 80  # characters of a command line that are shown


def holders(path: str) -> list[int]:
    """List the processes that have a lock of flock on a file, or on a file of a folder, each once.

    The kernel gives its table by pages: a lock may be there twice, or not at all, if others
    change while it is read.

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
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5309245 0 EOF; of one that waits, -> before FLOCK.
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
    """Name a file as the table does."""
    status = os.stat(path)
    device = status.st_dev
    return f"{os.major(device):02x}:{os.minor(device):02x}:{status.st_ino}"


def holder(path: str) -> str:
    """Name the process that has the lock of a filter, with its command line; "" if unknown."""
    for pid in holders(path):
        with suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(4096).rstrip(b"\0").replace(b"\0", b" ")
            command = os.fsdecode(words)
            shown = command if len(command) <= _LONGEST else f"{command[:_LONGEST]} ..."
            return f"process {pid} ({shown})" if shown else f"process {pid}"
    return ""
