"""Making a filter file: complete and reserved, or not there at all (laws 8, 9, 10, 15).

The file is made under a temporary name in its own folder, filled, forced to the disk, and
only then linked to its path. A link fails where something exists: of several processes
that create one path, one wins and the others are told so.
"""

import errno
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, get_args

from mmbloom import _mounts
from mmbloom._excepted_form import excepted_path
from mmbloom._header import HEADER_BYTES, KIND_BITS, Header, encode
from mmbloom._warn import warn
from mmbloom.errors import NetworkFileSystemError, ReservationWarning
from mmbloom.sizing import FilterParams

Reserve = Literal["zeros", "fallocate"]

_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}  # how file systems say so

WRITE_BYTES = 8 << 20  # at a time, at multiples of it: see `_write_zeros`
_THERE_ALREADY = "a file is there already; open that one, or choose another path"
_OTHERS_EXCEPTIONS = "exceptions of a filter that is gone; remove them, or put them by until the \
new one is made"


def require_reserve(reserve: str) -> None:
    """Raise ValueError unless it is a way to reserve the disk."""
    if reserve not in get_args(Reserve):
        raise ValueError(f"reserve is {reserve!r}, expected 'zeros' or 'fallocate'")


def create_file(
    path: str,
    params: FilterParams,
    *,
    permissions: int,
    allow_network: bool,
    reserve: Reserve = "zeros",
    kind: int = KIND_BITS,
) -> None:
    """Create the file of an empty filter.

    Parameters
    ----------
    path : str
        Where; nothing may exist there, not even a dangling symbolic link.
    params : FilterParams
        What the header says; the array follows as zeros.
    permissions : int
        Mode bits of the file, whatever the umask.
    allow_network : bool
        Whether a network file system is acceptable (law 18).
    reserve : {"zeros", "fallocate"}
        Whether to write the array's zeros as well (see `_write_zeros`), or only to reserve them.
    kind : int
        What the positions are, as the header has it.

    Raises
    ------
    FileExistsError
        If the path exists, or exceptions of a filter that was there before (with their path).
    OSError
        If the space cannot be reserved (ENOSPC, with the size asked for), or as the system
        says. No file is left at the path, but by the very last step: when forcing the
        folder to the disk fails, a complete filter is there, which others may have opened.
    NetworkFileSystemError
        If the folder is on a network file system.
    """
    header = Header(params, time.time_ns(), uuid.uuid4().bytes, kind)
    with new_file(
        path, header.file_bytes, permissions=permissions, allow_network=allow_network
    ) as made:
        os.pwrite(made.fd, encode(header), 0)
        os.fsync(made.fd)
        if made.reserved and reserve == "zeros" and made.file_system not in _mounts.IN_MEMORY:
            _write_zeros(made.fd, HEADER_BYTES, header.file_bytes)


class NewFile(NamedTuple):
    """A file that has no path yet."""

    fd: int
    reserved: bool  # as zeros that no write has made
    file_system: str


@contextmanager
def new_file(
    path: str, size: int, *, permissions: int, allow_network: bool, mapped: bool = True
) -> Iterator[NewFile]:
    """Make a file, reserved and private, that gets its path only when the block has succeeded.

    The block writes the file and forces it to the disk. Parameters and errors are those of
    `create_file`; `size` is that of the whole file in bytes, and `mapped` whether it is for
    writing to through a map, where a full disk is a signal.
    """
    folder = os.path.dirname(path)
    file_system = _mounts.file_system_type(folder)
    if file_system in _mounts.NETWORK and not allow_network:
        raise NetworkFileSystemError(path, file_system)
    excepted = excepted_path(path)
    if os.path.lexists(excepted) and not os.path.lexists(path):
        # They would make the new filter deny keys that it holds (law 1).
        raise FileExistsError(errno.EEXIST, _OTHERS_EXCEPTIONS, excepted)
    if os.path.lexists(path):  # before gigabytes are reserved; the link below is what decides
        raise FileExistsError(errno.EEXIST, _THERE_ALREADY, path)
    temporary = os.path.join(folder, f".mmbloom-{uuid.uuid4().hex}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        fd = os.open(temporary, flags, permissions)
    except OSError as error:  # of the file asked for, not of a name that nobody knows
        raise OSError(error.errno, error.strerror, path) from error
    try:
        try:
            os.chmod(temporary, permissions)
            yield NewFile(fd, _reserve(fd, size, path), file_system)
        finally:
            os.close(fd)
        _link(temporary, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    sync_folder(folder)
    if mapped and file_system in _mounts.COPY_ON_WRITE:
        warn(
            f"{path}: {file_system} copies on write and cannot promise the disk space of this "
            "filter; keep free space, a full disk would end the process",
            ReservationWarning,
        )


def _reserve(fd: int, size: int, path: str) -> bool:
    """Reserve the disk; False if that took writing zeros."""
    # On a sparse file a full disk is a signal that kills, not an exception (law 9).
    try:
        try:
            os.posix_fallocate(fd, 0, size)
        except (AttributeError, OSError) as error:
            if getattr(error, "errno", None) not in (None, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            _write_zeros(fd, 0, size)
            return False
    except OSError as error:
        reason = f"cannot reserve {size} bytes: {error.strerror}"
        raise OSError(error.errno, reason, path) from error
    return True


def _write_zeros(fd: int, start: int, stop: int) -> None:
    """Write zeros over a part of the file, in pieces so large that the kernel keeps them whole.

    A page that is only reserved takes 7 us at its first touch, and again after each time that
    the kernel has written it back; one of a large written piece next to nothing (ext4, 10^9
    keys: 2 million random touches 2.1 s against 0.1 s, after a flush 0.7 s against 0.1 s).
    Pieces of 2 MiB are mapped as huge pages as well: adding takes 30 ns a key, on pages of
    4 KiB 45 ns. These zeros need no fsync: the reserved space reads as zeros in any case.
    """
    zeros = memoryview(bytes(WRITE_BYTES))
    while start < stop:
        # To the next multiple: the kernel aligns the pieces that it keeps.
        end = min(stop, start - start % len(zeros) + len(zeros))
        start += os.pwrite(fd, zeros[: end - start], start)


def _link(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, _THERE_ALREADY, path) from None
    except OSError as error:
        reason = f"cannot link the new file into place ({error.strerror})"
        if error.errno in _NO_HARD_LINKS:
            reason += "; choose a file system with hard links"
        raise OSError(error.errno, reason, path) from error


def sync_folder(folder: str) -> None:
    """Force the names of a folder's files to the disk."""
    if os.name == "nt":
        return  # folders cannot be opened there
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without folder sync
            raise
    finally:
        os.close(fd)
