"""Which process has the lock of a file, from Linux's /proc/locks.

For messages only: by the time a message is read, another process may have the lock. Where the
kernel does not say (not Linux, or a process of another container), the holder is unknown.
"""

import os
from contextlib import suppress

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
