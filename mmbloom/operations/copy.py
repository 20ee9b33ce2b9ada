"""A consistent copy of a filter that others go on writing to: of a file or of a folder.

No lock is taken. Bits only go from 0 to 1, so the copy has at least every key whose add had
returned when it began; in a folder, such a key is in one of the files that the manifest named
then, and all of these are copied. The copy is complete, checked and on the disk before it gets
its path.
"""

import os

from mmbloom._storage.atomic import OWNER_ONLY, new_folder
from mmbloom._storage.build import Target, new_filter
from mmbloom._storage.exclusion_list import counted_listed, replace_listed
from mmbloom._storage.folder import entry_of, first_manifest, open_named
from mmbloom._storage.kinds import ALL_KINDS, kind_of
from mmbloom._storage.opening import absolute, is_folder
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._typing import Path
from mmbloom.format.exclusion_list import exclusions_path, exclusions_path_in
from mmbloom.format.manifest import MANIFEST


def copy(
    source: Path,
    destination: Path,
    *,
    seal: bool = False,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Copy a filter and its exclusions, even while others write to it.

    Parameters
    ----------
    source : str or path-like
        The filter, a file or a folder. It is read without a lock and never mapped. A sealed one
        is checked on the way.
    destination : str or path-like
        Where to make the copy, of the same class. It appears complete and forced to the disk,
        or not at all. It is a filter of its own, with its own uuid. Of a file, the exclusions
        follow at once.
    seal : bool, default False
        Freeze the copy: it opens for reading only, always, and `verify` can compare it with the
        CRC-32 of each MiB that it keeps.
    permissions : int, default 0o600
        Mode bits of the copy; of a folder, of the files in it.
    allow_network : bool, default False
        Allow a copy on a network file system.

    Raises
    ------
    FormatError
        If the source is no filter; if it is sealed and damaged; if its exclusions are damaged;
        of a folder also if a file is missing.
    FileExistsError
        If the destination exists, or the exclusions of a filter that was there before.
    FileChangedError
        If the source is truncated or overwritten meanwhile.
    NetworkFileSystemError
        If the destination is on a network file system, and `allow_network` is not set.
    OSError
        If there is no space for the copy (ENOSPC), or as the system says.

    Notes
    -----
    The copy has at least every key whose add had returned when `copy` was called. Of a
    `CountingBloomFilter`, keys that are removed meanwhile may be half there in it: hold
    `locked` to prevent that.

    Examples
    --------
    >>> import tempfile, os
    >>> import mmbloom
    >>> live, kept = (os.path.join(tempfile.mkdtemp(), name) for name in ("live", "kept"))
    >>> with mmbloom.GrowingFilter.create(live, initial_capacity=1000) as seen:
    ...     print(seen.add("a"))
    ...     mmbloom.copy(live, kept, seal=True)
    True
    >>> with mmbloom.open(kept) as seen:
    ...     "a" in seen
    True
    """
    path, target = absolute(source), Target(absolute(destination), permissions, allow_network)
    copy_it = _copy_folder if is_folder(path) else _copy_file
    copy_it(path, target, seal=seal)


def _copy_file(path: str, target: Target, *, seal: bool) -> None:
    listed = counted_listed(exclusions_path(path))  # if damaged, nothing is made
    with UnmappedFilter(path, kinds=ALL_KINDS) as original:
        _copy_opened(original, target, seal=seal)
    if listed.keys:
        # Not under the copy's lock, which a sealed one has not: nobody knows of it yet.
        replace_listed(exclusions_path(target.path), listed.keys, os.stat(target.path))


def _copy_opened(original: UnmappedFilter, target: Target, *, seal: bool) -> None:
    # Before the array: what is counted later may be of keys that the copy has not.
    counters, kind = original.counters(), kind_of(original.header)
    with new_filter(target, original.header.params, sealed=seal, kind=kind) as copied:
        for segment in original.segments():
            copied.write(segment)
        original.check_same()
        copied.finish(counters["keys_added"], counters["batches_begun"])


def _copy_folder(path: str, target: Target, *, seal: bool) -> None:
    listed = counted_listed(exclusions_path_in(path))  # if damaged, nothing is made
    with (
        open_named(path) as (file, originals),
        new_folder(target.path, target.permissions) as folder,
    ):
        entries = []
        for entry, original in zip(file.manifest.members, originals, strict=True):
            _copy_opened(original, target.within(folder, entry.name), seal=seal)
            entries.append(entry_of(folder, entry.name, entry.number))
        first_manifest(folder, file.manifest.plan, entries, target.permissions)
        if listed.keys:
            like = os.stat(os.path.join(folder, MANIFEST))
            replace_listed(exclusions_path_in(folder), listed.keys, like)
