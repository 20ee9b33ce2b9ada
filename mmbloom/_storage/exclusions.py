"""The file of a filter's exclusions: read as a whole, and replaced as a whole or not at all.

Another user's file next to a filter could make it deny keys that it holds. So a file counts only
if it belongs to the filter's owner, to the user of this process or to root. Any other is passed
over: the filter has no exclusions then, as before that file came. A file of the right owner that
others may write is an error: its lines may be theirs, or the owner's.

This file takes no lock. A caller that replaces the list must have held the filter's write lock
since before it read the list, or a change by another process would be lost.
"""

import errno
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from mmbloom._storage.atomic import replace_file, sync_folder
from mmbloom._storage.opening import open_regular
from mmbloom._storage.warnings import warn
from mmbloom.errors import FormatError, MmbloomWarning
from mmbloom.format.exclusions import filter_of, read_keys, write_keys

# A list that people write; each process that queries has it in memory.
MOST_BYTES = 1 << 20


# So soon after a change, another can have the same time, and even the same inode: a file system
# counts time in ticks of up to 10 ms.
_SETTLED_NS = 100_000_000


# The last one: the name of the filter is too long to add the suffix.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
Signature = tuple[int, ...]


class Listed(NamedTuple):
    """The contents of the file when it was read."""

    raw: bytes
    keys: dict[bytes, None]  # a set in the order of the file
    signature: Signature  # () if another change might have the same one
    passed_over: str = ""  # why it does not count, if it does not


NOTHING = Listed(b"", {}, ())


def signature_of(status: os.stat_result) -> Signature:
    """Return what differs after every change of a file."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return *times, status.st_size, status.st_ino, status.st_dev


def read_listed(path: str, known: Listed = NOTHING) -> Listed:
    """Read a file of exclusions; a missing file, or a stranger's, holds none.

    Bytes that are those of `known` are not parsed again.

    Raises
    ------
    FormatError
        If it is no regular file, too large, or a line is no key.
    PermissionError
        If it belongs to the right user, and other users may write it than may write the filter.
    OSError
        If it cannot be read.
    """
    try:
        beside = os.stat(filter_of(path))
        # The link itself is checked: the user that made it chose where it points.
        if passed_over := _of_a_stranger(os.lstat(path), beside, path):
            return Listed(b"", {}, (), passed_over)
        fd = open_regular(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return NOTHING
        raise
    try:
        status = os.fstat(fd)  # before the bytes: a later change is noticed next time
        passed_over = _of_a_stranger(status, beside, path)
        if not passed_over:
            _require_private(status, beside, path)
        raw = b"" if passed_over else _read_whole(fd, path)
    finally:
        os.close(fd)
    changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = abs(time.time_ns() - changed_ns) > _SETTLED_NS
    return Listed(
        raw,
        known.keys if raw == known.raw else dict.fromkeys(read_keys(raw, path)),
        signature_of(status) if settled else (),
        passed_over,
    )


def _of_a_stranger(status: os.stat_result, beside: os.stat_result, path: str) -> str:
    """Return why a file is passed over, "" if it is no stranger's."""
    if status.st_uid in (beside.st_uid, os.geteuid(), 0):
        return ""
    return (
        f"{path}: ignored, so its keys are not excluded: it belongs to user {status.st_uid}, the "
        f"filter to user {beside.st_uid}; remove it, or chown it if you trust its contents"
    )


def _require_private(status: os.stat_result, beside: os.stat_result, path: str) -> None:
    # Users that may write the filter itself can make it deny any key anyway.
    group = stat.S_IWGRP if status.st_gid == beside.st_gid else 0
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) & ~(beside.st_mode & (group | stat.S_IWOTH)):
        reason = (
            f"mode {stat.S_IMODE(status.st_mode):o} lets users write to it who cannot write to the "
            f"filter (mode {stat.S_IMODE(beside.st_mode):o}); check its contents, then chmod go-w"
        )
        raise PermissionError(errno.EPERM, reason, path)


def check_listed(path: str) -> tuple[list[str], list[str]]:
    """Return problems and notes: whether the exclusions can be read, and how many there are."""
    try:
        listed = read_listed(path)
    except (FormatError, OSError) as error:
        return [f"exclusions cannot be read: {error}"], []
    if listed.passed_over:
        return [], [listed.passed_over]
    return [], [f"{len(listed.keys)} keys are excluded: never reported as seen"] * bool(listed.keys)


def counted_listed(path: str) -> Listed:
    """Read the exclusions; raise as `read_listed`, and warn if the file is passed over."""
    listed = read_listed(path)
    if listed.passed_over:
        warn(listed.passed_over, MmbloomWarning)
    return listed


def own_listed(path: str) -> dict[bytes, None]:
    """Read the exclusions to change them; raise as `read_listed`, and if they are a stranger's."""
    listed = read_listed(path)
    if listed.passed_over:
        raise PermissionError(errno.EPERM, listed.passed_over.removeprefix(f"{path}: "), path)
    return listed.keys


def _read_whole(fd: int, path: str) -> bytes:
    raw = bytearray()
    while part := os.read(fd, MOST_BYTES + 1 - len(raw)):
        raw += part
        if len(raw) > MOST_BYTES:
            expected = f"at most {MOST_BYTES}, which is enough for a few exclusions"
            raise FormatError(path, "file size", f"more than {MOST_BYTES} bytes", expected)
    return bytes(raw)


def replace_listed(path: str, keys: Iterable[bytes], like: os.stat_result) -> None:
    """Replace the keys in the file, forced to the disk; without keys, remove it.

    It gets owner and mode of `like`, the status of the filter: the same users can read both.

    Raises
    ------
    ValueError
        If they take more than 1 MiB.
    FormatError
        If the path is a symbolic link: it would be replaced, not followed.
    PermissionError
        If the file would belong to another user than the filter: it would not count for most.
    OSError
        From the system, with the path; the file is then unchanged, unless only the very last step
        failed, forcing the folder to the disk.
    """
    raw = write_keys(keys)
    if len(raw) > MOST_BYTES:
        raise ValueError(
            f"{path}: these exclusions would take {len(raw)} bytes, but at most {MOST_BYTES} are "
            "allowed; instead of so many exclusions, make a filter with a lower error rate"
        )
    if os.path.islink(path):
        expected = "a regular file; change the file that it points to"
        raise FormatError(path, "file", "a symbolic link", expected)
    try:
        if raw:
            # Always the same name: a killed process leaves one file at most, which the next
            # change removes.
            temporary = path + ".tmp"
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            replace_file(path, temporary, raw, like.st_mode & 0o666, like=like)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
        sync_folder(os.path.dirname(path))
    except OSError as error:  # it has to name this path, not the temporary one
        raise OSError(error.errno or errno.EIO, error.strerror, path) from error
