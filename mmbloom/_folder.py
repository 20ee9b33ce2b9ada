"""A folder with a manifest on the disk: made whole or not at all, read, and changed.

- The folder is made under a temporary name beside its path and renamed (law 8): a rename
  fails where something is, but for an empty folder, in whose place it comes.
- The manifest is replaced, as of all other files only that of exceptions is. temp +
  `os.replace` is wrong where two may do so at once (law 8 has the figure); here it is done only
  by who holds the write lock of the newest file that the manifest names, and has looked, under
  it, that it is the newest: so by one at a time, who has read what it replaces.

This file takes no lock.
"""

import errno
import os
import re
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from mmbloom._create import sync_folder
from mmbloom._manifest import MAX_BYTES, Entry, Manifest, Plan, decode, encode
from mmbloom._opening import open_regular
from mmbloom.errors import FileChangedError, FormatError, NetworkFileSystemError

MANIFEST = "manifest.json"
_THERE_ALREADY = "something is there already; open that, or choose another path"

# What `file_name` makes.
_OLDER = re.compile(r"([0-9]{10,20})(?:-[0-9a-f]{8})?\.bloom", re.ASCII)

Stamp = tuple[int, int, int, int]  # which manifest it is: device, inode, time of change, size


class ManifestFile:
    """A manifest that was read or drafted, and which file that is.

    Parameters
    ----------
    fd : int
        The file; it is kept open, so that its inode, and with it the stamp, cannot become that
        of a later manifest.
    path : str
        Where it is.
    place : str
        Where it belongs, if that is elsewhere.

    Attributes
    ----------
    manifest : Manifest
        What it says.
    stamp : tuple of int
        For comparison with `stamp_of`.
    permissions : int
        Mode bits of the file.
    in_place : bool
        Of a draft, whether `install` has put it there, and perhaps failed afterwards.

    Raises
    ------
    FormatError
        If it is no manifest.
    """

    def __init__(self, fd: int, path: str, place: str = "") -> None:
        self._close = weakref.finalize(self, os.close, fd)
        self._path, self._place = path, place
        self.in_place = not place
        try:
            status = os.fstat(fd)
            self.stamp = _stamp(status)
            self.permissions = status.st_mode & 0o777
            self.manifest: Manifest = decode(os.pread(fd, MAX_BYTES + 1, 0), path)
        except BaseException:
            self.close()  # now: whoever keeps the error keeps this object
            raise

    def install(self) -> None:
        """Put a draft in its place, and force that to the disk (see above who may)."""
        try:
            os.replace(self._path, self._place)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._path)
            raise
        self.in_place = True
        sync_folder(os.path.dirname(self._place))

    def close(self) -> None:
        """Let go of the file."""
        self._close()


def read_manifest(folder: str) -> ManifestFile:
    """Read the manifest of a folder.

    Raises
    ------
    FormatError
        If it is no folder of filters.
    OSError
        If it cannot be read.
    """
    path = os.path.join(folder, MANIFEST)
    try:
        return ManifestFile(open_regular(path, os.O_RDONLY), path)
    except NotADirectoryError:
        raise FormatError(folder, "file", "no folder", "a folder of filters") from None
    except FileNotFoundError:
        os.stat(folder)  # whose absence is the truer error
        raise FormatError(folder, MANIFEST, "missing", "the manifest of a folder") from None


def missing(error: FileNotFoundError) -> FormatError:
    """Say of a file that the manifest names, and the system does not find, what that means."""
    return FormatError(str(error.filename), "file", "missing", "there, by the folder's manifest")


def draft_manifest(folder: str, manifest: Manifest, permissions: int) -> ManifestFile:
    """Write a manifest under a temporary name, whole and on the disk, for `install`."""
    temporary = os.path.join(folder, f".manifest-{uuid.uuid4().hex}.tmp")
    place = os.path.join(folder, MANIFEST)
    try:
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, permissions)
        try:
            os.chmod(temporary, permissions)
            raw = encode(manifest)
            if os.write(fd, raw) != len(raw):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        return ManifestFile(fd, temporary, place)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):  # of a name that somebody knows
            raise OSError(error.errno, error.strerror, place) from error
        raise


def first_manifest(folder: str, plan: Plan, members: Sequence[Entry], permissions: int) -> None:
    """Write the manifest of a new folder, which is a filter of its own: with its own uuid."""
    manifest = Manifest(uuid.uuid4().bytes, plan, tuple(members))
    with closing(draft_manifest(folder, manifest, permissions)) as draft:
        draft.install()


def stamp_of(folder: str) -> Stamp:
    """Look which manifest is there now; FileChangedError if there is none any more."""
    try:
        return _stamp(os.stat(os.path.join(folder, MANIFEST)))
    except (FileNotFoundError, NotADirectoryError):
        raise FileChangedError(folder, "removed or renamed") from None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def kind_of(path: str) -> str:
    """Tell which filter a folder is: "growing" or "rotating"; raises as `read_manifest`."""
    file = read_manifest(path)
    file.close()
    return file.manifest.plan.kind


@contextmanager
def new_folder(path: str, permissions: int) -> Iterator[str]:
    """Make a folder that gets its path only when the block, which fills it, has succeeded.

    Parameters
    ----------
    path : str
        Where.
    permissions : int
        Mode bits of the files in it; who may read or write those may enter it.

    Raises
    ------
    FileExistsError
        If something is at the path, an empty folder that appears meanwhile left aside.
    OSError
        As the system says, of the path asked for.
    """
    if os.path.lexists(path):  # before gigabytes are reserved; the rename below decides
        raise FileExistsError(errno.EEXIST, _THERE_ALREADY, path)
    parent = os.path.dirname(path)
    os.stat(parent)  # what is missing is to be named, not what was asked for
    temporary = os.path.join(parent, f".mmbloom-{uuid.uuid4().hex}.tmp")
    try:
        try:
            os.mkdir(temporary, 0o700)
            yield temporary
            os.chmod(temporary, permissions | (permissions & 0o444) >> 2)
            sync_folder(temporary)
        except NetworkFileSystemError as error:
            raise NetworkFileSystemError(path, error.file_system) from None
        except OSError as error:  # of the folder asked for, not of a name that nobody knows
            if isinstance(error.filename, str) and not error.filename.startswith(temporary):
                raise
            raise OSError(error.errno, error.strerror, path) from error
        _rename(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    sync_folder(parent)


def _rename(temporary: str, path: str) -> None:
    try:
        os.rename(temporary, path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise FileExistsError(errno.EEXIST, _THERE_ALREADY, path) from None
        raise OSError(error.errno, error.strerror, path) from error


def _remove(temporary: str) -> None:
    with suppress(OSError):
        for name in os.listdir(temporary):
            os.unlink(os.path.join(temporary, name))
        os.rmdir(temporary)


def remove_older(folder: str, number: int) -> None:
    """Remove the files of earlier numbers, which no manifest names any more.

    Also those that an earlier holder of the lock has not come to remove. What cannot be removed
    now is a matter of the next time.
    """
    with suppress(OSError):
        for name in os.listdir(folder):
            parts = _OLDER.fullmatch(name)
            if parts and int(parts[1]) < number:
                os.unlink(os.path.join(folder, name))
