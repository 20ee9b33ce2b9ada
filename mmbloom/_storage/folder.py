"""A folder with a manifest on the disk: read, drafted and installed; its files named and proved.

Of the files of a folder, only the manifest and that of the exclusions are ever replaced. If two
processes replaced one at once, one of them would lose what it wrote. So only the process that
holds the write lock of the newest file replaces the manifest, after it has checked, under that
lock, whether the file is still the newest: one process at a time, which has read what it replaces.

This file takes no lock.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from mmbloom._storage.atomic import (
    Target,
    draft_file,
    gone_on_error,
    new_folder,
    require_same,
    sync_folder,
)
from mmbloom._storage.build import create_file
from mmbloom._storage.opening import open_regular, read_header
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._storage.working_copy import discard
from mmbloom._system.descriptors import OpenFile, open_file
from mmbloom.errors import FileChangedError, FormatError, NoFilterError
from mmbloom.format.folder import MANIFEST, MAX_BYTES, Entry, FolderPlan, Manifest, decode, encode
from mmbloom.format.header import Header
from mmbloom.sizing.params import spelled

# What `file_name` makes.
_OLDER = re.compile(r"([0-9]{10,20})(?:-[0-9a-f]{8})?\.bloom", re.ASCII)
Stamp = tuple[int, int, int, int]  # which manifest it is: device, inode, time of change, size


class ManifestFile:
    """A manifest that was read or drafted, and which file that is.

    The file is kept open, so that its inode, and with it the stamp, cannot become that of a later
    manifest. A draft has a `place` where it belongs.

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
    """

    def __init__(self, fd: int, path: str, place: str = "") -> None:
        self._file = OpenFile(fd)
        self._path, self._place = path, place
        self.in_place = not place
        try:
            self._status = status = os.fstat(fd)
            self.stamp = _stamp(status)
            self.permissions = status.st_mode & 0o777
            self.manifest: Manifest = decode(os.pread(fd, MAX_BYTES + 1, 0), path)
        except BaseException:
            self.close()  # now: a kept error would keep this object alive
            raise

    def install(self) -> None:
        """Put a draft in its place, and force that to the disk; the caller holds the lock."""
        with gone_on_error(self._path):
            os.replace(self._path, self._place)
        self.in_place = True
        require_same(self._status, self._place)
        sync_folder(os.path.dirname(self._place))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_manifest(folder: str) -> ManifestFile:
    """Read the manifest of a folder; `FormatError` if it is no folder of filters."""
    path = os.path.join(folder, MANIFEST)
    try:
        return ManifestFile(open_regular(path, os.O_RDONLY), path)
    except NotADirectoryError:
        expected = "a folder of filters; open a file with mmbloom.open"
        raise FormatError(folder, "file", "not a folder", expected) from None
    except FileNotFoundError:
        os.stat(folder)  # whose absence is the truer error
        raise NoFilterError(folder, MANIFEST, "missing", "the manifest of a folder") from None


def manifest_of(folder: str) -> Manifest:
    """Read what a manifest says now; raises as `read_manifest`."""
    with closing(read_manifest(folder)) as file:
        return file.manifest


def missing(error: FileNotFoundError) -> FormatError:
    """Return the error for a file that the manifest names and the system does not find."""
    return FormatError(str(error.filename), "file", "missing", "to be there, as the manifest says")


def draft_manifest(
    folder: str, manifest: Manifest, permissions: int, *, like: os.stat_result | None = None
) -> ManifestFile:
    """Write a manifest under a temporary name, whole and on the disk, for `install`."""
    temporary = os.path.join(folder, f".manifest-{os.urandom(16).hex()}.tmp")
    place = os.path.join(folder, MANIFEST)
    try:
        with gone_on_error(temporary):
            fd = draft_file(temporary, encode(manifest), permissions, like=like)
            return ManifestFile(fd, temporary, place)
    except OSError as error:  # of the path asked for, not of the temporary one
        raise OSError(error.errno, error.strerror, place) from error


@contextmanager
def new_filter_folder(
    target: Target, plan: FolderPlan, *, like: os.stat_result | None = None
) -> Iterator[Callable[[int, str], Target]]:
    """Make a folder of the files that the block makes, if the block succeeds.

    Yields a function that returns where to make the file of a number, with this name. The manifest,
    which is written last, names the files in the order of these calls. `like` is as in
    `new_folder`.
    """
    names: dict[int, str] = {}
    path, permissions = target.path, target.permissions
    with new_folder(path, permissions, instead_of=target.instead_of, like=like) as folder:

        def place(number: int, name: str) -> Target:
            names[number] = name
            return target.within(folder, name)

        yield place
        members = tuple(entry_of(folder, name, number) for number, name in names.items())
        manifest = Manifest(os.urandom(16), plan, members)  # a filter of its own
        with closing(draft_manifest(folder, manifest, permissions, like=like)) as draft:
            draft.install()


def stamp_of(folder: str) -> Stamp:
    """Return which manifest is there now; `FileChangedError` if it is gone."""
    try:
        return _stamp(os.stat(os.path.join(folder, MANIFEST)))
    except (FileNotFoundError, NotADirectoryError):
        raise FileChangedError(folder, "removed or renamed") from None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def folder_kind(path: str) -> str:
    """Return which filter a folder is, "growing" or "rotating"; raises as `read_manifest`."""
    return manifest_of(path).plan.kind


def is_named(path: str) -> bool:
    """Return whether the manifest in a file's folder names that file."""
    try:
        members = manifest_of(os.path.dirname(path)).members
    except (FormatError, FileNotFoundError, PermissionError):
        return False  # something else of that name; a damaged one is told of when it is opened
    return os.path.basename(path) in {entry.name for entry in members}


