"""New files and folders, complete and reserved or not there at all; replacement of small files.

A file is made under a temporary name in its own folder, filled, forced to the disk, and only
then linked to its path. A link fails if something is there: if several processes create one path,
one succeeds and the others get an error. A folder is made under a temporary name next to its path
and renamed. A rename fails if something is there, unless it is an empty folder, which the new one
replaces. A folder that replaces a file swaps names with it in one system call: something is at the
path at any moment.

If strangers may write to the folder, they can replace any name, by a link for example. So a new
file is changed by its descriptor, never by its name, and in the end what is at the path is compared
with that descriptor.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple, get_args

from mmbloom._storage.warnings import warn
from mmbloom._system import disk
from mmbloom._system.descriptors import open_file
from mmbloom._system.typing import Reserve
from mmbloom.errors import NetworkFileSystemError, ReservationWarning
from mmbloom.format.exclusions import exclusions_path


class _ModeBits(int):
    """Mode bits of a file, which help() shows in octal."""

    def __repr__(self) -> str:
        return f"0o{self:o}"


OWNER_ONLY: int = _ModeBits(0o600)  # another user must not test keys against it

# Errors of file systems that have none.
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
WRITE_BYTES = 8 << 20  # at a time, at multiples of it: see `write_zeros`
_THERE_ALREADY = "a file is there already; open it, or choose another path"
_FOLDER_THERE = "a folder is there already; name a file inside it, or choose another path"

_PUT_IN_PLACE = "something else took the place of what was just made: others can write to this \
folder; choose one that only you can write to"

_OTHERS_EXCLUSIONS = "these are exclusions of a filter that is gone; remove them, or move them \
away until the new filter is made"


def require_reserve(reserve: str) -> None:
    """Raise ValueError unless it is a way to reserve disk space."""
    if reserve not in get_args(Reserve):
        raise ValueError(f"reserve is {reserve!r}, expected 'zeros' or 'fallocate'")


def _require_permissions(permissions: int) -> None:
    """Raise TypeError or ValueError unless they are mode bits with which the owner may read.

    640 without the 0o is 0o1200, with which the owner could not read the file.
    """
    if not isinstance(permissions, int):
        raise TypeError(f"permissions are {permissions!r}, expected an int such as 0o640")
    if not (0 <= permissions <= 0o7777 and permissions & 0o400):
        raise ValueError(
            f"permissions are {int(permissions)}, which is {int(permissions):#o}: expected a mode "
            "with which the owner can read the file, such as 0o640 (note the leading 0o)"
        )


class Target(NamedTuple):
    """The path of a new file and the options of every call that makes one.

    `instead_of` is the status of the file at the path, if it is to be replaced.
    """

    path: str
    permissions: int
    allow_network: bool
    instead_of: os.stat_result | None = None

    def within(self, folder: str, name: str) -> "Target":
        """Return the target of a file in a folder, with the same options."""
        return self._replace(path=os.path.join(folder, name), instead_of=None)


class NewFile(NamedTuple):
    """A file that has no path yet."""

    fd: int
    reserved: bool  # without writing zeros
    file_system: str


@contextmanager
def new_file(target: Target, size: int, *, mapped: bool = True) -> Iterator[NewFile]:
    """Make a file, reserved and private, that gets its path only if the block succeeds.

    The block writes the file and forces it to the disk. Errors are those of `create_file`. `size`
    is the size of the whole file in bytes; `mapped` is whether it will be written through a map,
    where a full disk is a signal.
    """
    path, permissions, allow_network, instead_of = target
    _require_permissions(permissions)
    folder = os.path.dirname(path)
    file_system = disk.file_system_type(folder)
    if file_system in disk.NETWORK and not allow_network:
        raise NetworkFileSystemError(path, file_system)
    exclusions = exclusions_path(path)
    if os.path.lexists(exclusions) and not os.path.lexists(path):
        # With them the new filter would deny keys that it holds: false negatives.
        raise FileExistsError(errno.EEXIST, _OTHERS_EXCLUSIONS, exclusions)
    # Checked before gigabytes are reserved; the link below decides.
    if instead_of is None and os.path.lexists(path):
        said = _FOLDER_THERE if os.path.isdir(path) else _THERE_ALREADY
        raise FileExistsError(errno.EEXIST, said, path)
    temporary = os.path.join(folder, f".mmbloom-{os.urandom(16).hex()}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        fd = open_file(temporary, flags, 0o600)
    except OSError as error:  # it has to name the path asked for, not the temporary one
        raise OSError(error.errno, error.strerror, path) from error
    try:
        with ExitStack() as stack:
            try:
                # A second descriptor identifies the file, as the first one is closed before the
                # link: closing can report an error.
                stack.callback(close_quietly, os.dup(fd))
                os.fchmod(fd, permissions)
                yield NewFile(fd, _reserve(fd, size, path), file_system)
                made = os.fstat(fd)
            finally:
                os.close(fd)
            if instead_of is None:
                _link(temporary, path)
            else:
                require_same(instead_of, path)
                os.replace(temporary, path)
            require_same(made, path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    sync_folder(folder)
    if mapped and file_system in disk.COPY_ON_WRITE:
        warn(
            f"{path}: {file_system} copies on write and cannot guarantee disk space for this "
            "filter; keep space free, because a full disk would end the process",
            ReservationWarning,
        )


def close_quietly(fd: int) -> None:
    """Close a file that is on the disk already, so that errors do not matter."""
    with suppress(OSError):
        os.close(fd)


def require_same(made: os.stat_result, path: str) -> None:
    """Raise OSError unless a path, which is no link, is the file that was made and is open."""
    if not os.path.samestat(made, os.lstat(path)):
        raise OSError(errno.ESTALE, _PUT_IN_PLACE, path)


def _reserve(fd: int, size: int, path: str) -> bool:
    """Reserve disk space; return False if zeros had to be written for it."""
    # On a full disk, a write to a hole through a map is a signal that kills, not an exception.
    try:
        try:
            disk.allocate(fd, size)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            write_zeros(fd, 0, size)
            return False
    except OSError as error:
        reason = f"cannot reserve {size} bytes: {error.strerror}"
        raise OSError(error.errno, reason, path) from error
    return True


def write_zeros(fd: int, start: int, stop: int) -> None:
    """Write zeros over a part of the file, in writes so large that the kernel keeps each together.

    A page that is only reserved costs 7 us at its first touch, and again whenever the kernel has
    written it back; a page of a large write costs almost nothing (ext4, 10^9 keys: 2 million
    random touches 2.1 s against 0.1 s, after a flush 0.7 s against 0.1 s). Runs of 2 MiB are also
    mapped as huge pages: adding takes 30 ns a key, and 45 ns on pages of 4 KiB. These zeros need
    no fsync: the reserved space reads as zeros in any case.
    """
    zeros = memoryview(bytes(min(WRITE_BYTES, max(0, stop - start))))
    while start < stop:
        # To the next multiple: the kernel aligns the runs that it keeps together.
        end = min(stop, start - start % WRITE_BYTES + WRITE_BYTES)
        start = write_at(fd, zeros[: end - start], start)


def write_at(fd: int, octets: bytes | memoryview, start: int) -> int:
    """Write all bytes at an offset of the file; return the offset after them.

    A write may be short, at a size limit or on a disk that is almost full: then the next one
    writes the rest, or raises the error.
    """
    rest = memoryview(octets)
    while rest:
        written = os.pwrite(fd, rest, start)
        if not written:
            raise OSError(errno.EIO, f"none of {len(rest)} bytes was written")
        start, rest = start + written, rest[written:]
    return start


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
    fd = open_file(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.sync_names(fd)
    finally:
        os.close(fd)


def replace_file(
    path: str, temporary: str, raw: bytes, permissions: int, *, like: os.stat_result | None = None
) -> None:
    """Replace the bytes of a file: readers find either all the old ones or all the new ones.

    If two processes do this at once, one loses what it wrote. So the caller must hold a lock, under
    which it has read what it replaces. The parameters are those of `draft_file`. The caller then
    forces the folder to the disk with `sync_folder`.
    """
    with gone_on_error(temporary), ExitStack() as stack:
        fd = draft_file(temporary, raw, permissions, like=like)
        stack.callback(close_quietly, fd)
        os.replace(temporary, path)
        require_same(os.fstat(fd), path)


@contextmanager
def gone_on_error(temporary: str) -> Iterator[None]:
    """Remove a temporary file if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def draft_file(
    temporary: str,
    raw: bytes,
    permissions: int,
    *,
    like: os.stat_result | None = None,
    folder: int | None = None,
) -> int:
    """Write a new file, whole and forced to the disk; return its descriptor.

    Call it within `gone_on_error` for that name. The file gets the owner of `like`, which only root
    can do for another user: else a PermissionError. With the descriptor of a folder, the name is
    one in it.
    """
    fd = open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        if like is not None:
            permissions = _give(fd, like, permissions)
        os.fchmod(fd, permissions)
        rest = memoryview(raw)
        while rest:
            rest = rest[os.write(fd, rest) :]
        disk.sync(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _give(fd: int, like: os.stat_result, permissions: int) -> int:
    """Set owner and group as those of `like`; return the permissions that the file may have."""
    for owner, group in ((like.st_uid, -1), (-1, like.st_gid)):
        with suppress(PermissionError):
            os.fchown(fd, owner, group)
    status = os.fstat(fd)
    if status.st_uid != like.st_uid:
        reason = f"it belongs to user {like.st_uid}: only that user or root can change it"
        raise PermissionError(errno.EPERM, reason)
    # Members of another group may not write it.
    return permissions if status.st_gid == like.st_gid else permissions & ~stat.S_IWGRP


_SOMETHING_THERE = "something is there already; open it, or choose another path"


@contextmanager
def new_folder(
    path: str,
    permissions: int,
    *,
    instead_of: os.stat_result | None = None,
    like: os.stat_result | None = None,
) -> Iterator[str]:
    """Make a folder that gets its path only if the block, which fills it, succeeds.

    The permissions are those of the files in it: users that may read or write these may enter the
    folder. It replaces `instead_of`, what is at the path now, in one step, and that is removed: if
    it must stay, the block links it to another name. Owner and group are those of `like`, else a
    PermissionError. Without `instead_of`, anything at the path is a FileExistsError, except an
    empty folder that appears at the last moment.
    """
    _require_permissions(permissions)
    if instead_of is None and os.path.lexists(path):
        # Checked before gigabytes are reserved; the rename below decides.
        raise FileExistsError(errno.EEXIST, _SOMETHING_THERE, path)
    parent = os.path.dirname(path)
    os.stat(parent)  # if it is missing, the error names it
    temporary = os.path.join(parent, f".mmbloom-{os.urandom(16).hex()}.tmp")
    fd = -1
    try:
        try:
            os.mkdir(temporary, 0o700)
            fd = _open_empty(temporary)
            if like is not None:
                _give_all(fd, like, permissions)
            yield temporary
            os.fchmod(fd, permissions | (permissions & 0o444) >> 2)
            sync_folder(temporary)
        except NetworkFileSystemError as error:
            raise NetworkFileSystemError(path, error.file_system) from None
        except OSError as error:  # it has to name the path asked for, not the temporary one
            if isinstance(error.filename, str) and not error.filename.startswith(temporary):
                raise
            raise OSError(error.errno, error.strerror, path) from error
        if instead_of is None:
            _rename(temporary, path)
        else:
            _exchange(temporary, path, instead_of)
    except BaseException:
        _remove(temporary, fd, path)
        raise
    else:
        try:
            require_same(os.fstat(fd), path)
            sync_folder(parent)
        finally:
            if instead_of is not None:
                _remove(temporary, fd, path)  # last, when the file has its other name on the disk
    finally:
        close_quietly(fd)


_THE_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def _open_empty(folder: str) -> int:
    fd = open_file(folder, _THE_FOLDER_ITSELF)
    if os.listdir(fd):  # it is not the one that was made: its files must not be removed
        os.close(fd)
        raise OSError(errno.ESTALE, _PUT_IN_PLACE)
    return fd


def _give_all(fd: int, like: os.stat_result, permissions: int) -> None:
    """Set owner and group of a folder, so that the same users can use what is in it."""
    _give(fd, like, permissions)
    if os.fstat(fd).st_gid != like.st_gid and permissions & stat.S_IRWXG:
        reason = f"it belongs to group {like.st_gid}: only its members or root can change it"
        raise PermissionError(errno.EPERM, reason)


def _rename(temporary: str, path: str) -> None:
    try:
        os.rename(temporary, path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, _SOMETHING_THERE, path) from None
        raise OSError(error.errno, error.strerror, path) from error


_NO_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


def _exchange(temporary: str, path: str, there: os.stat_result) -> None:
    """Swap a folder with what is at the path; undo it if that is not `there`."""
    try:
        disk.exchange_names(temporary, path)
    except OSError as error:
        reason = error.strerror
        if error.errno in _NO_EXCHANGE:
            what = "system" if error.errno == errno.ENOSYS else "file system"
            reason = (
                f"this {what} cannot replace what is there with a folder in one step; use another "
                f"{what} ({reason})"
            )
        raise OSError(error.errno, reason, path) from error
    if not os.path.samestat(os.lstat(temporary), there):
        disk.exchange_names(temporary, path)
        raise OSError(errno.ESTALE, _PUT_IN_PLACE, path)


def _remove(temporary: str, fd: int, path: str) -> None:
    """Remove what has the temporary name: the new folder, or what it has replaced."""
    with suppress(OSError):
        if fd < 0:
            os.rmdir(temporary)
            return
        # Both names are checked, as a signal may raise an exception at any time: a folder that has
        # its path is in use.
        made, there = os.fstat(fd), os.lstat(temporary)
        if not (os.path.samestat(made, there) or os.path.samestat(made, os.lstat(path))):
            return
        if not stat.S_ISDIR(there.st_mode):
            os.unlink(temporary)
            return
        folder = open_file(temporary, _THE_FOLDER_ITSELF)
        try:
            for name in os.listdir(folder):
                os.unlink(name, dir_fd=folder)
        finally:
            close_quietly(folder)
        os.rmdir(temporary)
