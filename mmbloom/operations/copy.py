"""A consistent copy of a filter, a file or a folder, that others go on writing to.

No lock is taken: the copy has at least every key whose add had returned when it began. It is
on the disk, complete and checked, before it gets its path. In a folder, such a key is in one
of the files that the manifest named then, and all of these are copied.
"""

import os

from mmbloom._storage.atomic import new_folder
from mmbloom._storage.build import Target, new_filter
from mmbloom._storage.exclusion_list import read_listed, replace_listed
from mmbloom._storage.folder import MANIFEST, entry_of, first_manifest, open_named
from mmbloom._storage.kinds import ALL_KINDS, kind_of
from mmbloom._storage.opening import absolute
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._typing import Path
from mmbloom.format.exclusion_list import exclusions_path, exclusions_path_in


def copy(
    source: Path,
    destination: Path,
    *,
    seal: bool = False,
    permissions: int = 0o600,
    allow_network: bool = False,
) -> None:
    """Copy a filter, and its exclusions, whoever writes to it meanwhile.

    Parameters
    ----------
    source : str or path-like
        The filter; read without a lock and never mapped. A sealed one is checked on the way.
    destination : str or path-like
        Where the copy is made. It appears complete and forced to the disk, or not at all; it
        is a filter of its own, with its own uuid; the exclusions follow it at once. Of a
        `CountingBloomFilter` it is one, too: keys that are removed meanwhile may be half there
        in it, unless the source is `locked`.
    seal : bool, default False
        Freeze the copy: a CRC-32 of each MiB is kept with it, for `verify` to check, and it
        opens for reading only, always.
    permissions : int, default 0o600
        Mode bits of the copy.
    allow_network : bool, default False
        Allow a copy on a network file system.

    Raises
    ------
    FormatError
        If the source is no filter, or a sealed one that is damaged; or its exclusions are.
    FileExistsError
        If the destination exists, or the exclusions of a filter that was there before.
    FileChangedError
        If the source is truncated or overwritten meanwhile.
    OSError
        If there is no space for the copy (ENOSPC), or as the system says.

    Examples
    --------
    >>> import tempfile, os
    >>> from mmbloom import BloomFilter, copy
    >>> folder = tempfile.mkdtemp()
    >>> live, kept = os.path.join(folder, "live.bloom"), os.path.join(folder, "kept.bloom")
    >>> with BloomFilter.create(live, capacity=1000) as seen:
    ...     seen.add("a")
    ...     copy(live, kept, seal=True)
    True
    >>> with BloomFilter.open(kept) as seen:
    ...     "a" in seen
    True
    """
    listed = read_listed(exclusions_path(absolute(source)))  # if damaged, nothing is made
    target = Target(absolute(destination), permissions, allow_network)
    with UnmappedFilter(absolute(source), kinds=ALL_KINDS) as original:
        copy_opened(original, target, seal=seal)
    if listed.keys:
        # Not under the copy's lock, which a sealed one has not: nobody knows of it yet.
        replace_listed(exclusions_path(target.path), listed.keys, os.stat(target.path))


def copy_opened(original: UnmappedFilter, target: Target, *, seal: bool) -> None:
    """Do as `copy`, of a filter that is open already."""
    # Before the array: what is counted later may be of keys that the copy has not.
    counters, kind = original.counters(), kind_of(original.header)
    with new_filter(target, original.header.params, sealed=seal, kind=kind) as copied:
        for piece in original.whole_pieces():
            copied.write(piece)
        original.check_same()
        copied.finish(counters["keys_added"], counters["batches_begun"])


def copy_folder(
    source: Path,
    destination: Path,
    *,
    seal: bool = False,
    permissions: int = 0o600,
    allow_network: bool = False,
) -> None:
    """Copy a growing or rotating filter, and its exclusions, whoever writes to it meanwhile.

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
        If the source is no folder of filters, or a file of it, that of the exclusions too, is
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
    listed = read_listed(exclusions_path_in(absolute(source)))  # if damaged, nothing is made
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
            replace_listed(exclusions_path_in(folder), listed.keys, like)