def remove_older(folder: str, number: int) -> None:
    """Remove the files of earlier numbers, which no manifest names any more.

    Also those that an earlier holder of the lock did not get to. What cannot be removed now is
    removed the next time.
    """
    with suppress(OSError):
        for name in os.listdir(folder):
            parts = _OLDER.fullmatch(name)
            if parts and int(parts[1]) < number:
                _remove(os.path.join(folder, name))


def _remove(path: str) -> None:
    """Remove a file, and what of it a process that was killed has left in shared memory."""
    fd = open_file(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.unlink(path)
        discard(fd)
    finally:
        os.close(fd)


def file_name(number: int, suffix: str = "") -> str:
    """Return the name of the file of a number; with a suffix if that name is in use."""
    return f"{number:010d}{'-' if suffix else ''}{suffix}.bloom"


def make_member(
    target: Target, plan: FolderPlan, number: int, *, key_rule: str | None = None
) -> None:
    """Make a file for a folder, which no manifest names yet; raises as `create_file`."""
    create_file(target, plan.params(number), reserve=plan.reserve, key_rule=key_rule)


def entry_of(folder: str, name: str, number: int) -> Entry:
    """Read which filter a file has, as a manifest is to name it."""
    path = os.path.join(folder, name)
    fd = open_regular(path, os.O_RDONLY)
    try:
        header, _ = read_header(fd, path)
    finally:
        os.close(fd)
    return Entry(number, name, header.uuid)


def require_named(header: Header, path: str, entry: Entry, plan: FolderPlan) -> None:
    """Raise `FormatError` if a file is not the one that the manifest names, or not as planned."""
    capacity, error_rate = plan.sizes(entry.number)
    # Bits and hashes follow from these, and another version may plan them otherwise.
    for field, found, expected in (
        ("uuid", header.uuid.hex(), entry.uuid.hex()),
        ("planned capacity", header.params.capacity, capacity),
        ("planned error rate", header.params.error_rate, error_rate),
        ("layout", header.params.layout, plan.layout),
        ("hash", header.params.hash, plan.hash),
        ("seed", spelled(header.params, "seed"), spelled(plan, "seed")),
    ):
        if found != expected:
            raise FormatError(path, field, str(found), f"{expected}, as the folder's manifest says")


@contextmanager
def open_named(folder: str) -> Iterator[tuple[ManifestFile, list[UnmappedFilter]]]:
    """Open the files that a manifest names, oldest first, and prove that they are the ones."""
    while True:
        with ExitStack() as stack:
            file = stack.enter_context(closing(read_manifest(folder)))
            try:
                files = [
                    stack.enter_context(UnmappedFilter(os.path.join(folder, entry.name)))
                    for entry in file.manifest.members
                ]
            except FileNotFoundError as error:
                if stamp_of(folder) == file.stamp:
                    raise missing(error) from None
                continue  # it was dropped since the manifest was read
            for entry, each in zip(file.manifest.members, files, strict=True):
                require_named(each.header, each.path, entry, file.manifest.plan)
            yield file, files
            return
