"""A consistent copy of a folder of filters that others go on writing to.

No lock is taken: the copy has at least every key whose add had returned when it began. That
key is in one of the files that the manifest named then, and these are copied.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mmbloom._build import Target
from mmbloom._excepted_file import read_listed, replace_listed
from mmbloom._excepted_form import excepted_path_in
from mmbloom._folder import (
    MANIFEST,
    ManifestFile,
    first_manifest,
    missing,
    new_folder,
    read_manifest,
    stamp_of,
)
from mmbloom._member import entry_of, require_named
from mmbloom._opening import Path, absolute
from mmbloom._unmapped import UnmappedFilter
from mmbloom.snapshot import copy_opened


def copy_folder(
    source: Path,
    destination: Path,
    *,
    seal: bool = False,
    permissions: int = 0o600,
    allow_network: bool = False,
) -> None:
    """Copy a growing or rotating filter, and its exceptions, whoever writes to it meanwhile.

    Parameters
    ----------
    source : str or path-like
        The folder; read without a lock and never mapped.
    destination : str or path-like
        Where the copy is made. It appears complete and forced to the disk, or not at all; it
        is a filter of its own.
    seal : bool, default False
        Freeze every file of the copy, as `copy` does: it opens for reading only, always.
    permissions : int, default 0o600
        Mode bits of the files.
    allow_network : bool, default False
        Allow a copy on a network file system.

    Raises
    ------
    FormatError
        If the source is no folder of filters, or a file of it, that of the exceptions too, is
        missing or damaged.
    FileExistsError
        If the destination exists.
    FileChangedError
        If a file is truncated or overwritten meanwhile.
    OSError
        If there is no space for the copy (ENOSPC), or as the system says.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import GrowingFilter, copy_folder
    >>> live, kept = (os.path.join(tempfile.mkdtemp(), name) for name in ("live", "kept"))
    >>> with GrowingFilter.create(live, initial_capacity=1000) as seen:
    ...     seen.add("a")
    ...     copy_folder(live, kept, seal=True)
    True
    >>> with GrowingFilter.open(kept) as seen:
    ...     "a" in seen
    True
    """
    listed = read_listed(excepted_path_in(absolute(source)))  # if damaged, nothing is made
    with (
        open_named(absolute(source)) as (file, originals),
        new_folder(absolute(destination), permissions) as folder,
    ):
        entries = []
        for entry, original in zip(file.manifest.members, originals, strict=True):
            target = Target(os.path.join(folder, entry.name), permissions, allow_network)
            copy_opened(original, target, seal=seal)
            entries.append(entry_of(folder, entry.name, entry.number))
        first_manifest(folder, file.manifest.plan, entries, permissions)
        if listed.keys:
            like = os.stat(os.path.join(folder, MANIFEST))
            replace_listed(excepted_path_in(folder), listed.keys, like)


@contextmanager
def open_named(folder: str) -> Iterator[tuple[ManifestFile, list[UnmappedFilter]]]:
    """Open the files that a manifest names, oldest first, and prove that they are the ones."""
    with ExitStack() as stack:
        file, files = _open_all(folder, stack)
        for entry, each in zip(file.manifest.members, files, strict=True):
            require_named(each.header, each.path, entry, file.manifest.plan)
        yield file, files


def _open_all(folder: str, stack: ExitStack) -> tuple[ManifestFile, list[UnmappedFilter]]:
    while True:
        with ExitStack() as opening:
            file = read_manifest(folder)
            opening.callback(file.close)
            try:
                files = [
                    opening.enter_context(UnmappedFilter(os.path.join(folder, entry.name)))
                    for entry in file.manifest.members
                ]
            except FileNotFoundError as error:
                if stamp_of(folder) == file.stamp:  # else it was dropped since that was read
                    raise missing(error) from None
            else:
                stack.push(opening.pop_all())
                return file, files
