"""A consistent copy of a filter, a file or a folder, that others go on writing to.

No lock is taken. Bits only go from 0 to 1, so the copy has at least every key whose add had
returned when it began; in a folder, such a key is in one of the files that the manifest named
then, and all of these are copied. The copy is complete, checked and on the disk before it gets
its path. Another copy is replaced in one system call: the old one or the new one is always there.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

from mmbloom._storage.atomic import OWNER_ONLY, Target, close_quietly
from mmbloom._storage.build import new_filter
from mmbloom._storage.exclusions import counted_listed, replace_listed
from mmbloom._storage.folder import is_named, new_filter_folder, open_named
from mmbloom._storage.opening import ALL_KINDS, absolute, as_file_or_folder, is_folder, kind_of
from mmbloom._storage.unmapped import UnmappedFilter
from mmbloom._storage.warnings import Counted, warn_if_any_past_plan, warn_if_past_plan
from mmbloom._system.descriptors import open_file
from mmbloom._system.typing import Path
from mmbloom.errors import FormatError
from mmbloom.format.exclusions import exclusions_path, exclusions_path_in
from mmbloom.format.folder import MANIFEST


def copy(
    source: Path,
    destination: Path,
    *,
    seal: bool = False,
    replace: bool = False,
    permissions: int = OWNER_ONLY,
    allow_network: bool = False,
) -> None:
    """Copy a filter and its exclusions, even while others write to it.

    Parameters
    ----------
    source : str or path-like
        The filter: a file or a folder. If it is sealed, its checksums are verified.
    destination : str or path-like
        Where to make the copy, which gets a uuid of its own. It appears complete and on the disk,
        or not at all; the exclusions of a file follow immediately after it.
    seal : bool, default False
        Freeze the copy: it is permanently read-only, and `verify` can check it against stored
        CRC-32 checksums, one for each MiB.
    replace : bool, default False
        Replace a filter that is at the destination, such as last night's copy. The old filter stays
        until the new one is complete, so the disk needs space for both.
    permissions : int, default 0o600
        Mode bits of the copy; for a folder, of the files in it.
    allow_network : bool, default False
        Allow a copy on a network file system.

    Raises
    ------
    FileExistsError
        If something is at the destination. With `replace`, only if it is not a filter, is the
        source itself, is in shared memory, or is a file and the source a folder or vice versa.
    FormatError, FileChangedError, NetworkFileSystemError, OSError
        Errors common to calls that read or make a filter: see `mmbloom.errors`. `FormatError` also
        if the exclusions of the source are damaged.

    Notes
    -----
    The copy has at least every key whose add had returned when `copy` was called. In a copy of a
    `CountingBloomFilter`, keys that are removed during the call may be left half removed; hold
    `locked` to prevent this.

    If the filter is past its capacity, a `CapacityWarning` is given after the copy has been made.

    With `replace`, a process that dies at any moment leaves the old filter or the new one. For a
    file, it may leave either of them with only the exclusions that both have: a false positive may
    come back, but no key is lost. A process that has the old filter open gets `FileChangedError`.

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
    with _to_be_replaced(path, target.path) if replace else nullcontext() as there:
        into = target._replace(instead_of=there)
        of_file = partial(_copy_file, target=into, seal=seal)
        of_folder = partial(_copy_folder, target=into, seal=seal)
        as_file_or_folder(path, of_file, of_folder)


@contextmanager
def _to_be_replaced(source: str, path: str) -> Iterator[os.stat_result | None]:
    """Check the filter that a copy is to replace; yield its status, None if nothing is there.

    The file is kept open: while it is, no other file can get its inode, which identifies it.
    """
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        yield None
        return
    try:
        why_not = _why_it_stays(source, path, there)
    except FormatError as error:
        why_not = f"is not a sound filter: {error.field} is {error.found}"
    if why_not:
        said = f"{why_not}; only another filter can be replaced: choose another path"
        raise FileExistsError(errno.EEXIST, said, path)
    fd = open_file(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield os.fstat(fd)
    finally:
        close_quietly(fd)


def _why_it_stays(source: str, path: str, there: os.stat_result) -> str:
    """Return why something is not replaced, "" if it is a filter that can be."""
    if stat.S_ISLNK(there.st_mode):
        return f"is a symbolic link to {os.path.realpath(path)}"
    if os.path.samestat(there, os.stat(source)):
        return "is the source itself"
    folder = stat.S_ISDIR(there.st_mode)
    if folder != is_folder(source):
        return (
            "is a folder, but the source is not" if folder else "is not a folder, but the source is"
        )
    if not folder and is_named(path):
        return f"is a file of the folder {os.path.dirname(path)}"
    with ExitStack() as stack:
        if folder:
            files = stack.enter_context(open_named(path))[1]
        else:
            files = [stack.enter_context(UnmappedFilter(path, kinds=ALL_KINDS))]
        if any(file.resident for file in files):
            return "is in use, in shared memory"
    own = {MANIFEST, os.path.basename(exclusions_path_in(path))}
    others = {*os.listdir(path)} - own if folder else set()
    strange = sorted(name for name in others if not name.endswith((".bloom", ".tmp")))
    return f"contains {strange[0]}, which belongs to no filter" if strange else ""


def _copy_file(path: str, target: Target, *, seal: bool) -> None:
    listed, beside = counted_listed(exclusions_path(path)).keys, exclusions_path(target.path)

    def deny_no_key_of_either() -> None:
        """Remove exclusions of the old filter that the new one does not have."""
        old = {} if target.instead_of is None else counted_listed(beside).keys
        if target.instead_of is not None and old.keys() - listed.keys():
            replace_listed(beside, [key for key in old if key in listed], target.instead_of)

    with UnmappedFilter(path, kinds=ALL_KINDS) as original:
        copied = _copy_opened(original, target, seal=seal, last=deny_no_key_of_either)
    if listed:
        # Without the lock, which a sealed copy does not have: no other process uses the copy yet.
        replace_listed(beside, listed, os.stat(target.path))
    warn_if_past_plan(copied._replace(path=path))


def _copy_opened(
    original: UnmappedFilter,
    target: Target,
    *,
    seal: bool,
    last: Callable[[], None] = lambda: None,
) -> Counted:
    """Copy a file; `last` is called when everything except its name is on the disk."""
    # Read before the array: later counts may include keys that the copy does not have.
    counters, kind = original.counters(), kind_of(original.header)
    params, rule = original.header.params, original.key_rule()
    with new_filter(target, params, sealed=seal, kind=kind, key_rule=rule) as copied:
        for segment in original.segments():
            copied.write(segment)
        original.check_same()
        copied.finish(counters["keys_added"], counters["batches_begun"])
        last()
    return Counted(target.path, params, copied.positions_set)


def _copy_folder(path: str, target: Target, *, seal: bool) -> None:
    listed = counted_listed(exclusions_path_in(path))  # first: if it is damaged, nothing is made
    with (
        open_named(path) as (there, originals),
        new_filter_folder(target, there.manifest.plan) as place,
    ):
        copied = [
            _copy_opened(original, place(entry.number, entry.name), seal=seal)
            for entry, original in zip(there.manifest.members, originals, strict=True)
        ]
        if listed.keys:
            like, folder = os.stat(copied[0].path), os.path.dirname(copied[0].path)
            replace_listed(exclusions_path_in(folder), listed.keys, like)
    warn_if_any_past_plan(path, there.manifest.plan.kind, copied)
